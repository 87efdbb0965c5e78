//! Which sweep a file's readers are in, whose turn it is to be read ahead of, and the reads that
//! wait for that.
//!
//! ```text
//!   read ──► ReadAhead ──┬── already given, or no sweep ───────────────────────► carrier
//!                        └── to come ──► held ──► Turns ──► advice, in pieces ──► carrier
//! ```
//!
//! A file is known by what it is: its readers have descriptors of their own, and meet here. The
//! files of one device meet in its [`Turns`].
//!
//! Where the kernel says that a device rotates, little is on its way at any time, and a sweep's turn
//! begins when what the last one was given has arrived: an elevator that has requests of both would
//! serve whichever lies further on, until the other one's deadline (`mq-deadline`, 500 ms). Until
//! then whoever had the turn may go on with it: its readers ask again as its bytes arrive. For the
//! same reason a sweep lets those pass, every so often, who read elsewhere on the device, and those
//! who go around the page cache.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use forebay_engine::store::{Io, Operation};
use forebay_pool::{Pool, Share};
use forebay_units::{Bytes, FileId, Offset};
use rustix::io::Errno;

use super::open_file::OpenFile;
use super::read_ahead::ReadAhead;
use super::turns::Turns;
use super::work::Work;
use super::{device, sys};
use crate::slab::Slab;

/// `POSIX_FADV_WILLNEED`.
const WILL_NEED: u32 = 3;

/// The low half of a token of the store's own advice; no slot of an engine's table has this number.
const ADVICE: u64 = u32::MAX as u64;

/// The low half of a token of the store's own read of a byte that is on its way.
const ARRIVAL: u64 = ADVICE - 1;

/// What the kernel is asked for in one call: a larger piece would have others wait for longer.
const PIECE_MAX: u64 = 256 << 10;

/// What sweeps over a device that rotates are given before other reads may pass.
const LET_PASS_AFTER: u64 = 4 << 20;

/// After so many bytes for a device that rotates, the arrival of the last one is waited for ...
const MARK: u64 = 512 << 10;

/// ... of so many at once. What is on its way is what whoever comes has to wait for, 35 ms on a
/// disk of 57 MB/s; with less a busy host leaves the disk idle.
const MARKS_MAX: usize = 4;

/// Memory for bytes whose arrival is waited for, a page each; without it they are not.
const ARRIVAL_BYTES: Bytes = Bytes::kib(256);

/// Reads to come that take no place at the device. They wait for what others have in their turns: if
/// they kept the places, nobody could read what is in the page cache, or on its way, meanwhile. As
/// they hold memory, there is an end to it.
const HELD_FREE_MAX: usize = 64;

/// After a read that was not in the page cache, so many in a row have to be before the next one
/// is tried without a look.
const DOUBT: u32 = 64;

/// The sweeps of all open files.
#[derive(Debug)]
pub(super) struct Sweeps {
    window_max: u64,
    by_id: HashMap<FileId, u32>,
    sweeps: Slab<Sweep>,
    /// How many of them the kernel was asked for something of.
    ahead_count: usize,
    devices: Slab<Device>,
    /// The tokens of reads that only wait for what is on its way.
    arriving: HashSet<u64>,
    /// Those of reads that nobody asked ahead for.
    elsewhere: HashMap<u64, Elsewhere>,
    /// How many reads are held.
    held_count: usize,
    memory: Pool,
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
    /// The number of its device.
    device: u32,
    ahead: ReadAhead,
    /// Whether the kernel was ever asked for something.
    was_asked: bool,
    /// What the kernel is asked through while there is something to ask for.
    through: Option<Arc<OpenFile>>,
    held: Vec<Work>,
    /// Reads that have to be cached before the next one is tried without a look.
    doubt: u32,
    /// The kernel does not say what is cached.
    is_blind: bool,
}

