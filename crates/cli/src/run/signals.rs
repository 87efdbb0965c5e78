//! Signals to `forebay run` are meant for the program that it runs.

use std::io;
use std::process::{Child, ExitStatus};

use rustix::process::{Pid, Signal, getpid, kill_process};
use signal_hook::consts::{
    SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2, SIGWINCH,
};
use signal_hook::iterator::exfiltrator::WithRawSiginfo;
use signal_hook::iterator::{Handle, SignalsInfo};

const PASSED_ON: &[i32] =
    &[SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH, SIGTSTP, SIGCONT];

/// The signals of this process, caught from [`catch`](Signals::catch) on.
pub(super) struct Signals(SignalsInfo<WithRawSiginfo>);

impl Signals {
    /// Starts to catch what is to be passed on. What was ignored when we started (`nohup`) stays
    /// ignored, for us and for the program.
    pub(super) fn catch() -> io::Result<Self> {
        let ignored = ignored_mask(&std::fs::read_to_string("/proc/self/status")?);
        let wanted = PASSED_ON.iter().copied().filter(|signal| ignored & (1 << (signal - 1)) == 0);
        Ok(Self(SignalsInfo::new(wanted.chain([SIGCHLD]))?))
    }

    /// Passes signals on until the program ends.
    ///
    /// What the terminal sends (`^C`, `^Z`, a resize) it sends to the program as well, which is in
    /// the same process group; only what another process sent to us alone is passed on.
    pub(super) fn pass_on_until_exit(&mut self, child: &mut Child) -> io::Result<ExitStatus> {
        let pid = Pid::from_child(child);
        for info in &mut self.0.forever() {
            if info.si_signo == SIGCHLD {
                if let Some(status) = child.try_wait()? {
                    return Ok(status);
                }
                continue;
            }
            let is_from_kernel = info.si_code > 0;
            if !is_from_kernel && let Some(signal) = Signal::from_named_raw(info.si_signo) {
                // The program may have ended in this moment; its SIGCHLD is next.
                let _ = kill_process(pid, signal);
            }
            if info.si_signo == SIGTSTP {
                kill_process(getpid(), Signal::STOP)?;
            }
        }
        child.wait()
    }

    /// What ends [`until_woken`](Signals::until_woken).
    pub(super) fn waking(&self) -> Waking {
        Waking(self.0.handle())
    }

    /// Calls `end` at every signal that asks us to end, until woken.
    pub(super) fn until_woken(&mut self, end: impl Fn()) {
        let asks_to_end = |signal: &i32| [SIGHUP, SIGINT, SIGQUIT, SIGTERM].contains(signal);
        self.0.forever().map(|info| info.si_signo).filter(asks_to_end).for_each(|_| end());
    }
}

/// Ends a wait for signals, from another thread.
pub(super) struct Waking(Handle);

impl Waking {
    /// Ends the wait, also one that begins later.
    pub(super) fn wake(&self) {
        self.0.close();
    }
}

/// Bit `n - 1` is set when signal `n` is ignored (`SigIgn` in `proc_pid_status(5)`).
fn ignored_mask(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_read_from_the_mask() {
        let mask = ignored_mask("Name:\tx\nSigIgn:\t0000000000001001\nSigCgt:\t0\n");
        assert_ne!(mask & (1 << (SIGHUP - 1)), 0);
        assert_eq!(mask & (1 << (SIGINT - 1)), 0);
    }
}
