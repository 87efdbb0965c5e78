//! A profile that was only assumed, moved by the batches of a device model to what that model is.

use forebay_device::{Device, Profile, RANDOM_SPAN, SplitMix64};
use forebay_probe::assumed;
use forebay_select::DeviceProfile;
use forebay_select::profile::Refinement;
use forebay_units::{ByteRange, Bytes, Direction, Offset, Timestamp};

const LENGTHS: [Bytes; 4] = [Bytes::kib(8), Bytes::kib(64), Bytes::kib(256), Bytes::mib(1)];
const FILE: u64 = 5;

/// Batches of a device, `in_flight` at a time: some that continue each other, then one elsewhere.
fn learned(model: &str, start: DeviceProfile, in_flight: usize, batches: u64) -> DeviceProfile {
    let mut device = Device::new(Profile::by_name(model).unwrap());
    let mut refinement = Refinement::new(&start);
    let (mut random, mut place) = (SplitMix64::new(7), 0);
    let mut under_way = std::collections::VecDeque::new();
    let mut now = Timestamp(1);
    for idx in 0..batches {
        let direction = if idx / 64 % 2 == 0 { Direction::Read } else { Direction::Write };
        let length = LENGTHS[random.below(4) as usize];
        if random.below(2) == 0 {
            place = random.below(RANDOM_SPAN.0 / length.0) * length.0;
        }
        let range = ByteRange::new(Offset(place), length);
        place = range.end.0;
        let batch = refinement.dispatched(now, direction, FILE, range);
        under_way.push_back((device.serve(now, direction, range.start.0, length), batch));
        if under_way.len() == in_flight {
            let (done, batch) = under_way.pop_front().unwrap();
            now = now.max(done);
            refinement.completed(done, batch);
        }
    }
    refinement.profile().unwrap()
}

fn holds(model: &str, start_is_rotating: bool, in_flight: usize, within: f64) {
    let profile = learned(model, assumed(start_is_rotating), in_flight, 8_000);
    let model = Profile::by_name(model).unwrap();
    for direction in [Direction::Read, Direction::Write] {
        for length in LENGTHS {
            let expected = model.ratio_permille(direction, length) as f64 / 1000.0;
            let found = profile.ratio(direction, length);
            let what = format!("{} {direction:?} {length:?}: {found} for {expected}", model.name);
            assert!((found / expected - 1.0).abs() < within, "{what}");
        }
    }
}

#[test]
fn a_disk_that_was_taken_for_flash_is_found_out() {
    holds("hdd-57", false, 1, 0.25);
    holds("pastel", false, 1, 0.25);
}

#[test]
fn flash_that_was_taken_for_a_disk_is_found_out() {
    holds("ssd", true, 1, 0.25);
}

#[test]
fn a_disk_is_found_out_with_several_batches_in_flight() {
    holds("hdd-57", true, 8, 0.25);
}