/// A device that files are on.
#[derive(Debug)]
struct Device {
    id: u64,
    sweep_count: usize,
    turns: Turns,
    /// The sweep and the piece that the kernel is being asked for, unless the file was closed meanwhile.
    asking: Option<(u32, Range<u64>)>,
    is_rotating: bool,
    /// The most that is asked for at once.
    piece_max: u64,
    /// What the kernel was asked for last, until another sweep may be asked for.
    last: Option<Last>,
    /// Bytes that were asked for since the last one whose arrival is waited for.
    unmarked: u64,
    /// How many arrivals are waited for.
    marks: usize,
    /// What sweeps were given since they last let others pass, and what those read then.
    since_pause: u64,
    let_pass: u64,
    /// The tokens of reads that have to finish before the next piece.
    awaited: HashSet<u64>,
}

/// A read that nobody asked ahead for.
#[derive(Clone, Copy, Debug)]
struct Elsewhere {
    /// The number of its device.
    device: u32,
    bytes: u64,
}

/// What the kernel is to be asked for, and through which file.
struct Ask {
    piece: Range<u64>,
    file: Arc<OpenFile>,
    /// What is behind the piece in the file.
    left: u64,
}

#[derive(Debug)]
struct Last {
    sweep: u32,
    file: Arc<OpenFile>,
    end: u64,
}

impl Sweeps {
    /// No file is open; `window_max` is what is read ahead at most, 0 for nothing.
    ///
    /// # Errors
    /// What `mmap(2)` says.
    pub(super) fn new(window_max: Bytes) -> Result<Self, Errno> {
        Ok(Self {
            window_max: window_max.0,
            by_id: HashMap::new(),
            sweeps: Slab::default(),
            ahead_count: 0,
            devices: Slab::default(),
            arriving: HashSet::new(),
            elsewhere: HashMap::new(),
            held_count: 0,
            memory: Pool::new(ARRIVAL_BYTES)?,
            counts: Counts::default(),
        })
    }

    /// A file is opened once more; the number of its sweep.
    pub(super) fn open(&mut self, id: FileId) -> u32 {
        if let Some(number) = self.by_id.get(&id).copied() {
            self.sweeps.get_mut(number).expect("a file that is open has a sweep").open_count += 1;
            return number;
        }
        let known = self.devices.iter().find(|(_, device)| device.id == id.device);
        let known = known.map(|(number, _)| number);
        let device = known.unwrap_or_else(|| self.devices.insert(Device::new(id.device)));
        self.devices.get_mut(device).expect("it was just found or made").sweep_count += 1;
        let number = self.sweeps.insert(Sweep::new(id, device, self.window_max));
        self.by_id.insert(id, number);
        number
    }

    /// One open file less.
    pub(super) fn close(&mut self, file: &Arc<OpenFile>) {
        let number = file.sweep();
        let Some(sweep) = self.sweeps.get_mut(number) else { return };
        sweep.through = sweep.through.take().filter(|through| !Arc::ptr_eq(through, file));
        sweep.open_count -= 1;
        let at = sweep.device;
        if let Some(device) = self.devices.get_mut(at) {
            device.last = device.last.take().filter(|last| !Arc::ptr_eq(&last.file, file));
        }
        if sweep.open_count > 0 {
            return;
        }
        debug_assert!(sweep.held.is_empty(), "a file with calls under way stays open");
        self.ahead_count -= usize::from(sweep.was_asked);
        self.by_id.remove(&sweep.id);
        self.sweeps.remove(number);
        let device = self.devices.get_mut(at).expect("a sweep is on a device");
        device.sweep_count -= 1;
        device.turns.forget(number);
        device.asking = device.asking.take().filter(|(sweep, _)| *sweep != number);
        self.forget_device(at);
    }

    /// Forgets a device with no open files, unless something of it is still to come back.
    fn forget_device(&mut self, number: u32) {
        let device = self.devices.get(number);
        if device.is_some_and(Device::is_idle) {
            self.devices.remove(number);
        }
    }

    /// Whether a read may be tried at the page cache. Where the bytes are not there, a try would
    /// not only fail: the kernel begins to read them, past all order.
    pub(super) fn may_try(&mut self, file: &OpenFile, range: &Range<u64>) -> bool {
        let Some(sweep) = self.sweeps.get_mut(file.sweep()) else { return true };
        let is_doubtful = sweep.doubt > 0 || sweep.ahead.is_passed_by(range);
        !is_doubtful || sweep.is_blind || sweep.is_cached(file, range, size_of(file))
    }

