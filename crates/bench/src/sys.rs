//! What the standard library has no safe call for: a child that does not outlive this process.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use rustix::io::Errno;
use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};

/// Has the kernel kill the command's process as soon as the thread that starts it ends, however
/// that comes about: a bench that is killed leaves no server and no reader on a mounted disk.
pub(crate) fn end_with_this(command: &mut Command) {
    let parent = getpid();
    let arrange = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // Whoever ended before that tells nobody.
        if getppid() == Some(parent) { Ok(()) } else { Err(io::Error::from(Errno::SRCH)) }
    };
    // SAFETY: between fork and exec only what is safe in a signal handler may be called. The
    // closure makes two system calls; it allocates nothing, takes no lock and owns a number.
    unsafe { command.pre_exec(arrange) };
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::process::Stdio;

    use super::*;

    #[test]
    fn a_child_ends_with_whoever_started_it() {
        let (mut end, stdout) = std::io::pipe().unwrap();
        let starter = std::thread::spawn(move || {
            let mut command = Command::new("sleep");
            command.arg("3600").stdin(Stdio::null()).stdout(stdout);
            end_with_this(&mut command);
            // The command keeps its end of the pipe.
            command.spawn().unwrap()
        });
        let mut child = starter.join().unwrap();
        // Ends when nobody has the other end any more.
        assert_eq!(end.read(&mut [0]).unwrap(), 0);
        assert!(!child.wait().unwrap().success());
    }
}
