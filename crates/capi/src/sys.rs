//! The functions of `forebay.h`.
//!
//! Each reads its pointers, does its work inside [`guarded`], and answers with a number: 0 or more
//! for success, a negative errno for failure. No panic leaves it.

use core::ffi::{CStr, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

use forebay_controller::{Detail, FileKey, Outcome, Ticket, Turn};
use forebay_units::Bytes;
use std::os::fd::AsRawFd;

use crate::abi::*;
use crate::defaults::{COUNTERS_BYTES, OPTIONS_BYTES, SHARE_BYTES, default_options, default_share};
use crate::delivery::{self, CallBacks};
use crate::failure::{self, Failure};
use crate::handle::{forebay, timeout};
use crate::outside::{self, Outside};
use crate::pointer::{given, null, put, put_sized, sized, text};
use crate::statistics;

/// Runs a call; its number, or the negative errno of what went wrong.
fn guarded(call: impl FnOnce() -> Result<c_int, Failure>) -> c_int {
    // What a panic leaves behind is a poisoned lock, which every later call reports.
    let outcome = catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|_| {
        Err(Failure::new(libc::ENOTRECOVERABLE, "the library has failed; this is a bug of it"))
    });
    outcome.unwrap_or_else(|failure| {
        failure::keep(&failure);
        -failure.errno()
    })
}

/// The version of the library, as `FOREBAY_VERSION` is of the header.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_version() -> u32 {
    FOREBAY_VERSION
}

/// What went wrong in this thread's latest call that failed, for people: it names the value and what
/// would be possible. Valid until the thread's next failure; never NULL.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_message() -> *const c_char {
    failure::latest()
}

/// Fills in the defaults. `size` is `sizeof(struct forebay_options)`.
///
/// # Safety
/// `options` is null or good for writing `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_options_init(options: *mut forebay_options, size: usize) -> c_int {
    guarded(|| {
        // SAFETY: the caller vouches for it.
        unsafe { put_sized("options", options, size, OPTIONS_BYTES, default_options()) }.map(|()| 0)
    })
}

/// Fills in the defaults. `size` is `sizeof(struct forebay_share)`.
///
/// # Safety
/// `share` is null or good for writing `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_share_init(share: *mut forebay_share, size: usize) -> c_int {
    // SAFETY: the caller vouches for it.
    guarded(|| unsafe { put_sized("share", share, size, SHARE_BYTES, default_share()) }.map(|()| 0))
}

/// Makes a controller. `options` may be NULL for the defaults.
///
/// # Safety
/// `options` is null or initialised, its texts are C strings; `controller` is null or good for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_create(
    options: *const forebay_options,
    controller: *mut *mut forebay,
) -> c_int {
    guarded(|| {
        if controller.is_null() {
            return Err(null("controller"));
        }
        let defaults = default_options();
        let options = match options.is_null() {
            true => defaults,
            // SAFETY: not null, and the caller vouches for it.
            false => unsafe { sized("options", options, OPTIONS_BYTES, defaults) }?,
        };
        // SAFETY: a C string, as the caller vouches.
        let policy = unsafe { text("policy", options.policy) }?;
        let settings = match options.settings.is_null() {
            true => "",
            // SAFETY: as above.
            false => unsafe { text("settings", options.settings) }?,
        };
        let made = forebay::create(&options, policy, settings, CallBacks::of(&options)?)?;
        // SAFETY: not null, good for writing as the caller vouches.
        unsafe { controller.write(Box::into_raw(made)) };
        Ok(0)
    })
}

/// Ends a controller, which must have no request: drain it before. No other thread may use it any more,
/// not even to return from a call: a drain does not wait for threads that are about to return from one,
/// so join them. NULL does nothing. After a failure the controller is still there: -EBUSY, or the errno of
/// a trace that could not be written to its end; the next call then ends it.
///
/// # Safety
/// `controller` is null or a controller that nobody uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_destroy(controller: *mut forebay) -> c_int {
    guarded(|| {
        if controller.is_null() {
            return Ok(0);
        }
        // SAFETY: the caller vouches for it. While it is not closed, others may still use it.
        unsafe { given("controller", controller.cast_const()) }?.close()?;
        // SAFETY: it was made by `forebay_create`, and nobody else uses it.
        drop(unsafe { Box::from_raw(controller) });
        Ok(0)
    })
}

