//! Which policy, and which sharing among queue ids, each of AGIOS's algorithms is.

use forebay_controller::{Controller, Delivery, Options};
use forebay_sched::policies::aioli::AioliSettings;
use forebay_sched::policies::mlf::{MlfGrowth, MlfSettings};
use forebay_sched::policies::sw::SwSettings;
use forebay_sched::{
    Bypass, GuardMode, Limits, PolicyName, PolicySettings, SchedulerOptions, build,
};
use forebay_units::{Bytes, ClassId};

use crate::config::{Algorithm, Config};
use crate::door::{self, Failure};
use crate::library::BATCH_REQUESTS_MAX;

/// What requests go through.
pub(crate) struct Arrangement {
    /// `None` under NOOP: nothing is ordered, so nothing is queued.
    pub(crate) controller: Option<Controller>,
    pub(crate) queues: Queues,
}

/// What a queue id means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Queues {
    /// Nothing; AGIOS's programs pass anything.
    Unused,
    /// A class, if it is below this.
    Below(u32),
}

impl Queues {
    /// The class of a queue id, if it has one.
    pub(crate) fn class(self, queue_id: i32) -> Option<ClassId> {
        match self {
            Self::Unused => Some(ClassId(0)),
            Self::Below(end) => {
                u32::try_from(queue_id).ok().filter(|queue| *queue < end).map(ClassId)
            }
        }
    }
}

impl Arrangement {
    /// For `queues` queue ids as the program gave them.
    pub(crate) fn of(config: &Config, queues: u32) -> Result<Self, Failure> {
        let name = match config.algorithm {
            Algorithm::Noop => return Ok(Self { controller: None, queues: Queues::Unused }),
            Algorithm::Mlf => PolicyName::Mlf,
            Algorithm::Aioli => PolicyName::Aioli,
            Algorithm::Sjf => PolicyName::Sjf,
            Algorithm::ToAgg => PolicyName::ToAgg,
            Algorithm::Sw => PolicyName::Sw,
            // Inside a queue AGIOS's two sharing algorithms know arrival only.
            Algorithm::To | Algorithm::Twins | Algorithm::Wfq => PolicyName::To,
        };
        let queues = match config.algorithm {
            Algorithm::Sw => Queues::Below(u32::MAX),
            Algorithm::Twins => Queues::Below(queues.max(1) + 1),
            Algorithm::Wfq => {
                Queues::Below(u32::try_from(config.weights.len()).unwrap_or(u32::MAX))
            }
            _ => Queues::Unused,
        };
        let options = Options {
            scheduler: SchedulerOptions {
                guard: GuardMode::Overlap,
                // AGIOS's policies order requests of every size.
                large_bytes: None,
                // Nothing is given back while it is being added.
                bypass: Bypass::Never,
                queue_requests_max: config.queue_requests_max as usize,
            },
            depth: config.in_flight_max as usize,
            ..Options::default()
        };
        let policy = build(name, &policy_settings(config));
        let controller = Controller::new(&options, policy, Delivery::Poll);
        let controller = controller.map_err(|error| {
            door::say(&format!("agios_init: {error}"));
            Failure::from(error)
        })?;
        Ok(Self { controller: Some(controller), queues })
    }
}

fn policy_settings(config: &Config) -> PolicySettings {
    let limits = Limits {
        run_requests_max: BATCH_REQUESTS_MAX as u32,
        wait_max: config.waiting_time,
        ..Limits::default()
    };
    let defaults = AioliSettings::default();
    // A quantum beyond the largest run means the same as that run.
    let quantum = config.aioli_quantum.min(limits.run_bytes_max);
    PolicySettings {
        limits,
        aioli: AioliSettings {
            quantum_bytes: quantum,
            quantum_bytes_min: defaults.quantum_bytes_min.min(quantum),
            ..defaults
        },
        mlf: MlfSettings {
            // AGIOS doubles.
            growth: MlfGrowth::Double(config.mlf_quantum.max(Bytes::kib(4))),
            ..MlfSettings::default()
        },
        sw: SwSettings { window: config.sw_window },
        ..PolicySettings::default()
    }
}
