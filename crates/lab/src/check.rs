//! Whether a disk is what its model says: the same reads on the disk and in the model alone.
//!
//! Straight on the block device (direct I/O), with no page cache between, and with as many requests
//! under way as the drive takes at once: it always has the next one, so that what is measured is
//! the disk and not how long an answer takes to become the next request.
//! Three clocks: what the model says of these very places (predicted), the device's own time as
//! the daemon counts it, and the machine's.
//!
//! A disk is never faster than its model, whatever else the machine does, and its arm never works
//! longer. It looks slower, on both of the other clocks, by as much as the reader, the kernel's
//! threads or the daemon wait for a processor; that is measured beside, so that it is known how much
//! of a difference is the machine's ([`Checked::verdict`]). What else a machine does comes and goes,
//! and a wrong disk stays wrong: so a round that the machine may have spoilt is done again, and one
//! that it can hardly have spoilt is a witness, of which three that agree are believed.

mod machine;
mod rounds;
mod sys;

use std::fmt;
use std::fs::File;
use std::time::Instant;

use forebay_device::{Device, RANDOM_SPAN, SplitMix64};
use forebay_units::{Bytes, Direction, Timestamp};
use rustix::fs::{Mode, OFlags, open};
use serde::Serialize;

use crate::disk::Disk;
use crate::error::Error;
use crate::settings::{Reorder, Settings};
use crate::statistics::Statistics;
use machine::Watch;
use rounds::Rounds;
use sys::Reads;

/// How far measured and predicted may be apart.
const TOLERANCE: f64 = 0.05;

/// A longer read reaches the drive in pieces: the block layer puts at most 128 pages into one.
const PIECE_BYTES: u64 = 128 * 4096;

/// Where random reads go, from this seed.
const SEED: u64 = 57;

/// What is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Probe {
    /// Whether each read goes on where the last one ended, or to a random multiple of the length.
    pub is_sequential: bool,
    /// Of one read.
    pub request_bytes: u64,
    /// Reads that are timed; one more goes before them.
    pub requests: u64,
}

/// What reading came to, in nanoseconds for all requests together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Checked {
    /// What was read.
    pub probe: Probe,
    /// As the model says, in the device's time.
    pub predicted_ns: u64,
    /// As the daemon counted, in the device's time.
    pub device_ns: u64,
    /// On the machine's clock; the device's time times the scale, if all is well.
    pub real_ns: u64,
    /// Real time in which something on the machine waited for a processor.
    pub waited_ns: u64,
    /// Time in which the device was at work, in its own time.
    pub busy_ns: u64,
    /// Requests for which the arm moved: by the model, and on the device.
    pub seeks: [u64; 2],
    /// Rounds it took, this one being the last or, of ten that settled nothing, the fastest.
    pub rounds: u32,
}

/// What is not as the model says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The arm moved so often, where the model has the other number.
    Seeks {
        /// On the device.
        found: u64,
        /// By the model.
        model: u64,
    },
    /// By the device's clock.
    Faster,
    /// By the machine's clock.
    FasterInRealTime,
    /// The drive was busy for longer.
    LongerAtWork,
    /// By the device's clock.
    Slower,
    /// By the machine's clock.
    SlowerInRealTime,
}

impl Fault {
    /// Whether it may be for another reason than the disk: requests that came late, or pieces of
    /// one that came in another order.
    fn may_be_the_machines(self) -> bool {
        matches!(self, Self::Seeks { .. } | Self::Slower | Self::SlowerInRealTime)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Seeks { found, model } => {
                return write!(f, "{found} seeks, where the model has {model}");
            }
            Self::Faster => "faster than its model",
            Self::FasterInRealTime => "faster than its model in real time",
            Self::LongerAtWork => "longer at work than its model",
            Self::Slower => "slower than its model",
            Self::SlowerInRealTime => "slower than its model in real time",
        })
    }
}

impl Checked {
    /// Millions of bytes a second of the device's time.
    pub fn device_mbps(&self) -> f64 {
        self.mbps(self.device_ns)
    }

