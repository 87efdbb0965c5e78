//! Profiles that nobody measured: of models, and of devices that are taken to be like one.

use forebay_device::Profile;
use forebay_select::{DeviceProfile, Order};

/// How far a device may be from the one that it is taken for: by half, as a standard error.
const ASSUMED_ERROR: f64 = 0.5;

/// What a device is taken for before it was probed: `hdd-57` or `ssd` of the models, with wide
/// errors.
pub fn assumed(is_rotating: bool) -> DeviceProfile {
    let name = if is_rotating { "hdd-57" } else { "ssd" };
    let model = Profile::by_name(name).expect("both are among the models");
    of_model(&model).with_error(ASSUMED_ERROR)
}

/// What probing a device model without error would find: its closed forms.
pub fn of_model(model: &Profile) -> DeviceProfile {
    DeviceProfile::of_model(|direction, order, length| match order {
        Order::Sequential => model.sequential_time(direction, length),
        Order::Random => model.random_time(direction, length),
    })
}

#[cfg(test)]
mod tests {
    use forebay_units::{Bytes, Direction};

    use super::*;

    #[test]
    fn order_matters_to_what_rotates_only_as_far_as_is_known() {
        let ratio =
            |is_rotating| assumed(is_rotating).ratio_with_bounds(Direction::Read, Bytes::kib(8));
        let (disk, flash) = (ratio(true), ratio(false));
        assert!(disk.low > 10.0 && disk.high > 2.0 * disk.value, "{disk:?}");
        assert!(flash.low < 0.5 && flash.high > 2.0, "{flash:?}");
    }
}
