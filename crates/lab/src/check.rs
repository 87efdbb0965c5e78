//! Whether a disk is what its model says: the same reads on the disk and in the model alone.
//!
//! One request at a time, straight on the daemon's file, with neither cache nor elevator between.
//! Three clocks: what the model says of these very places (predicted), the device's own time as
//! the daemon counts it, and the machine's. The first two agree whatever else the machine does, as
//! long as a reader comes back sooner than the drive's cache fills; the third is real and says
//! whether the machine is quick enough for the disk.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::time::Instant;

use forebay_device::{Device, RANDOM_SPAN, SplitMix64};
use forebay_units::{Bytes, Direction, Timestamp};
use serde::Serialize;

use crate::disk::Disk;
use crate::error::Error;

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

/// Reads from the disk and has the model say how long that takes. Nobody else may use the disk.
///
/// # Errors
/// What the file system or the daemon says.
pub fn check(disk: &Disk, probe: Probe) -> Result<Checked, Error> {
    let settings = disk.settings_read_back()?.settings;
    let places = probe.places(settings.bytes);
    let path = disk.file();
    let file = File::open(&path).map_err(Error::file(&path))?;
    let mut buffer = vec![0; probe.request_bytes as usize];
    let mut read =
        |place: &u64| file.read_exact_at(&mut buffer, *place).map_err(Error::file(&path));
    let (first, rest) = places.split_first().expect("one read goes before those that are timed");
    read(first)?;
    let (before, started) = (disk.statistics()?, Instant::now());
    rest.iter().try_for_each(read)?;
    let real_ns = started.elapsed().as_nanos() as u64;
    let after = disk.statistics()?;

    let mut device = Device::new(settings.device()?);
    let mut serve = |now: Timestamp, place: &u64| {
        device.serve(now, Direction::Read, *place, Bytes(probe.request_bytes))
    };
    let begun = serve(Timestamp(0), first);
    let ended = rest.iter().fold(begun, serve);
    Ok(Checked {
        probe,
        predicted_ns: (ended - begun).0,
        device_ns: after.busy_until_ns - before.busy_until_ns,
        real_ns,
    })
}
