//! Files by key: each live or recently used one has a small dense number in the scheduler.
//!
//! A file is alive while a request of it is. After that it is idle, and the longest idle of more
//! than `idle_max` is forgotten, so no memory is kept for each file ever seen.

use core::hash::{BuildHasher, Hasher};
use std::collections::HashMap;
use std::hash::RandomState;

use forebay_units::FileIndex;

use crate::operation::FileKey;

const NIL: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct File {
    key: FileKey,
    live: u32,
    /// To be forgotten when it is idle.
    is_closed: bool,
    /// Neighbours among the idle.
    older: u32,
    younger: u32,
}

/// A quick hash for keys that a service chose; seeded, so that nobody can aim at one bucket.
#[derive(Clone, Debug)]
struct KeyState(u64);

#[derive(Debug)]
struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn write_u64(&mut self, word: u64) {
        let wide =
            u128::from(self.0 ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
        self.0 = (wide >> 64) as u64 ^ wide as u64;
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

impl BuildHasher for KeyState {
    type Hasher = KeyHasher;

    fn build_hasher(&self) -> KeyHasher {
        KeyHasher(self.0)
    }
}

/// All files that are known.
#[derive(Debug)]
pub(crate) struct Files {
    by_key: HashMap<FileKey, u32, KeyState>,
    files: Vec<File>,
    free: Vec<u32>,
    oldest: u32,
    youngest: u32,
    idle_count: usize,
    idle_max: usize,
    /// The file asked for last: requests of one file come together.
    recent: Option<(FileKey, u32)>,
}

impl Files {
    pub(crate) fn new(idle_max: usize) -> Self {
        Self {
            by_key: HashMap::with_hasher(KeyState(RandomState::new().build_hasher().finish())),
            files: Vec::new(),
            free: Vec::new(),
            oldest: NIL,
            youngest: NIL,
            idle_count: 0,
            idle_max,
            recent: None,
        }
    }

    /// How many files have a number.
    pub(crate) fn count(&self) -> usize {
        self.by_key.len()
    }

    /// Every file that has a number.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (FileIndex, FileKey)> + '_ {
        self.by_key.iter().map(|(key, index)| (FileIndex(*index), *key))
    }

    pub(crate) fn key(&self, file: FileIndex) -> FileKey {
        self.files[file.0 as usize].key
    }

    /// The file's number; it is alive until as many [`leave`](Files::leave) as `enter`.
    pub(crate) fn enter(&mut self, key: FileKey) -> FileIndex {
        let index = match self.recent {
            Some((recent, index)) if recent == key => index,
            _ => self.find_or_make(key),
        };
        self.recent = Some((key, index));
        let file = &mut self.files[index as usize];
        file.live += 1;
        if file.live == 1 {
            file.is_closed = false;
            self.unlink(index);
        }
        FileIndex(index)
    }

    /// One request less. Returns a file to be forgotten, if there are too many idle ones.
    pub(crate) fn leave(&mut self, file: FileIndex) -> Option<FileIndex> {
        let entry = &mut self.files[file.0 as usize];
        entry.live -= 1;
        if entry.live > 0 {
            return None;
        }
        let is_closed = entry.is_closed;
        self.link(file.0);
        match is_closed {
            true => Some(file),
            false => (self.idle_count > self.idle_max).then_some(FileIndex(self.oldest)),
        }
    }

    /// The number of a file that is known.
    pub(crate) fn find(&self, key: FileKey) -> Option<FileIndex> {
        self.by_key.get(&key).copied().map(FileIndex)
    }

    /// Has a file forgotten as soon as it is idle; returns it if it is.
    pub(crate) fn close(&mut self, key: FileKey) -> Option<FileIndex> {
        let index = *self.by_key.get(&key)?;
        let file = &mut self.files[index as usize];
        file.is_closed = true;
        (file.live == 0).then_some(FileIndex(index))
    }

    /// Forgets an idle file; its number may name another one.
    pub(crate) fn forget(&mut self, file: FileIndex) {
        let entry = self.files[file.0 as usize];
        debug_assert_eq!(entry.live, 0);
        self.unlink(file.0);
        self.by_key.remove(&entry.key);
        self.free.push(file.0);
        if self.recent.is_some_and(|(key, _)| key == entry.key) {
            self.recent = None;
        }
    }

    fn find_or_make(&mut self, key: FileKey) -> u32 {
        if let Some(index) = self.by_key.get(&key) {
            return *index;
        }
        let file = File { key, live: 0, is_closed: false, older: NIL, younger: NIL };
        let index = match self.free.pop() {
            Some(index) => {
                self.files[index as usize] = file;
                index
            }
            None => {
                self.files.push(file);
                self.files.len() as u32 - 1
            }
        };
        self.by_key.insert(key, index);
        // `enter` takes it out again.
        self.link(index);
        index
    }

    fn link(&mut self, index: u32) {
        let older = core::mem::replace(&mut self.youngest, index);
        let file = &mut self.files[index as usize];
        (file.older, file.younger) = (older, NIL);
        match older {
            NIL => self.oldest = index,
            _ => self.files[older as usize].younger = index,
        }
        self.idle_count += 1;
    }

    fn unlink(&mut self, index: u32) {
        let File { older, younger, .. } = self.files[index as usize];
        match older {
            NIL => self.oldest = younger,
            _ => self.files[older as usize].younger = younger,
        }
        match younger {
            NIL => self.youngest = older,
            _ => self.files[younger as usize].older = older,
        }
        self.idle_count -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key(low: u64) -> FileKey {
        FileKey { high: 9, low }
    }

    #[test]
    fn idle_files_beyond_the_limit_are_forgotten_the_longest_idle_first() {
        let mut files = Files::new(2);
        for number in 0..4 {
            let file = files.enter(key(number));
            let forgotten = files.leave(file);
            if let Some(file) = forgotten {
                assert_eq!(files.key(file), key(number - 2));
                files.forget(file);
            }
        }
        assert_eq!(files.count(), 2);
    }

    #[test]
    fn a_closed_file_is_forgotten_when_its_last_request_ends() {
        let mut files = Files::new(100);
        let file = files.enter(key(1));
        assert_eq!(files.close(key(1)), None);
        assert_eq!(files.leave(file), Some(file));
        files.forget(file);
        assert_eq!((files.count(), files.close(key(1))), (0, None));
    }

    proptest! {
        #[test]
        fn live_files_keep_their_number_and_idle_ones_are_bounded(
            steps in proptest::collection::vec((0_u64..20, any::<bool>()), 0..300),
        ) {
            let mut files = Files::new(5);
            let mut live: HashMap<u64, (FileIndex, u32)> = HashMap::new();
            for (number, enters) in steps {
                if enters {
                    let index = files.enter(key(number));
                    let entry = live.entry(number).or_insert((index, 0));
                    prop_assert_eq!(entry.0, index);
                    entry.1 += 1;
                } else if let Some((index, count)) = live.get_mut(&number) {
                    let index = *index;
                    *count -= 1;
                    if *count == 0 {
                        live.remove(&number);
                    }
                    if let Some(forgotten) = files.leave(index) {
                        files.forget(forgotten);
                    }
                }
                prop_assert!(files.count() <= live.len() + 5);
                for (number, (index, _)) in &live {
                    prop_assert_eq!(files.key(*index), key(*number));
                }
            }
        }
    }
}
