//! How long the machine kept what could have run from running, while something was measured.
//!
//! The kernel counts it; but a host that stops a virtual machine need not tell it. So a thread
//! sleeps beside what is measured, a millisecond at a time, and notes how late it awakes: later than
//! the least that a sleep has taken meanwhile, which is several milliseconds where timers are coarse.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time in which something that could have run waited for a processor, by the kernel's count.
const PRESSURE: &str = "/proc/pressure/cpu";

/// Of processors; time that the host gave to others is in the line that sums them up.
const PROCESSORS: &str = "/proc/stat";

/// The kernel's tick in that file.
const TICK_NS: u64 = 10_000_000;

/// How long the sleeper means to sleep. It is late when it has slept so much longer than the least
/// that it has slept: less is how sleeping is.
const SLEEP: Duration = Duration::from_millis(1);

/// A look at the machine over some time.
#[derive(Debug)]
pub(super) struct Watch {
    before: Counted,
    end: Sender<()>,
    sleeper: JoinHandle<Duration>,
}

impl Watch {
    pub(super) fn begin() -> Self {
        let (end, is_ended) = channel();
        let sleeper = std::thread::spawn(move || sleep_until(&is_ended));
        Self { before: Counted::now(), end, sleeper }
    }

    /// Real nanoseconds since it was begun in which something waited for a processor: as the kernel
    /// has counted or the sleeper has seen, whichever is more.
    pub(super) fn end(self) -> u64 {
        let counted = Counted::now().since_ns(self.before);
        drop(self.end);
        let late = self.sleeper.join().expect("nothing in it panics");
        counted.max(late.as_nanos() as u64)
    }
}

/// Sleeps on and on; how late it was in all.
fn sleep_until(is_ended: &Receiver<()>) -> Duration {
    let (mut slept, mut last) = (Vec::new(), Instant::now());
    loop {
        let outcome = is_ended.recv_timeout(SLEEP);
        let now = Instant::now();
        if outcome != Err(RecvTimeoutError::Timeout) {
            return lateness(&slept, now - last);
        }
        slept.push(now - last);
        last = now;
    }
}

/// How much longer than usual all these sleeps took, and the last one, which was cut short.
fn lateness(slept: &[Duration], last: Duration) -> Duration {
    let usual = slept.iter().min().map_or(SLEEP, |least| (*least).max(SLEEP));
    let late = slept.iter().chain([&last]).filter(|slept| **slept >= usual + SLEEP);
    late.map(|slept| *slept - usual).sum()
}

/// Real nanoseconds in which something waited for a processor since the machine started, and that
/// the host gave to others; none where it is not counted.
#[derive(Clone, Copy, Debug)]
struct Counted {
    pressure: Option<u64>,
    stolen: Option<u64>,
}

impl Counted {
    fn now() -> Self {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        Self { pressure: pressure_ns(&read(PRESSURE)), stolen: stolen_ns(&read(PROCESSORS)) }
    }

    /// Both together. What was not read at either end is not known, and a host may take back what it
    /// said that it had given to others.
    fn since_ns(self, before: Self) -> u64 {
        let since = |now: Option<u64>, before: Option<u64>| {
            now.zip(before).map_or(0, |(now, before)| now.saturating_sub(before))
        };
        since(self.pressure, before.pressure) + since(self.stolen, before.stolen)
    }
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

    fn late_ms(slept_us: &[u64], last_us: u64) -> u128 {
        let slept: Vec<_> = slept_us.iter().copied().map(Duration::from_micros).collect();
        lateness(&slept, Duration::from_micros(last_us)).as_millis()
    }

    #[test]
    fn a_sleep_that_is_a_little_long_is_not_late() {
        assert_eq!(late_ms(&[1_000, 1_900, 1_999], 900), 0);
        assert_eq!(late_ms(&[1_000, 2_000, 51_000], 900), 51);
        // The only one, and it was not even left to end by itself.
        assert_eq!((late_ms(&[], 1_900), late_ms(&[], 51_000)), (0, 50));
    }

    #[test]
    fn where_timers_are_coarse_a_sleep_that_is_as_long_as_any_is_not_late() {
        assert_eq!(late_ms(&[4_000; 100], 3_000), 0);
        assert_eq!(late_ms(&[4_000, 4_900, 8_000, 4_000], 3_000), 4);
    }

    #[test]
    fn counts_that_go_back_or_cannot_be_read_are_no_wait() {
        let counted = |pressure, stolen| Counted { pressure, stolen };
        let before = counted(Some(100), Some(50));
        assert_eq!(counted(Some(130), Some(55)).since_ns(before), 35);
        assert_eq!(counted(Some(130), Some(45)).since_ns(before), 30);
        assert_eq!(counted(None, Some(55)).since_ns(before), 5);
        // Not all that was counted since the machine started.
        assert_eq!(counted(Some(130), None).since_ns(counted(None, Some(50))), 0);
    }
}
