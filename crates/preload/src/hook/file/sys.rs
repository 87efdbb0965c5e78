//! Calls about whole files, and mappings.

use core::ffi::{c_int, c_uint, c_void};

use libc::{off_t, size_t, ssize_t};
use rustix::io::Errno;

use crate::counter::Reason;
use crate::file::{self, Sync};
use crate::forward::Outcome;
use crate::hook::answer_int;
use crate::hook::next::sys::hook;
use crate::sys;

/// For functions that return the error number.
fn numbered(outcome: Outcome, next: impl FnOnce() -> c_int) -> c_int {
    match outcome {
        Outcome::Moved(_) => 0,
        // The C library has another way to allocate.
        Outcome::Failed(Errno::OPNOTSUPP) | Outcome::Native => next(),
        Outcome::Failed(errno) => errno.raw_os_error(),
    }
}

hook! {
    /// `fsync(2)`.
    fn fsync(number: c_int) -> c_int = -1, |next| {
        answer_int(file::sync(number, Sync::Everything), next)
    }

    /// `fdatasync(2)`.
    fn fdatasync(number: c_int) -> c_int = -1, |next| {
        answer_int(file::sync(number, Sync::Data), next)
    }

    /// `ftruncate(2)`.
    fn ftruncate(number: c_int, size: off_t) -> c_int = -1, |next| {
        answer_int(file::truncate(number, size), next)
    }

    /// `ftruncate(2)`.
    fn ftruncate64(number: c_int, size: off_t) -> c_int = -1, |next| {
        answer_int(file::truncate(number, size), next)
    }

    /// `fallocate(2)`.
    fn fallocate(number: c_int, mode: c_int, offset: off_t, length: off_t) -> c_int = -1, |next| {
        answer_int(file::allocate(number, mode, offset, length), next)
    }

    /// `fallocate(2)`.
    fn fallocate64(number: c_int, mode: c_int, offset: off_t, length: off_t) -> c_int = -1, |next| {
        answer_int(file::allocate(number, mode, offset, length), next)
    }

    /// `posix_fallocate(3)`.
    fn posix_fallocate(number: c_int, offset: off_t, length: off_t) -> c_int = libc::ENOSYS, |next| {
        numbered(file::allocate(number, 0, offset, length), next)
    }

    /// `posix_fallocate(3)`.
    fn posix_fallocate64(number: c_int, offset: off_t, length: off_t) -> c_int = libc::ENOSYS, |next| {
        numbered(file::allocate(number, 0, offset, length), next)
    }

    /// `posix_fadvise(2)`.
    fn posix_fadvise(number: c_int, offset: off_t, length: off_t, advice: c_int) -> c_int = libc::ENOSYS, |next| {
        numbered(file::advise(number, offset, length, advice), next)
    }

    /// `posix_fadvise(2)`.
    fn posix_fadvise64(number: c_int, offset: off_t, length: off_t, advice: c_int) -> c_int = libc::ENOSYS, |next| {
        numbered(file::advise(number, offset, length, advice), next)
    }
}

hook! {
    /// `sendfile(2)`, to count.
    fn sendfile(to: c_int, from: c_int, offset: *mut off_t, length: size_t) -> ssize_t = -1, |next| {
        file::note(from, Reason::KernelCopy);
        next()
    }

    /// As [`sendfile`].
    fn sendfile64(to: c_int, from: c_int, offset: *mut off_t, length: size_t) -> ssize_t = -1, |next| {
        file::note(from, Reason::KernelCopy);
        next()
    }

    /// `copy_file_range(2)`, to count.
    fn copy_file_range(
        from: c_int, from_offset: *mut off_t, to: c_int, to_offset: *mut off_t, length: size_t, flags: c_uint
    ) -> ssize_t = -1, |next| {
        file::note(from, Reason::KernelCopy);
        next()
    }

    /// `splice(2)`, to count: one of the two is a pipe.
    fn splice(
        from: c_int, from_offset: *mut off_t, to: c_int, to_offset: *mut off_t, length: size_t, flags: c_uint
    ) -> ssize_t = -1, |next| {
        file::note(from, Reason::KernelCopy);
        file::note(to, Reason::KernelCopy);
        next()
    }
}

/// `mmap(2)`, to count: pages of a mapping move when the program touches them. The kernel is called
/// directly, because an allocator may map memory while its own symbols are being looked up.
///
/// # Safety
/// As for the C library's function.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[cfg_attr(test, allow(dead_code, reason = "tests do not stand before the C library"))]
unsafe extern "C" fn mmap(
    address: *mut c_void,
    length: size_t,
    access: c_int,
    flags: c_int,
    number: c_int,
    offset: off_t,
) -> *mut c_void {
    if flags & libc::MAP_ANONYMOUS == 0 {
        file::note(number, Reason::Mapping);
    }
    // SAFETY: the arguments are the caller's, who vouches for them.
    unsafe { sys::map(address, length, access, flags, number, offset) }
}

/// As [`mmap`].
///
/// # Safety
/// As for the C library's function.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[cfg_attr(test, allow(dead_code, reason = "tests do not stand before the C library"))]
unsafe extern "C" fn mmap64(
    address: *mut c_void,
    length: size_t,
    access: c_int,
    flags: c_int,
    number: c_int,
    offset: off_t,
) -> *mut c_void {
    // SAFETY: as there.
    unsafe { mmap(address, length, access, flags, number, offset) }
}
