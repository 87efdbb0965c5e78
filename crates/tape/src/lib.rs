//! A trace's way to its file: a thread that writes finished blocks and brings the empty ones back.
//!
//! Nobody waits for it. When the disk is slower than the trace, the recorder runs out of empty
//! blocks and counts what it loses; when it fails, the recording ends there, and whoever records
//! is told once.

use std::fs::{File, TryLockError};
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

use forebay_trace::{Block, Header, Recorder, RecorderOptions, Totals};
use forebay_units::{Nanos, Timestamp};

/// What the thread does that writes: until there is nothing more to write, or it cannot.
pub type Writing = Box<dyn FnOnce() -> io::Result<File> + Send>;

/// A file that a trace is being written to.
#[derive(Debug)]
pub struct Tape {
    /// Finished blocks on their way to the file; gone once it cannot be written.
    finished: Option<SyncSender<Block>>,
    written: Receiver<Block>,
    writer: JoinHandle<io::Result<File>>,
    next_flush: Timestamp,
}

/// Why a locked file is refused.
const BUSY: &str = "another recorder writes a trace to it";

/// Whether a trace is written to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Course {
    /// It goes on, or has ended earlier.
    On,
    /// It cannot be written any more, which shows now. [`Tape::finish`] says why.
    Ends,
}

impl Tape {
    /// While something happens, [`exchange_by`](Self::exchange_by) lets the file never be older than this.
    pub const FLUSH_EVERY: Nanos = Nanos::secs(1);

    /// Creates the file, or empties it, and begins with the header. `start` starts a thread that
    /// does what it is given. The file is locked until the tape is finished, so that it is not
    /// another recorder's at the same time, of this process or of another one; where a file system
    /// has no locks, it goes without.
    ///
    /// # Errors
    /// If the file cannot be created or written, and as `start`;
    /// [`ResourceBusy`](io::ErrorKind::ResourceBusy) if it is locked: nothing has happened to it then.
    pub fn create(
        path: &Path,
        header: &Header,
        options: RecorderOptions,
        start: impl FnOnce(Writing) -> io::Result<JoinHandle<io::Result<File>>>,
    ) -> io::Result<Self> {
        let mut file = File::options().write(true).create(true).truncate(false).open(path)?;
        if let Err(TryLockError::WouldBlock) = file.try_lock() {
            return Err(io::Error::new(io::ErrorKind::ResourceBusy, BUSY));
        }
        // A pipe or a terminal has no length.
        if file.metadata()?.is_file() {
            file.set_len(0)?;
        }
        file.write_all(&header.to_bytes())?;
        // Both take all the blocks that there are, so neither side ever waits for the other.
        let (finished, to_write) = sync_channel::<Block>(options.blocks);
        let (give_back, written) = sync_channel(options.blocks);
        let write = move || {
            for mut block in to_write {
                file.write_all(block.seal())?;
                // The recording may have ended meanwhile.
                let _ = give_back.try_send(block);
            }
            Ok(file)
        };
        let writer = start(Box::new(write))?;
        let next_flush = Timestamp(0) + Self::FLUSH_EVERY;
        Ok(Self { finished: Some(finished), written, writer, next_flush })
    }

    /// Hands finished blocks over and takes written ones back.
    pub fn exchange(&mut self, recorder: &mut Recorder) -> Course {
        self.take_written(recorder);
        self.hand_over(recorder)
    }

    /// As [`exchange`](Self::exchange); what is recorded goes to the file once a second, although
    /// its block is not full.
    pub fn exchange_by(&mut self, now: Timestamp, recorder: &mut Recorder) -> Course {
        self.take_written(recorder);
        if now >= self.next_flush {
            self.next_flush = now + Self::FLUSH_EVERY;
            recorder.flush();
        }
        self.hand_over(recorder)
    }

    fn take_written(&mut self, recorder: &mut Recorder) {
        self.written.try_iter().for_each(|block| recorder.give_back(block));
    }

    fn hand_over(&mut self, recorder: &mut Recorder) -> Course {
        while let (Some(finished), Some(block)) = (&self.finished, recorder.take_block()) {
            if let Err(TrySendError::Disconnected(_)) = finished.try_send(block) {
                self.finished = None;
                return Course::Ends;
            }
        }
        Course::On
    }

