//! Recording: what is submitted, decided and completed, in a file.

use std::io;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use forebay_sched::sharing::ClassShare;
use forebay_sched::{ClassOptions, SchedulerOptions};
pub(crate) use forebay_tape::Tape;
use forebay_trace::{Adjustment, Header, Recorder, RecorderOptions, Totals};
use forebay_units::Timestamp;

use crate::controller::Controller;
use crate::error::Error;
use crate::locked::Locked;
use crate::sys;

impl Locked {
    /// Says in a trace that begins which shares there are.
    fn note_shares(&mut self, now: Timestamp) {
        let groups = self.groups.iter().map(|(id, share)| Adjustment::Group(*id, Some(*share)));
        let classes = self.scheduler.classes(now);
        let classes = classes.filter(|class| class.share != ClassShare::default());
        let classes = classes.map(|class| Adjustment::Class(class.class, Some(class.share)));
        for adjustment in groups.chain(classes).collect::<Vec<_>>() {
            self.scheduler.change(now, &adjustment.key(), &adjustment.value(), |_| ());
        }
    }

    /// Hands finished blocks of the trace over, if there is one.
    pub(crate) fn exchange_blocks(&mut self) {
        if let (Some(tape), Some(recorder)) = (&mut self.tape, self.scheduler.recorder())
            && recorder.has_block()
        {
            // That it cannot be written is told to whoever ends it.
            _ = tape.exchange(recorder);
        }
    }
}

impl Controller {
    /// What its scheduler was made with, for the header of a trace. Its bounds are wider than those
    /// of the controller, which refuses before they are reached.
    pub fn made_with(&self) -> (SchedulerOptions, Option<ClassOptions>) {
        self.shared.made_with
    }

    /// The wall clock at time 0 of the controller's own, in nanoseconds since 1970-01-01 UTC, as it
    /// stands today; for the header of a trace.
    pub fn clock_base_ns(&self) -> u64 {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let wall = u64::try_from(wall.as_nanos()).unwrap_or(u64::MAX);
        wall.saturating_sub(self.shared.clock.now().0)
    }

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
        let start = |write| sys::spawn_without_signals("forebay-trace", write);
        let tape = Tape::create(path, header, options, start).map_err(errno)?;
        self.change(|locked, now| {
            if locked.tape.is_some() {
                return Err(Error::Busy);
            }
            let next_seq = locked.scheduler.stats().submitted;
            locked.scheduler.attach(Recorder::new(options, next_seq));
            locked.tape = Some(tape);
            locked.name_files();
            locked.note_shares(now);
            if let Some(selection) = &locked.selection {
                selection.note_policy(now, &mut locked.scheduler);
            }
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
