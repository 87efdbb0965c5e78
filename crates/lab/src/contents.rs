//! What is on the disk: memory for what was written, nothing for the rest.
//!
//! Memory is never given back before the disk goes: it grows to the disk's size at most. A
//! discard is not offered to the kernel for the same reason that a small disk is made for a run.

use std::io::IoSlice;

/// Bytes that come into being together. A request of 1 MiB touches 17 of them at most.
const CHUNK_BYTES: usize = 64 << 10;

/// What a chunk holds that nobody has written.
static ZEROS: [u8; CHUNK_BYTES] = [0; CHUNK_BYTES];

/// The bytes of a disk, zero where nobody has written.
#[derive(Debug)]
pub(crate) struct Contents {
    chunks: Vec<Option<Box<[u8]>>>,
    bytes: u64,
}

impl Contents {
    /// `bytes` zeros.
    pub(crate) fn new(bytes: u64) -> Self {
        let count = bytes.div_ceil(CHUNK_BYTES as u64);
        let count = usize::try_from(count).expect("a disk that fits memory has few chunks");
        Self { chunks: (0..count).map(|_| None).collect(), bytes }
    }

    /// How many there are.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How many take up memory.
    pub(crate) fn resident_bytes(&self) -> u64 {
        (self.chunks.iter().flatten().count() * CHUNK_BYTES) as u64
    }

    /// Writes `data` at `offset`; what would lie behind the end is left out. How much was written.
    pub(crate) fn write(&mut self, offset: u64, data: &[u8]) -> usize {
        let length = self.within(offset, data.len());
        let mut rest = &data[..length];
        let mut at = offset as usize;
        while !rest.is_empty() {
            let (idx, start) = (at / CHUNK_BYTES, at % CHUNK_BYTES);
            let (now, later) = rest.split_at(rest.len().min(CHUNK_BYTES - start));
            let chunk = self.chunks[idx].get_or_insert_with(|| ZEROS.as_slice().into());
            chunk[start..start + now.len()].copy_from_slice(now);
            (rest, at) = (later, at + now.len());
        }
        length
    }

    /// `length` bytes from `offset`, fewer at the end, as pieces in order.
    pub(crate) fn read(&self, offset: u64, length: usize) -> Vec<IoSlice<'_>> {
        let end = offset as usize + self.within(offset, length);
        let mut at = offset as usize;
        let mut pieces = Vec::new();
        while at < end {
            let (idx, start) = (at / CHUNK_BYTES, at % CHUNK_BYTES);
            let count = (end - at).min(CHUNK_BYTES - start);
            let chunk = self.chunks[idx].as_deref().unwrap_or(&ZEROS);
            pieces.push(IoSlice::new(&chunk[start..start + count]));
            at += count;
        }
        pieces
    }

    /// How many of `length` bytes from `offset` there are.
    fn within(&self, offset: u64, length: usize) -> usize {
        let left = self.bytes.saturating_sub(offset);
        length.min(usize::try_from(left).unwrap_or(usize::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BYTES: usize = 3 * CHUNK_BYTES + 100;

    fn read(contents: &Contents, offset: u64, length: usize) -> Vec<u8> {
        contents.read(offset, length).iter().flat_map(|piece| piece.to_vec()).collect()
    }

    #[test]
    fn what_was_never_written_is_zero_and_takes_no_memory() {
        let mut contents = Contents::new(1 << 40);
        assert_eq!(read(&contents, (1 << 40) - 10, 100), [0; 10]);
        assert_eq!((contents.resident_bytes(), read(&contents, u64::MAX, 1)), (0, vec![]));
        assert_eq!(contents.write(70_000, b"x"), 1);
        assert_eq!(contents.resident_bytes(), CHUNK_BYTES as u64);
        assert_eq!(read(&contents, 69_999, 3), [0, b'x', 0]);
    }

    proptest! {
        #[test]
        fn reads_see_what_was_written_as_in_an_array(
            writes in prop::collection::vec((0..BYTES as u64 + 50, 0..2 * CHUNK_BYTES), 1..12),
        ) {
            let (mut contents, mut array) = (Contents::new(BYTES as u64), vec![0; BYTES]);
            for (idx, (offset, length)) in writes.into_iter().enumerate() {
                let data = vec![idx as u8 + 1; length];
                let written = contents.write(offset, &data);
                let start = (offset as usize).min(BYTES);
                prop_assert_eq!(written, length.min(BYTES - start));
                array[start..start + written].copy_from_slice(&data[..written]);
                let from = start.saturating_sub(10);
                prop_assert_eq!(&read(&contents, from as u64, length + 20)[..],
                    &array[from..(from + length + 20).min(BYTES)]);
            }
            prop_assert_eq!(read(&contents, 0, BYTES + 1), array);
        }
    }
}
