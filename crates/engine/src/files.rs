//! The files that are open at the store, by identity: however many clients opened a file, over
//! whatever path or descriptor, the scheduler sees one file.

use std::collections::HashMap;

use forebay_units::{FileId, FileIndex};
use slotmap::{SlotMap, new_key_type};

use crate::call::Origin;
use crate::store::{Opened, StoreFile};

new_key_type! {
    /// One open of a file.
    pub struct FileKey;
}

/// One open of a file, with what is going on through it.
#[derive(Debug)]
pub(crate) struct OpenFile {
    pub(crate) store: StoreFile,
    pub(crate) index: FileIndex,
    id: FileId,
    /// Calls not answered yet.
    pub(crate) calls_count: u32,
    /// Somebody waits for the file to be closed once `calls_count` is 0.
    pub(crate) closing: Option<Closing>,
}

/// What to do when a file that is being closed has become quiet.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Closing {
    /// Tell whoever asked.
    Answer(Origin),
    /// Nobody is left to be told.
    Silently,
}

#[derive(Debug, Default)]
pub(crate) struct Files {
    open: SlotMap<FileKey, OpenFile>,
    known: HashMap<FileId, Known>,
    free: Vec<FileIndex>,
}

#[derive(Debug)]
struct Known {
    index: FileIndex,
    opens_count: u32,
}

impl Files {
    pub(crate) fn insert(&mut self, opened: Opened) -> FileKey {
        let fresh =
            u32::try_from(self.known.len()).expect("fewer files than descriptors can exist");
        let free = &mut self.free;
        let known = self.known.entry(opened.id).or_insert_with(|| Known {
            index: free.pop().unwrap_or(FileIndex(fresh)),
            opens_count: 0,
        });
        known.opens_count += 1;
        self.open.insert(OpenFile {
            store: opened.file,
            index: known.index,
            id: opened.id,
            calls_count: 0,
            closing: None,
        })
    }

    /// Removes an open file; its index comes along when nobody else has the file open.
    pub(crate) fn remove(&mut self, key: FileKey) -> Option<(OpenFile, Option<FileIndex>)> {
        let file = self.open.remove(key)?;
        let known = self.known.get_mut(&file.id).expect("an open file is known");
        known.opens_count -= 1;
        let retired = (known.opens_count == 0).then_some(known.index);
        if let Some(index) = retired {
            self.known.remove(&file.id);
            self.free.push(index);
        }
        Some((file, retired))
    }

    pub(crate) fn find(&self, key: FileKey) -> Option<&OpenFile> {
        self.open.get(key)
    }

    pub(crate) fn find_mut(&mut self, key: FileKey) -> Option<&mut OpenFile> {
        self.open.get_mut(key)
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = FileId> + '_ {
        self.open.values().map(|open| open.id)
    }

    pub(crate) fn open_count(&self) -> usize {
        self.open.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened(file: u32, inode: u64) -> Opened {
        Opened { file: StoreFile(file), id: FileId { device: 1, inode, generation: 0 } }
    }

    #[test]
    fn two_opens_of_one_file_share_an_index() {
        let mut files = Files::default();
        let [a, b, c] =
            [(0, 7), (1, 7), (2, 8)].map(|(file, inode)| files.insert(opened(file, inode)));
        let index = |key| files.find(key).expect("open").index;
        assert_eq!(index(a), index(b));
        assert_ne!(index(a), index(c));
    }

    #[test]
    fn an_index_is_free_again_after_the_last_close() {
        let mut files = Files::default();
        let keys: Vec<_> = (0..3).map(|n| files.insert(opened(n, u64::from(n)))).collect();
        let (_, retired) = files.remove(keys[1]).expect("was open");
        assert_eq!(retired, Some(FileIndex(1)));
        let again = files.insert(opened(9, 99));
        assert_eq!(files.find(again).expect("open").index, FileIndex(1));
        let other = files.insert(opened(10, 100));
        assert_eq!(files.find(other).expect("open").index, FileIndex(3));
    }
}
