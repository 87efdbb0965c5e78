//! What is known of calls by their names: which are sent to the forwarder when they are hooked,
//! and which move a file's data without it, and why.

/// Some calls with one reason.
struct Unhooked {
    reason: &'static str,
    calls: &'static [&'static str],
}

const UNHOOKED: &[Unhooked] = &[
    Unhooked { reason: "memory mappings are filled by the page cache", calls: &["mmap", "mmap64"] },
    Unhooked {
        reason: "stdio calls the kernel from inside the C library",
        calls: &["fopen", "fopen64", "freopen", "freopen64", "fdopen", "_IO_fopen"],
    },
    Unhooked {
        reason: "the kernel copies from file to file itself",
        calls: &["sendfile", "sendfile64", "copy_file_range", "splice", "vmsplice", "tee"],
    },
    Unhooked {
        reason: "asynchronous calls go to the kernel",
        calls: &[
            "aio_read",
            "aio_read64",
            "aio_write",
            "aio_write64",
            "lio_listio",
            "lio_listio64",
            "io_setup",
            "io_submit",
            "io_queue_init",
            "io_uring_setup",
            "io_uring_queue_init",
            "io_uring_queue_init_params",
        ],
    },
    Unhooked { reason: "raw system calls pass every library by", calls: &["syscall"] },
];

/// Why a call that moves data is not scheduled; `None` for every other call.
pub(super) fn reason_unhooked(call: &str) -> Option<&'static str> {
    UNHOOKED.iter().find(|group| group.calls.contains(&call)).map(|group| group.reason)
}

/// Whether a hooked call is sent to the forwarder, rather than followed (opened, closed, duplicated).
pub(super) fn is_sent(call: &str) -> bool {
    const WHOLE_FILE: &[&str] =
        &["fsync", "fdatasync", "ftruncate", "fallocate", "posix_fallocate", "posix_fadvise"];
    moves_data(call) || WHOLE_FILE.contains(&call.trim_end_matches("64"))
}

/// Whether a hooked call reads or writes.
pub(super) fn moves_data(call: &str) -> bool {
    let plain = call.trim_start_matches('_');
    ["read", "write", "pread", "pwrite"].iter().any(|verb| plain.starts_with(verb))
}
