//! A file as bytes that are the page cache's, so that a long trace takes no memory of its own.

use std::fs::File;
use std::io::{self, Read as _};
use std::ops::Deref;
use std::path::Path;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// All of a file, for reading. What others append to it later is not seen.
pub(crate) enum FileBytes {
    /// A file that has a length.
    Mapped(Mapping),
    /// A pipe or the like.
    Read(Vec<u8>),
}

/// A part of the address space that shows a file.
pub(crate) struct Mapping {
    base: *const u8,
    length: usize,
}

// SAFETY: the mapping is read only, by whoever has it, until it is dropped.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl FileBytes {
    /// Shows a file. Whoever empties it meanwhile ends this process with SIGBUS; recorders only append.
    ///
    /// # Errors
    /// As the system says.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let mut file = File::open(path)?;
        let metadata = file.metadata()?;
        let length = usize::try_from(metadata.len()).unwrap_or(usize::MAX);
        if !metadata.is_file() || length == 0 {
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            return Ok(Self::Read(bytes));
        }
        // SAFETY: a new mapping at an address of the kernel's choice touches no other memory.
        let base = unsafe {
            mmap(std::ptr::null_mut(), length, ProtFlags::READ, MapFlags::SHARED, &file, 0)?
        };
        Ok(Self::Mapped(Mapping { base: base.cast(), length }))
    }
}

impl Deref for FileBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            // SAFETY: it is mapped and readable over its whole length until it is dropped, and
            // what a recorder does to the file is to append.
            Self::Mapped(Mapping { base, length }) => unsafe {
                std::slice::from_raw_parts(*base, *length)
            },
            Self::Read(bytes) => bytes,
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it was mapped so, and no slice of it outlives its owner. That it cannot be taken
        // away leaves it there.
        _ = unsafe { munmap(self.base.cast_mut().cast(), self.length) };
    }
}