/// The key of a file that is known by its name: a hash of 128 bits.
///
/// # Safety
/// `name` is null or a C string; `file` is null or good for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_file_of_name(
    name: *const c_char,
    file: *mut forebay_file,
) -> c_int {
    guarded(|| {
        if name.is_null() {
            return Err(null("name"));
        }
        // SAFETY: a C string, as the caller vouches.
        let FileKey { high, low } = FileKey::of_name(unsafe { CStr::from_ptr(name) }.to_bytes());
        // SAFETY: the caller vouches for it.
        unsafe { put("file", file, forebay_file { high, low }) }.map(|()| 0)
    })
}

/// Submits a request. It may be dispatched, and even complete, before this returns. `ticket` may be
/// NULL if the request is never to be cancelled or waited for; its turn has the ticket too.
///
/// # Safety
/// `controller` and `request` are null or valid; `ticket` is null or good for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_submit(
    controller: *mut forebay,
    request: *const forebay_request,
    ticket: *mut u64,
) -> c_int {
    guarded(|| {
        // SAFETY: the caller vouches for both.
        let (this, request) =
            unsafe { (given("controller", controller.cast_const())?, given("request", request)?) };
        let given = this.submit(request)?;
        if !ticket.is_null() {
            // SAFETY: not null, good for writing as the caller vouches.
            unsafe { ticket.write(given.0) };
        }
        Ok(0)
    })
}

/// Says that a dispatched request is over: with the number of bytes that it moved, or a negative errno.
/// More bytes than it asked for count as what it asked for, without an end as 2^31 - 4096.
/// As every call that finds something to dispatch, it may call back before it returns, even if it fails.
///
/// # Safety
/// `controller` is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_complete(
    controller: *mut forebay,
    ticket: u64,
    result: i64,
) -> c_int {
    guarded(|| {
        // SAFETY: the caller vouches for it.
        let this = unsafe { given("controller", controller.cast_const()) }?;
        let outcome = match u64::try_from(result) {
            Ok(moved) => Outcome::Moved(Bytes(moved)),
            Err(_) => Outcome::Failed(u16::try_from(result.unsigned_abs()).unwrap_or(u16::MAX)),
        };
        this.controller().complete(Ticket(ticket), outcome)?;
        Ok(0)
    })
}

/// Takes back a request that has not been dispatched. -EBUSY if it has been: it is to be completed.
/// With polling, that may be before `forebay_poll` hands it out: a batch is dispatched as a whole.
///
/// # Safety
/// `controller` is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_cancel(controller: *mut forebay, ticket: u64) -> c_int {
    guarded(|| {
        // SAFETY: the caller vouches for it.
        unsafe { given("controller", controller.cast_const()) }?
            .controller()
            .cancel(Ticket(ticket))?;
        Ok(0)
    })
}

/// Sleeps until it is the turn of a request that was submitted with `FOREBAY_WAIT`, at most
/// `timeout_ns`; for ever if that is negative. The caller then carries it out and completes it.
///
/// # Safety
/// `controller` is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_wait(
    controller: *mut forebay,
    ticket: u64,
    timeout_ns: i64,
) -> c_int {
    guarded(|| {
        // SAFETY: the caller vouches for it.
        let this = unsafe { given("controller", controller.cast_const()) }?;
        this.controller().wait(Ticket(ticket), timeout(timeout_ns))?;
        Ok(0)
    })
}

/// Asks what may go now: at most `capacity` requests of one batch, into `turns`; `batch` describes
/// them. Returns how many, 0 if nothing may go. For controllers that deliver by polling.
///
/// # Safety
/// `controller` is null or valid; `turns` is null or good for writing `capacity` turns, `batch` for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_poll(
    controller: *mut forebay,
    batch: *mut forebay_batch,
    turns: *mut forebay_turn,
    capacity: u32,
) -> c_int {
    guarded(|| {
        // SAFETY: the caller vouches for it.
        let this = unsafe { given("controller", controller.cast_const()) }?;
        if batch.is_null() || turns.is_null() {
            return Err(null(if batch.is_null() { "batch" } else { "turns" }));
        }
        let most = capacity.min(i32::MAX as u32) as usize;
        let mut found = Vec::new();
        let Some(polled) = this.controller().poll(most, &mut found)? else { return Ok(0) };
        let described = forebay_batch { turns, ..delivery::describe(&polled) };
        // SAFETY: `turns` has room for `capacity` turns, and there are no more; the layouts of both
        // kinds of turns are the same, as `delivery` asserts.
        unsafe {
            core::ptr::copy_nonoverlapping(
                polled.turns.as_ptr(),
                turns.cast::<Turn>(),
                polled.turns.len(),
            );
            batch.write(described);
        }
        Ok(described.count as c_int)
    })
}

