//! See `abi.rs`.
#![allow(non_camel_case_types)]

use core::ffi::{c_char, c_int, c_void};

use crate::handle::forebay;

/// The version of this header: 1,000,000 major + 1,000 minor + patch.
pub const FOREBAY_VERSION: u32 = 1_000;

/// Reads its range; may be merged with adjacent reads.
pub const FOREBAY_READ: u32 = 0;
/// Writes its range; may be merged with adjacent writes.
pub const FOREBAY_WRITE: u32 = 1;
/// Changes its range, and is never merged or reordered by a policy: append, truncate, allocate.
/// With length 0 the range is the whole file from `offset` on.
pub const FOREBAY_ALONE: u32 = 2;
/// Waits for every earlier write of the file, and holds nothing up: fsync. Its range is not looked at.
pub const FOREBAY_SYNC: u32 = 3;

/// A flag of a request: its turn is not delivered; `forebay_wait` sleeps until it comes.
pub const FOREBAY_WAIT: u32 = 1;

/// Batches are delivered by calling back.
pub const FOREBAY_DELIVER_CALL_BACK: u32 = 0;
/// Batches are delivered when `forebay_poll` asks, and `forebay_descriptor` says when to ask.
pub const FOREBAY_DELIVER_POLL: u32 = 1;

/// Requests that share a byte keep their order if one of them writes.
pub const FOREBAY_GUARD_OVERLAP: u32 = 0;
/// As overlap within a client; conflicting requests of different clients exclude each other only.
pub const FOREBAY_GUARD_CLIENT: u32 = 1;
/// Requests of one file keep their order if one of them writes.
pub const FOREBAY_GUARD_FILE: u32 = 2;
/// Nothing but syncs keeps its order: the service has locks of its own.
pub const FOREBAY_GUARD_NONE: u32 = 3;

/// No classes: one policy orders everything.
pub const FOREBAY_SHARE_NONE: u32 = 0;
/// Classes share by start-time fair queueing at any depth, SFQ(D).
pub const FOREBAY_SHARE_SFQ: u32 = 1;
/// Classes share by deficit round robin.
pub const FOREBAY_SHARE_DRR: u32 = 2;
/// TWINS: a class is a data server and has its windows; others wait for theirs.
pub const FOREBAY_SHARE_TWINS_STRICT: u32 = 3;
/// TWINS, and a server that has nothing lends its window after `twins_idle_ns`.
pub const FOREBAY_SHARE_TWINS: u32 = 4;

/// At its limit, a class goes on while nobody else may go, and pays for it later.
pub const FOREBAY_LIMIT_BORROW: u32 = 0;
/// At its limit, a class waits.
pub const FOREBAY_LIMIT_WAIT: u32 = 1;

/// More requests follow at once: hold dispatch back for `ns`, at most 10^9.
pub const FOREBAY_HINT_MORE: u32 = 1;
/// What was to follow is here.
pub const FOREBAY_HINT_NO_MORE: u32 = 2;
/// The file is closed: forget it as soon as it has no request.
pub const FOREBAY_HINT_FORGET: u32 = 3;

/// A policy's answer: what it has put into `chosen` goes now.
pub const FOREBAY_SELECT_BATCH: c_int = 0;
/// A policy's answer: nothing goes until `*until`, or until something changes.
pub const FOREBAY_SELECT_WAIT: c_int = 1;
/// A policy's answer: it holds nothing.
pub const FOREBAY_SELECT_IDLE: c_int = 2;

/// The version of `struct forebay_policy_ops`.
pub const FOREBAY_POLICY_VERSION: u32 = 1;

/// What a file is: any 128 bits that tell the service's files apart, for example device and inode.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct forebay_file {
    /// For example the device number.
    pub high: u64,
    /// For example the inode number.
    pub low: u64,
}

