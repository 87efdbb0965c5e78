//! Devices by name, as values, and what each will show in closed form.
//!
//! Sources: `hdd-57` is the disk of the lab page (57 MB/s; seeks of 1, 8.5 and 17 ms; 7,200 rpm; a
//! stroke of 80 GB). `pastel`, `graphene`, `suno` and `edel` are the storage nodes of AGIOS 2015,
//! Table I: the paper gives the kind of device and its ratios of sequential to random throughput,
//! and no more. Sizes, seek times, turns, caches and channels are therefore assumed, as usual for
//! such a device; then what the paper gives decides the rest at 8 KiB:
//!
//! ```text
//!   disks   read ratio  → transfer   n (P t / L + 1) = ratio   P: mean positioning in RANDOM_SPAN,
//!           write ratio → share      n (s P t / L + 1) = ratio  t: transfer, L: 8 KiB, n: disks
//!   flash   read ratio  → random     (random + T) / (sequential + T) = ratio    T: transfer time
//!           write ratio → sequential, the same
//! ```
//!
//! At 8 KiB and not at the 8 MB that one sentence of the paper has: no disk reaches such ratios
//! with 8 MB, where transfer is all that counts; the transfers in its section 3 are of 8 KB.
//!
//! Units: nanoseconds, bytes, ratios in thousandths.

use alloc::string::String;
use core::fmt;

use forebay_units::{Bytes, Direction, Nanos};

use crate::disk::Disk;
use crate::flash::{Flash, FlashCost};
use crate::rate::Rate;
use crate::seek::SeekCurve;

/// Where random requests go when a ratio is computed or measured: the first 4 GiB of the device.
///
/// How far apart they are decides how long a disk's arm takes; this is the span for which the lab
/// page's figures hold (spread over all 80 GB, its 8 KiB requests would have a ratio of 90).
pub const RANDOM_SPAN: Bytes = Bytes::mib(4096);

/// What a device is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    /// Rotating disks.
    Disk(Disk),
    /// Channels of flash.
    Flash(Flash),
}

/// A device as a value: what it is, without what it is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// What configuration and tables call it.
    pub name: &'static str,
    /// What it is, for people.
    pub summary: &'static str,
    /// Of each member.
    pub medium: Medium,
    /// Disks or channels; at least 1.
    pub members: u32,
    /// Consecutive bytes on one member before the next one has its turn.
    pub stripe: Bytes,
}

/// All the devices that have a name.
pub const PROFILES: [Profile; 6] = [HDD_57, PASTEL, GRAPHENE, SUNO, EDEL, SSD];

const DESKTOP_INTERFACE: Rate = Rate::megabytes_per_second(300);

const fn desktop_seek(stroke: Bytes) -> SeekCurve {
    SeekCurve::fitted(Nanos::millis(1), Nanos::micros(8_500), Nanos::millis(17), stroke)
}

const HDD_57: Profile = Profile {
    name: "hdd-57",
    summary: "hard disk of 57 MB/s, 7,200 rpm, 80 GB",
    medium: Medium::Disk(LAB_DISK),
    members: 1,
    stripe: Bytes::mib(1),
};

const LAB_DISK: Disk = Disk {
    transfer: Rate::megabytes_per_second(57),
    interface: DESKTOP_INTERFACE,
    seek: desktop_seek(Bytes(80_000_000_000)),
    turns_per_minute: 7_200,
    overhead: Nanos::micros(100),
    // Passing over 64 KiB takes 1.15 ms, a quarter of the shortest positioning.
    gap_max: Bytes::kib(64),
    cache: Bytes::mib(2),
    write_share_permille: 1000,
};

const PASTEL: Profile = Profile {
    name: "pastel",
    summary: "hard disk of AGIOS 2015, Table I: ratio 21.29 write, 38.91 read",
    medium: Medium::Disk(Disk {
        transfer: Rate::bytes_per_second(51_300_000),
        seek: desktop_seek(Bytes(250_000_000_000)),
        write_share_permille: 535,
        ..LAB_DISK
    }),
    members: 1,
    stripe: Bytes::mib(1),
};

const GRAPHENE: Profile = Profile {
    name: "graphene",
    summary: "hard disk of AGIOS 2015, Table I: ratio 15.12 write, 40.68 read",
    medium: Medium::Disk(Disk {
        transfer: Rate::bytes_per_second(54_550_000),
        seek: desktop_seek(Bytes(320_000_000_000)),
        write_share_permille: 356,
        ..LAB_DISK
    }),
    members: 1,
    stripe: Bytes::mib(1),
};

const SUNO: Profile = Profile {
    name: "suno",
    summary: "RAID-0 of two disks of AGIOS 2015, Table I: ratio 8.17 write, 25.46 read",
    medium: Medium::Disk(Disk {
        transfer: Rate::bytes_per_second(35_940_000),
        interface: DESKTOP_INTERFACE,
        seek: SeekCurve::fitted(
            Nanos::micros(400),
            Nanos::micros(3_500),
            Nanos::micros(7_500),
            Bytes(300_000_000_000),
        ),
        turns_per_minute: 15_000,
        overhead: Nanos::micros(100),
        gap_max: Bytes::kib(16),
        cache: Bytes::mib(2),
        write_share_permille: 263,
    }),
    members: 2,
    stripe: Bytes::kib(64),
};

