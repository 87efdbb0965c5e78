//! What a trace has for a simulation: the requests that clients made, and how their classes shared.

use std::borrow::Cow;
use std::path::Path;

use clap::ValueEnum;
use forebay_forwarder::settings::Sources;
use forebay_sched::sharing::{Discipline, Share, SharingSettings, SwSettings, TwinsSettings};
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
    /// When the first request came.
    first: Timestamp,
    /// How classes shared from some moment on, counted from the first request; windows begin at
    /// the recorded times.
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
        Self { header, workload, setup, first: start, shares, policy_changes: during.len() }
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

    /// How classes shared from the beginning, if they did.
    pub(crate) fn made(&self) -> Option<SharingSettings> {
        self.setup?.classes.map(|classes| classes.sharing)
    }

    /// What a simulation waits before the first request, so that windows are on as they were: the
    /// one that it came in has begun before, and nothing begins before a simulation. Less than the
    /// longest window.
    pub(crate) fn lead(&self) -> Nanos {
        let made = self.made().map(|made| (Timestamp(0), made));
        let changed = self.shares.iter().filter_map(|(at, adjustment)| match adjustment {
            Adjustment::Sharing(sharing) => Some((*at, *sharing)),
            _ => None,
        });
        let windows = made.into_iter().chain(changed);
        let leads = windows.filter_map(|(at, SharingSettings { discipline, .. })| {
            let (begin, _) = window_on(&discipline, self.first + Nanos(at.0))?;
            Some(self.first - begin)
        });
        leads.max().unwrap_or_default()
    }

    /// Sharing from a moment on, counted from the first request, in a simulation's time.
    fn moved(&self, at: Timestamp, sharing: SharingSettings, lead: Nanos) -> Adjustment {
        let mut discipline = sharing.discipline;
        if let Some((begin, passed)) = window_on(&discipline, self.first + Nanos(at.0)) {
            let start = Timestamp((begin + lead - self.first).0);
            discipline = match discipline {
                Discipline::Twins(twins) => {
                    let targets = u64::from(twins.targets);
                    let shift = (u64::from(twins.shift) + passed % targets) % targets;
                    Discipline::Twins(TwinsSettings { start, shift: shift as u32, ..twins })
                }
                Discipline::Sw(sw) => Discipline::Sw(SwSettings { start, ..sw }),
                Discipline::Sfq | Discipline::Drr => discipline,
            };
        }
        Adjustment::Sharing(SharingSettings { discipline, ..sharing })
    }

    /// Its requests in a scenario. Where the scenario's schedulers share, classes have their
    /// recorded weights and limits; with `as_recorded` they also share in the recorded way, and the
    /// first request comes after the [`lead`](Self::lead).
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
        let lead = if as_recorded { self.lead() } else { Nanos::ZERO };
        let mut requests = Cow::from(&self.workload.requests);
        if lead > Nanos::ZERO {
            requests.to_mut().iter_mut().for_each(|recorded| recorded.at = recorded.at + lead);
        }
        let mut simulation = Simulation::replay(scenario, &requests, pace, choice.clone(), seed)?;
        if let Some(made) = self.made().filter(|_| as_recorded) {
            simulation.adjust(Timestamp(0), self.moved(Timestamp(0), made, lead));
        }
        for (at, adjustment) in &self.shares {
            let adjustment = match *adjustment {
                Adjustment::Sharing(_) if !as_recorded => continue,
                Adjustment::Sharing(sharing) => self.moved(*at, sharing, lead),
                other => other,
            };
            // What held when the first request came, holds from the beginning.
            let at = if *at == Timestamp(0) { *at } else { *at + lead };
            simulation.adjust(at, adjustment);
        }
        Ok(simulation)
    }
}

/// When the window began that is on, and how many have passed before it; when the first one will,
/// if none has.
fn window_on(discipline: &Discipline, now: Timestamp) -> Option<(Timestamp, u64)> {
    let (start, window) = match discipline {
        Discipline::Sfq | Discipline::Drr => return None,
        Discipline::Twins(twins) => (twins.start, twins.window),
        Discipline::Sw(sw) => (sw.start, sw.window),
    };
    let passed = (now - start).0 / window.0;
    Some((start + Nanos(passed * window.0), passed))
}