/// A request.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct forebay_request {
    /// The service's own mark, a number or a pointer; handed back with its turn.
    pub id: u64,
    /// Which file.
    pub file: forebay_file,
    /// Where it starts, in bytes.
    pub offset: u64,
    /// How many bytes; it must end at 2^63 - 1 or before. 0 with `FOREBAY_ALONE` for everything
    /// from `offset` on, as an append or a truncation needs it.
    pub length: u64,
    /// `FOREBAY_READ`, `FOREBAY_WRITE`, `FOREBAY_ALONE` or `FOREBAY_SYNC`.
    pub operation: u32,
    /// 0 or `FOREBAY_WAIT`.
    pub flags: u32,
    /// Which client it comes from; any number.
    pub client: u32,
    /// Which class it is accounted to; any number below 2^32 - 1. When `classes_max` classes are
    /// busy or configured, further ones have one place together, which is configured as 2^32 - 1.
    pub class_id: u32,
}

/// A request that may go now.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct forebay_turn {
    /// What `forebay_complete` wants to hear.
    pub ticket: u64,
    /// The service's own mark.
    pub id: u64,
    /// Where it starts, in bytes.
    pub offset: u64,
    /// How many bytes; 0 for everything from `offset` on.
    pub length: u64,
    /// Which client it came from.
    pub client: u32,
    /// Which class it is accounted to.
    pub class_id: u32,
}

/// Requests that may go now, together: one file, one operation, in offset order, without a gap.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct forebay_batch {
    /// Which file.
    pub file: forebay_file,
    /// Where the first starts, in bytes.
    pub offset: u64,
    /// How many bytes they cover together.
    pub length: u64,
    /// What all of them do.
    pub operation: u32,
    /// How many there are; at least 1.
    pub count: u32,
    /// The requests. Each is completed on its own. Valid until the call-back returns, or as long as
    /// the array that was given to `forebay_poll`.
    pub turns: *const forebay_turn,
}

/// Carries a batch out. Called without any lock held, from any thread that calls the library or from
/// a thread of the library, also from several at a time. It may call every function but those that wait.
///
/// It returns: an exception, `longjmp`, `pthread_exit` or cancellation must not leave it. Requests behind
/// it in the same thread may have been decided already, up to 15 batches, so it must not wait for others'.
pub type forebay_batch_fn = Option<
    unsafe extern "C" fn(controller: *mut forebay, batch: *const forebay_batch, user: *mut c_void),
>;

/// Carries one request out; as `forebay_batch_fn`.
pub type forebay_request_fn = Option<
    unsafe extern "C" fn(
        controller: *mut forebay,
        file: *const forebay_file,
        operation: u32,
        turn: *const forebay_turn,
        user: *mut c_void,
    ),
>;

/// Receives a request that was taken back.
pub type forebay_back_fn =
    Option<unsafe extern "C" fn(turn: *const forebay_turn, user: *mut c_void)>;

