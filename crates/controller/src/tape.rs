//! Recording: what is submitted, decided and completed, in a file.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use forebay_sched::sharing::{ClassShare, GroupId, Share, SharingSettings};
use forebay_sched::{ClassOptions, SchedulerOptions};
pub(crate) use forebay_tape::Tape;
use forebay_trace::{Adjustment, Header, Hinted, PolicyChoice, Recorder, RecorderOptions, Totals};
use forebay_units::{ClassId, Timestamp};

use crate::controller::Controller;
use crate::error::Error;
use crate::locked::Locked;
use crate::sys;

/// What was adjusted since the controller was made and is still in force, as far as the scheduler
/// does not tell it.
#[derive(Debug, Default)]
pub(crate) struct Changed {
    sharing: Option<SharingSettings>,
    groups: BTreeMap<GroupId, Share>,
    policy: Option<PolicyChoice>,
    class_policies: BTreeMap<ClassId, PolicyChoice>,
}

impl Changed {
    /// Takes in an adjustment that was made.
    pub(crate) fn note(&mut self, adjustment: &Adjustment) {
        match *adjustment {
            Adjustment::Sharing(settings) => self.sharing = Some(settings),
            Adjustment::Group(group, Some(share)) => _ = self.groups.insert(group, share),
            Adjustment::Group(group, None) => _ = self.groups.remove(&group),
            Adjustment::Policy(choice) => {
                self.forget_policies();
                self.policy = Some(choice);
            }
            Adjustment::ClassPolicy(class, choice) => {
                _ = self.class_policies.insert(class, choice);
            }
            // Its share is the scheduler's to tell.
            Adjustment::Class(class, None) => _ = self.class_policies.remove(&class),
            Adjustment::Class(_, Some(_)) => {}
        }
    }

    /// A policy that no adjustment has took over.
    pub(crate) fn forget_policies(&mut self) {
        self.policy = None;
        self.class_policies.clear();
    }
}

impl Locked {
    /// Says in a trace that begins what is not as the controller was made.
    fn note_changes(&mut self, now: Timestamp) {
        let Changed { sharing, groups, policy, class_policies } = &self.changed;
        let general = sharing.map(Adjustment::Sharing).into_iter();
        let general = general.chain(policy.map(Adjustment::Policy));
        let groups = groups.iter().map(|(id, share)| Adjustment::Group(*id, Some(*share)));
        let classes = self.scheduler.classes(now);
        let classes = classes.filter(|class| class.share != ClassShare::default());
        let classes = classes.map(|class| Adjustment::Class(class.class, Some(class.share)));
        let own = class_policies.iter();
        let own = own.map(|(class, choice)| Adjustment::ClassPolicy(*class, *choice));
        for adjustment in general.chain(groups).chain(classes).chain(own).collect::<Vec<_>>() {
            self.scheduler.change(now, &adjustment.key(), &adjustment.value(), |_| ());
        }
        self.note_depth(now);
        if let Some(until) = self.hold_until {
            self.scheduler.note_hint(now, Hinted::MoreFollows { until });
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
    /// What its scheduler was made with, for the header of a trace; how classes share, as it was
    /// adjusted last. Its bounds are wider than those of the controller, which refuses before they
    /// are reached.
    pub fn made_with(&self) -> (SchedulerOptions, Option<ClassOptions>) {
        let (options, classes) = self.shared.made_with;
        // Whoever cannot ask cannot record.
        let sharing = self.change(|locked, _| locked.changed.sharing).ok().flatten();
        let now =
            |made: ClassOptions| ClassOptions { sharing: sharing.unwrap_or(made.sharing), ..made };
        (options, classes.map(now))
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
    /// for is lost, and the trace says how much. The first events tell what has been adjusted since
    /// the controller was made, whatever the header says.
    ///
    /// # Errors
    /// [`Error::Recorded`] if it is being recorded, or if another recorder writes to the file, which
    /// stays as it is; [`Error::System`] if the file cannot be created.
    pub fn record(&self, path: &Path, header: &Header, memory: usize) -> Result<(), Error> {
        self.record_with(path, header, memory, &[])
    }

    /// As [`record`](Self::record); the first events tell these keys and values besides. They are
    /// to say what has been changed otherwise than by [`adjust`](Self::adjust).
    ///
    /// # Errors
    /// As [`record`](Self::record).
    pub fn record_with(
        &self,
        path: &Path,
        header: &Header,
        memory: usize,
        changed: &[(String, String)],
    ) -> Result<(), Error> {
        self.shared.check_process()?;
        let options = RecorderOptions::within(memory);
        let is_recorded =
            self.change(|locked, _| core::mem::replace(&mut locked.is_recorded, true))?;
        if is_recorded {
            return Err(Error::Recorded);
        }
        let start = |write| sys::spawn_without_signals("forebay-trace", write);
        let tape = match Tape::create(path, header, options, start) {
            Ok(tape) => tape,
            Err(error) => {
                self.change(|locked, _| locked.is_recorded = false)?;
                return Err(errno(error));
            }
        };
        self.change(|locked, now| {
            let next_seq = locked.scheduler.stats().submitted;
            locked.scheduler.attach(Recorder::new(options, next_seq));
            locked.tape = Some(tape);
            locked.name_files();
            locked.note_changes(now);
            if let Some(selection) = &locked.selection {
                selection.note_policy(now, &mut locked.scheduler);
            }
            for (key, value) in changed {
                locked.scheduler.change(now, key, value, |_| ());
            }
        })
    }

    /// Ends the recording; what was recorded and what was lost.
    ///
    /// # Errors
    /// [`Error::NotRecorded`], or [`Error::System`] if the trace could not be written to its end.
    pub fn end_record(&self) -> Result<Totals, Error> {
        self.shared.check_process()?;
        let (tape, recorder) = self.change(|locked, _| {
            // One that is about to begin is not there yet.
            locked.is_recorded &= locked.tape.is_none();
            (locked.tape.take(), locked.scheduler.detach())
        })?;
        let (Some(tape), Some(recorder)) = (tape, recorder) else { return Err(Error::NotRecorded) };
        tape.finish(recorder).map_err(errno)
    }
}

fn errno(error: io::Error) -> Error {
    if error.kind() == io::ErrorKind::ResourceBusy {
        return Error::Recorded;
    }
    Error::System(error.raw_os_error().unwrap_or(rustix::io::Errno::IO.raw_os_error()))
}
