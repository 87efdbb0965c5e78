//! The unsafe ground: foreign descriptors, `errno`, a page that `fork` wipes, cells without locks.

use core::cell::UnsafeCell;
use core::ffi::c_void;
use core::ops::{Deref, DerefMut};
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, AtomicUsize, Ordering};
use core::time::Duration;
use std::os::fd::{BorrowedFd, IntoRawFd, RawFd};

use forebay_client::{Destination, Piece, Source};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags};
use rustix::thread::futex;
use rustix::time::Timespec;

/// A descriptor number that the program passed, for the length of one call. The number may be
/// closed or mean anything: every use is a system call, which finds out.
pub(crate) fn descriptor<'a>(number: RawFd) -> Option<BorrowedFd<'a>> {
    // SAFETY: the only requirement that matters for soundness is that the number is not -1, the
    // niche of `Option<BorrowedFd>`. Who owns the descriptor is the program's affair, and a closed
    // one answers EBADF.
    (number >= 0).then(|| unsafe { BorrowedFd::borrow_raw(number) })
}

/// Another number for the same open file, `minimum` or more.
pub(crate) fn copy_above(descriptor: BorrowedFd<'_>, minimum: RawFd) -> Result<RawFd, Errno> {
    rustix::io::fcntl_dupfd_cloexec(descriptor, minimum).map(IntoRawFd::into_raw_fd)
}

/// Sets the calling thread's `errno`, as a failing call does.
pub(crate) fn set_errno(errno: Errno) {
    // SAFETY: the C library's answer is the address of the thread's own `errno`.
    unsafe { *libc::__errno_location() = errno.raw_os_error() };
}

/// A number that no two living threads of this process share: where their `errno` is.
pub(crate) fn thread() -> usize {
    // SAFETY: asks for an address only.
    unsafe { libc::__errno_location() }.addr()
}

/// The program's name, without its folder, as the C library keeps it.
pub(crate) fn program(take: impl FnOnce(&[u8])) {
    unsafe extern "C" {
        static program_invocation_short_name: *const libc::c_char;
    }
    // SAFETY: set by the C library before any constructor runs, to a string that stays.
    let name = unsafe { program_invocation_short_name };
    if !name.is_null() {
        // SAFETY: as above, it is a string with a terminating zero.
        take(unsafe { core::ffi::CStr::from_ptr(name) }.to_bytes());
    }
}

/// A value that is filled in once, in place, without waiting: whoever comes while it is being
/// filled (another thread, or a signal handler that interrupted the filling) does without it.
pub(crate) struct Filled<T> {
    state: AtomicU8,
    value: UnsafeCell<T>,
}

const EMPTY: u8 = 0;
const FILLING: u8 = 1;
const FULL: u8 = 2;

// SAFETY: the value is written only by whoever moved the state from EMPTY to FILLING, and shared
// only after it became FULL.
unsafe impl<T: Sync + Send> Sync for Filled<T> {}

impl<T> Filled<T> {
    /// Holds a value that is not to be seen before it was filled.
    pub(crate) const fn new(value: T) -> Self {
        Self { state: AtomicU8::new(EMPTY), value: UnsafeCell::new(value) }
    }

    /// Fills the value, unless somebody else has or is about to.
    pub(crate) fn fill(&self, fill: impl FnOnce(&mut T)) {
        if self.state.compare_exchange(EMPTY, FILLING, Ordering::Acquire, Ordering::Relaxed).is_ok()
        {
            // SAFETY: only one caller gets here in the value's life (see `forget_unfinished`), and
            // nobody reads before FULL.
            fill(unsafe { &mut *self.value.get() });
            self.state.store(FULL, Ordering::Release);
        }
    }

    /// The value, once it is filled.
    pub(crate) fn get(&self) -> Option<&T> {
        // SAFETY: after FULL nobody writes it any more.
        (self.state.load(Ordering::Acquire) == FULL).then(|| unsafe { &*self.value.get() })
    }

    /// After a fork: whoever was filling it is not in this process. The next one starts again.
    pub(crate) fn forget_unfinished(&self) {
        let _ = self.state.compare_exchange(FILLING, EMPTY, Ordering::AcqRel, Ordering::Relaxed);
    }
}

/// A value that one holder at a time may use, and that nobody waits for unless it asks to.
///
/// Unlike a mutex it is safe in a signal handler: who finds it held does something else.
pub(crate) struct TryLock<T> {
    state: AtomicU32,
    /// The thread that holds it.
    holder: AtomicUsize,
    value: UnsafeCell<T>,
}

const FREE: u32 = 0;
const HELD: u32 = 1;
/// Held, and somebody sleeps until it is free.
const AWAITED: u32 = 2;

// SAFETY: the value is used only by whoever moved the state away from FREE. Values are plain data
// and descriptors, which any thread may use.
unsafe impl<T> Sync for TryLock<T> {}

/// A [`TryLock`] that the caller holds until it drops this.
pub(crate) struct Held<T: 'static>(&'static TryLock<T>);

