//! The device in front of which a policy is chosen, as well as it is known before anything was moved.

use std::path::Path;

use forebay_probe::{assumed, load_for, of_model};
use forebay_select::DeviceProfile;
use forebay_units::Direction;

use crate::Error;
use crate::assemble::profile;
use crate::rotation::is_rotating;
use crate::settings::{Settings, StoreKind};

/// A device, and how it is known.
pub(crate) struct Device {
    pub(crate) profile: DeviceProfile,
    /// What was learned is kept under this name.
    pub(crate) key: String,
    /// For people.
    pub(crate) about: String,
    /// For which operations the time of a batch is the device's: not where the kernel's page cache
    /// takes what is written, and writes it back when it likes.
    pub(crate) refined: &'static [Direction],
}

impl Device {
    /// The one that the settings name, or the best that is known.
    ///
    /// # Errors
    /// A profile that cannot be read.
    pub(crate) fn of(settings: &Settings) -> Result<Self, Error> {
        let folder = settings.export.root.as_deref().unwrap_or(Path::new("."));
        match &settings.store.kind {
            StoreKind::Modelled(name) => {
                let model = profile(name)?;
                Ok(Self {
                    profile: of_model(&model),
                    key: format!("modelled {name}"),
                    about: format!("modelled {name}: {}", model.summary),
                    refined: &[Direction::Read, Direction::Write],
                })
            }
            // Nothing there turns.
            StoreKind::Memory => Ok(Self {
                profile: assumed(false),
                key: "memory".to_owned(),
                about: "memory".to_owned(),
                refined: &[],
            }),
            StoreKind::Posix => Self::beneath(folder),
        }
    }

    /// The device that a folder is on.
    fn beneath(folder: &Path) -> Result<Self, Error> {
        let refined = &[Direction::Read];
        let place = folder.display();
        let known = load_for(folder).map_err(|error| Error::Setting {
            key: "select.device",
            text: format!("none: of {place}: {error}"),
        })?;
        if let Some(profile) = known {
            let key = format!("probed {}", number_of(folder));
            let about = format!("{place}: measured by forebay probe");
            return Ok(Self { profile, key, about, refined });
        }
        // Where the kernel does not know, the disk that gains from order is the safer guess: too
        // much order costs a disk without an arm less than too little costs one that has one.
        let rotates = is_rotating(folder);
        let what = match rotates {
            Some(true) => "rotates, as the kernel says",
            Some(false) => "does not rotate, as the kernel says",
            None => "is taken for a disk that rotates, because the kernel does not know",
        };
        Ok(Self {
            profile: assumed(rotates.unwrap_or(true)),
            key: format!("assumed {}", number_of(folder)),
            about: format!("{place}: it {what}; forebay probe {place} measures it"),
            refined,
        })
    }
}

/// The number of the device that a folder is on.
fn number_of(folder: &Path) -> String {
    let device = rustix::fs::stat(folder).map_or(0, |stat| stat.st_dev);
    format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device))
}
