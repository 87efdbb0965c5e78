//! Calling a policy from outside, and loading one.

use core::ffi::{CStr, c_int, c_void};
use std::ffi::CString;
use std::sync::Arc;

use forebay_sched::{Accepted, Policy, RequestId, Requests, Selection};
use forebay_units::{Bytes, FileIndex, Timestamp};

use super::{NAME_BYTES_MAX, Outside, POLICY, SYMBOL};
use crate::abi::{
    FOREBAY_POLICY_VERSION, FOREBAY_SELECT_BATCH, FOREBAY_SELECT_IDLE, FOREBAY_SELECT_WAIT,
    forebay_policy_ops, forebay_policy_request,
};
use crate::failure::Failure;
use crate::handle::operation_of;

/// Most requests in a batch of a policy from outside.
const CHOSEN_MAX: usize = 1_024;

/// Names no request: what stands for an answer that makes no sense, so that it is found out.
const NOTHING: RequestId = RequestId(u64::MAX);

// SAFETY: `user` and the functions are handed to a policy that was told to expect any thread
// (forebay.h, `struct forebay_policy_ops`); nothing else in it is a pointer that we follow.
unsafe impl Send for Outside {}
// SAFETY: as above, and nothing changes in it.
unsafe impl Sync for Outside {}

/// Reads a table of functions and its name.
///
/// # Safety
/// `ops` is null or points to a table as forebay.h has it, whose `name` is null or a C string.
pub(crate) unsafe fn read_ops(
    ops: *const forebay_policy_ops,
) -> Result<(forebay_policy_ops, String), Failure> {
    if ops.is_null() {
        return Err(Failure::invalid("ops = NULL: a table of functions is needed"));
    }
    // SAFETY: not null, and every version of the table begins with size and version.
    let (size, version) = unsafe { ((*ops).size, (*ops).version) };
    if version != FOREBAY_POLICY_VERSION || size < size_of::<forebay_policy_ops>() {
        return Err(Failure::new(
            libc::EPROTONOSUPPORT,
            format_args!(
                "policy: table of version {version} and {size} bytes; this library needs version \
                 {FOREBAY_POLICY_VERSION} and at least {}: build the policy against its forebay.h",
                size_of::<forebay_policy_ops>()
            ),
        ));
    }
    // SAFETY: the table is at least as large as ours and of our version.
    let ops = unsafe { ops.read() };
    if ops.name.is_null() {
        return Err(Failure::invalid("policy: name is NULL; it is needed"));
    }
    // SAFETY: the caller vouches for a C string.
    let name = unsafe { CStr::from_ptr(ops.name) }.to_string_lossy().into_owned();
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        return Err(Failure::invalid(format_args!(
            "policy: a name of {} bytes; 1 to {NAME_BYTES_MAX} are possible",
            name.len()
        )));
    }
    Ok((ops, name))
}

/// A shared library, open.
pub(crate) struct Library(*mut c_void);

impl Drop for Library {
    fn drop(&mut self) {
        // SAFETY: the handle is open, and no policy of the library is left: each holds its `Outside`.
        unsafe { libc::dlclose(self.0) };
    }
}

impl Library {
    pub(crate) fn open(path: &str) -> Result<Self, Failure> {
        let name = CString::new(path)
            .map_err(|_| Failure::invalid("policy: a path holds no byte of value 0"))?;
        // SAFETY: a C string; the library's own initialisers are the program's to trust.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() {
            return Err(Failure::new(libc::ELIBACC, format_args!("policy: {}", problem())));
        }
        Ok(Self(handle))
    }

    /// The table that it exports.
    pub(crate) fn policy(&self, path: &str) -> Result<(forebay_policy_ops, String), Failure> {
        // SAFETY: the handle is open and the name a C string.
        let symbol = unsafe { libc::dlsym(self.0, SYMBOL.as_ptr()) };
        if symbol.is_null() {
            return Err(Failure::new(
                libc::ELIBBAD,
                format_args!(
                    "policy: {path} has no `forebay_policy`; it needs a const struct forebay_policy_ops of that name"
                ),
            ));
        }
        // SAFETY: a symbol of this name is such a table: that is what the name says (forebay(3)).
        unsafe { read_ops(symbol.cast()) }
    }
}

/// What the loader says about its latest failure.
fn problem() -> String {
    // SAFETY: `dlerror` gives null or a C string that lives until this thread's next call of it.
    unsafe {
        let text = libc::dlerror();
        if text.is_null() {
            String::new()
        } else {
            CStr::from_ptr(text).to_string_lossy().into_owned()
        }
    }
}

/// A policy from outside at work.
struct OutsidePolicy {
    outside: Arc<Outside>,
    state: *mut c_void,
    chosen: Vec<u64>,
}

// SAFETY: the state is used by one thread at a time, as `&mut self` has it, and the policy was told
// to expect any (forebay.h, `struct forebay_policy_ops`).
unsafe impl Send for OutsidePolicy {}