    /// The page cache did not have a read that was tried.
    pub(super) fn missed(&mut self, file: &OpenFile) {
        if let Some(sweep) = self.sweeps.get_mut(file.sweep()) {
            sweep.doubt = DOUBT;
        }
    }

    /// It had this one; hands out what is to be started now, in this order.
    pub(super) fn hit(
        &mut self,
        file: &Arc<OpenFile>,
        range: &Range<u64>,
        mut start: impl FnMut(Work),
    ) {
        let Some(sweep) = self.sweeps.get_mut(file.sweep()) else { return };
        sweep.doubt = sweep.doubt.saturating_sub(1);
        sweep.ahead.hit(range);
        self.want(file, &mut start);
    }

    /// A read that goes to the kernel; hands out what is to be started now, in this order.
    pub(super) fn read(&mut self, work: Work, range: &Range<u64>, mut start: impl FnMut(Work)) {
        let file = Arc::clone(&work.file);
        let Some(sweep) = self.sweeps.get_mut(file.sweep()) else { return start(work) };
        sweep.ahead.read(range);
        if !sweep.ahead.is_wanting() {
            // The sweep may just have ended: what waits for it has nothing to wait for.
            self.release_held(file.sweep(), &mut start);
        }
        let Some(sweep) = self.sweeps.get_mut(file.sweep()) else { return start(work) };
        if sweep.ahead.is_to_come(range) {
            self.counts.held += 1;
            self.held_count += 1;
            sweep.held.push(work);
            self.want(&file, &mut start);
        } else {
            // What is in front of it is asked for first, so that the device is read in order.
            self.want(&file, &mut start);
            self.release(work, &mut start);
        }
    }

    /// A read that nobody asks ahead for, such as one that goes around the page cache.
    pub(super) fn read_elsewhere(&mut self, work: Work, mut start: impl FnMut(Work)) {
        let number = work.file.sweep();
        if let Some(sweep) = self.sweeps.get(number) {
            let bytes = work.range().end - work.range().start;
            let device = self.devices.get_mut(sweep.device).expect("a sweep is on a device");
            device.turns.charge(number, bytes);
            self.elsewhere.insert(work.io.token, Elsewhere { device: sweep.device, bytes });
        }
        start(work);
    }

    /// Whether a finished call is advice of the store's own. It is nobody's: whether it was taken
    /// shows in what is in the cache. Hands out what is to be started now, in this order.
    pub(super) fn is_own(&mut self, io: &Io, mut start: impl FnMut(Work)) -> bool {
        let at = (io.token >> 32) as u32;
        match (io.operation, io.token & ADVICE) {
            (Operation::Advise { .. }, ADVICE) => self.asked(at, &mut start),
            (Operation::Read(_), ARRIVAL) => self.arrived(at, &mut start),
            _ => {
                self.arriving.remove(&io.token);
                if let Some(read) = self.elsewhere.remove(&io.token) {
                    self.came(read.device, io.token, &mut start);
                }
                return false;
            }
        }
        self.forget_device(at);
        true
    }

    /// The kernel was asked for a piece on a device.
    fn asked(&mut self, at: u32, start: &mut impl FnMut(Work)) {
        let device = self.devices.get_mut(at).expect("a device that is asked for a piece is known");
        device.turns.asked();
        let asked = device.asking.take();
        if let Some((number, piece)) = &asked {
            let sweep = self.sweeps.get_mut(*number).expect("a sweep that ends is not waited for");
            sweep.ahead.given(piece);
        }
        if device.unmarked >= MARK {
            self.mark(at, start);
        }
        self.next_pieces(at, start);
        if let Some((number, _)) = asked {
            self.release_held(number, start);
        }
    }

    /// What was asked for on a device has arrived, up to a mark.
    fn arrived(&mut self, at: u32, start: &mut impl FnMut(Work)) {
        self.devices.get_mut(at).expect("a device with marks is known").marks -= 1;
        self.next_pieces(at, start);
    }

    /// A read on a device is over.
    fn came(&mut self, at: u32, token: u64, start: &mut impl FnMut(Work)) {
        let device = self.devices.get_mut(at).expect("a device that is read is known");
        if device.awaited.remove(&token) {
            self.next_pieces(at, start);
        }
    }

