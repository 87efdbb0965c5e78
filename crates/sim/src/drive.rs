//! A node's device: the model, noise on its service times, and stalls.
//!
//! The model counts in a time of its own, which runs behind or ahead of the simulation's by what
//! noise has added or taken so far. So a request that took longer than the model says delays all
//! behind it, and one that was quicker lets them start earlier.

use forebay_device::{Device, Profile, Statistics};
use forebay_units::{Bytes, Direction, Nanos, Timestamp};

use crate::noise::Noise;

/// The model's time at the simulation's start: far from zero, so that noise cannot take it below.
const START: u64 = 1 << 60;

/// When a device works on a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Service {
    /// Its first member that has a part of it begins.
    pub(crate) begun: Timestamp,
    /// Its last one is finished.
    pub(crate) done: Timestamp,
}

/// A device at work.
#[derive(Debug)]
pub(crate) struct Drive {
    device: Device,
    noise: Noise,
    /// What noise has added so far, in nanoseconds.
    drift: i64,
    stalled_until: Timestamp,
    busy: Nanos,
}

impl Drive {
    pub(crate) fn new(profile: Profile, noise: Noise) -> Self {
        Self {
            device: Device::new(profile),
            noise,
            drift: 0,
            stalled_until: Timestamp(0),
            busy: Nanos::ZERO,
        }
    }

    /// When a request that arrives now is begun and finished.
    pub(crate) fn serve(
        &mut self,
        now: Timestamp,
        direction: Direction,
        position: u64,
        length: Bytes,
    ) -> Service {
        if length == Bytes::ZERO {
            return Service { begun: now, done: now };
        }
        let start = now.max(self.stalled_until);
        let arrival = Timestamp(START.saturating_add(start.0).saturating_add_signed(-self.drift));
        let was_busy_until = self.device.busy_until().max(arrival);
        let begun = self.simulated(self.device.begins(arrival, position, length)).max(start);
        let done = self.device.serve(arrival, direction, position, length);
        let service = done - was_busy_until;
        let noisy = self.noise.applied(service);
        let signed = |time: Nanos| i64::try_from(time.0).unwrap_or(i64::MAX);
        self.drift = self.drift.saturating_add(signed(noisy) - signed(service));
        self.busy += noisy;
        // At the end of time, where the model's stands still, nothing is finished before it begins.
        Service { begun, done: self.simulated(done).max(begun) }
    }

    /// A time of the model in the simulation's.
    fn simulated(&self, at: Timestamp) -> Timestamp {
        Timestamp(at.0.saturating_add_signed(self.drift).saturating_sub(START))
    }

    /// Starts nothing for a while.
    pub(crate) fn stall(&mut self, now: Timestamp, duration: Nanos) {
        self.stalled_until = self.stalled_until.max(now + duration);
    }

    pub(crate) fn statistics(&self) -> Statistics {
        self.device.statistics()
    }

    /// Time in which it was at work.
    pub(crate) fn busy(&self) -> Nanos {
        self.busy
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_device::SplitMix64;

    fn drive(percent: u32) -> Drive {
        let profile = Profile::by_name("hdd-57").expect("it is known");
        Drive::new(profile, Noise::new(SplitMix64::new(1), percent))
    }

    fn sequential(drive: &mut Drive, count: u64) -> Timestamp {
        (0..count).fold(Timestamp(0), |now, block| {
            drive.serve(now, Direction::Read, block << 20, Bytes::mib(1)).done
        })
    }

    #[test]
    fn without_noise_it_is_the_model() {
        let mut device = Device::new(Profile::by_name("hdd-57").expect("it is known"));
        let mut drive = drive(0);
        for block in [0, 5, 6, 2, 90, 91] {
            let arrival = Timestamp(block * 1000);
            let expected = device.serve(arrival, Direction::Read, block << 16, Bytes::kib(64));
            assert_eq!(
                drive.serve(arrival, Direction::Read, block << 16, Bytes::kib(64)).done,
                expected
            );
        }
    }

    #[test]
    fn noise_keeps_the_mean_and_never_finishes_before_arrival() {
        let plain = sequential(&mut drive(0), 2000).0 as f64;
        let mut noisy = drive(20);
        let ratio = sequential(&mut noisy, 2000).0 as f64 / plain;
        assert!((ratio - 1.0).abs() < 0.02, "{ratio}");
        for at in 0..1000 {
            let now = Timestamp(at * 20_000_000_000);
            let served = noisy.serve(now, Direction::Write, (at * 7_919) << 16, Bytes(512));
            assert!(served.begun >= now && served.done > served.begun);
        }
    }

    #[test]
    fn at_the_end_of_time_it_stands_still() {
        for percent in [0, 40] {
            let mut drive = drive(percent);
            for now in [Timestamp(u64::MAX - 5), Timestamp(u64::MAX)] {
                assert!(drive.serve(now, Direction::Read, 1 << 40, Bytes::mib(1)).done >= now);
            }
        }
    }

    #[test]
    fn a_stall_delays_what_comes_during_it() {
        let mut drive = drive(0);
        drive.stall(Timestamp(0), Nanos::secs(1));
        let served = drive.serve(Timestamp(5), Direction::Read, 0, Bytes(512));
        assert_eq!(served.begun, Timestamp(1_000_000_000));
        assert!(served.done > served.begun);
    }

    #[test]
    fn a_request_begins_when_the_one_before_it_is_finished() {
        for percent in [0, 40] {
            let mut drive = drive(percent);
            let mut last = Timestamp(0);
            for block in 0..50 {
                // All of them come at the beginning.
                let served =
                    drive.serve(Timestamp(0), Direction::Read, (block * 7_919) << 16, Bytes(512));
                assert_eq!(served.begun, last);
                last = served.done;
            }
        }
    }
}
