//! Which sweep a file's readers are in, and the reads that wait for it.
//!
//! ```text
//!   read ──► ReadAhead ──┬── already given, or no sweep ─────────────► carrier
//!                        └── to come ──► held ──► advice, in pieces ──► carrier
//! ```
//!
//! A file is known by what it is: its readers have descriptors of their own, and meet here.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use forebay_engine::store::{Io, Operation};
use forebay_units::{Bytes, FileId, Offset};

use super::open_file::OpenFile;
use super::read_ahead::ReadAhead;
use super::sys;
use super::work::Work;
use crate::slab::Slab;

/// `POSIX_FADV_WILLNEED`.
const WILL_NEED: u32 = 3;

/// The low half of a token of the store's own advice; no slot of an engine's table has this number.
const ADVICE: u64 = u32::MAX as u64;

/// After a read that was not in the page cache, so many in a row have to be before the next one
/// is tried without a look.
const DOUBT: u32 = 64;

/// The sweeps of all open files.
#[derive(Debug)]
pub(super) struct Sweeps {
    window_max: u64,
    by_id: HashMap<FileId, u32>,
    sweeps: Slab<Sweep>,
    counts: Counts,
}

/// What sweeps have done.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    /// Bytes that the kernel was asked for.
    pub(super) ahead_bytes: u64,
    /// Reads that waited until it had been.
    pub(super) held: u64,
}

#[derive(Debug)]
struct Sweep {
    id: FileId,
    open_count: usize,
    ahead: ReadAhead,
    /// What the kernel is asked through while there is something to ask for.
    through: Option<Arc<OpenFile>>,
    held: Vec<Work>,
    /// Reads that have to be cached before the next one is tried without a look.
    doubt: u32,
    /// The kernel does not say what is cached.
    is_blind: bool,
}

impl Sweeps {
    /// No file is open; `window_max` is what is read ahead at most, 0 for nothing.
    pub(super) fn new(window_max: Bytes) -> Self {
        let (by_id, sweeps) = (HashMap::new(), Slab::default());
        Self { window_max: window_max.0, by_id, sweeps, counts: Counts::default() }
    }

    /// A file is opened once more; the number of its sweep.
    pub(super) fn open(&mut self, id: FileId) -> u32 {
        let (sweeps, window_max) = (&mut self.sweeps, self.window_max);
        let number =
            *self.by_id.entry(id).or_insert_with(|| sweeps.insert(Sweep::new(id, window_max)));
        if let Some(sweep) = sweeps.get_mut(number) {
            sweep.open_count += 1;
        }
        number
    }

    /// One open file less.
    pub(super) fn close(&mut self, file: &Arc<OpenFile>) {
        let Some(sweep) = self.sweeps.get_mut(file.sweep()) else { return };
        sweep.through = sweep.through.take().filter(|through| !Arc::ptr_eq(through, file));
        sweep.open_count -= 1;
        if sweep.open_count == 0 {
            self.by_id.remove(&sweep.id);
            self.sweeps.remove(file.sweep());
        }
    }

    /// Whether a read may be tried at the page cache. Where the bytes are not there, a try would
    /// not only fail: the kernel begins to read them, past all order.
    pub(super) fn may_try(&mut self, file: &OpenFile, range: &Range<u64>) -> bool {
        let Some(sweep) = self.sweeps.get_mut(file.sweep()) else { return true };
        let is_doubtful = sweep.doubt > 0 || sweep.ahead.is_passed_by(range);
        !is_doubtful || sweep.is_blind || sweep.is_cached(file, range)
    }

    /// The page cache did not have a read that was tried.
    pub(super) fn missed(&mut self, file: &OpenFile) {
        if let Some(sweep) = self.sweeps.get_mut(file.sweep()) {
            sweep.doubt = DOUBT;
        }
    }