impl<T> TryLock<T> {
    /// Holds a value.
    pub(crate) const fn new(value: T) -> Self {
        Self {
            state: AtomicU32::new(FREE),
            holder: AtomicUsize::new(0),
            value: UnsafeCell::new(value),
        }
    }

    /// Takes it if it is free.
    pub(crate) fn try_lock(&'static self) -> Option<Held<T>> {
        self.state.compare_exchange(FREE, HELD, Ordering::SeqCst, Ordering::Relaxed).ok()?;
        self.holder.store(thread(), Ordering::Relaxed);
        Some(Held(self))
    }

    /// Takes it, waiting for another thread up to `limit`. It does not wait for its own thread,
    /// whose interrupted call goes on only when this one returns.
    pub(crate) fn lock_within(&'static self, limit: Duration) -> Option<Held<T>> {
        const ROUND: Duration = Duration::from_millis(20);
        let pause = Timespec { tv_sec: 0, tv_nsec: ROUND.as_nanos() as i64 };
        let mut waited = Duration::ZERO;
        loop {
            if let Some(held) = self.try_lock() {
                return Some(held);
            }
            if self.holder.load(Ordering::Relaxed) == thread() || waited >= limit {
                return None;
            }
            let _ =
                self.state.compare_exchange(HELD, AWAITED, Ordering::Relaxed, Ordering::Relaxed);
            if futex::wait(&self.state, futex::Flags::PRIVATE, AWAITED, Some(&pause))
                == Err(Errno::TIMEDOUT)
            {
                waited += ROUND;
            }
        }
    }

    /// In a forked child: takes it from a holder that exists in the parent only.
    pub(crate) fn inherit(&'static self) -> Held<T> {
        self.state.store(HELD, Ordering::SeqCst);
        self.holder.store(thread(), Ordering::Relaxed);
        Held(self)
    }
}

impl<T> Deref for Held<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: this is the only holder.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for Held<T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this is the only holder.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for Held<T> {
    fn drop(&mut self) {
        if self.0.state.swap(FREE, Ordering::SeqCst) == AWAITED {
            let _ = futex::wake(&self.0.state, futex::Flags::PRIVATE, 1);
        }
    }
}

/// A word that the kernel sets to 0 in the child of a `fork` (also of a raw one that no handler
/// sees), but not in the child of a `vfork`, which runs in its parent's memory.
pub(crate) struct WipedOnFork(AtomicPtr<AtomicU32>);

impl WipedOnFork {
    /// Not mapped yet.
    pub(crate) const fn new() -> Self {
        Self(AtomicPtr::new(null_mut()))
    }

    /// The word, if it was mapped.
    pub(crate) fn get(&self) -> Option<&AtomicU32> {
        // SAFETY: null or the start of a mapping that stays, and a page of zeros or anything
        // stored through this type is a valid `AtomicU32`.
        unsafe { self.0.load(Ordering::Acquire).as_ref() }
    }

    /// The word, mapped with `value` if it was not mapped yet.
    pub(crate) fn get_or_map(&self, value: u32) -> Result<&AtomicU32, Errno> {
        if let Some(word) = self.get() {
            return Ok(word);
        }
        let bytes = rustix::param::page_size();
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, where the kernel likes.
        let page =
            unsafe { rustix::mm::mmap_anonymous(null_mut(), bytes, access, MapFlags::PRIVATE)? };
        let word: NonNull<AtomicU32> = NonNull::new(page).ok_or(Errno::NOMEM)?.cast();
        // SAFETY: the mapping is ours, page-aligned and zero.
        unsafe { word.as_ref() }.store(value, Ordering::Relaxed);
        // SAFETY: changes what fork does with our own page.
        let advised = unsafe { rustix::mm::madvise(page, bytes, Advice::LinuxWipeOnFork) };
        let installed = advised.is_ok()
            && self
                .0
                .compare_exchange(null_mut(), word.as_ptr(), Ordering::AcqRel, Ordering::Acquire)
                .is_ok();
        if !installed {
            // SAFETY: nobody else has seen this mapping.
            let _ = unsafe { rustix::mm::munmap(page.cast::<c_void>(), bytes) };
        }
        advised?;
        self.get().ok_or(Errno::NOMEM)
    }
}

/// The program's memory as a read's destination.
pub(crate) fn destination(pieces: &[Piece]) -> Destination<'_> {
    // SAFETY: the memory belongs to the program, whose call this is; no Rust reference of this
    // library points into it.
    unsafe { Destination::from_raw(pieces) }
}

/// The program's memory as a write's source.
pub(crate) fn source(pieces: &[Piece]) -> Source<'_> {
    // SAFETY: as in `destination`.
    unsafe { Source::from_raw(pieces) }
}

/// `preadv(2)` by the kernel.
pub(crate) fn read_at(number: RawFd, pieces: &[Piece], offset: u64) -> Result<usize, Errno> {
    // SAFETY: the kernel writes only where the program told it to, or answers EFAULT.
    let moved = unsafe {
        libc::syscall(libc::SYS_preadv, number, pieces.as_ptr(), pieces.len(), offset, 0_usize)
    };
    usize::try_from(moved).map_err(|_| errno())
}

