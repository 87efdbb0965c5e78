//! The device in front of which a policy is chosen, as well as it is known before anything was moved.

use std::path::Path;

use forebay_probe::{Identity, Record, assumed, load_record, of_model};
use forebay_select::DeviceProfile;
use forebay_units::Direction;

use crate::Error;
use crate::assemble::profile;
use crate::settings::{Settings, StoreKind};

/// A device, and how it is known.
pub(crate) struct Device {
    pub(crate) profile: DeviceProfile,
    /// What was learned is kept under this name.
    pub(crate) key: String,
    /// For people.
    pub(crate) about: String,
    /// For which operations the time of a batch is the device's.
    pub(crate) refined: &'static [Direction],
}

impl Device {
    /// The one that the settings name, or the best that is known.
    ///
    /// # Errors
    /// A profile that the settings name and that cannot be read.
    pub(crate) fn of(settings: &Settings) -> Result<Self, Error> {
        // Where the kernel's page cache is in between, only reads wait for the device.
        let refined: &[Direction] = match settings.store.kind {
            StoreKind::Modelled(_) => &[Direction::Read, Direction::Write],
            StoreKind::Posix => &[Direction::Read],
            StoreKind::Memory => &[],
        };
        if let Some(path) = &settings.select.device {
            let record = Record::load(path).map_err(|text| Error::Setting {
                key: "select.device",
                text: format!("{}: {text}; name a file that forebay probe wrote", path.display()),
            })?;
            return Ok(Self::measured(&record, refined));
        }
        match &settings.store.kind {
            StoreKind::Modelled(name) => {
                let model = profile(name)?;
                Ok(Self {
                    profile: of_model(&model),
                    key: format!("modelled {name}"),
                    about: format!("modelled {name}: {}", model.summary),
                    refined,
                })
            }
            StoreKind::Memory => Ok(Self {
                profile: assumed(false),
                key: "memory".to_owned(),
                about: "memory: nothing there turns".to_owned(),
                refined,
            }),
            StoreKind::Posix => {
                let folder = settings.export.root.as_deref().unwrap_or(Path::new("."));
                Self::beneath(folder, refined).map_err(|error| Error::Setting {
                    key: "select.device",
                    text: format!("none, so that of {}: {error}", folder.display()),
                })
            }
        }
    }

    /// The device that a folder is on. Nobody asked for the profile that is found there, so one that
    /// cannot be read is in nobody's way.
    fn beneath(folder: &Path, refined: &'static [Direction]) -> Result<Self, forebay_probe::Error> {
        let unreadable = |error| {
            crate::log::warn(format_args!("a profile that was found is not used: {error}"));
        };
        if let Some(record) = load_record(folder, unreadable)? {
            return Ok(Self::measured(&record, refined));
        }
        let device = Identity::of(folder)?;
        let what = match device.is_rotating {
            Some(true) => "rotates, as the kernel says",
            Some(false) => "does not rotate, as the kernel says",
            None => "is taken for a disk that rotates, because the kernel does not know",
        };
        let about =
            format!("{}: {what}; forebay probe {} measures it", device.name, folder.display());
        // To order too much costs a device without an arm less than too little costs one with an arm.
        let profile = assumed(device.is_rotating.unwrap_or(true));
        Ok(Self { profile, key: format!("assumed {}", device.file_name()), about, refined })
    }

    fn measured(record: &Record, refined: &'static [Direction]) -> Self {
        Self {
            profile: *record.profile(),
            key: format!("probed {}", record.device.file_name()),
            about: format!("{}: measured by forebay probe", record.device.name),
            refined,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_probe::{Access, Point, RECORD_BYTES_MAX};
    use forebay_select::Order;
    use forebay_select::profile::Knot;
    use forebay_units::Bytes;

    fn settings(kind: StoreKind) -> Settings {
        let mut settings = Settings::default();
        settings.store.kind = kind;
        settings
    }

    #[test]
    fn a_modelled_device_is_what_its_model_says() {
        let ratio = |name: &str| {
            let device = Device::of(&settings(StoreKind::Modelled(name.into()))).unwrap();
            assert!(device.key.contains(name) && device.about.contains(name), "{}", device.about);
            device.profile.ratio(Direction::Read, Bytes::kib(8))
        };
        assert!(ratio("hdd-57") > 20.0 && (ratio("ssd") - 1.0).abs() < 0.01);
    }

    #[test]
    fn a_measured_profile_goes_before_everything_and_one_that_is_none_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("profile.json");
        let mut settings = settings(StoreKind::Modelled("ssd".into()));
        settings.select.device = Some(path.clone());
        let error = Device::of(&settings).err().unwrap().to_string();
        assert!(error.contains("select.device") && error.contains("forebay probe"), "{error}");
        settings.select.device = Some("/dev/zero".into());
        let error = Device::of(&settings).err().unwrap().to_string();
        assert!(error.contains("regular file"), "{error}");
        settings.select.device = Some(path.clone());
        std::fs::write(&path, vec![b' '; RECORD_BYTES_MAX + 2]).unwrap();
        let error = Device::of(&settings).err().unwrap().to_string();
        assert!(error.contains("longer than"), "{error}");
        let record = Record::new(
            Identity { key: "k".into(), name: "a disk".into(), is_rotating: None },
            1,
            Access::Direct,
            Bytes::mib(64),
            DeviceProfile::PARTS
                .map(|(direction, order)| {
                    let time_ns = if order == Order::Random { 9e6 } else { 1e6 };
                    let knot = Knot { length: Bytes::kib(8), time_ns, error: 0.1 };
                    Point { direction, order, knot, runs: 3 }
                })
                .to_vec(),
        );
        std::fs::write(&path, record.unwrap().encode()).unwrap();
        let device = Device::of(&settings).unwrap();
        assert!((device.profile.ratio(Direction::Read, Bytes::kib(8)) - 9.0).abs() < 0.01);
        assert_eq!(device.about, "a disk: measured by forebay probe");
    }

    #[test]
    fn a_device_that_nobody_measured_is_named_with_what_would_measure_it() {
        let folder = tempfile::tempdir().unwrap();
        let mut settings = settings(StoreKind::Posix);
        settings.export.root = Some(folder.path().to_path_buf());
        let device = Device::of(&settings).unwrap();
        assert!(device.about.contains("forebay probe"), "{}", device.about);
        assert_eq!(device.refined, [Direction::Read], "written data is in the page cache");
    }
}
