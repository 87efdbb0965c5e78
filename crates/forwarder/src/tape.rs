//! The trace's way to its file: a thread that writes finished blocks and brings the empty ones back.
//!
//! The loop never waits for it. When the disk is slower than the trace, the recorder runs out of
//! empty blocks and counts what it loses; when it fails, the recording ends there and a line says so.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

use forebay_trace::{Block, Header, Recorder, RecorderOptions, Totals};
use forebay_units::{Nanos, Timestamp};

/// While something happens, the file is never older than this.
const FLUSH_EVERY: Nanos = Nanos::secs(1);

/// A file that a trace is being written to.
pub(crate) struct Tape {
    /// Finished blocks on their way to the file; gone once it cannot be written.
    finished: Option<SyncSender<Block>>,
    written: Receiver<Block>,
    writer: JoinHandle<io::Result<File>>,
    next_flush: Timestamp,
}

impl Tape {
    /// Creates the file, or empties it, and begins with the header.
    pub(crate) fn create(
        path: &Path,
        header: &Header,
        options: RecorderOptions,
    ) -> io::Result<Self> {
        let mut file = File::create(path)?;
        file.write_all(&header.to_bytes())?;
        // Both take all the blocks that there are, so neither side ever waits for the other.
        let (finished, to_write) = sync_channel::<Block>(options.blocks);
        let (give_back, written) = sync_channel(options.blocks);
        let write = move || {
            for mut block in to_write {
                file.write_all(block.seal())?;
                // The loop may have ended meanwhile.
                let _ = give_back.try_send(block);
            }
            Ok(file)
        };
        let writer = std::thread::Builder::new().name("trace".into()).spawn(write)?;
        Ok(Self {
            finished: Some(finished),
            written,
            writer,
            next_flush: Timestamp(0) + FLUSH_EVERY,
        })
    }

    /// Hands finished blocks over and takes written ones back.
    pub(crate) fn exchange(&mut self, now: Timestamp, recorder: &mut Recorder) {
        self.written.try_iter().for_each(|block| recorder.give_back(block));
        if now >= self.next_flush {
            self.next_flush = now + FLUSH_EVERY;
            recorder.flush();
        }
        while let (Some(finished), Some(block)) = (&self.finished, recorder.take_block()) {
            if let Err(TrySendError::Disconnected(_)) = finished.try_send(block) {
                crate::log::warn(format_args!("the trace cannot be written and ends here"));
                self.finished = None;
            }
        }
    }

    /// Writes what is left and the end.
    pub(crate) fn finish(mut self, recorder: Recorder) -> io::Result<Totals> {
        let (blocks, totals) = recorder.finish();
        // Without a writer the error is told by it below.
        if let Some(finished) = self.finished.take() {
            blocks.for_each(|block| _ = finished.send(block));
        }
        let mut file = self.writer.join().expect("writing does not panic")?;
        file.write_all(&totals.to_bytes())?;
        Ok(totals)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_trace::{Event, Reader};

    const OPTIONS: RecorderOptions = RecorderOptions { block_bytes: 16 << 10, blocks: 4 };

    fn record(path: &Path, events: u64) -> io::Result<Totals> {
        let mut tape = Tape::create(path, &Header::default(), OPTIONS)?;
        let mut recorder = Recorder::new(OPTIONS, 0);
        for seq in 0..events {
            recorder.record(Timestamp(seq), &Event::Ready { seq });
            tape.exchange(Timestamp(seq), &mut recorder);
        }
        tape.finish(recorder)
    }

    #[test]
    fn the_file_has_what_was_recorded_and_says_what_was_lost() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace");
        let totals = record(&path, 200_000).unwrap();
        assert_eq!(totals.events + totals.lost_events, 200_000);
        let bytes = std::fs::read(path).unwrap();
        let mut reader = Reader::new(&bytes).unwrap();
        let mut read = 0;
        for record in &mut reader {
            read += u64::from(matches!(record.unwrap().event, Event::Ready { .. }));
        }
        assert_eq!((read, reader.totals()), (totals.events, Some(totals)));
    }

    #[test]
    fn a_file_that_cannot_be_written_any_more_ends_the_trace_and_not_the_forwarder() {
        let error = record(Path::new("/dev/full"), 1).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull, "at the start");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        let reader = path.clone();
        // Takes the header and goes.
        let reader = std::thread::spawn(move || {
            io::Read::read_exact(&mut File::open(reader).unwrap(), &mut [0; 12]).unwrap();
        });
        let error = record(&path, 200_000).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe, "in the middle");
        reader.join().unwrap();
    }
}
