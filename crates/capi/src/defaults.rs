//! What a program gets that asks for nothing in particular; `forebay.h` says the same.

use core::mem::offset_of;

use crate::abi::*;

pub(crate) fn default_options() -> forebay_options {
    forebay_options {
        size: size_of::<forebay_options>(),
        policy: c"TO-agg".as_ptr(),
        delivery: FOREBAY_DELIVER_CALL_BACK,
        guard: FOREBAY_GUARD_OVERLAP,
        on_batch: None,
        on_request: None,
        user: core::ptr::null_mut(),
        queue_requests_max: 1 << 20,
        depth: 64,
        large_bytes: 2 << 20,
        no_bypass: 0,
        run_requests_max: 64,
        run_bytes_max: 1 << 20,
        batch_bytes_max: 4 << 20,
        wait_ns: 0,
        idle_files_max: 4_096,
        sharing: FOREBAY_SHARE_NONE,
        classes_max: 1_024,
        class_requests_max: 1 << 18,
        twins_window_ns: 1_000_000,
        twins_idle_ns: 100_000,
        twins_targets: 1,
        account_rows: 0,
        settings: core::ptr::null(),
    }
}

pub(crate) fn default_share() -> forebay_share {
    forebay_share {
        size: size_of::<forebay_share>(),
        weight: 1,
        at_limit: FOREBAY_LIMIT_BORROW,
        requests_per_second: 0,
        requests_burst: 3,
        bytes_per_second: 0,
        bytes_burst: 1 << 20,
        reserved_per_second: 0,
        group: 0,
        has_group: 0,
        cost_per_second: 0,
        cost_burst: 1 << 20,
    }
}

/// How many bytes each struct has had since the first version of `forebay.h`: a program never has less.
/// Fields are added at the end, so these do not change.
pub(crate) const OPTIONS_BYTES: usize =
    offset_of!(forebay_options, account_rows) + size_of::<u32>();
pub(crate) const SHARE_BYTES: usize = offset_of!(forebay_share, has_group) + size_of::<u32>();
pub(crate) const COUNTERS_BYTES: usize =
    offset_of!(forebay_counters, policy_failed) + size_of::<u64>();
