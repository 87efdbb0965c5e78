//! How long the machine kept what could have run from running, while something was measured.
//!
//! The kernel counts it; but a host that stops a virtual machine need not tell it. So a thread
//! sleeps beside what is measured, a millisecond at a time, and notes how late it awakes.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time in which something that could have run waited for a processor, by the kernel's count.
const PRESSURE: &str = "/proc/pressure/cpu";

/// Of processors; time that the host gave to others is in the line that sums them up.
const PROCESSORS: &str = "/proc/stat";

/// The kernel's tick in that file.
const TICK_NS: u64 = 10_000_000;

/// How long the sleeper sleeps. It is late when it has slept twice as long: less is how sleeping is.
const SLEEP: Duration = Duration::from_millis(1);

/// A look at the machine over some time.
#[derive(Debug)]
pub(super) struct Watch {
    counted_before: u64,
    end: Sender<()>,
    sleeper: JoinHandle<Duration>,
}

impl Watch {
    pub(super) fn begin() -> Self {
        let (end, is_ended) = channel();
        let sleeper = std::thread::spawn(move || sleep_until(&is_ended));
        Self { counted_before: counted_ns(), end, sleeper }
    }

    /// Real nanoseconds since it was begun in which something waited for a processor: as the kernel
    /// has counted or the sleeper has seen, whichever is more.
    pub(super) fn end(self) -> u64 {
        let counted = counted_ns() - self.counted_before;
        drop(self.end);
        let late = self.sleeper.join().expect("nothing in it panics");
        counted.max(late.as_nanos() as u64)
    }
}

/// Sleeps on and on; how late it was in all.
fn sleep_until(is_ended: &Receiver<()>) -> Duration {
    let (mut late, mut last) = (Duration::ZERO, Instant::now());
    loop {
        let outcome = is_ended.recv_timeout(SLEEP);
        let now = Instant::now();
        late += lateness(now - last);
        if outcome != Err(RecvTimeoutError::Timeout) {
            return late;
        }
        last = now;
    }
}

fn lateness(slept: Duration) -> Duration {
    if slept < 2 * SLEEP { Duration::ZERO } else { slept - SLEEP }
}

/// Real time in which something waited for a processor since the machine started; 0 where the
/// kernel does not count it.
fn counted_ns() -> u64 {
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

    #[test]
    fn the_kernels_counts_are_read() {
        let text = "some avg10=98.21 avg60=90.24 avg300=63.99 total=471\nfull avg10=0 total=7\n";
        assert_eq!(pressure_ns(text), Some(471_000));
        let text = "cpu  10 20 30 40 50 60 70 8 0 0\ncpu0 1 2 3 4 5 6 7 9 0 0\n";
        assert_eq!(stolen_ns(text), Some(80_000_000));
        assert_eq!((pressure_ns(""), stolen_ns("cpu 1 2")), (None, None));
    }

    #[test]
    fn a_sleep_that_is_a_little_long_is_not_late() {
        let late = |us| lateness(Duration::from_micros(us)).as_micros();
        assert_eq!([late(1_000), late(1_900), late(2_000), late(51_000)], [0, 0, 1_000, 50_000]);
    }
}