/// What a controller is made with. `forebay_options_init` fills in the defaults.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct forebay_options {
    /// `sizeof(struct forebay_options)`, by which versions are told apart.
    pub size: usize,
    /// A policy's name (NOOP, TO, TO-agg, SJF, MLF, aIOLi, HBRR, SW), `auto` for whichever fits the
    /// requests, or the path, with a slash, of a shared library that has `forebay_policy`. Default:
    /// "TO-agg".
    pub policy: *const c_char,
    /// `FOREBAY_DELIVER_...`. Default: by calling back.
    pub delivery: u32,
    /// `FOREBAY_GUARD_...`. Default: overlap.
    pub guard: u32,
    /// Called for each batch; or `on_request` is, not both. With neither, every request is waited for.
    pub on_batch: forebay_batch_fn,
    /// Called for each request.
    pub on_request: forebay_request_fn,
    /// Handed to both.
    pub user: *mut c_void,
    /// Most requests that wait, 1 to 2^24; what threads submit at the same moment may exceed it by
    /// 512. Default: 2^20.
    pub queue_requests_max: u64,
    /// A batch leaves while fewer requests than this are in flight, 1 to 2^24. Default: 64.
    pub depth: u64,
    /// Requests longer than this skip the policy; 0 for none. Default: 2 MiB.
    pub large_bytes: u64,
    /// 0: a request steps around an empty queue; 1: never. Default: 0.
    pub no_bypass: u32,
    /// Most requests in a run, 1 to 65536. Default: 64.
    pub run_requests_max: u32,
    /// Largest run in bytes, 4 KiB to 1 GiB. Default: 1 MiB.
    pub run_bytes_max: u64,
    /// Largest batch of several runs in bytes, `run_bytes_max` to 4 GiB. Default: 4 MiB.
    pub batch_bytes_max: u64,
    /// Longest wait for a better batch, 0 to 10^9 ns. Default: 0, right for devices that gain nothing
    /// from order; 900,000 suits disks that seek.
    pub wait_ns: u64,
    /// Files without requests that are remembered. Default: 4,096.
    pub idle_files_max: u64,
    /// `FOREBAY_SHARE_...`. Default: none.
    pub sharing: u32,
    /// Classes that are told apart at a time, 1 to 65000. Default: 1,024.
    pub classes_max: u32,
    /// Most requests of a class that wait, at least 1. Default: 2^18.
    pub class_requests_max: u64,
    /// Length of a TWINS window, 1 us to 60 s. Default: 1 ms.
    pub twins_window_ns: u64,
    /// After how long without requests a TWINS server lends its window, 0 to 60 s. Default: 100 us.
    pub twins_idle_ns: u64,
    /// Data servers that take turns, at least 1; class c is server c mod this. Default: 1.
    pub twins_targets: u32,
    /// Rows of the accounts by class and of those by file, 0 to 65536; 0 keeps none. Default: 0.
    pub account_rows: u32,
    /// Further settings, which hold over the fields above: `KEY=VALUE` with spaces or line ends
    /// between, as `forebay_set` has them, such as "sharing.cost=time class.7.policy=SJF". Default:
    /// NULL for none.
    pub settings: *const c_char,
}

/// The share of a class, or of a group of classes. `forebay_share_init` fills in the defaults: weight
/// 1, no limit, no reservation, no group.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct forebay_share {
    /// `sizeof(struct forebay_share)`.
    pub size: usize,
    /// Its part in proportion to others', 1 to 1,000,000.
    pub weight: u32,
    /// `FOREBAY_LIMIT_...`.
    pub at_limit: u32,
    /// Most requests a second, and how many at once after a pause; 0 a second for no limit.
    pub requests_per_second: u64,
    /// See above.
    pub requests_burst: u64,
    /// Most bytes a second, and how many at once after a pause; 0 a second for no limit.
    pub bytes_per_second: u64,
    /// See above.
    pub bytes_burst: u64,
    /// Cost a second (bytes, unless `sharing.cost` was set) that the class gets before weights are
    /// looked at; 0 for none. Not for groups.
    pub reserved_per_second: u64,
    /// The group of the class; looked at if `has_group` is 1. Not for groups.
    pub group: u32,
    /// 1 if the class is in a group.
    pub has_group: u32,
    /// Most cost a second, and how much at once after a pause; 0 a second for no limit.
    pub cost_per_second: u64,
    /// See above.
    pub cost_burst: u64,
}

/// The state of a controller; all numbers count from its creation, or are gauges where it says so.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct forebay_counters {
    /// `sizeof(struct forebay_counters)`.
    pub size: usize,
    /// Requests accepted.
    pub submitted: u64,
    /// Requests refused because the queue was full, or the class had as many waiting as it may.
    pub rejected: u64,
    /// Of the accepted, those that stepped around the queue.
    pub bypassed: u64,
    /// Of the accepted, those that skipped the policy.
    pub skipped: u64,
    /// Of the accepted, those that had to wait for an earlier conflicting request.
    pub blocked: u64,
    /// Batches that left, bypassed requests not counted.
    pub batches: u64,
    /// Requests that left together with others.
    pub merged: u64,
    /// Decisions to wait for a better batch.
    pub waits: u64,
    /// Time of those waits.
    pub waited_ns: u64,
    /// Time that requests have waited until they were dispatched, summed up.
    pub queued_ns: u64,
    /// Requests completed.
    pub completed: u64,
    /// Requests cancelled.
    pub cancelled: u64,
    /// Requests taken back.
    pub taken_back: u64,
    /// Policy switches.
    pub switches: u64,
    /// Gauge: requests that wait.
    pub queued_now: u64,
    /// Gauge: of them, those that wait for conflicting ones.
    pub blocked_now: u64,
    /// Gauge: requests dispatched and not completed.
    pub in_flight_now: u64,
    /// Gauge: files that are known.
    pub files_now: u64,
    /// 1 if a policy from outside broke its contract and TO has taken its place.
    pub policy_failed: u64,
}