    /// How many reads only wait for what is on its way or to come.
    pub(super) fn arriving_count(&self) -> usize {
        self.arriving.len() + self.held_count.min(HELD_FREE_MAX)
    }

    /// Whether the kernel was asked to read ahead in a file that is open.
    pub(super) fn reads_ahead(&self) -> bool {
        self.ahead_count > 0
    }

    pub(super) fn counts(&self) -> Counts {
        self.counts
    }

    /// Has the sweep over `file` take part in the turns, if there is something to ask for.
    fn want(&mut self, file: &Arc<OpenFile>, start: &mut impl FnMut(Work)) {
        let number = file.sweep();
        let Some(sweep) = self.sweeps.get_mut(number).filter(|sweep| sweep.ahead.is_wanting())
        else {
            return;
        };
        sweep.through.get_or_insert_with(|| Arc::clone(file));
        let at = sweep.device;
        let device = self.devices.get_mut(at).expect("a sweep is on a device");
        device.turns.want(number);
        self.next_pieces(at, start);
    }

    /// Asks the kernel for the next piece of those that are wanted of a device's files.
    fn next_pieces(&mut self, at: u32, start: &mut impl FnMut(Work)) {
        loop {
            let device = self.devices.get_mut(at).expect("it has files, or had when it was asked");
            let Some(number) = device.turns.next() else { return };
            if device.is_rotating && !self.is_due(at, number, start) {
                return;
            }
            let device = self.devices.get_mut(at).expect("it was just there");
            let sweep = self.sweeps.get_mut(number).expect("a sweep that ends leaves the turns");
            match sweep.ask(device.piece_max) {
                Some(Ask { piece, file, left }) => {
                    let bytes = piece.end - piece.start;
                    self.counts.ahead_bytes += bytes;
                    self.ahead_count += usize::from(!sweep.was_asked);
                    sweep.was_asked = true;
                    device.turns.asks(bytes, left);
                    if device.is_rotating {
                        device.since_pause += bytes;
                        device.unmarked += bytes;
                        let (file, end) = (Arc::clone(&file), piece.end);
                        device.last = Some(Last { sweep: number, file, end });
                    }
                    start(advice(at, &piece, file));
                    device.asking = Some((number, piece));
                }
                None => device.turns.leave(number),
            }
            self.release_held(number, start);
        }
    }

    /// Whether a sweep's next piece may be asked for on a device that rotates, or has to wait: for what
    /// was given to arrive, or every so often for those who read elsewhere on the device.
    fn is_due(&mut self, at: u32, number: u32, start: &mut impl FnMut(Work)) -> bool {
        let device = self.devices.get_mut(at).expect("the caller has found it");
        let is_another = device.last.as_ref().is_some_and(|last| last.sweep != number);
        if is_another {
            self.mark(at, start);
        }
        let device = self.devices.get_mut(at).expect("it was just there");
        if !device.awaited.is_empty() || device.marks >= if is_another { 1 } else { MARKS_MAX } {
            return false;
        }
        if is_another || device.since_pause >= LET_PASS_AFTER.max(device.let_pass) {
            (device.last, device.since_pause, device.let_pass) = (None, 0, 0);
            for (token, read) in self.elsewhere.iter().filter(|(_, read)| read.device == at) {
                device.let_pass += read.bytes;
                device.awaited.insert(*token);
            }
        }
        device.awaited.is_empty()
    }

    /// Has the arrival of what a device was asked for last be waited for.
    fn mark(&mut self, at: u32, start: &mut impl FnMut(Work)) {
        let device = self.devices.get_mut(at).expect("the caller has found it");
        if std::mem::take(&mut device.unmarked) == 0 {
            return;
        }
        if let Some(arrival) = device.last.as_ref().and_then(|last| arrival(at, last, &self.memory))
        {
            device.marks += 1;
            start(arrival);
        }
    }

    /// Starts what is held of a sweep and need not be held any more.
    fn release_held(&mut self, number: u32, start: &mut impl FnMut(Work)) {
        let sweep = self.sweeps.get_mut(number).filter(|sweep| !sweep.held.is_empty());
        let Some(sweep) = sweep else { return };
        let is_held = |work: &Work| sweep.ahead.is_to_come(&work.range());
        let (held, free) = std::mem::take(&mut sweep.held).into_iter().partition(is_held);
        sweep.held = held;
        let free: Vec<Work> = free;
        self.held_count -= free.len();
        free.into_iter().for_each(|work| self.release(work, start));
    }

