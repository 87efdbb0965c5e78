//! Whether a disk is what its model says: the same reads on the disk and in the model alone.
//!
//! One request at a time, straight on the block device (direct I/O), with no page cache between.
//! Three clocks: what the model says of these very places (predicted), the device's own time as
//! the daemon counts it, and the machine's.
//!
//! A disk is never faster than its model, whatever else the machine does, and its arm never works
//! longer. It looks slower, on both of the other clocks, by as much as the reader, the kernel's
//! threads or the daemon wait for a processor; the kernel counts that, so that it is known how much
//! of a difference is the machine's ([`Checked::verdict`]).

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::time::Instant;

use forebay_device::{Device, RANDOM_SPAN, SplitMix64};
use forebay_units::{Bytes, Direction, Timestamp};
use rustix::fs::{Mode, OFlags, open};
use serde::Serialize;

use crate::disk::Disk;
use crate::error::Error;

/// How far measured and predicted may be apart.
const TOLERANCE: f64 = 0.05;

/// A file system that writes something so often is not by itself.
const TRIES_MAX: usize = 10;

/// Direct I/O needs memory at a multiple of this.
const PAGE_BYTES: usize = 4096;

/// Time in which something that could have run waited for a processor, by the kernel's count.
const PRESSURE: &str = "/proc/pressure/cpu";

/// Of processors; time that the host gave to others is in the line that sums them up.
const PROCESSORS: &str = "/proc/stat";

/// The kernel's tick in that file.
const TICK_NS: u64 = 10_000_000;

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
    pub fn verdict(&self, time_scale: f64) -> Result<(), String> {
        let predicted = self.predicted_ns as f64;
        let waited = self.waited_ns as f64;
        let least = |ns: f64| ns * (1.0 - TOLERANCE);
        let most = |ns: f64, waited: f64| ns * (1.0 + TOLERANCE) + waited;
        let (device, real) = (self.device_ns as f64, self.real_ns as f64);
        let [seeks, found] = self.seeks;
        let faults = [
            (seeks != found).then(|| format!("{found} seeks, where the model has {seeks}")),
            (device < least(predicted)).then(|| "faster than its model".to_owned()),
            (real < least(predicted * time_scale))
                .then(|| "faster than its model in real time".to_owned()),
            (self.busy_ns as f64 > most(predicted, 0.0))
                .then(|| "longer at work than its model".to_owned()),
            (device > most(predicted, waited / time_scale))
                .then(|| "slower than its model".to_owned()),
            (real > most(predicted * time_scale, waited))
                .then(|| "slower than its model in real time".to_owned()),
        ];
        faults.into_iter().flatten().next().map_or(Ok(()), Err)
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

    /// Where the reads go: first the one that is not timed.
    fn places(&self, disk_bytes: u64) -> Vec<u64> {
        let slots = (disk_bytes.min(RANDOM_SPAN.0) / self.request_bytes).max(1);
        let mut random = SplitMix64::new(SEED);
        let mut slot = |idx| if self.is_sequential { idx % slots } else { random.below(slots) };
        (0..=self.requests).map(|idx| slot(idx) * self.request_bytes).collect()
    }
}

/// Reads from the disk and has the model say how long that takes. Nobody else may use the disk;
/// what the file system does by itself from time to time is noticed, and everything done again.
///
/// # Errors
/// What the kernel or the daemon says, or if somebody else uses the disk all the time.
pub fn check(disk: &Disk, probe: Probe) -> Result<Checked, Error> {
    for _ in 0..TRIES_MAX {
        if let Some(checked) = check_once(disk, probe)? {
            return Ok(checked);
        }
    }
    Err(Error::fix("something else uses the disk: its figures would be those of both"))
}

/// What reading came to; none if the device had other requests besides.
fn check_once(disk: &Disk, probe: Probe) -> Result<Option<Checked>, Error> {
    let settings = disk.settings_read_back()?.settings;
    let places = probe.places(settings.bytes);
    let path = disk.block_device();
    let flags = OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC;
    let file = File::from(open(&path, flags, Mode::empty()).map_err(Error::file(&path))?);
    let length = probe.request_bytes as usize;
    let mut memory = vec![0_u8; length + PAGE_BYTES];
    let start = memory.as_ptr().align_offset(PAGE_BYTES);
    let buffer = &mut memory[start..start + length];
    let mut read = |place: &u64| file.read_exact_at(buffer, *place).map_err(Error::file(&path));
    let (first, rest) = places.split_first().expect("one read goes before those that are timed");
    let waited = waited_ns();
    read(first)?;
    // From here on the drive reads ahead: what it gains by that is part of the time.
    let started = Instant::now();
    let before = disk.statistics()?;
    rest.iter().try_for_each(&mut read)?;
    let real_ns = started.elapsed().as_nanos() as u64;
    let waited_ns = waited_ns() - waited;
    let after = disk.statistics()?;
    let run = after.since(&before);
    if run.writes > 0 || run.bytes_read != probe.request_bytes * probe.requests {
        return Ok(None);
    }

    let mut device = Device::new(settings.device()?);
    let serve = |device: &mut Device, now: Timestamp, place: &u64| {
        device.serve(now, Direction::Read, *place, Bytes(probe.request_bytes))
    };
    let begun = serve(&mut device, Timestamp(0), first);
    let seeks = device.statistics().seeks;
    let ended = rest.iter().fold(begun, |now, place| serve(&mut device, now, place));
    Ok(Some(Checked {
        probe,
        predicted_ns: (ended - begun).0,
        device_ns: after.busy_until_ns - before.busy_until_ns,
        real_ns,
        waited_ns,
        busy_ns: run.busy_ns,
        seeks: [device.statistics().seeks - seeks, run.seeks],
    }))
}

/// The one of three checks that took neither the longest nor the shortest.
///
/// # Errors
/// As [`check`].
pub fn check_median(disk: &Disk, probe: Probe) -> Result<Checked, Error> {
    let mut found = [check(disk, probe)?, check(disk, probe)?, check(disk, probe)?];
    found.sort_by_key(|checked| checked.real_ns);
    Ok(found[1])
}

/// Real time in which something waited for a processor since the machine started; 0 where the
/// kernel does not count it.
fn waited_ns() -> u64 {
    let pressure = std::fs::read_to_string(PRESSURE).unwrap_or_default();
    let processors = std::fs::read_to_string(PROCESSORS).unwrap_or_default();
    pressure_ns(&pressure).unwrap_or(0) + stolen_ns(&processors).unwrap_or(0)
}

/// `some avg10=… avg60=… avg300=… total=MICROSECONDS`
fn pressure_ns(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with("some "))?;
    line.split_once("total=")?.1.trim().parse::<u64>().ok().map(|us| us * 1_000)
}

/// `cpu user nice system idle iowait irq softirq steal …`, in ticks
fn stolen_ns(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
    line.split_whitespace().nth(7)?.parse::<u64>().ok().map(|ticks| ticks * TICK_NS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked() -> Checked {
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
            assert_eq!(checked.verdict(scale), Err(fault.to_owned()), "{checked:?}");
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
    fn the_kernels_counts_are_read() {
        let text = "some avg10=98.21 avg60=90.24 avg300=63.99 total=471\nfull avg10=0 total=7\n";
        assert_eq!(pressure_ns(text), Some(471_000));
        let text = "cpu  10 20 30 40 50 60 70 8 0 0\ncpu0 1 2 3 4 5 6 7 9 0 0\n";
        assert_eq!(stolen_ns(text), Some(80_000_000));
        assert_eq!((pressure_ns(""), stolen_ns("cpu 1 2")), (None, None));
    }
}
