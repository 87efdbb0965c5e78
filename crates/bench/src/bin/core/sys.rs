//! The system's allocator, counting how often it is asked, and its clock of processor time.
//!
//! The clock is the C library's, because rustix looks for the kernel's own code for it where
//! valgrind has put something else.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ffi::{c_int, c_long};
use std::sync::atomic::{AtomicU64, Ordering};

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

/// Allocations and reallocations so far.
pub(crate) fn allocation_count() -> u64 {
    ALLOCATIONS.load(Ordering::Relaxed)
}

/// Counts, and leaves the work to [`System`].
pub(crate) struct Counting;

// SAFETY: every call goes to `System` with the caller's own arguments; counting touches no memory
// that is handed out.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps `GlobalAlloc::alloc`'s contract, which is `System`'s too.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, address: *mut u8, layout: Layout) {
        // SAFETY: `address` came from `System` with this layout, through `alloc` or `realloc`.
        unsafe { System.dealloc(address, layout) }
    }

    unsafe fn realloc(&self, address: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: `address` came from `System` with this layout; `size` is as the caller promises.
        unsafe { System.realloc(address, layout, size) }
    }
}

/// The kernel's `struct timespec` on 64-bit machines.
#[repr(C)]
struct Timespec {
    seconds: c_long,
    nanoseconds: c_long,
}

const CLOCK_PROCESS_CPUTIME_ID: c_int = 2;

unsafe extern "C" {
    fn clock_gettime(clock: c_int, time: *mut Timespec) -> c_int;
}

/// Processor time of this process: what others do to the machine does not count.
pub(crate) fn processor_ns() -> u64 {
    let mut now = Timespec { seconds: 0, nanoseconds: 0 };
    // SAFETY: `now` is a timespec that lives through the call.
    let result = unsafe { clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &mut now) };
    assert_eq!(result, 0, "every Linux has this clock");
    now.seconds.unsigned_abs() * 1_000_000_000 + now.nanoseconds.unsigned_abs()
}
