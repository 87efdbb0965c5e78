//! The C symbols, and everything that touches a pointer of the program.
//!
//! `agios_gekkofs_*` are what `agios-gekkofs/agios.h` calls `agios_*`.

use std::ffi::{CStr, OsStr, c_char, c_void};
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Once;

use crate::door::{self, Failure};
use crate::metrics::Snapshot;

/// `void *f(int64_t req_id)`. What call-backs return means nothing.
pub(crate) type One = unsafe extern "C" fn(i64) -> *mut c_void;
/// `void *f(int64_t *reqs, int32_t reqnb)`
pub(crate) type Several = unsafe extern "C" fn(*mut i64, i32) -> *mut c_void;
/// `void *f(int64_t req_id, void *user_info)`
pub(crate) type Own = unsafe extern "C" fn(i64, *mut c_void) -> *mut c_void;

/// What the program gave to `agios_init`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallBacks {
    pub(crate) one: Option<One>,
    pub(crate) several: Option<Several>,
}

/// What a request brought for itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnCallBack {
    function: Own,
    info: *mut c_void,
}

// SAFETY: the pointer is only handed back to the program, on the thread that calls back, which the
// header says; what it points to is the program's affair.
unsafe impl Send for OwnCallBack {}

impl CallBacks {
    /// It is the turn of these requests, at least one.
    pub(crate) fn call(&self, identifiers: &mut [i64]) {
        if let (Some(several), [_, _, ..]) = (self.several, &*identifiers) {
            let count = i32::try_from(identifiers.len()).expect("batches are small");
            // SAFETY: the program promised a function of this type; the array lives until it returns.
            unsafe { several(identifiers.as_mut_ptr(), count) };
            return;
        }
        if let Some(one) = self.one {
            for identifier in identifiers {
                // SAFETY: the program promised a function of this type.
                unsafe { one(*identifier) };
            }
        }
    }
}

impl OwnCallBack {
    /// It is this request's turn.
    pub(crate) fn call(&self, identifier: i64) {
        // SAFETY: the program promised a function of this type, and that it may have `info`.
        unsafe { (self.function)(identifier, self.info) };
    }
}

/// See `agios.h`.
///
/// # Safety
/// As the header says: functions of the right types, `config_file` a C string or null.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn agios_init(
    process_request_user: Option<One>,
    process_requests_user: Option<Several>,
    config_file: *mut c_char,
    max_queue_id: i32,
) -> bool {
    let call_backs = CallBacks { one: process_request_user, several: process_requests_user };
    answer(|| {
        if call_backs.one.is_none() {
            return Err(door::refuse("agios_init: the first call-back is NULL"));
        }
        // SAFETY: the caller's promise.
        unsafe { init(call_backs, config_file, max_queue_id) }
    })
}

/// `agios_init` of `agios-gekkofs/agios.h`.
///
/// # Safety
/// As for [`agios_init`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn agios_gekkofs_init(
    process_request_user: Option<One>,
    process_requests_user: Option<Several>,
    config_file: *mut c_char,
    max_queue_id: i32,
) -> bool {
    let call_backs = CallBacks { one: process_request_user, several: process_requests_user };
    // SAFETY: the caller's promise.
    answer(|| unsafe { init(call_backs, config_file, max_queue_id) })
}

/// See `agios.h`.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn agios_exit() {
    answer(door::exit);
}

