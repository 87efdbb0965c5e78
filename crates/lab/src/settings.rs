//! What a disk is to be: everything that decides what is measured on it.
//!
//! Each setting is written to the kernel, read back and printed with every result, because a
//! device's defaults differ from one attachment to the next: a loop device has been seen with a
//! read-ahead of 128 KiB and, attached again, of 2 MiB.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use forebay_device::{Profile, TimeScale};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::model::Changes;

/// Where the disks' directories are.
pub(crate) const RUN_DIRECTORY: &str = "/run/forebay/lab";

/// The smallest disk on which a file system with a journal is worth making.
const BYTES_MIN: u64 = 64 << 20;
/// Most requests that a drive may look at to choose from.
const WINDOW_MAX: usize = 256;
/// The kernel's own limits for a loop device.
const QUEUE_DEPTHS: std::ops::RangeInclusive<u32> = 4..=128;
const NAME_LENGTH_MAX: usize = 32;

/// What a disk is to be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// What it is called: letters, digits, `-` and `_`, at most 32.
    pub name: String,
    /// A device profile's name ([`forebay_device::PROFILES`]).
    pub profile: String,
    /// What of the profile's disk is different; nothing if not said.
    #[serde(default, skip_serializing_if = "Changes::is_empty")]
    pub changes: Changes,
    /// Its size, a multiple of 1 MiB. The contents are in memory, as far as they were written.
    pub bytes: u64,
    /// Real time over the device's own time. Publish figures at 1 only.
    pub time_scale: f64,
    /// `read_ahead_kb` of the block device.
    pub read_ahead_kib: u32,
    /// Requests that the block device hands to the drive at once, 4 … 128.
    pub queue_depth: u32,
    /// The block device's elevator: `none`, `mq-deadline`, `bfq`, `kyber`, as far as the kernel has them.
    pub elevator: String,
    /// What the drive itself does with the requests that have reached it.
    pub reorder: Reorder,
}

/// In which order a drive serves the requests that have reached it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Reorder {
    /// In order of arrival.
    Fifo,
    /// The nearest of the oldest `window` first.
    Sstf {
        /// How many it looks at.
        window: usize,
    },
    /// Of the oldest `window`, the next one ahead; past the last one, from the disk's start again.
    CLook {
        /// How many it looks at.
        window: usize,
    },
}

impl Default for Settings {
    /// The disk on which the acceptance figures are measured.
    fn default() -> Self {
        Self {
            name: "disk".into(),
            profile: "hdd-57".into(),
            changes: Changes::default(),
            bytes: 2 << 30,
            time_scale: 1.0,
            read_ahead_kib: 128,
            queue_depth: 4,
            elevator: "mq-deadline".into(),
            reorder: Reorder::Fifo,
        }
    }
}

impl Settings {
    /// The disk's directory.
    pub fn directory(&self) -> PathBuf {
        directory_of(&self.name)
    }

    /// Whether all of it makes sense, as far as one can say without the kernel.
    ///
    /// # Errors
    /// The first setting that does not, its value, and what is allowed.
    pub fn check(&self) -> Result<(), Error> {
        check_name(&self.name)?;
        self.device()?;
        self.scale()?;
        if self.bytes < BYTES_MIN || !self.bytes.is_multiple_of(1 << 20) {
            let text = format!("size {} bytes: not a multiple of 1 MiB from 64 MiB on", self.bytes);
            return Err(Error::fix(text));
        }
        if !QUEUE_DEPTHS.contains(&self.queue_depth) {
            let (least, most) = (QUEUE_DEPTHS.start(), QUEUE_DEPTHS.end());
            let text = format!("queue depth {}: not {least} to {most}", self.queue_depth);
            return Err(Error::fix(text));
        }
        if self.reorder.window() == 0 || self.reorder.window() > WINDOW_MAX {
            let text = format!("reorder {}: the window is not 1 to {WINDOW_MAX}", self.reorder);
            return Err(Error::fix(text));
        }
        Ok(())
    }

    /// The device model: the profile, changed.
    ///
    /// # Errors
    /// If there is no such profile, or a change of it makes no sense: its value, and what is allowed.
    pub fn device(&self) -> Result<Profile, Error> {
        let profile = Profile::by_name(&self.profile);
        self.changes.apply(profile.map_err(|error| Error::fix(error.to_string()))?)
    }