const EDEL: Profile = Profile {
    name: "edel",
    summary: "SSD of AGIOS 2015, Table I: ratio 0.66 write, 2.37 read",
    medium: Medium::Flash(Flash {
        read: FlashCost {
            sequential: Nanos::micros(20),
            random: Nanos(135_100),
            transfer: Rate::megabytes_per_second(64),
        },
        write: FlashCost {
            sequential: Nanos(114_800),
            random: Nanos::micros(20),
            transfer: Rate::megabytes_per_second(25),
        },
        capacity: Bytes(16_000_000_000),
    }),
    members: 4,
    stripe: Bytes::kib(4),
};

const SSD: Profile = Profile {
    name: "ssd",
    summary: "SSD whose order does not matter: ratio 1.0",
    medium: Medium::Flash(Flash {
        read: FlashCost {
            sequential: Nanos::micros(60),
            random: Nanos::micros(60),
            transfer: Rate::megabytes_per_second(250),
        },
        write: FlashCost {
            sequential: Nanos::micros(20),
            random: Nanos::micros(20),
            transfer: Rate::megabytes_per_second(150),
        },
        capacity: Bytes(64_000_000_000),
    }),
    members: 8,
    stripe: Bytes::kib(16),
};

impl Profile {
    /// The device called `name`.
    ///
    /// # Errors
    /// The name and all that would have done.
    pub fn by_name(name: &str) -> Result<Self, UnknownProfile> {
        let found = PROFILES.iter().find(|profile| profile.name == name);
        found.copied().ok_or_else(|| UnknownProfile { name: name.into() })
    }

    /// All its bytes.
    pub fn capacity(&self) -> Bytes {
        let member = match &self.medium {
            Medium::Disk(disk) => disk.seek.stroke(),
            Medium::Flash(flash) => flash.capacity,
        };
        Bytes(member.0.saturating_mul(u64::from(self.members)))
    }

    /// The mean time of a request that continues the one before, with no pause between them.
    ///
    /// For a RAID-0 the disks that have no part in a request read ahead meanwhile, so that the
    /// whole array's rate is reached by requests of any length.
    pub fn sequential_time(&self, direction: Direction, length: Bytes) -> Nanos {
        match &self.medium {
            Medium::Disk(disk) => {
                let shared = Nanos(disk.transfer.time_for(length).0 / u64::from(self.members));
                shared.max(disk.interface.time_for(self.largest_share(length)))
            }
            Medium::Flash(flash) => {
                self.flash_time(flash, direction, length, |cost| cost.sequential)
            }
        }
    }

    /// The mean time of a request at a random multiple of its length within [`RANDOM_SPAN`].
    pub fn random_time(&self, direction: Direction, length: Bytes) -> Nanos {
        match &self.medium {
            Medium::Disk(disk) => {
                let span = Bytes(RANDOM_SPAN.0 / u64::from(self.members));
                disk.mean_positioning(direction, span)
                    + disk.transfer.time_for(self.largest_share(length))
            }
            Medium::Flash(flash) => self.flash_time(flash, direction, length, |cost| cost.random),
        }
    }

    /// Sequential over random throughput with requests of `length`, in thousandths: 1,000 where
    /// order does not matter, less where random is the faster one.
    pub fn ratio_permille(&self, direction: Direction, length: Bytes) -> u64 {
        let sequential = self.sequential_time(direction, length).0.max(1);
        self.random_time(direction, length).0 * 1000 / sequential
    }

    /// How long it can pay to wait for a request that continues the last one: what the seek it
    /// saves would cost, at most `limit`, and nothing where order gains less than a tenth
    /// (W_eff of `scheduling.md` 3.5).
    pub fn wait_effective(&self, direction: Direction, length: Bytes, limit: Nanos) -> Nanos {
        if self.ratio_permille(direction, length) <= 1100 {
            return Nanos::ZERO;
        }
        limit.min(self.random_time(direction, length) - self.sequential_time(direction, length))
    }

    /// Of the device's bytes before `position`, how many are on the member: where the device's
    /// range `[a, b)` begins and ends on it, since every range is contiguous on each member.
    pub(crate) fn bytes_of_member_before(&self, member_idx: usize, position: u64) -> u64 {
        let row = self.stripe.0 * u64::from(self.members);
        let in_row = (position % row).saturating_sub(member_idx as u64 * self.stripe.0);
        position / row * self.stripe.0 + in_row.min(self.stripe.0)
    }

    /// The part of a request that is on the member with most of it, if the request starts with a stripe.
    fn largest_share(&self, length: Bytes) -> Bytes {
        Bytes(self.bytes_of_member_before(0, length.0))
    }

    fn flash_time(
        &self,
        flash: &Flash,
        direction: Direction,
        length: Bytes,
        operation: impl Fn(&FlashCost) -> Nanos,
    ) -> Nanos {
        let cost = flash.cost(direction);
        operation(cost) + cost.transfer.time_for(self.largest_share(length))
    }
}

/// A name that no device has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownProfile {
    name: String,
}

impl fmt::Display for UnknownProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown device \"{}\"; known:", self.name)?;
        PROFILES.iter().enumerate().try_for_each(|(idx, profile)| {
            write!(f, "{} {}", if idx == 0 { "" } else { "," }, profile.name)
        })
    }
}

impl core::error::Error for UnknownProfile {}
