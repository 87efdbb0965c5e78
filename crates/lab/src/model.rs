//! A device model that no profile has: a profile's disk with other parameters.

use std::ops::RangeInclusive;

use forebay_device::{Disk, Medium, Profile, Rate, SeekCurve};
use forebay_units::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

use crate::error::Error;

const RATES: RangeInclusive<u64> = 1 << 20..=100 << 30;
const SEEK_NS: RangeInclusive<u64> = 1_000..=1_000_000_000;
const TURNS: RangeInclusive<u64> = 1_000..=100_000;
const OVERHEADS_NS: RangeInclusive<u64> = 0..=100_000_000;
const CACHES: RangeInclusive<u64> = 0..=1 << 30;
const GAPS: RangeInclusive<u64> = 0..=16 << 20;
const WRITE_SHARES: RangeInclusive<u64> = 1..=1_000;

/// What of a profile's disk is different; all else stays. Flash has none of these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Changes {
    /// Bytes a second between platter and head, 1 MiB/s … 100 GiB/s. The interface is at least as fast.
    pub rate: Option<u64>,
    /// Nanoseconds of a seek, 1 us … 1 s: to the next track, on average, over the whole disk. The
    /// average is between 1/3 and 8/15 of the way from the first to the last.
    pub seek_ns: Option<[u64; 3]>,
    /// Turns a minute, 1,000 … 100,000.
    pub turns_per_minute: Option<u64>,
    /// Nanoseconds to accept a request that is not sequential, 0 … 100 ms.
    pub overhead_ns: Option<u64>,
    /// Bytes of the drive's cache, 0 … 1 GiB: the most that it reads ahead while it is idle.
    pub cache: Option<u64>,
    /// The largest step forward, in bytes, that still is sequential, 0 … 16 MiB.
    pub gap: Option<u64>,
    /// What a write pays of a seek, in thousandths, 1 … 1,000.
    pub write_share_permille: Option<u64>,
}

impl Changes {
    /// Whether nothing is different.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The changed profile.
    pub(crate) fn apply(&self, profile: Profile) -> Result<Profile, Error> {
        if self.is_empty() {
            return Ok(profile);
        }
        let Medium::Disk(disk) = profile.medium else {
            let text = "is flash: rate, seek, rpm, overhead, drive-cache, gap and write-share are of disks";
            return Err(Error::fix(format!("profile \"{}\" {text}", profile.name)));
        };
        Ok(Profile { medium: Medium::Disk(self.disk(disk)?), ..profile })
    }

    fn disk(&self, mut disk: Disk) -> Result<Disk, Error> {
        if let Some(rate) = within("rate", self.rate, &RATES, "bytes a second")? {
            disk.transfer = Rate::bytes_per_second(rate);
            disk.interface = disk.interface.max(disk.transfer);
        }
        if let Some(seek) = self.seek_ns {
            disk.seek = curve(seek, disk.seek.stroke())?;
        }
        let turns = within("rpm", self.turns_per_minute, &TURNS, "turns a minute")?;
        disk.turns_per_minute = turns.unwrap_or(disk.turns_per_minute);
        let overhead = within("overhead", self.overhead_ns, &OVERHEADS_NS, "ns")?;
        disk.overhead = overhead.map_or(disk.overhead, Nanos);
        let cache = within("drive-cache", self.cache, &CACHES, "bytes")?;
        disk.cache = cache.map_or(disk.cache, Bytes);
        let gap = within("gap", self.gap, &GAPS, "bytes")?;
        disk.gap_max = gap.map_or(disk.gap_max, Bytes);
        let share = within("write-share", self.write_share_permille, &WRITE_SHARES, "thousandths")?;
        disk.write_share_permille = share.unwrap_or(disk.write_share_permille);
        Ok(disk)
    }
}

