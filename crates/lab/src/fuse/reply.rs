//! Answers to the kernel, encoded.

use rustix::io::Errno;

use super::{ROOT, TRANSFER_BYTES_MAX};

/// The version that is spoken here. A newer kernel speaks it too.
const MAJOR: u32 = 7;
const MINOR: u32 = 31;

/// Several reads of one caller at once, direct ones too, and requests of more than a page.
const FEATURES: u32 = ASYNC_READ | BIG_WRITES | ASYNC_DIO | MAX_PAGES;
const ASYNC_READ: u32 = 1 << 0;
const BIG_WRITES: u32 = 1 << 5;
const ASYNC_DIO: u32 = 1 << 15;
const MAX_PAGES: u32 = 1 << 22;

/// Asynchronous requests that the kernel sends before it holds them back: more than a block device ever has.
const BACKGROUND_MAX: u16 = 512;

/// No page cache for the file, and no lock that lets its writes through one by one only.
const OPEN_DIRECT: u32 = 1 << 0;
const OPEN_PARALLEL_WRITES: u32 = 1 << 6;

/// Nothing changes: the kernel may keep what it knows for longer than any disk is up, and never
/// has to ask a daemon that may hang.
const VALID_SECONDS: u64 = 1 << 30;

const PAGE_BYTES: usize = 4096;
const KIND_DIRECTORY: u32 = 0o040_000;
const KIND_FILE: u32 = 0o100_000;

/// What a file is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attributes {
    /// Its number.
    pub(crate) node: u64,
    /// Whether it is a directory.
    pub(crate) is_directory: bool,
    /// Its size.
    pub(crate) bytes: u64,
}

/// The 16 bytes before an answer's body of `length` bytes.
pub(crate) fn header(unique: u64, length: usize) -> Vec<u8> {
    let mut answer = Encoder::default();
    answer.u32((16 + length) as u32).u32(0).u64(unique);
    answer.0
}

/// It failed.
pub(crate) fn error(unique: u64, errno: Errno) -> Vec<u8> {
    let mut answer = Encoder::default();
    answer.u32(16).u32((-errno.raw_os_error()).cast_unsigned()).u64(unique);
    answer.0
}

/// A whole answer.
fn whole(unique: u64, body: &Encoder) -> Vec<u8> {
    let mut answer = header(unique, body.0.len());
    answer.extend(&body.0);
    answer
}

/// It is done, and there is nothing to say of it.
pub(crate) fn done(unique: u64) -> Vec<u8> {
    header(unique, 0)
}

/// What is spoken here.
pub(crate) fn init(unique: u64, minor: u32, read_ahead_bytes: u32, features: u32) -> Vec<u8> {
    let mut body = Encoder::default();
    body.u32(MAJOR).u32(minor.min(MINOR)).u32(read_ahead_bytes).u32(features & FEATURES);
    body.u16(BACKGROUND_MAX).u16(BACKGROUND_MAX).u32(TRANSFER_BYTES_MAX as u32).u32(1);
    body.u16((TRANSFER_BYTES_MAX / PAGE_BYTES) as u16).u16(0).zeros(32);
    whole(unique, &body)
}

/// A name stands for this file.
pub(crate) fn entry(unique: u64, attributes: Attributes) -> Vec<u8> {
    let mut body = Encoder::default();
    body.u64(attributes.node).u64(0).u64(VALID_SECONDS).u64(VALID_SECONDS).u64(0);
    body.attributes(attributes);
    whole(unique, &body)
}

/// What a file is.
pub(crate) fn attributes(unique: u64, attributes: Attributes) -> Vec<u8> {
    let mut body = Encoder::default();
    body.u64(VALID_SECONDS).u64(0).attributes(attributes);
    whole(unique, &body)
}

/// It is open.
pub(crate) fn opened(unique: u64) -> Vec<u8> {
    let mut body = Encoder::default();
    body.u64(0).u32(OPEN_DIRECT | OPEN_PARALLEL_WRITES).u32(0);
    whole(unique, &body)
}