/// `pwritev(2)` by the kernel.
pub(crate) fn write_at(number: RawFd, pieces: &[Piece], offset: u64) -> Result<usize, Errno> {
    // SAFETY: the kernel only reads the program's memory, or answers EFAULT.
    let moved = unsafe {
        libc::syscall(libc::SYS_pwritev, number, pieces.as_ptr(), pieces.len(), offset, 0_usize)
    };
    usize::try_from(moved).map_err(|_| errno())
}

/// The calling thread's `errno`, after a call that failed.
pub(crate) fn errno() -> Errno {
    // SAFETY: the C library's answer is the address of the thread's own `errno`.
    Errno::from_raw_os_error(unsafe { *libc::__errno_location() })
}

/// Does something without a trace in the calling thread's `errno`.
pub(crate) fn keeping_errno<T>(act: impl FnOnce() -> T) -> T {
    // SAFETY: the C library's answer is the address of the thread's own `errno`.
    let place = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let before = unsafe { *place };
    let done = act();
    // SAFETY: as above; still the same thread.
    unsafe { *place = before };
    done
}

/// `mmap(2)` by the kernel.
///
/// # Safety
/// As for `mmap(2)`.
pub(crate) unsafe fn map(
    address: *mut c_void,
    length: usize,
    access: i32,
    flags: i32,
    number: RawFd,
    offset: i64,
) -> *mut c_void {
    // SAFETY: by this function's contract. The C library's `syscall` answers -1 for an error, which
    // is MAP_FAILED.
    unsafe {
        libc::syscall(libc::SYS_mmap, address, length, access, flags, number, offset) as *mut c_void
    }
}

/// `close_range(2)` by the kernel.
pub(crate) fn close_range(first: u32, last: u32, flags: i32) -> Result<(), Errno> {
    // SAFETY: the numbers are the program's to close; ours are left out by the caller.
    let closed = unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) };
    if closed == 0 { Ok(()) } else { Err(errno()) }
}

/// Copies an array that the program passed by address, without trusting the address: the kernel
/// looks, and says EFAULT where a plain load would kill the program.
pub(crate) fn copy_pieces(from: *const Piece, into: &mut [Piece]) -> Result<(), Errno> {
    let bytes = size_of_val(into);
    let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: bytes };
    let remote = libc::iovec { iov_base: from.cast_mut().cast(), iov_len: bytes };
    let pid = rustix::process::getpid().as_raw_nonzero().get();
    let copied = keeping_errno(|| {
        // SAFETY: writes at most `bytes` into `into`; any bit pattern is a valid `Piece`. The flags
        // are a long: of an int on the stack the upper half would be whatever was there.
        let copied = unsafe {
            libc::syscall(
                libc::SYS_process_vm_readv,
                pid,
                &raw const local,
                1,
                &raw const remote,
                1,
                0_usize,
            )
        };
        usize::try_from(copied).map_err(|_| errno())
    });
    match copied {
        Ok(copied) if copied == bytes => Ok(()),
        Ok(_) | Err(Errno::FAULT) => Err(Errno::FAULT),
        Err(_) => {
            // A sandbox forbids the call. Then a bad address ends the program, as it would in any
            // library that looks at the array.
            // SAFETY: by the program's word, the array is there.
            unsafe { core::ptr::copy_nonoverlapping(from, into.as_mut_ptr(), into.len()) };
            Ok(())
        }
    }
}

/// While this lives, the calling thread's signals wait, as they do while the kernel carries out I/O
/// on a file: a handler that leaves by `longjmp` must not leave a half-finished call behind.
pub(crate) struct SignalsWait(u64);

impl SignalsWait {
    /// From now on.
    pub(crate) fn new() -> Self {
        Self(signal_mask(libc::SIG_SETMASK, u64::MAX))
    }
}

impl Drop for SignalsWait {
    fn drop(&mut self) {
        signal_mask(libc::SIG_SETMASK, self.0);
    }
}

/// Changes the calling thread's signal mask, of which this kernel has 64 bits, and returns the one
/// before. The C library's function would leave its own two signals out.
fn signal_mask(how: i32, mask: u64) -> u64 {
    let mut before = 0_u64;
    // SAFETY: reads and writes 8 bytes each, as the last argument says. It cannot fail.
    unsafe {
        libc::syscall(libc::SYS_rt_sigprocmask, how, &raw const mask, &raw mut before, 8_usize)
    };
    before
}

/// Whether the calling thread is in a signal handler with a stack of its own, which is usually small.
pub(crate) fn is_on_signal_stack() -> bool {
    let mut stack = libc::stack_t { ss_sp: null_mut(), ss_flags: 0, ss_size: 0 };
    // SAFETY: asks only, into room of the right type.
    keeping_errno(|| unsafe { libc::sigaltstack(core::ptr::null(), &raw mut stack) });
    stack.ss_flags & libc::SS_ONSTACK != 0
}

/// Closes a number that is known to be one of our sockets.
pub(crate) fn close(number: RawFd) {
    if number >= 0 {
        // SAFETY: the caller found out that the number is our socket, which nobody else owns.
        unsafe { rustix::io::close(number) };
    }
}