    /// What the model says.
    pub fn predicted_mbps(&self) -> f64 {
        self.mbps(self.predicted_ns)
    }

    /// Measured over predicted, on the device's clock: 1 when the disk is its model.
    pub fn over_predicted(&self) -> f64 {
        self.predicted_ns as f64 / self.device_ns as f64
    }

    /// The same on the machine's clock, for a disk of this time scale.
    pub fn real_over_predicted(&self, time_scale: f64) -> f64 {
        self.predicted_ns as f64 * time_scale / self.real_ns as f64
    }

    /// Whether this is a disk that is its model, within 5 %, on the device's clock and on the
    /// machine's. What the machine's other work explains is not held against it.
    ///
    /// # Errors
    /// What is not as the model says.
    pub fn verdict(&self, time_scale: f64) -> Result<(), Fault> {
        let predicted = self.predicted_ns as f64;
        let waited = self.waited_ns as f64;
        let least = |ns: f64| ns * (1.0 - TOLERANCE);
        let most = |ns: f64, waited: f64| ns * (1.0 + TOLERANCE) + waited;
        let (device, real) = (self.device_ns as f64, self.real_ns as f64);
        let [model, found] = self.seeks;
        let faults = [
            (device < least(predicted), Fault::Faster),
            (real < least(predicted * time_scale), Fault::FasterInRealTime),
            (model != found, Fault::Seeks { found, model }),
            (self.busy_ns as f64 > most(predicted, 0.0), Fault::LongerAtWork),
            (device > most(predicted, waited / time_scale), Fault::Slower),
            (real > most(predicted * time_scale, waited), Fault::SlowerInRealTime),
        ];
        let fault = faults.into_iter().find(|(is_so, _)| *is_so);
        fault.map_or(Ok(()), |(_, fault)| Err(fault))
    }

    fn mbps(&self, ns: u64) -> f64 {
        (self.probe.request_bytes * self.probe.requests) as f64 * 1e3 / ns as f64
    }
}

impl Probe {
    /// Sequential and random reads of 8 KiB, 64 KiB and 8 MiB, `times` as many as the fewest that
    /// mean something: two seconds of a disk.
    pub fn all(times: u64) -> Vec<Self> {
        let counts = [(8 << 10, 400, 40), (64 << 10, 120, 40), (8 << 20, 3, 3)];
        let pair = |(request_bytes, sequential, random)| {
            [(true, sequential), (false, random)].map(|(is_sequential, requests)| Self {
                is_sequential,
                request_bytes,
                requests: requests * times,
            })
        };
        counts.into_iter().flat_map(pair).collect()
    }

    /// How many reads are under way at once: as many as the drive takes, so that none waits where
    /// somebody may change their order; one, if the drive itself changes it.
    fn under_way(&self, settings: &Settings) -> usize {
        let pieces = self.request_bytes.div_ceil(PIECE_BYTES);
        let count = u64::from(settings.queue_depth) / pieces;
        if settings.reorder == Reorder::Fifo { count.max(1) as usize } else { 1 }
    }

    /// Whether a disk that has done this has done the reads, the first one included, and nothing else.
    fn is_all_of(&self, done: &Statistics) -> bool {
        done.writes == 0 && done.bytes_read == self.request_bytes * (self.requests + 1)
    }

    /// Where the reads go: first the one that is not timed.
    fn places(&self, disk_bytes: u64) -> Vec<u64> {
        let slots = (disk_bytes.min(RANDOM_SPAN.0) / self.request_bytes).max(1);
        let mut random = SplitMix64::new(SEED);
        let mut slot = |idx| if self.is_sequential { idx % slots } else { random.below(slots) };
        (0..=self.requests).map(|idx| slot(idx) * self.request_bytes).collect()
    }
}