impl Outside {
    /// A fresh policy that holds nothing.
    pub(crate) fn policy(self: &Arc<Self>) -> Result<Box<dyn Policy>, Failure> {
        let create = self.ops.create.expect("checked when it was read");
        // SAFETY: the policy's own function, called as forebay.h says.
        let state = unsafe { create(self.user) };
        if state.is_null() {
            return Err(Failure::new(
                libc::ENOMEM,
                format_args!("policy {}: create gave NULL", self.name()),
            ));
        }
        Ok(Box::new(OutsidePolicy { outside: Arc::clone(self), state, chosen: Vec::new() }))
    }
}

fn describe(accepted: &Accepted) -> forebay_policy_request {
    let request = &accepted.request;
    forebay_policy_request {
        request: accepted.id.0,
        seq: accepted.seq,
        arrived: accepted.arrived.0,
        offset: request.range.start.0,
        length: request.range.length().0,
        file: request.file.0,
        operation: operation_of(request.access),
        client: request.client.0,
        class_id: request.class.0,
    }
}

impl OutsidePolicy {
    fn ops(&self) -> &forebay_policy_ops {
        &self.outside.ops
    }
}

const NEEDED: &str = "checked when it was read";

impl Policy for OutsidePolicy {
    fn name(&self) -> &'static str {
        POLICY
    }

    fn add(&mut self, now: Timestamp, _: &Requests<'_>, request: &Accepted) {
        let described = describe(request);
        // SAFETY: the policy's own function and state, called as forebay.h says; so below.
        unsafe { self.ops().add.expect(NEEDED)(self.state, now.0, &raw const described) };
    }

    fn select(
        &mut self,
        now: Timestamp,
        _: &Requests<'_>,
        batch: &mut Vec<RequestId>,
    ) -> Selection {
        self.chosen.resize(CHOSEN_MAX, 0);
        let (mut count, mut until) = (0_u32, 0_u64);
        let select = self.ops().select.expect(NEEDED);
        let chosen = self.chosen.as_mut_ptr();
        // SAFETY: `chosen` has room for `CHOSEN_MAX` names.
        let answer = unsafe {
            select(self.state, now.0, chosen, CHOSEN_MAX as u32, &raw mut count, &raw mut until)
        };
        let is_possible = count as usize <= CHOSEN_MAX;
        let named = &self.chosen[..if is_possible { count as usize } else { 0 }];
        batch.extend(named.iter().map(|name| RequestId(*name)));
        match answer {
            FOREBAY_SELECT_BATCH if is_possible => Selection::Batch,
            FOREBAY_SELECT_WAIT => Selection::Wait { until: Timestamp(until) },
            FOREBAY_SELECT_IDLE => Selection::Idle,
            _ => {
                batch.push(NOTHING);
                Selection::Batch
            }
        }
    }

    fn complete(&mut self, now: Timestamp, request: &Accepted, moved: Bytes) {
        if let Some(complete) = self.ops().complete {
            let described = describe(request);
            // SAFETY: as in `add`.
            unsafe { complete(self.state, now.0, &raw const described, moved.0) };
        }
    }

    fn cancel(&mut self, now: Timestamp, _: &Requests<'_>, request: &Accepted) -> bool {
        let described = describe(request);
        // SAFETY: as in `add`.
        let answer: c_int =
            unsafe { self.ops().cancel.expect(NEEDED)(self.state, now.0, &raw const described) };
        answer == 1
    }

    fn drain(&mut self, _: &Requests<'_>, into: &mut Vec<RequestId>) {
        let capacity = usize::try_from(self.count()).unwrap_or(0).min(1 << 25);
        let mut names = vec![0_u64; capacity];
        // SAFETY: `names` has room for `capacity` names.
        let count = unsafe {
            self.ops().drain.expect(NEEDED)(self.state, names.as_mut_ptr(), capacity as u64)
        };
        let count = usize::try_from(count).unwrap_or(usize::MAX).min(capacity);
        into.extend(names[..count].iter().map(|name| RequestId(*name)));
    }

    fn retire(&mut self, file: FileIndex) {
        if let Some(retire) = self.ops().retire {
            // SAFETY: as in `add`.
            unsafe { retire(self.state, file.0) };
        }
    }

    fn queued_count(&self) -> usize {
        usize::try_from(self.count()).unwrap_or(usize::MAX)
    }
}

impl OutsidePolicy {
    fn count(&self) -> u64 {
        // SAFETY: as in `add`.
        unsafe { self.ops().count.expect(NEEDED)(self.state) }
    }
}

impl Drop for OutsidePolicy {
    fn drop(&mut self) {
        // SAFETY: as in `add`; the state is not used again.
        unsafe { self.ops().destroy.expect(NEEDED)(self.state) };
    }
}