/// A descriptor that is readable when `forebay_poll` may find something. Not to be read or closed.
///
/// # Safety
/// `controller` is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_descriptor(controller: *mut forebay) -> c_int {
    guarded(|| {
        // SAFETY: the caller vouches for it.
        let this = unsafe { given("controller", controller.cast_const()) }?;
        Ok(this.controller().descriptor()?.as_raw_fd())
    })
}

/// Says something ahead of time, `FOREBAY_HINT_...`: never changes what is right, only what is quick.
/// `file` is looked at by `FOREBAY_HINT_FORGET`, `ns` by `FOREBAY_HINT_MORE`.
///
/// # Safety
/// `controller` and `file` are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_hint(
    controller: *mut forebay,
    hint: u32,
    file: *const forebay_file,
    ns: u64,
) -> c_int {
    guarded(|| {
        // SAFETY: the caller vouches for both.
        let (this, file) =
            unsafe { (given("controller", controller.cast_const())?, file.as_ref().copied()) };
        this.hint(hint, file, ns).map(|()| 0)
    })
}

/// Takes no more requests, dispatches what waits, and sleeps until nothing is alive, at most
/// `timeout_ns`; for ever if that is negative. Then, and after -ETIMEDOUT, requests are taken again.
/// With polling, another thread has to go on polling meanwhile.
///
/// # Safety
/// `controller` is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_drain(controller: *mut forebay, timeout_ns: i64) -> c_int {
    guarded(|| {
        // SAFETY: the caller vouches for it.
        let this = unsafe { given("controller", controller.cast_const()) }?;
        this.controller().drain(timeout(timeout_ns))?;
        Ok(0)
    })
}

/// Takes back everything that has not been dispatched, and calls `on_back` for each request in the
/// order of arrival; their tickets are void. Returns how many. `on_back` may be NULL.
///
/// # Safety
/// `controller` is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_take_back(
    controller: *mut forebay,
    on_back: forebay_back_fn,
    user: *mut c_void,
) -> c_int {
    guarded(|| {
        // SAFETY: the caller vouches for it.
        let this = unsafe { given("controller", controller.cast_const()) }?;
        let turns = this.controller().take_back()?;
        for turn in &turns {
            if let Some(on_back) = on_back {
                // SAFETY: the program's own function, with a turn that lives until it returns.
                unsafe { on_back(core::ptr::from_ref(turn).cast(), user) };
            }
        }
        Ok(c_int::try_from(turns.len()).unwrap_or(c_int::MAX))
    })
}

/// Changes a setting while the controller works: `policy` (a name, or a path with a slash), that of a
/// class (`class.7.policy`), `device` (`disk` or `flash`, for policy `auto` and cost `time`), `depth`,
/// how classes share, or a parameter; forebay(3) lists them. After a failure nothing has changed.
///
/// # Safety
/// `controller` is null or valid; `key` and `value` are null or C strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_set(
    controller: *mut forebay,
    key: *const c_char,
    value: *const c_char,
) -> c_int {
    guarded(|| {
        // SAFETY: the caller vouches for all three.
        let (this, key, value) = unsafe {
            (
                given("controller", controller.cast_const())?,
                text("key", key)?,
                text("value", value)?,
            )
        };
        this.set(key, value).map(|()| 0)
    })
}

/// Puts a policy of the program in charge. The functions must stay until the controller is gone.
///
/// # Safety
/// `controller` is null or valid; `ops` is null or a table of the size that it begins with.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_use_policy(
    controller: *mut forebay,
    ops: *const forebay_policy_ops,
    user: *mut c_void,
) -> c_int {
    guarded(|| {
        // SAFETY: the caller vouches for both.
        let (this, (ops, name)) =
            unsafe { (given("controller", controller.cast_const())?, outside::read_ops(ops)?) };
        this.use_policy(Outside::new(ops, name, user, None)?).map(|()| 0)
    })
}

/// Gives a class its share from now on; NULL takes it back. -EINVAL without `sharing`.
///
/// # Safety
/// `controller` is null or valid; `share` is null or initialised.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_set_class(
    controller: *mut forebay,
    class_id: u32,
    share: *const forebay_share,
) -> c_int {
    guarded(|| {
        // SAFETY: the caller vouches for both.
        let (this, share) =
            unsafe { (given("controller", controller.cast_const())?, optional(share)?) };
        this.set_class(class_id, share.as_ref()).map(|()| 0)
    })
}

