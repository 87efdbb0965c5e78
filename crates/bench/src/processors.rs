//! Who used the processors while something was measured: what others took is missing in the figure.
//!
//! Own is this process, whatever it started, and the kernel's threads, which do the disk's work.
//! What the host of a virtual machine took away counts as others'.

use std::collections::HashMap;
use std::fs;
use std::time::Instant;

use rustix::param::clock_ticks_per_second;

/// Of the processors' time; above it a run says little of what was measured.
pub(crate) const DISTURBED_SHARE: f64 = 0.1;

/// `flags` of a kernel thread in proc_pid_stat(5): PF_KTHREAD of `linux/sched.h`.
const KERNEL_THREAD: u64 = 0x0020_0000;

/// Processor time until now, in ticks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    at: Instant,
    all: u64,
    own: u64,
}

/// What is read of a process.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Process {
    parent: u64,
    is_kernel: bool,
    /// Its own and that of its children that were waited for, in ticks.
    ticks: u64,
}

impl Usage {
    /// What `/proc` says now; nothing where it does not.
    pub(crate) fn now() -> Option<Self> {
        let at = Instant::now();
        let own = own(&processes(), std::process::id().into());
        Some(Self { at, all: all(&fs::read_to_string("/proc/stat").ok()?)?, own })
    }

    /// The share of all processors' time since `before` that neither this nor nobody used.
    pub(crate) fn others_share(&self, before: &Self) -> f64 {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let elapsed = self.at.duration_since(before.at).as_secs_f64();
        let ticks = elapsed * processors as f64 * clock_ticks_per_second() as f64;
        let used = self.all.saturating_sub(before.all);
        // Both are rounded to ticks, each process by itself.
        let others = used.saturating_sub(self.own.saturating_sub(before.own));
        if ticks > 0.0 { (others as f64 / ticks).min(1.0) } else { 0.0 }
    }
}

/// All ticks that somebody used: `user`, `nice`, `system` and `steal` of proc_stat(5). Interrupts
/// are nobody's.
fn all(stat: &str) -> Option<u64> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let fields: Vec<u64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    Some([0, 1, 2, 7].iter().filter_map(|idx| fields.get(*idx)).sum())
}

fn processes() -> HashMap<u64, Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u64>().ok());
    let read = |number: u64| {
        // One that has ended meanwhile is not there.
        let text = fs::read_to_string(format!("/proc/{number}/stat")).ok()?;
        Some((number, process(&text)?))
    };
    numbers.filter_map(read).collect()
}

/// From a line as in proc_pid_stat(5); the name may hold anything, also parentheses.
fn process(stat: &str) -> Option<Process> {
    let (_, rest) = stat.rsplit_once(')')?;
    // From `state`, the third field, on.
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    let ticks: Option<u64> = (14..=17).map(field).sum();
    Some(Process { parent: field(4)?, is_kernel: field(9)? & KERNEL_THREAD != 0, ticks: ticks? })
}

/// The ticks of `this`, of all that come from it, and of the kernel's threads.
fn own(processes: &HashMap<u64, Process>, this: u64) -> u64 {
    let is_own = |number: u64| {
        let mut ancestor = number;
        // Processes end while they are read, so a line of ancestors may, too.
        for _ in 0..processes.len() {
            match processes.get(&ancestor) {
                _ if ancestor == this => return true,
                Some(process) if process.is_kernel => return true,
                Some(process) => ancestor = process.parent,
                None => return false,
            }
        }
        false
    };
    let mine = processes.iter().filter(|(number, _)| is_own(**number));
    mine.map(|(_, process)| process.ticks).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_is_no_obstacle() {
        let stat = "7 (a) b (c) S 3 7 7 0 -1 4194304 1 2 3 4 10 20 30 40 20 0 1 0 9";
        let expected = Process { parent: 3, is_kernel: false, ticks: 100 };
        assert_eq!(process(stat), Some(expected));
        let kernel = "2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 5 6 0 0 20 0 1 0 9";
        assert!(process(kernel).is_some_and(|process| process.is_kernel));
        assert_eq!(all("cpu  1 2 4 100 200 300 400 8 0 0\ncpu0 1 1 1 1\n"), Some(15));
    }

    #[test]
    fn children_and_the_kernel_are_no_others() {
        let process = |parent, is_kernel, ticks| Process { parent, is_kernel, ticks };
        let processes = HashMap::from([
            (1, process(0, false, 1)),
            (2, process(0, true, 2)),
            (10, process(1, false, 4)),
            (11, process(10, false, 8)),
            (12, process(11, false, 16)),
            (13, process(1, false, 32)),
        ]);
        assert_eq!(own(&processes, 10), 2 + 4 + 8 + 16);
    }

    #[test]
    fn what_others_used_is_what_was_used_and_not_here() {
        let before = Usage::now().unwrap();
        let after = |all, own| Usage {
            at: before.at + std::time::Duration::from_secs(1),
            all: before.all + all,
            own: before.own + own,
        };
        let ticks =
            clock_ticks_per_second() * std::thread::available_parallelism().unwrap().get() as u64;
        assert!((after(ticks, ticks / 2).others_share(&before) - 0.5).abs() < 1e-9);
        assert_eq!(after(0, 5).others_share(&before), 0.0);
    }
}