    /// It had this one; the advice that follows.
    pub(super) fn hit(&mut self, file: &Arc<OpenFile>, range: &Range<u64>) -> Option<Work> {
        let sweep = self.sweeps.get_mut(file.sweep())?;
        sweep.doubt = sweep.doubt.saturating_sub(1);
        sweep.ahead.hit(range);
        sweep.ask(file, &mut self.counts)
    }

    /// A read that goes to the kernel; hands out what is to be started now, in this order.
    pub(super) fn read(&mut self, work: Work, range: &Range<u64>, mut start: impl FnMut(Work)) {
        let Some(sweep) = self.sweeps.get_mut(work.file.sweep()) else { return start(work) };
        sweep.ahead.read(range);
        if let Some(advice) = sweep.ask(&work.file, &mut self.counts) {
            start(advice);
        }
        if sweep.ahead.is_to_come(range) {
            self.counts.held += 1;
            sweep.held.push(work);
        } else {
            start(work);
        }
    }

    /// Whether a finished call is advice of the store's own. It is nobody's: whether it was taken
    /// shows in what is in the cache. Hands out what is to be started now, in this order.
    pub(super) fn is_own(&mut self, io: &Io, mut start: impl FnMut(Work)) -> bool {
        let Operation::Advise { offset, length, .. } = io.operation else { return false };
        if io.token & ADVICE != ADVICE {
            return false;
        }
        // Where the file was closed and its number given to another one, this is no piece of that
        // one's, and is taken for one that came too late.
        let Some(sweep) = self.sweeps.get_mut((io.token >> 32) as u32) else { return true };
        sweep.ahead.given(&(offset.0..(offset + length).0));
        let through =
            sweep.through.take().or_else(|| sweep.held.first().map(|held| Arc::clone(&held.file)));
        if let Some(advice) = through.and_then(|through| sweep.ask(&through, &mut self.counts)) {
            start(advice);
        }
        for work in std::mem::take(&mut sweep.held) {
            if sweep.ahead.is_to_come(&work.range()) {
                sweep.held.push(work);
            } else {
                start(work);
            }
        }
        true
    }

    pub(super) fn counts(&self) -> Counts {
        self.counts
    }
}

impl Sweep {
    fn new(id: FileId, window_max: u64) -> Self {
        Self {
            id,
            open_count: 0,
            ahead: ReadAhead::new(window_max),
            through: None,
            held: Vec::new(),
            doubt: 0,
            is_blind: false,
        }
    }

    /// The advice that is due, through `file`; for what is cached already there is none.
    fn ask(&mut self, file: &Arc<OpenFile>, counts: &mut Counts) -> Option<Work> {
        let piece = loop {
            let piece = self.ahead.ask()?;
            if !self.is_cached(file, &piece) {
                break piece;
            }
            self.ahead.given(&piece);
        };
        counts.ahead_bytes += piece.end - piece.start;
        self.through = Some(Arc::clone(file));
        let (offset, length) = (Offset(piece.start), Bytes(piece.end - piece.start));
        let io = Io {
            token: u64::from(file.sweep()) << 32 | ADVICE,
            files: Vec::new(),
            operation: Operation::Advise { advice: WILL_NEED, offset, length },
            buffers: Vec::new(),
            outcome: Ok(Bytes::ZERO),
            end: Offset(0),
        };
        Some(Work::new(io, Arc::clone(file)))
    }

    /// Whether the page cache has all of `range`, or will have what it has begun to read. What
    /// lies behind the end of the file, nobody has to read.
    fn is_cached(&mut self, file: &OpenFile, range: &Range<u64>) -> bool {
        let size = file.stat().map_or(u64::MAX, |stat| stat.st_size as u64);
        let range = range.start..range.end.min(size);
        if range.is_empty() {
            return true;
        }
        let cached = sys::cached_pages(file, &range);
        self.is_blind = cached.is_err();
        let page = rustix::param::page_size() as u64;
        cached.is_ok_and(|count| count >= range.end.div_ceil(page) - range.start / page)
    }
}