/// A request as a policy from outside sees it.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct forebay_policy_request {
    /// Its name: what `select` and `drain` answer with.
    pub request: u64,
    /// The order of arrival.
    pub seq: u64,
    /// When it arrived, in nanoseconds on the controller's own clock.
    pub arrived: u64,
    /// Where it starts, in bytes.
    pub offset: u64,
    /// How many bytes.
    pub length: u64,
    /// A small number for its file, until `retire`.
    pub file: u32,
    /// `FOREBAY_READ` or `FOREBAY_WRITE`.
    pub operation: u32,
    /// Which client it came from.
    pub client: u32,
    /// Which class it is accounted to.
    pub class_id: u32,
}

/// A policy from outside: a table of functions. None is called by two threads at a time for one
/// `state`, none may call the library, and all must return soon: the controller is locked meanwhile.
///
/// The controller holds the policy to its contract: a request that was added leaves exactly once, by
/// `select`, `cancel` or `drain`. The first breach is reported in `struct forebay_counters`, and TO goes
/// on with everything that has not left.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct forebay_policy_ops {
    /// `sizeof(struct forebay_policy_ops)`.
    pub size: usize,
    /// `FOREBAY_POLICY_VERSION`.
    pub version: u32,
    /// 0.
    pub reserved: u32,
    /// The policy's name, of at most 31 bytes.
    pub name: *const c_char,
    /// Makes a policy that holds nothing; NULL for failure. One is made for each class.
    pub create: Option<unsafe extern "C" fn(user: *mut c_void) -> *mut c_void>,
    /// Ends a policy.
    pub destroy: Option<unsafe extern "C" fn(state: *mut c_void)>,
    /// Takes over a request that may go.
    pub add: Option<
        unsafe extern "C" fn(state: *mut c_void, now: u64, request: *const forebay_policy_request),
    >,
    /// Decides what goes next, `FOREBAY_SELECT_...`: a batch of up to `capacity` requests of one file,
    /// class and operation in offset order without a gap, their names in `chosen` and their number in
    /// `*count`; or a wait until `*until`, later than `now`.
    pub select: Option<
        unsafe extern "C" fn(
            state: *mut c_void,
            now: u64,
            chosen: *mut u64,
            capacity: u32,
            count: *mut u32,
            until: *mut u64,
        ) -> c_int,
    >,
    /// Hears that a request which it selected has moved so many bytes. May be NULL.
    pub complete: Option<
        unsafe extern "C" fn(
            state: *mut c_void,
            now: u64,
            request: *const forebay_policy_request,
            moved: u64,
        ),
    >,
    /// Gives up a request; 1 if it held it, else 0.
    pub cancel: Option<
        unsafe extern "C" fn(
            state: *mut c_void,
            now: u64,
            request: *const forebay_policy_request,
        ) -> c_int,
    >,
    /// Gives up everything, oldest first, at most `capacity` names; how many.
    pub drain:
        Option<unsafe extern "C" fn(state: *mut c_void, requests: *mut u64, capacity: u64) -> u64>,
    /// Forgets what was learned about a file, of which it holds no request. May be NULL.
    pub retire: Option<unsafe extern "C" fn(state: *mut c_void, file: u32)>,
    /// How many requests it holds.
    pub count: Option<unsafe extern "C" fn(state: *mut c_void) -> u64>,
}
