//! A trace's way to its file: a thread that writes finished blocks and brings the empty ones back.
//!
//! Nobody waits for it. When the disk is slower than the trace, the recorder runs out of empty
//! blocks and counts what it loses; when it fails, the recording ends there.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

use forebay_trace::{Block, Header, Recorder, RecorderOptions, Totals};

use crate::controller::Controller;
use crate::error::Error;
use crate::locked::Locked;
use crate::sys;

/// A file that a trace is being written to.
pub(crate) struct Tape {
    /// Finished blocks on their way to the file; gone once it cannot be written.
    finished: Option<SyncSender<Block>>,
    written: Receiver<Block>,
    writer: JoinHandle<io::Result<File>>,
}

impl Tape {
    fn create(path: &Path, header: &Header, options: RecorderOptions) -> io::Result<Self> {
        let mut file = File::create(path)?;
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
        let writer = sys::spawn_without_signals("forebay-trace", write)?;
        Ok(Self { finished: Some(finished), written, writer })
    }

    fn exchange(&mut self, recorder: &mut Recorder) {
        self.written.try_iter().for_each(|block| recorder.give_back(block));
        while let (Some(finished), Some(block)) = (&self.finished, recorder.take_block()) {
            if let Err(TrySendError::Disconnected(_)) = finished.try_send(block) {
                self.finished = None;
            }
        }
    }

    /// Writes what is left and the end.
    fn finish(mut self, recorder: Recorder) -> io::Result<Totals> {
        let (blocks, totals) = recorder.finish();
        // Without a writer the error is told by it below.
        if let Some(finished) = self.finished.take() {
            blocks.for_each(|block| _ = finished.send(block));
        }
        let written = self.writer.join().unwrap_or_else(|_| Err(io::Error::other("it panicked")));
        written?.write_all(&totals.to_bytes())?;
        Ok(totals)
    }
}

impl Locked {
    /// Hands finished blocks of the trace over, if there is one.
    pub(crate) fn exchange_blocks(&mut self) {
        if let (Some(tape), Some(recorder)) = (&mut self.tape, self.scheduler.recorder())
            && recorder.has_block()
        {
            tape.exchange(recorder);
        }
    }
}

impl Controller {
    /// Records every submission, decision and completion in a file from now on, in the format of
    /// `docs/trace-format.md`, with at most `memory` bytes on their way. What the disk is too slow
    /// for is lost, and the trace says how much.
    ///
    /// # Errors
    /// [`Error::Busy`] if it is being recorded, [`Error::System`] if the file cannot be created.
    pub fn record(&self, path: &Path, header: &Header, memory: usize) -> Result<(), Error> {
        self.shared.check_process()?;
        let options = RecorderOptions::within(memory);
        let is_recorded = self.change(|locked, _| locked.tape.is_some())?;
        if is_recorded {
            return Err(Error::Busy);
        }
        let tape = Tape::create(path, header, options).map_err(errno)?;
        self.change(|locked, _| {
            if locked.tape.is_some() {
                return Err(Error::Busy);
            }
            let next_seq = locked.scheduler.stats().submitted;
            locked.scheduler.attach(Recorder::new(options, next_seq));
            locked.tape = Some(tape);
            locked.name_files();
            Ok(())
        })?
    }

    /// Ends the recording; what was recorded and what was lost.
    ///
    /// # Errors
    /// [`Error::NotRecorded`], or [`Error::System`] if the trace could not be written to its end.
    pub fn end_record(&self) -> Result<Totals, Error> {
        self.shared.check_process()?;
        let (tape, recorder) =
            self.change(|locked, _| (locked.tape.take(), locked.scheduler.detach()))?;
        let (Some(tape), Some(recorder)) = (tape, recorder) else { return Err(Error::NotRecorded) };
        tape.finish(recorder).map_err(errno)
    }
}

fn errno(error: io::Error) -> Error {
    Error::System(error.raw_os_error().unwrap_or(rustix::io::Errno::IO.raw_os_error()))
}