/// Reads from the disk and has the model say how long that takes, in up to ten rounds: until the
/// disk is found to be its model, or not to be for a reason that no machine explains, or three times
/// for the same reason while the machine was not in the way. Nobody else may use the disk; what the
/// file system does by itself from time to time is noticed, and voids a round.
///
/// # Errors
/// What the kernel or the daemon says, or if somebody else uses the disk all the time.
pub fn check(disk: &Disk, probe: Probe) -> Result<Checked, Error> {
    let mut rounds = Rounds::default();
    while let Some(round) = rounds.next() {
        let settings = disk.settings_read_back()?.settings;
        let Some(checked) = check_once(disk, &settings, probe)? else { continue };
        let checked = Checked { rounds: round, ..checked };
        if rounds.settle(&checked, settings.time_scale) {
            return Ok(checked);
        }
    }
    let text = "something else uses the disk: its figures would be those of both";
    rounds.fastest().ok_or_else(|| Error::fix(text))
}

/// What reading came to; none if the device had other requests besides.
fn check_once(disk: &Disk, settings: &Settings, probe: Probe) -> Result<Option<Checked>, Error> {
    let places = probe.places(settings.bytes);
    let path = disk.block_device();
    let flags = OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC;
    let file = File::from(open(&path, flags, Mode::empty()).map_err(Error::file(&path))?);
    let count = probe.under_way(settings);
    let reads = Reads::new(file, count, probe.request_bytes as usize);
    let mut reads = reads.map_err(Error::io("asynchronous I/O"))?;
    let (first, rest) = places.split_first().expect("one read goes before those that are timed");
    let watch = Watch::begin();
    let begun = disk.statistics()?;
    read(&mut reads, 1, &[*first]).map_err(Error::file(&path))?;
    let started = Instant::now();
    let before = disk.statistics()?;
    read(&mut reads, count, rest).map_err(Error::file(&path))?;
    let real_ns = started.elapsed().as_nanos() as u64 + idle_real_ns(&before, settings.time_scale);
    let waited_ns = watch.end();
    let after = disk.statistics()?;
    // Also what came between the first read and the others would have moved the arm.
    if !probe.is_all_of(&after.since(&begun)) {
        return Ok(None);
    }

    let mut device = Device::new(settings.device()?);
    let serve = |device: &mut Device, now: Timestamp, place: &u64| {
        device.serve(now, Direction::Read, *place, Bytes(probe.request_bytes))
    };
    let start = serve(&mut device, Timestamp(0), first);
    let seeks = device.statistics().seeks;
    let end = rest.iter().fold(start, |now, place| serve(&mut device, now, place));
    let run = after.since(&before);
    Ok(Some(Checked {
        probe,
        predicted_ns: (end - start).0,
        device_ns: after.busy_until_ns - before.busy_until_ns,
        real_ns,
        waited_ns,
        busy_ns: run.busy_ns,
        seeks: [device.statistics().seeks - seeks, run.seeks],
        rounds: 1,
    }))
}

/// For how long the drive had nothing to do when it said this. It reads ahead from when it was done
/// with the first read, however late that was heard of: what it gains by that is part of the time,
/// on the machine's clock as on its own.
fn idle_real_ns(said: &Statistics, time_scale: f64) -> u64 {
    (said.now_ns.saturating_sub(said.busy_until_ns) as f64 * time_scale) as u64
}

