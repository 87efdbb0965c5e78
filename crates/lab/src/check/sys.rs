//! Several reads of a file under way at once, begun in a known order by one thread.
//!
//! Linux's own asynchronous I/O, because it takes the reads in the order in which it is told of
//! them and cuts long ones itself: threads would overtake each other, and an io_uring hands what
//! would block to threads of its own.
//!
//! What makes it sound: the memory that the kernel writes to belongs to [`Reads`], which never
//! looks at it, and is given back after `io_destroy`, which waits for every read under way.
//!
//! Source: `linux/aio_abi.h`.

use std::ffi::{c_long, c_ulong};
use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::os::fd::AsRawFd as _;
use std::ptr;

/// Direct I/O needs memory at a multiple of this.
const PAGE_BYTES: usize = 4096;

const IOCB_CMD_PREAD: u16 = 0;

/// `struct iocb`; where key and flags stand depends on the order of bytes, and both are 0.
#[repr(C)]
#[derive(Default)]
struct Command {
    data: u64,
    key_and_flags: u64,
    operation: u16,
    priority: i16,
    file: u32,
    memory: u64,
    length: u64,
    position: i64,
    reserved: u64,
    flags: u32,
    event_file: u32,
}

/// `struct io_event`.
#[repr(C)]
#[derive(Default)]
struct Event {
    data: u64,
    command: u64,
    result: i64,
    result_2: i64,
}

/// Reads of one length, each with memory of its own: its slot.
#[derive(Debug)]
pub(super) struct Reads {
    file: File,
    context: c_ulong,
    length: usize,
    /// Of each slot, whether the kernel has it.
    is_under_way: Vec<bool>,
    memory: *mut u8,
    /// What `memory` points into, at a multiple of a page.
    _owner: Vec<u8>,
}

impl Reads {
    /// Up to `count` reads of `length` bytes, a multiple of a page.
    ///
    /// # Errors
    /// What the kernel says: it may have too many of them, or be built without.
    pub(super) fn new(file: File, count: usize, length: usize) -> Result<Self> {
        let mut owner = vec![0_u8; count * length + PAGE_BYTES];
        let start = owner.as_ptr().align_offset(PAGE_BYTES);
        let memory = owner[start..start + count * length].as_mut_ptr();
        let mut context: c_ulong = 0;
        // SAFETY: the kernel writes one number, and to nothing else.
        counted(unsafe { libc::syscall(libc::SYS_io_setup, count as c_long, &raw mut context) })?;
        Ok(Self { file, context, length, is_under_way: vec![false; count], memory, _owner: owner })
    }

    /// Begins a read, after all that were begun before.
    ///
    /// # Errors
    /// What the kernel says.
    ///
    /// # Panics
    /// If there is no such slot, or it is under way.
    pub(super) fn begin(&mut self, slot: usize, position: u64) -> Result<()> {
        assert!(!self.is_under_way[slot], "a slot has one read");
        let command = Command {
            data: slot as u64,
            operation: IOCB_CMD_PREAD,
            file: self.file.as_raw_fd().cast_unsigned(),
            memory: self.memory.wrapping_add(slot * self.length).expose_provenance() as u64,
            length: self.length as u64,
            position: position.cast_signed(),
            ..Command::default()
        };
        let commands = [&raw const command];
        // SAFETY: the kernel reads the command during the call. It writes `length` bytes to the
        // slot's part of the memory, which stays until `io_destroy` and which nobody looks at.
        counted(unsafe {
            libc::syscall(libc::SYS_io_submit, self.context, 1 as c_long, commands.as_ptr())
        })?;
        self.is_under_way[slot] = true;
        Ok(())
    }

    /// Waits until a read has ended; its slot.
    ///
    /// # Errors
    /// What became of the read, also if it has read less than was asked for.
    ///
    /// # Panics
    /// If none is under way.
    pub(super) fn wait(&mut self) -> Result<usize> {
        assert!(self.is_under_way.contains(&true), "nothing ends");
        let mut event = Event::default();
        let no_limit = ptr::null_mut::<libc::timespec>();
        // SAFETY: the kernel writes at most one event, to where there is room for one.
        let wait = |event: &mut Event| unsafe {
            let (least, most): (c_long, c_long) = (1, 1);
            let event = ptr::from_mut(event);
            libc::syscall(libc::SYS_io_getevents, self.context, least, most, event, no_limit)
        };
        loop {
            match counted(wait(&mut event)) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                outcome => break outcome.map(drop)?,
            }
        }
        let slot = event.data as usize;
        self.is_under_way[slot] = false;
        match usize::try_from(event.result) {
            Err(_) => Err(Error::from_raw_os_error(-event.result as i32)),
            Ok(length) if length == self.length => Ok(slot),
            Ok(_) => Err(ErrorKind::UnexpectedEof.into()),
        }
    }
}

impl Drop for Reads {
    fn drop(&mut self) {
        // SAFETY: the context is this one's own and is not used afterwards. The call returns when
        // nothing is under way any more, and the memory goes after it.
        unsafe { libc::syscall(libc::SYS_io_destroy, self.context) };
    }
}

fn counted(result: c_long) -> Result<c_long> {
    if result < 0 { Err(Error::last_os_error()) } else { Ok(result) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt as _;

    const _: () = assert!(size_of::<Command>() == 64 && size_of::<Event>() == 32);

    #[test]
    fn reads_end_each_in_its_slot_and_a_short_one_is_an_error() {
        let path = std::env::temp_dir().join(format!("forebay-reads-{}", std::process::id()));
        let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let bytes: Vec<u8> = (0..3 * PAGE_BYTES).map(|idx| (idx / 100) as u8).collect();
        file.write_all_at(&bytes, 0).unwrap();
        let mut reads = Reads::new(file, 2, PAGE_BYTES).unwrap();
        reads.begin(1, 0).unwrap();
        reads.begin(0, 2 * PAGE_BYTES as u64).unwrap();
        let mut ended = [reads.wait().unwrap(), reads.wait().unwrap()];
        ended.sort_unstable();
        assert_eq!(ended, [0, 1]);
        let start = reads._owner.as_ptr().align_offset(PAGE_BYTES);
        let read = &reads._owner[start..start + 2 * PAGE_BYTES];
        assert_eq!(read, [&bytes[2 * PAGE_BYTES..], &bytes[..PAGE_BYTES]].concat());
        reads.begin(0, 3 * PAGE_BYTES as u64 - 1).unwrap();
        assert_eq!(reads.wait().unwrap_err().kind(), ErrorKind::UnexpectedEof);
        reads.begin(0, 0).unwrap();
    }
}
