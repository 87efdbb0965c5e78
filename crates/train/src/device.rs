//! The devices of the situations: the paper's four, and made-up ones with other ratios.
//!
//! A made-up device is drawn from a fixed seed: its ratios of sequential to random throughput with
//! 8 KiB, 0.5 to 50 (`scheduling.md` 5.6), one device in each octave of the read ratio and one more;
//! then, by kind, what gives these ratios:
//!
//! ```text
//!   disk   seek times and turns: the desktop disk's times a factor of 0.3 to 1.0
//!          read ratio  → transfer    P t / L + 1 = ratio       P: mean positioning, t: transfer
//!          write ratio → share       s P t / L + 1 = ratio     L: 8 KiB
//!   flash  transfer 25 to 200 MB/s, 1 to 4 channels
//!          ratio above 1 → random    ratio below 1 → sequential; the other one costs 20 us
//! ```
//!
//! The last one is held out: it had no part in any choice that was made for the training. Nor is
//! the laboratory's disk learned from, in front of which the selector is measured in real time.

use std::sync::LazyLock;

use forebay_device::{Disk, Flash, FlashCost, Medium, Profile, Rate, SeekCurve, SplitMix64};
use forebay_units::{Bytes, Direction, Nanos};

/// The size at which ratios are given.
const LENGTH: Bytes = Bytes::kib(8);
/// What the made-up devices are drawn from. Chosen before anything was measured.
const SEED: u64 = 2015;
const NAMES: [&str; 8] = [
    "synthetic-1",
    "synthetic-2",
    "synthetic-3",
    "synthetic-4",
    "synthetic-5",
    "synthetic-6",
    "synthetic-7",
    "synthetic-8",
];
/// The one that is held out.
const HELD_OUT: &str = "held-out";
/// The laboratory's disk.
const LAB: &str = "hdd-57";
/// The paper's.
const PAPER: [&str; 4] = ["pastel", "graphene", "suno", "edel"];

/// A device of a situation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Device {
    /// What it is, and its name.
    pub profile: Profile,
}

impl Device {
    /// The four of AGIOS 2015, Table I.
    pub fn paper() -> &'static [Self] {
        &ALL[..PAPER.len()]
    }

    /// Made-up ones.
    pub fn synthetic() -> &'static [Self] {
        &ALL[PAPER.len()..PAPER.len() + NAMES.len()]
    }

    /// Those that are learned from: the paper's, then made-up ones.
    pub fn learned_from() -> &'static [Self] {
        &ALL[..PAPER.len() + NAMES.len()]
    }

    /// The one that had no part in any choice.
    pub fn held_out() -> &'static [Self] {
        &ALL[PAPER.len() + NAMES.len()..ALL.len() - 1]
    }

    /// Those that are not learned from: the one held out, and the laboratory's disk.
    pub fn unseen() -> &'static [Self] {
        &ALL[PAPER.len() + NAMES.len()..]
    }

    /// Of all of these, the one of that name.
    pub fn by_name(name: &str) -> Option<&'static Self> {
        ALL.iter().find(|device| device.profile.name == name)
    }

    /// Sequential over random throughput.
    pub fn ratio(&self, direction: Direction, length: Bytes) -> f64 {
        self.profile.ratio_permille(direction, length) as f64 / 1000.0
    }
}

static ALL: LazyLock<Vec<Device>> = LazyLock::new(|| {
    let known = |name| Profile::by_name(name).expect("the paper's and the laboratory's are known");
    let mut random = SplitMix64::new(SEED);
    let names = NAMES.into_iter().chain([HELD_OUT]);
    let drawn = names
        .enumerate()
        .map(|(number, name)| draw(&mut random, name, number as u64))
        .collect::<Vec<_>>();
    let all = PAPER.map(known).into_iter().chain(drawn).chain([known(LAB)]);
    all.map(|profile| Device { profile }).collect()
});

/// In thousandths: of an octave from 0.5 on, all values in it equally likely; at most 50.
fn ratio(random: &mut SplitMix64, octave: u64) -> u64 {
    let least = 500 << octave;
    least + random.below(least.min(50_000 - least))
}

fn draw(random: &mut SplitMix64, name: &'static str, number: u64) -> Profile {
    // One device in each of the seven octaves; the others anywhere.
    let octave = if number < 7 { number } else { random.below(7) };
    let read = ratio(random, octave);
    let is_disk = octave >= 3 && random.below(2) == 0;
    if is_disk {
        // Below the read ratio, as on all disks: the drive sorts what its cache holds.
        let write = 1500 + random.below(read - 1500);
        return disk(random, name, read, write);
    }
    let octave = random.below(7);
    let write = ratio(random, octave);
    flash(random, name, read, write)
}

fn disk(random: &mut SplitMix64, name: &'static str, read: u64, write: u64) -> Profile {
    let factor = 300 + random.below(701);
    let scaled = |time: Nanos| Nanos(time.0 * factor / 1000);
    let seek = SeekCurve::fitted(
        scaled(Nanos::millis(1)),
        scaled(Nanos::micros(8_500)),
        scaled(Nanos::millis(17)),
        Bytes(250_000_000_000),
    );
    let with = |transfer: Rate, share: u64| Profile {
        name,
        summary: "disk drawn for the training",
        medium: Medium::Disk(Disk {
            transfer,
            interface: Rate::megabytes_per_second(600),
            seek,
            turns_per_minute: 7_200_000 / factor,
            overhead: Nanos::micros(100),
            gap_max: Bytes::kib(16),
            cache: Bytes::mib(2),
            write_share_permille: share,
        }),
        members: 1,
        stripe: Bytes::mib(1),
    };
    // Positioning does not depend on the rate: random time less transfer, at any rate.
    let any = Rate::megabytes_per_second(100);
    let positioning =
        with(any, 1000).random_time(Direction::Read, LENGTH).0 - any.time_for(LENGTH).0;
    let transfer = positioning * 1000 / (read - 1000);
    let rate = Rate::bytes_per_second(LENGTH.0 * 1_000_000_000 / transfer);
    with(rate, (write - 1000) * 1000 / (read - 1000))
}

fn flash(random: &mut SplitMix64, name: &'static str, read: u64, write: u64) -> Profile {
    let mut cost = |ratio: u64| {
        let transfer = Rate::megabytes_per_second(25 + random.below(176));
        let (least, shared) = (Nanos::micros(20), transfer.time_for(LENGTH));
        // (slow + T) / (least + T) is the ratio or one over it.
        let slow = |permille: u64| Nanos((least + shared).0 * permille / 1000) - shared;
        match ratio >= 1000 {
            true => FlashCost { sequential: least, random: slow(ratio), transfer },
            false => FlashCost { sequential: slow(1_000_000 / ratio), random: least, transfer },
        }
    };
    let (read, write) = (cost(read), cost(write));
    Profile {
        name,
        summary: "flash drawn for the training",
        medium: Medium::Flash(Flash { read, write, capacity: Bytes(64_000_000_000) }),
        members: 1 + random.below(4) as u32,
        // Whole requests of 8 KiB on one channel, so that the ratio is the channel's.
        stripe: LENGTH,
    }
}