    /// Writes what is left and the end.
    ///
    /// # Errors
    /// Why the trace could not be written to its end.
    pub fn finish(mut self, recorder: Recorder) -> io::Result<Totals> {
        let (blocks, totals) = recorder.finish();
        // Without a writer the error is told by it below.
        if let Some(finished) = self.finished.take() {
            blocks.for_each(|block| _ = finished.send(block));
        }
        let written = self.writer.join().unwrap_or_else(|_| Err(io::Error::other("it panicked")));
        let mut file = written?;
        file.write_all(&totals.to_bytes())?;
        // A child of this process may have the file open, and would keep the lock.
        _ = file.unlock();
        Ok(totals)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_trace::{Event, Reader};

    const OPTIONS: RecorderOptions = RecorderOptions { block_bytes: 16 << 10, blocks: 4 };

    fn create(path: &Path) -> io::Result<Tape> {
        Tape::create(path, &Header::default(), OPTIONS, |write| Ok(std::thread::spawn(write)))
    }

    /// How often it was told that it ends, and what came of it.
    fn record(path: &Path, events: u64) -> (u32, io::Result<Totals>) {
        let mut tape = match create(path) {
            Ok(tape) => tape,
            Err(error) => return (0, Err(error)),
        };
        let mut recorder = Recorder::new(OPTIONS, 0);
        let mut ends = 0;
        for seq in 0..events {
            recorder.record(Timestamp(seq), &Event::Ready { seq });
            ends += u32::from(tape.exchange_by(Timestamp(seq), &mut recorder) == Course::Ends);
        }
        (ends, tape.finish(recorder))
    }

    #[test]
    fn the_file_has_what_was_recorded_and_says_what_was_lost() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace");
        let (ends, totals) = record(&path, 200_000);
        let totals = totals.unwrap();
        assert_eq!((ends, totals.events + totals.lost_events), (0, 200_000));
        let bytes = std::fs::read(path).unwrap();
        let mut reader = Reader::new(&bytes).unwrap();
        let mut read = 0;
        for record in &mut reader {
            read += u64::from(matches!(record.unwrap().event, Event::Ready { .. }));
        }
        assert_eq!((read, reader.totals()), (totals.events, Some(totals)));
    }

    #[test]
    fn a_file_is_one_recorders_at_a_time_and_untouched_by_the_others() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace");
        std::fs::write(&path, [7; 9_000]).unwrap();
        let mut tape = create(&path).unwrap();
        let mut recorder = Recorder::new(OPTIONS, 0);
        recorder.record(Timestamp(7), &Event::Drain);
        assert_eq!(tape.exchange(&mut recorder), Course::On);
        let begun = std::fs::read(&path).unwrap();
        assert_eq!(begun, Header::default().to_bytes(), "what was there before is gone");
        let refused = create(&path).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ResourceBusy);
        assert!(refused.to_string().contains("another recorder"), "{refused}");
        assert_eq!(std::fs::read(&path).unwrap(), begun);
        // Whoever was started meanwhile has the file, and not the lock once the tape is finished.
        let inherited = File::open(&path).unwrap();
        assert_eq!(tape.finish(recorder).unwrap().events, 1);
        assert_eq!(Reader::new(&std::fs::read(&path).unwrap()).unwrap().count(), 1);
        create(&path).unwrap().finish(Recorder::new(OPTIONS, 0)).unwrap();
        drop(inherited);
    }

    #[test]
    fn a_block_that_is_not_full_is_handed_over_after_a_second() {
        let folder = tempfile::tempdir().unwrap();
        let is_kept = |now| {
            let mut tape = create(&folder.path().join("trace")).unwrap();
            let mut recorder = Recorder::new(OPTIONS, 0);
            recorder.record(Timestamp(7), &Event::Drain);
            assert_eq!(tape.exchange_by(now, &mut recorder), Course::On);
            recorder.flush();
            let is_kept = recorder.has_block();
            assert_eq!(tape.finish(recorder).unwrap().events, 1);
            is_kept
        };
        assert!(is_kept(Timestamp(999)));
        assert!(!is_kept(Timestamp(0) + Tape::FLUSH_EVERY));
    }

    #[test]
    fn a_file_that_cannot_be_written_any_more_ends_the_trace_and_not_its_recorder() {
        let (_, error) = record(Path::new("/dev/full"), 1);
        assert_eq!(error.unwrap_err().kind(), io::ErrorKind::StorageFull, "at the start");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        let reader = path.clone();
        // Takes the header and goes.
        let reader = std::thread::spawn(move || {
            io::Read::read_exact(&mut File::open(reader).unwrap(), &mut [0; 12]).unwrap();
        });
        let (ends, error) = record(&path, 200_000);
        assert_eq!(error.unwrap_err().kind(), io::ErrorKind::BrokenPipe, "in the middle");
        assert!(ends <= 1, "told once, or only at the end");
        reader.join().unwrap();
    }
}
