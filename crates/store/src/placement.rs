//! Where files are on a modelled device.
//!
//! Each file is contiguous, in the order in which files are first opened: a file has its size,
//! rounded up to the next multiple of a slot, as its room. One that outgrows its room runs over
//! its neighbour's; since positions only decide times and never hold data, that does no harm.
//! A file that nobody has open is forgotten and placed anew.

use std::collections::HashMap;

use forebay_engine::store::{Opened, StoreFile};
use forebay_units::{Bytes, FileId};

/// Room is given out in multiples of this, so that a new file can grow: 80 GB have 298 of them.
const SLOT_BYTES: u64 = Bytes::mib(256).0;

/// The first position of every file that is open.
#[derive(Debug, Default)]
pub(crate) struct Placement {
    files: HashMap<FileId, Placed>,
    opens: HashMap<StoreFile, (FileId, u64)>,
    /// Where the next file begins; the device wraps it.
    next: u64,
}

#[derive(Debug)]
struct Placed {
    start: u64,
    open_count: usize,
}

impl Placement {
    /// Places a file, if it is not open already. `size` says how long it is.
    pub(crate) fn open(&mut self, opened: Opened, size: impl FnOnce() -> Bytes) {
        let placed = self.files.entry(opened.id).or_insert_with(|| {
            let start = self.next;
            let room = (size().0 / SLOT_BYTES).saturating_add(1).saturating_mul(SLOT_BYTES);
            self.next = start.wrapping_add(room);
            Placed { start, open_count: 0 }
        });
        placed.open_count += 1;
        self.opens.insert(opened.file, (opened.id, placed.start));
    }

    /// Forgets one open of a file, and the file with its last one.
    pub(crate) fn close(&mut self, file: StoreFile) {
        let Some((id, _)) = self.opens.remove(&file) else { return };
        if let Some(placed) = self.files.get_mut(&id) {
            placed.open_count -= 1;
            if placed.open_count == 0 {
                self.files.remove(&id);
            }
        }
    }

    /// The position of the file's first byte; 0 for a file that is not open, whose calls fail anyway.
    pub(crate) fn start_of(&self, file: StoreFile) -> u64 {
        self.opens.get(&file).map_or(0, |&(_, start)| start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened(file: u32, inode: u64) -> Opened {
        Opened { file: StoreFile(file), id: FileId { device: 1, inode, generation: 0 } }
    }

    #[test]
    fn files_lie_behind_each_other_with_room_to_grow() {
        let mut placement = Placement::default();
        placement.open(opened(0, 10), || Bytes(0));
        placement.open(opened(1, 11), || Bytes(SLOT_BYTES));
        placement.open(opened(2, 12), || Bytes(1));
        let starts = [0, 1, 2].map(|file| placement.start_of(StoreFile(file)) / SLOT_BYTES);
        assert_eq!(starts, [0, 1, 3]);
    }

    #[test]
    fn a_file_has_one_place_however_often_it_is_open() {
        let mut placement = Placement::default();
        placement.open(opened(0, 10), || Bytes(1));
        placement.open(opened(1, 10), || panic!("its size is known"));
        placement.close(StoreFile(0));
        placement.open(opened(2, 10), || panic!("it is still open"));
        assert_eq!(placement.start_of(StoreFile(1)), placement.start_of(StoreFile(2)));
        placement.close(StoreFile(1));
        placement.close(StoreFile(2));
        assert!(placement.files.is_empty() && placement.opens.is_empty());
    }
}