/// Reads from all these places in their order, with `count` reads under way.
fn read(reads: &mut Reads, count: usize, places: &[u64]) -> std::io::Result<()> {
    let (at_once, later) = places.split_at(count.min(places.len()));
    for (slot, place) in at_once.iter().enumerate() {
        reads.begin(slot, *place)?;
    }
    for place in later {
        let slot = reads.wait()?;
        reads.begin(slot, *place)?;
    }
    at_once.iter().try_for_each(|_| reads.wait().map(drop))
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn checked() -> Checked {
        let probe = Probe { is_sequential: true, request_bytes: 8192, requests: 100 };
        let ns = 1_000_000;
        Checked {
            probe,
            predicted_ns: ns,
            device_ns: ns,
            real_ns: 2 * ns,
            waited_ns: 0,
            busy_ns: ns,
            seeks: [3, 3],
            rounds: 1,
        }
    }

    #[test]
    fn a_disk_that_is_not_its_model_is_found_out() {
        let scale = 2.0;
        let wrong = [
            (Checked { seeks: [3, 4], ..checked() }, "4 seeks, where the model has 3"),
            (Checked { device_ns: 940_000, ..checked() }, "faster than its model"),
            (Checked { device_ns: 1_060_000, ..checked() }, "slower than its model"),
            (Checked { real_ns: 1_880_000, ..checked() }, "faster than its model in real time"),
            (Checked { real_ns: 2_120_000, ..checked() }, "slower than its model in real time"),
            (Checked { busy_ns: 1_060_000, ..checked() }, "longer at work than its model"),
        ];
        for (checked, fault) in wrong {
            assert_eq!(checked.verdict(scale).unwrap_err().to_string(), fault, "{checked:?}");
        }
        assert_eq!(checked().verdict(scale), Ok(()));
    }

    #[test]
    fn what_waited_for_a_processor_is_forgiven_and_no_more() {
        let late = Checked { device_ns: 1_060_000, real_ns: 2_120_000, ..checked() };
        assert_eq!(Checked { waited_ns: 20_000, ..late }.verdict(2.0), Ok(()));
        assert!(Checked { waited_ns: 19_000, ..late }.verdict(2.0).is_err());
        // Nothing that waits makes a disk faster, or its arm work longer.
        let busy = Checked { waited_ns: 1_000_000, ..checked() };
        assert!(Checked { device_ns: 940_000, ..busy }.verdict(2.0).is_err());
        assert!(Checked { real_ns: 1_880_000, ..busy }.verdict(2.0).is_err());
        assert!(Checked { busy_ns: 1_060_000, ..busy }.verdict(2.0).is_err());
    }

    #[test]
    fn only_what_a_machine_can_cause_is_tried_again() {
        let fault = |checked: Checked| checked.verdict(2.0).unwrap_err().may_be_the_machines();
        assert!(fault(Checked { seeks: [3, 4], ..checked() }));
        assert!(fault(Checked { device_ns: 1_060_000, ..checked() }));
        assert!(fault(Checked { real_ns: 2_120_000, ..checked() }));
        assert!(!fault(Checked { busy_ns: 1_060_000, ..checked() }));
        // However it came about: nothing that comes late makes a disk faster.
        assert!(!fault(Checked { device_ns: 940_000, seeks: [3, 4], ..checked() }));
        assert!(!fault(Checked { real_ns: 1_880_000, seeks: [3, 4], ..checked() }));
    }

    #[test]
    fn a_round_with_somebody_elses_requests_is_void() {
        let Checked { probe, .. } = checked();
        let own = Statistics { bytes_read: 101 * 8192, syncs: 2, ..Statistics::default() };
        assert!(probe.is_all_of(&own));
        assert!(!probe.is_all_of(&Statistics { bytes_read: 101 * 8192 + 1024, ..own }));
        assert!(!probe.is_all_of(&Statistics { writes: 1, ..own }));
    }

    #[test]
    fn a_drive_that_read_ahead_before_anybody_looked_is_not_faster_in_real_time() {
        let said = Statistics { busy_until_ns: 10_000, now_ns: 40_000, ..Statistics::default() };
        assert_eq!(idle_real_ns(&said, 0.1), 3_000);
        let at_work = Statistics { busy_until_ns: 50_000, ..said };
        assert_eq!(idle_real_ns(&at_work, 0.1), 0);
    }

    #[test]
    fn no_more_reads_are_under_way_than_the_drive_takes() {
        let settings = Settings { queue_depth: 4, ..Settings::default() };
        let count = |request_bytes, settings: &Settings| {
            Probe { is_sequential: true, request_bytes, requests: 1 }.under_way(settings)
        };
        let sizes = [8 << 10, 64 << 10, 1 << 20, 8 << 20];
        assert_eq!(sizes.map(|bytes| count(bytes, &settings)), [4, 4, 2, 1]);
        let reordered = Settings { reorder: Reorder::Sstf { window: 8 }, ..settings };
        assert_eq!(sizes.map(|bytes| count(bytes, &reordered)), [1; 4]);
    }
}