/// See `agios.h`.
///
/// # Safety
/// `file_id` is a C string or null.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn agios_add_request(
    file_id: *mut c_char,
    r#type: i32,
    offset: i64,
    len: i64,
    identifier: i64,
    queue_id: i32,
) -> bool {
    answer(|| {
        // SAFETY: the caller's promise.
        let file = unsafe { name(file_id) }?;
        door::add(file, r#type, offset, len, identifier, queue_id, None)
    })
}

/// `agios_add_request` of `agios-gekkofs/agios.h`.
///
/// # Safety
/// `file_id` is a C string or null, `user_callback` of the right type or null; it may be called
/// with `user_info` until the request is released, cancelled, or the library ends.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn agios_gekkofs_add_request(
    file_id: *mut c_char,
    r#type: i32,
    offset: i64,
    len: i64,
    identifier: i64,
    queue_id: i32,
    user_callback: Option<Own>,
    user_info: *mut c_void,
) -> bool {
    let own = user_callback.map(|function| OwnCallBack { function, info: user_info });
    answer(|| {
        // SAFETY: the caller's promise.
        let file = unsafe { name(file_id) }?;
        door::add(file, r#type, offset, len, identifier, queue_id, own)
    })
}

/// See `agios.h`.
///
/// # Safety
/// `file_id` is a C string or null.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn agios_release_request(
    file_id: *mut c_char,
    r#type: i32,
    len: i64,
    offset: i64,
) -> bool {
    // SAFETY: the caller's promise.
    answer(|| door::release(unsafe { name(file_id) }?, r#type, len, offset))
}

/// See `agios.h`.
///
/// # Safety
/// `file_id` is a C string or null.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn agios_cancel_request(
    file_id: *mut c_char,
    r#type: i32,
    len: i64,
    offset: i64,
) -> bool {
    // SAFETY: the caller's promise.
    answer(|| door::cancel(unsafe { name(file_id) }?, r#type, len, offset))
}

/// See `agios.h`.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn agios_get_metrics_and_reset() -> *mut Snapshot {
    let mut metrics = std::ptr::null_mut();
    answer(|| {
        // SAFETY: allocating has no precondition.
        let memory = unsafe { libc::malloc(size_of::<Snapshot>()) }.cast::<Snapshot>();
        if memory.is_null() {
            return Err(Failure::NoMemory);
        }
        match door::metrics() {
            Ok(snapshot) => {
                // SAFETY: malloc gave enough for one and aligns for every type of C.
                unsafe { memory.write(snapshot) };
                metrics = memory;
                Ok(())
            }
            Err(failure) => {
                // SAFETY: it came from malloc above and nobody has it.
                unsafe { libc::free(memory.cast()) };
                Err(failure)
            }
        }
    });
    metrics
}

/// Has `handler` called in every child that this process forks, from the first call on.
pub(crate) fn run_in_forked_child(handler: extern "C" fn()) {
    static ONCE: Once = Once::new();
    // SAFETY: the handler is a plain function that lives as long as this library, and the C
    // library drops it when this one is unloaded. Without memory for it nothing is registered.
    ONCE.call_once(|| _ = unsafe { libc::pthread_atfork(None, None, Some(handler)) });
}

/// # Safety
/// `config_file` is a C string or null.
unsafe fn init(
    call_backs: CallBacks,
    config_file: *mut c_char,
    max_queue_id: i32,
) -> Result<(), Failure> {
    let named = match config_file.is_null() {
        true => &[],
        // SAFETY: not null, so a C string.
        false => unsafe { CStr::from_ptr(config_file) }.to_bytes(),
    };
    let path = (!named.is_empty()).then(|| Path::new(OsStr::from_bytes(named)));
    door::init(call_backs, path, max_queue_id)
}

/// # Safety
/// `file_id` is null or a C string that outlives the answer.
unsafe fn name<'a>(file_id: *mut c_char) -> Result<&'a [u8], Failure> {
    if file_id.is_null() {
        return Err(Failure::Invalid);
    }
    // SAFETY: not null, so a C string.
    Ok(unsafe { CStr::from_ptr(file_id) }.to_bytes())
}

/// Makes a result C's: `true`, or `false` with errno. A panic is a defect of ours, and does not
/// cross into the program.
fn answer(call: impl FnOnce() -> Result<(), Failure>) -> bool {
    let result = catch_unwind(AssertUnwindSafe(call)).unwrap_or(Err(Failure::Broken));
    let Err(failure) = result else { return true };
    // SAFETY: errno is this thread's own.
    unsafe { *libc::__errno_location() = failure.errno() };
    false
}
