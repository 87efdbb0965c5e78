//! What has no safe form: a handler for forks, a thread without signals, the processor's ticks.

use core::mem::MaybeUninit;
use std::io;
use std::thread::{Builder, JoinHandle};

/// Has `handler` called in every child that this process forks. Without memory for it, nothing is
/// registered, and children are not told apart.
pub(crate) fn run_in_forked_child(handler: extern "C" fn()) {
    // SAFETY: the handler is a plain function that lives as long as this library, and glibc drops
    // the registration when the library is unloaded.
    unsafe { libc::pthread_atfork(None, None, Some(handler)) };
}

/// Starts a thread that receives no signals, so that a program's handlers run on its own threads.
pub(crate) fn spawn_without_signals<T: Send + 'static>(
    name: &str,
    body: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: both sets are written before they are read, the first by sigfillset, the second by
    // pthread_sigmask, which cannot fail with SIG_SETMASK and valid pointers.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
    }
    let thread = Builder::new().name(name.to_owned()).spawn(body);
    // SAFETY: `before` was filled above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), core::ptr::null_mut()) };
    thread
}

/// A counter that the processor advances at a steady rate; 0 where it has none that is cheap.
#[cfg(target_arch = "x86_64")]
pub(crate) fn ticks() -> u64 {
    // SAFETY: every x86-64 processor has the instruction, and Linux lets programs use it; where a
    // program has forbidden it to itself (PR_SET_TSC), the system's own clock does not work either.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// A counter that the processor advances at a steady rate; 0 where it has none that is cheap.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn ticks() -> u64 {
    0
}
