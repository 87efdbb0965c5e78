//! What a trace has for a simulation: the requests that clients made, and how their classes shared.

use std::path::Path;

use clap::ValueEnum;
use forebay_forwarder::settings::Sources;
use forebay_sched::sharing::Share;
use forebay_sim::{Choice, Invalid, Pace, Scenario, Simulation};
use forebay_trace::{Adjustment, Event, Header, PolicyChoice, Reader, Setup, Workload};
use forebay_units::{Nanos, Timestamp};

use crate::failure::{FAILED, Failure};

/// When recorded requests are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PaceName {
    /// After the request that each followed
    Closed,
    /// At their recorded times
    Open,
}

impl From<PaceName> for Pace {
    fn from(name: PaceName) -> Self {
        match name {
            PaceName::Closed => Self::Closed,
            PaceName::Open => Self::Open,
        }
    }
}

/// What a trace's requests are called in results.
pub(crate) fn pace_word(pace: Pace) -> &'static str {
    match pace {
        Pace::Closed => "closed",
        Pace::Open => "open",
    }
}

/// Recorded requests and what is known about them.
pub(crate) struct Recording {
    pub(crate) header: Header,
    pub(crate) workload: Workload,
    /// What the recorded scheduler was made with, if the trace says.
    pub(crate) setup: Option<Setup>,
    /// How classes shared from some moment on, counted from the first request.
    shares: Vec<(Timestamp, Adjustment)>,
    /// Changes of policies while it was recorded; a replay has its own.
    pub(crate) policy_changes: usize,
}

impl Recording {
    /// Reads a trace to its end.
    ///
    /// # Errors
    /// If there is no request in it.
    pub(crate) fn read(path: &Path, reader: Reader<'_>) -> Result<Self, Failure> {
        let recording = Self { workload: Workload::read(reader.clone()), ..Self::about(reader) };
        if recording.workload.requests.is_empty() {
            let text = format!("{}: no requests in it", path.display());
            return Err(Failure::new(FAILED, text));
        }
        Ok(recording)
    }

    /// Reads a trace for everything but its requests, of which there are none then.
    pub(crate) fn about(reader: Reader<'_>) -> Self {
        let header = reader.header().clone();
        let (mut first, mut adjustments) = (None, Vec::new());
        for record in reader.flatten() {
            match record.event {
                Event::Submit(_) | Event::Immediate { .. } => {
                    first.get_or_insert(record.time);
                }
                Event::Setting { key, value } => {
                    let adjustment = Adjustment::read(key, value);
                    adjustments.extend(adjustment.map(|it| (record.time, it)));
                }
                _ => {}
            }
        }
        let start = first.unwrap_or_default();
        let is_share = |adjustment: &Adjustment| match adjustment {
            Adjustment::Class(..) | Adjustment::Group(..) | Adjustment::Sharing(_) => true,
            Adjustment::Policy(_) | Adjustment::ClassPolicy(..) => false,
        };
        let (shares, others): (Vec<_>, Vec<_>) = adjustments
            .into_iter()
            .map(|(at, adjustment)| (Timestamp((at - start).0), adjustment))
            .partition(|(_, adjustment)| is_share(adjustment));
        let mut setup = Setup::of(&header).ok();
        // What was adjusted before the first request came is what the header does not know yet.
        let (before, during): (Vec<_>, Vec<_>) =
            others.into_iter().partition(|(at, _)| *at == Timestamp(0));
        for (_, adjustment) in &before {
            if let (Adjustment::Policy(choice), Some(setup)) = (adjustment, &mut setup) {
                let PolicyChoice { policy, limits, hbrr_quantum } = *choice;
                *setup = Setup { policy, limits, hbrr_quantum, ..*setup };
            }
        }
        let workload = Workload::default();
        Self { header, workload, setup, shares, policy_changes: during.len() }
    }

    /// How classes shared from some moment on, counted from the first request; nothing where no
    /// classes were told apart.
    pub(crate) fn shares_if_shared(&self) -> &[(Timestamp, Adjustment)] {
        match self.setup {
            Some(Setup { classes: None, .. }) => &[],
            _ => &self.shares,
        }
    }

    /// Whether some class or user had another part than the others, or a limit.
    pub(crate) fn has_shares(&self) -> bool {
        self.shares.iter().any(|(_, adjustment)| match adjustment {
            Adjustment::Class(_, Some(own)) => {
                own.reservation > 0
                    || own.share != Share { at_limit: own.share.at_limit, ..Share::default() }
            }
            Adjustment::Group(_, Some(own)) => {
                *own != Share { at_limit: own.at_limit, ..Share::default() }
            }
            _ => false,
        })
    }

    /// The longest wait for a better batch that the recorded scheduler was told. A forwarder cuts
    /// it to what pays on its device before it makes the scheduler.
    pub(crate) fn wait_max(&self) -> Option<Nanos> {
        const KEY: &str = "scheduler.wait_max";
        let told = self.header.setting(KEY).and_then(|wait| {
            let settings = Sources::new().flag(KEY, wait).resolve();
            settings.ok().map(|settings| settings.scheduler.wait_max)
        });
        told.or_else(|| self.setup.map(|setup| setup.limits.wait_max))
    }

    /// Its requests in a scenario. Where the scenario's schedulers share, classes have their
    /// recorded weights and limits; with `as_recorded` they also share in the recorded way.
    ///
    /// # Errors
    /// As [`Simulation::replay`].
    pub(crate) fn simulation(
        &self,
        scenario: &Scenario,
        pace: Pace,
        choice: &Choice,
        seed: u64,
        as_recorded: bool,
    ) -> Result<Simulation, Invalid> {
        let requests = &self.workload.requests;
        let mut simulation = Simulation::replay(scenario, requests, pace, choice.clone(), seed)?;
        let made = self.setup.and_then(|setup| setup.classes);
        if let Some(classes) = made.filter(|_| as_recorded) {
            simulation.adjust(Timestamp(0), Adjustment::Sharing(classes.sharing));
        }
        for (at, adjustment) in &self.shares {
            if as_recorded || !matches!(adjustment, Adjustment::Sharing(_)) {
                simulation.adjust(*at, *adjustment);
            }
        }
        Ok(simulation)
    }
}