    fn release(&mut self, work: Work, start: &mut impl FnMut(Work)) {
        let Some(sweep) = self.sweeps.get(work.file.sweep()) else { return start(work) };
        if sweep.ahead.is_given(&work.range()) {
            self.arriving.insert(work.io.token);
        } else {
            return self.read_elsewhere(work, start);
        }
        start(work);
    }
}

impl Device {
    fn new(id: u64) -> Self {
        Self {
            id,
            sweep_count: 0,
            turns: Turns::default(),
            asking: None,
            is_rotating: device::rotates(id),
            piece_max: device::advice_max(id).min(PIECE_MAX),
            last: None,
            unmarked: 0,
            marks: 0,
            since_pause: 0,
            let_pass: 0,
            awaited: HashSet::new(),
        }
    }

    /// Whether no file on it is open and nothing is to come back.
    fn is_idle(&self) -> bool {
        let awaits = self.turns.is_asking() || self.marks > 0 || !self.awaited.is_empty();
        self.sweep_count == 0 && !awaits
    }
}

/// A read of the last byte of what the kernel was asked for last, which is over when that has arrived;
/// none where it is behind the end of the file, or memory is short.
fn arrival(device: u32, last: &Last, memory: &Pool) -> Option<Work> {
    let size = last.file.stat().ok()?.st_size as u64;
    let io = Io {
        token: u64::from(device) << 32 | ARRIVAL,
        files: Vec::new(),
        operation: Operation::Read(Offset(last.end.min(size).checked_sub(1)?)),
        buffers: vec![memory.try_take(Bytes(1), Share::Dispatch)?],
        outcome: Ok(Bytes::ZERO),
        end: Offset(0),
    };
    Some(Work::new(io, Arc::clone(&last.file)))
}

/// A call that asks the kernel for `piece`, through `file`, on the device with this number.
fn advice(device: u32, piece: &Range<u64>, file: Arc<OpenFile>) -> Work {
    let (offset, length) = (Offset(piece.start), Bytes(piece.end - piece.start));
    let io = Io {
        token: u64::from(device) << 32 | ADVICE,
        files: Vec::new(),
        operation: Operation::Advise { advice: WILL_NEED, offset, length },
        buffers: Vec::new(),
        outcome: Ok(Bytes::ZERO),
        end: Offset(0),
    };
    Work::new(io, file)
}

impl Sweep {
    fn new(id: FileId, device: u32, window_max: u64) -> Self {
        Self {
            id,
            open_count: 1,
            device,
            ahead: ReadAhead::new(window_max),
            was_asked: false,
            through: None,
            held: Vec::new(),
            doubt: 0,
            is_blind: false,
        }
    }

    /// The piece that is due, of `piece_max` at most; for what is cached already none is.
    fn ask(&mut self, piece_max: u64) -> Option<Ask> {
        let through = self.through.take();
        let through = through.or_else(|| self.held.first().map(|held| Arc::clone(&held.file)));
        let Some(file) = through else {
            // Who has wanted it has closed the file.
            self.ahead.give_up();
            return None;
        };
        let size = size_of(&file);
        while let Some(piece) = self.ahead.ask(piece_max) {
            if !self.is_cached(&file, &piece, size) {
                self.through = Some(Arc::clone(&file));
                let left = size.saturating_sub(piece.end);
                return Some(Ask { piece, file, left });
            }
            self.ahead.given(&piece);
        }
        None
    }

    /// Whether the page cache has all of `range`, or will have what it has begun to read. What
    /// lies behind the end of the file, of `size`, nobody has to read.
    fn is_cached(&mut self, file: &OpenFile, range: &Range<u64>, size: u64) -> bool {
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

/// The size of a file; without an end where the file system does not say.
fn size_of(file: &OpenFile) -> u64 {
    file.stat().map_or(u64::MAX, |stat| stat.st_size as u64)
}

#[cfg(test)]
mod tests;