    pub(crate) fn scale(&self) -> Result<TimeScale, Error> {
        TimeScale::new(self.time_scale).map_err(|error| Error::fix(error.to_string()))
    }
}

/// The directory of the disk called `name`.
pub(crate) fn directory_of(name: &str) -> PathBuf {
    PathBuf::from(RUN_DIRECTORY).join(name)
}

/// A name becomes part of a path.
pub(crate) fn check_name(name: &str) -> Result<(), Error> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if name.is_empty() || name.len() > NAME_LENGTH_MAX || !name.bytes().all(is_plain) {
        let text = "not letters, digits, - and _, at most";
        return Err(Error::fix(format!("name \"{name}\": {text} {NAME_LENGTH_MAX}")));
    }
    Ok(())
}

impl Reorder {
    /// How many of the oldest requests are chosen from.
    pub(crate) fn window(self) -> usize {
        match self {
            Self::Fifo => 1,
            Self::Sstf { window } | Self::CLook { window } => window,
        }
    }
}

impl fmt::Display for Reorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fifo => f.write_str("fifo"),
            Self::Sstf { window } => write!(f, "sstf:{window}"),
            Self::CLook { window } => write!(f, "c-look:{window}"),
        }
    }
}

/// Text that is no [`Reorder`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownReorder {
    text: String,
}

impl fmt::Display for UnknownReorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = &self.text;
        write!(f, "reorder \"{text}\": not fifo, sstf:N or c-look:N with N from 1 to {WINDOW_MAX}")
    }
}

impl std::error::Error for UnknownReorder {}

impl FromStr for Reorder {
    type Err = UnknownReorder;

    fn from_str(text: &str) -> Result<Self, UnknownReorder> {
        let unknown = || UnknownReorder { text: text.to_owned() };
        let Some((name, window)) = text.split_once(':') else {
            return if text == "fifo" { Ok(Self::Fifo) } else { Err(unknown()) };
        };
        let window = window.parse().ok().filter(|window| (1..=WINDOW_MAX).contains(window));
        match (name, window) {
            ("sstf", Some(window)) => Ok(Self::Sstf { window }),
            ("c-look", Some(window)) => Ok(Self::CLook { window }),
            _ => Err(unknown()),
        }
    }
}

impl From<Reorder> for String {
    fn from(reorder: Reorder) -> Self {
        reorder.to_string()
    }
}

impl TryFrom<String> for Reorder {
    type Error = UnknownReorder;

    fn try_from(text: String) -> Result<Self, UnknownReorder> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_read_as_it_is_written() {
        for text in ["fifo", "sstf:1", "c-look:32", "sstf:256"] {
            assert_eq!(text.parse::<Reorder>().unwrap().to_string(), text);
        }
        for text in ["", "look", "sstf", "sstf:0", "c-look:257", "fifo:2", "sstf:-1"] {
            let error = text.parse::<Reorder>().unwrap_err().to_string();
            assert!(
                error.contains("c-look:N") && error.contains(&format!("\"{text}\"")),
                "{error}"
            );
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_what_does() {
        let base = Settings::default();
        base.check().unwrap();
        let refused = [
            (Settings { name: "../etc".into(), ..base.clone() }, "letters, digits"),
            (Settings { profile: "hdd".into(), ..base.clone() }, "known: hdd-57"),
            (Settings { bytes: 1 << 20, ..base.clone() }, "64 MiB"),
            (Settings { bytes: (1 << 30) + 1, ..base.clone() }, "multiple of 1 MiB"),
            (Settings { time_scale: 0.01, ..base.clone() }, "0.1 to 100"),
            (Settings { queue_depth: 3, ..base.clone() }, "4 to 128"),
        ];
        for (settings, expected) in refused {
            let error = settings.check().unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn settings_survive_as_json() {
        let settings = Settings { reorder: Reorder::CLook { window: 7 }, ..Default::default() };
        let json = serde_json::to_string(&settings).unwrap();
        assert!(json.contains("\"c-look:7\""), "{json}");
        assert_eq!(serde_json::from_str::<Settings>(&json).unwrap(), settings);
    }
}
