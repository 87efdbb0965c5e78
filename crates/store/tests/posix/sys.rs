//! The tests' unsafe edge: forbidding io_uring to the calling thread, as containers do.

/// Makes `io_uring_setup` fail with `EPERM` in this thread and those it starts.
pub(crate) fn forbid_io_uring() -> std::io::Result<()> {
    // Load the call's number; if it is not io_uring_setup skip one; refuse; allow.
    let mut program = [
        instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        instruction(
            libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
            0,
            1,
            libc::SYS_io_uring_setup as u32,
        ),
        instruction(
            libc::BPF_RET | libc::BPF_K,
            0,
            0,
            libc::SECCOMP_RET_ERRNO | libc::EPERM as u32,
        ),
        instruction(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    let (one, zero) = (1 as libc::c_ulong, 0 as libc::c_ulong);
    // SAFETY: the calls read their numbers and the program, which lives until they return, and keep no pointer to it.
    let results = unsafe {
        [
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, one, zero, zero, zero),
            libc::prctl(
                libc::PR_SET_SECCOMP,
                libc::SECCOMP_MODE_FILTER as libc::c_ulong,
                &raw const filter,
            ),
        ]
    };
    if results == [0, 0] { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

fn instruction(code: u32, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt, jf, k }
}
