//! Where blocks are read and written: a file that the kernel opens, or anything that behaves like one.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};

use rustix::fs::OFlags;

/// What `O_DIRECT` wants of memory, on any device.
const ALIGNMENT: usize = 4096;

/// A file, read and written in blocks; each call returns when all of its block is there.
pub(crate) trait Target {
    /// Fills `block` with what is at `offset`.
    fn read_at(&mut self, block: &mut [u8], offset: u64) -> io::Result<()>;
    /// Writes `block` at `offset`.
    fn write_at(&mut self, block: &[u8], offset: u64) -> io::Result<()>;
    /// Has everything written on stable storage.
    fn sync(&mut self) -> io::Result<()>;
}

/// A file through the kernel, or through whatever library stands before it.
pub(crate) struct Local(File);

impl Local {
    pub(crate) fn open(path: &str, is_writer: bool, is_direct: bool) -> io::Result<Self> {
        let flags = if is_direct { OFlags::DIRECT } else { OFlags::empty() };
        let mut options = OpenOptions::new();
        options.read(!is_writer).write(is_writer).create(is_writer);
        options.custom_flags(flags.bits().cast_signed()).open(path).map(Self)
    }
}

impl Target for Local {
    fn read_at(&mut self, block: &mut [u8], offset: u64) -> io::Result<()> {
        self.0.read_exact_at(block, offset)
    }

    fn write_at(&mut self, block: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_all_at(block, offset)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.0.sync_all()
    }
}

/// Memory for one block that begins where `O_DIRECT` wants it to.
pub(crate) struct Aligned {
    memory: Vec<u8>,
    start: usize,
    length: usize,
}

impl Aligned {
    pub(crate) fn new(length: usize) -> Self {
        let memory = vec![0; length + ALIGNMENT];
        let start = memory.as_ptr().align_offset(ALIGNMENT);
        Self { memory, start, length }
    }

    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.length]
    }
}
