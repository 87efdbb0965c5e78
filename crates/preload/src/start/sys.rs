//! Running a shell command in a process of its own, without the C library noticing.
//!
//! The program must not notice either: the intermediate child sends no SIGCHLD and is invisible to
//! the program's `wait`, and the command inherits neither descriptors (an open pipe would keep a
//! reader waiting) nor our own settings (the forwarder must not be preloaded).

use core::ffi::{CStr, c_char, c_int, c_long};
use core::ptr::{null, null_mut};

use rustix::io::Errno;

/// Environment entries that are passed on at most.
const ENTRIES_MAX: usize = 1024;

/// What the command does not inherit: the preload library and what is set for it.
const KEPT_BACK: [&[u8]; 9] = [
    b"LD_PRELOAD=",
    b"FOREBAY_ENDPOINT=",
    b"FOREBAY_PATHS=",
    b"FOREBAY_EXPORT=",
    b"FOREBAY_ON_FAILURE=",
    b"FOREBAY_TIMEOUT_MS=",
    b"FOREBAY_REPORT=",
    b"FOREBAY_JOB=",
    b"FOREBAY_START=",
];

/// Starts `sh -c command` as a daemon and returns at once.
pub(crate) fn spawn_shell(command: &CStr) -> Result<(), Errno> {
    let arguments = [c"sh".as_ptr(), c"-c".as_ptr(), command.as_ptr(), null()];
    let environment = environment();
    // Exit signal 0: no SIGCHLD.
    let child = clone();
    match child {
        0 => {
            // SAFETY: a system call without pointers.
            unsafe { libc::syscall(libc::SYS_setsid) };
            if clone() == 0 {
                run(&arguments, &environment);
            }
            exit();
        }
        child if child < 0 => Err(crate::sys::errno()),
        child => {
            // SAFETY: waits for our own child, which exits at once; the status is not wanted.
            while unsafe {
                libc::syscall(
                    libc::SYS_wait4,
                    child,
                    null_mut::<c_int>(),
                    libc::__WALL,
                    null_mut::<()>(),
                )
            } < 0
                && crate::sys::errno() == Errno::INTR
            {}
            Ok(())
        }
    }
}

/// `fork` by the kernel: the C library's handlers do not run, and the child makes system calls only.
fn clone() -> c_long {
    // SAFETY: without CLONE_VM the child has memory of its own and goes on here, on its copy of the
    // stack; it does nothing but system calls until it ends or becomes another program.
    unsafe { libc::syscall(libc::SYS_clone, 0_usize, 0_usize, 0_usize, 0_usize, 0_usize) }
}

fn run(arguments: &[*const c_char; 4], environment: &[*const c_char; ENTRIES_MAX + 1]) {
    let no_signals = 0_u64;
    // SAFETY: system calls with arguments that live until the process becomes another program. The
    // descriptors closed are this child's copies.
    unsafe {
        libc::syscall(libc::SYS_close_range, 0, u32::MAX, 0);
        // Three times the lowest number: 0, 1, 2.
        for _ in 0..3 {
            libc::syscall(libc::SYS_openat, libc::AT_FDCWD, c"/dev/null".as_ptr(), libc::O_RDWR, 0);
        }
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            libc::SIG_SETMASK,
            &raw const no_signals,
            null_mut::<u64>(),
            8_usize,
        );
        libc::syscall(
            libc::SYS_execve,
            c"/bin/sh".as_ptr(),
            arguments.as_ptr(),
            environment.as_ptr(),
        );
    }
}

fn exit() -> ! {
    loop {
        // SAFETY: ends this child.
        unsafe { libc::syscall(libc::SYS_exit_group, 0) };
    }
}

fn environment() -> [*const c_char; ENTRIES_MAX + 1] {
    unsafe extern "C" {
        static environ: *const *const c_char;
    }
    let mut kept = [null(); ENTRIES_MAX + 1];
    let mut count = 0;
    // SAFETY: the program's environment: null, or an array that ends with null.
    let mut next = unsafe { environ };
    while !next.is_null() && count < ENTRIES_MAX {
        // SAFETY: not beyond the end, which was not met yet.
        let entry = unsafe { *next };
        if entry.is_null() {
            break;
        }
        // SAFETY: entries are C strings.
        let text = unsafe { CStr::from_ptr(entry) }.to_bytes();
        if !KEPT_BACK.iter().any(|name| text.starts_with(name)) {
            kept[count] = entry;
            count += 1;
        }
        // SAFETY: as above.
        next = unsafe { next.add(1) };
    }
    kept
}