/// A directory is open.
pub(crate) fn opened_directory(unique: u64) -> Vec<u8> {
    let mut body = Encoder::default();
    body.u64(0).u64(0);
    whole(unique, &body)
}

/// These bytes are what was asked for.
pub(crate) fn bytes(unique: u64, bytes: &[u8]) -> Vec<u8> {
    let mut answer = header(unique, bytes.len());
    answer.extend(bytes);
    answer
}

/// So many bytes were written.
pub(crate) fn written(unique: u64, length: u32) -> Vec<u8> {
    let mut body = Encoder::default();
    body.u32(length).u32(0);
    whole(unique, &body)
}

/// A file system that holds `size` bytes and is full.
pub(crate) fn usage(unique: u64, size: u64) -> Vec<u8> {
    let mut body = Encoder::default();
    body.u64(size / PAGE_BYTES as u64).u64(0).u64(0).u64(3).u64(0);
    body.u32(PAGE_BYTES as u32).u32(255).u32(PAGE_BYTES as u32).zeros(28);
    whole(unique, &body)
}

/// The entries of a directory from the `offset`-th on.
pub(crate) fn directory(unique: u64, offset: u64, entries: &[(u64, &str)]) -> Vec<u8> {
    let mut body = Encoder::default();
    for (idx, (node, name)) in entries.iter().enumerate().skip(offset as usize) {
        let kind = if *node == ROOT { KIND_DIRECTORY } else { KIND_FILE };
        body.u64(*node).u64(idx as u64 + 1).u32(name.len() as u32).u32(kind >> 12);
        body.0.extend(name.as_bytes());
        body.zeros(body.0.len().next_multiple_of(8) - body.0.len());
    }
    whole(unique, &body)
}

#[derive(Default)]
struct Encoder(Vec<u8>);

impl Encoder {
    fn u16(&mut self, value: u16) -> &mut Self {
        self.0.extend(value.to_ne_bytes());
        self
    }

    fn u32(&mut self, value: u32) -> &mut Self {
        self.0.extend(value.to_ne_bytes());
        self
    }

    fn u64(&mut self, value: u64) -> &mut Self {
        self.0.extend(value.to_ne_bytes());
        self
    }

    fn zeros(&mut self, count: usize) -> &mut Self {
        self.0.resize(self.0.len() + count, 0);
        self
    }

    fn attributes(&mut self, attributes: Attributes) -> &mut Self {
        let Attributes { node, is_directory, bytes } = attributes;
        let mode = if is_directory { KIND_DIRECTORY | 0o700 } else { KIND_FILE | 0o600 };
        // Times, owner and device number are zero.
        self.u64(node).u64(bytes).u64(bytes.div_ceil(512)).zeros(36);
        self.u32(mode).u32(1).zeros(12).u32(PAGE_BYTES as u32).u32(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel refuses an answer whose length is not exactly that of its structure.
    #[test]
    fn answers_are_as_long_as_the_kernels_structures() {
        let file = Attributes { node: 2, is_directory: false, bytes: 5 };
        let lengths = [
            init(1, 45, 0, u32::MAX),
            entry(1, file),
            attributes(1, file),
            opened(1),
            opened_directory(1),
            written(1, 5),
            usage(1, 4096),
            done(1),
            bytes(1, b"abc"),
        ];
        let lengths = lengths.map(|answer| {
            assert_eq!(u32::from_ne_bytes(answer[..4].try_into().unwrap()) as usize, answer.len());
            answer.len() - 16
        });
        assert_eq!(lengths, [64, 128, 104, 16, 16, 8, 80, 0, 3]);
    }

    #[test]
    fn directory_entries_are_padded_to_eight_bytes() {
        let answer = directory(1, 1, &[(1, "."), (2, "disk"), (3, "statistics")]);
        assert_eq!(answer.len(), 16 + (24 + 8) + (24 + 16));
        assert!(directory(1, 3, &[(1, "."), (2, "disk"), (3, "statistics")]).len() == 16);
    }

    #[test]
    fn an_error_is_negative() {
        let answer = error(9, Errno::NOENT);
        assert_eq!(i32::from_ne_bytes(answer[4..8].try_into().unwrap()), -2);
    }
}