/// Gives a group of classes its share from now on; NULL takes it back.
///
/// # Safety
/// `controller` is null or valid; `share` is null or initialised.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_set_group(
    controller: *mut forebay,
    group: u32,
    share: *const forebay_share,
) -> c_int {
    guarded(|| {
        // SAFETY: the caller vouches for both.
        let (this, share) =
            unsafe { (given("controller", controller.cast_const())?, optional(share)?) };
        this.set_group(group, share.as_ref()).map(|()| 0)
    })
}

/// A share, if one is given.
///
/// # Safety
/// The pointer is null or points to an initialised share.
unsafe fn optional(share: *const forebay_share) -> Result<Option<forebay_share>, Failure> {
    if share.is_null() {
        return Ok(None);
    }
    // SAFETY: not null, and the caller vouches for it.
    unsafe { sized("share", share, SHARE_BYTES, default_share()) }.map(Some)
}

/// Reads the counters; `size` is `sizeof(struct forebay_counters)`. Never waits for a lock, but may call
/// back before it returns, if there is something to dispatch.
///
/// # Safety
/// `controller` is null or valid; `counters` is null or good for writing `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_read_counters(
    controller: *mut forebay,
    counters: *mut forebay_counters,
    size: usize,
) -> c_int {
    guarded(|| {
        // SAFETY: the caller vouches for it.
        let this = unsafe { given("controller", controller.cast_const()) }?;
        let state = this.controller().snapshot(Detail::Counters)?;
        // SAFETY: the caller vouches for it.
        unsafe {
            put_sized("counters", counters, size, COUNTERS_BYTES, statistics::counters(&state))
        }
        .map(|()| 0)
    })
}

/// Writes counters, classes, accounts and why policy `auto` has chosen as it has, as JSON, ended by a
/// zero byte, if `size` bytes are enough; forebay(3) lists the members. Returns how many bytes are
/// needed, the zero byte included: if more than `size`, nothing was written. Never waits for a lock,
/// but may call back before it returns, if there is something to dispatch.
///
/// # Safety
/// `controller` is null or valid; `buffer` is good for writing `size` bytes, or null with a size of 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_statistics(
    controller: *mut forebay,
    buffer: *mut c_char,
    size: usize,
) -> c_int {
    guarded(|| {
        // SAFETY: the caller vouches for it.
        let this = unsafe { given("controller", controller.cast_const()) }?;
        if buffer.is_null() && size > 0 {
            return Err(null("buffer"));
        }
        let text = this.statistics()?;
        let needed = text.len() + 1;
        if needed <= size {
            // SAFETY: `buffer` is good for `size` bytes, and no more are needed.
            unsafe {
                core::ptr::copy_nonoverlapping(text.as_ptr(), buffer.cast::<u8>(), text.len());
                buffer.add(text.len()).write(0);
            }
        }
        Ok(c_int::try_from(needed).unwrap_or(c_int::MAX))
    })
}

/// Records every submission, decision and completion in a file, with at most `memory` bytes, 128 KiB
/// to 1 GiB, on their way to it. What the disk is too slow for is lost, and the trace says how much.
///
/// # Safety
/// `controller` is null or valid; `path` is null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_record(
    controller: *mut forebay,
    path: *const c_char,
    memory: u64,
) -> c_int {
    guarded(|| {
        // SAFETY: the caller vouches for both.
        let (this, path) =
            unsafe { (given("controller", controller.cast_const())?, text("path", path)?) };
        this.record(path, memory).map(|()| 0)
    })
}

/// Ends the recording. How many events were recorded and lost; both may be NULL.
///
/// # Safety
/// `controller` is null or valid; `events` and `lost` are null or good for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_end_record(
    controller: *mut forebay,
    events: *mut u64,
    lost: *mut u64,
) -> c_int {
    guarded(|| {
        // SAFETY: the caller vouches for it.
        let this = unsafe { given("controller", controller.cast_const()) }?;
        let totals = this.end_record()?;
        for (pointer, value) in [(events, totals.events), (lost, totals.lost_events)] {
            if !pointer.is_null() {
                // SAFETY: not null, good for writing as the caller vouches.
                unsafe { pointer.write(value) };
            }
        }
        Ok(0)
    })
}