fn within(
    key: &str,
    value: Option<u64>,
    range: &RangeInclusive<u64>,
    unit: &str,
) -> Result<Option<u64>, Error> {
    match value {
        Some(value) if !range.contains(&value) => {
            let (least, most) = (range.start(), range.end());
            Err(Error::fix(format!("{key} {value}: not {least} to {most} {unit}")))
        }
        value => Ok(value),
    }
}

fn curve(seek: [u64; 3], stroke: Bytes) -> Result<SeekCurve, Error> {
    for time in seek {
        within("seek", Some(time), &SEEK_NS, "ns")?;
    }
    let [min, average, max] = seek;
    SeekCurve::through(Nanos(min), Nanos(average), Nanos(max), stroke).ok_or_else(|| {
        let way = max.saturating_sub(min);
        let remedy = if way == 0 {
            "the longest is not more than the shortest".to_owned()
        } else {
            format!("the average is not {} to {} ns", min + way.div_ceil(3), min + way * 8 / 15)
        };
        Error::fix(format!("seek {min},{average},{max} ns: {remedy}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_units::Direction;

    fn hdd() -> Profile {
        Profile::by_name("hdd-57").unwrap()
    }

    #[test]
    fn a_change_is_in_the_model_and_nothing_else_changes() {
        let faster = Changes { rate: Some(570_000_000), ..Changes::default() };
        let faster = faster.apply(hdd()).unwrap();
        let length = Bytes::mib(8);
        let [changed, profile] =
            [faster, hdd()].map(|model| model.sequential_time(Direction::Read, length).0);
        assert!(profile.abs_diff(changed * 10) < 100, "{changed} {profile}");

        let nearer = Changes { seek_ns: Some([100_000, 850_000, 1_700_000]), ..Changes::default() };
        let nearer = nearer.apply(hdd()).unwrap();
        let random = |model: &Profile| model.random_time(Direction::Read, Bytes::kib(8)).0;
        assert!(random(&nearer) < random(&hdd()));
        assert_eq!(nearer.capacity(), hdd().capacity());

        let all = Changes {
            turns_per_minute: Some(15_000),
            overhead_ns: Some(0),
            cache: Some(0),
            gap: Some(0),
            write_share_permille: Some(500),
            ..Changes::default()
        };
        let Medium::Disk(disk) = all.apply(hdd()).unwrap().medium else { panic!("a disk") };
        let found = (disk.turns_per_minute, disk.overhead.0, disk.cache.0, disk.gap_max.0);
        assert_eq!((found, disk.write_share_permille), ((15_000, 0, 0, 0), 500));
        assert_eq!(Changes::default().apply(hdd()).unwrap(), hdd());
    }

    #[test]
    fn what_is_out_of_range_is_refused_with_key_value_and_range() {
        let base = Changes::default();
        let refused = [
            (Changes { rate: Some(1), ..base }, "rate 1: not 1048576 to"),
            (Changes { seek_ns: Some([1, 2, 3]), ..base }, "seek 1: not 1000 to 1000000000 ns"),
            (
                Changes { seek_ns: Some([1_000_000, 16_000_000, 16_000_000]), ..base },
                "the average is not 6000000 to 9000000 ns",
            ),
            (
                Changes { seek_ns: Some([9_000_000, 8_000_000, 7_000_000]), ..base },
                "the longest is not more than the shortest",
            ),
            (Changes { turns_per_minute: Some(0), ..base }, "rpm 0: not 1000 to 100000"),
            (Changes { overhead_ns: Some(u64::MAX), ..base }, "overhead"),
            (Changes { cache: Some(u64::MAX), ..base }, "drive-cache"),
            (Changes { gap: Some(u64::MAX), ..base }, "gap"),
            (Changes { write_share_permille: Some(0), ..base }, "write-share 0: not 1 to 1000"),
        ];
        for (changes, expected) in refused {
            let error = changes.apply(hdd()).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        let ssd = Profile::by_name("ssd").unwrap();
        let error = Changes { cache: Some(0), ..base }.apply(ssd).unwrap_err().to_string();
        assert!(error.contains("\"ssd\" is flash"), "{error}");
    }
}
