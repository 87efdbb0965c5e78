//! Which policy, and which sharing among queue ids, each of AGIOS's algorithms is.

use core::fmt;

use forebay_controller::{Controller, Delivery, Options, Selection, Storage};
use forebay_sched::policies::aioli::AioliSettings;
use forebay_sched::policies::mlf::{MlfGrowth, MlfSettings};
use forebay_sched::policies::sw::SwSettings;
use forebay_sched::sharing::{
    ClassShare, CostModel, Discipline, Share, SharingSettings, TwinsSettings, WindowIdle,
};
use forebay_sched::{
    Bypass, ClassOptions, GuardMode, Limits, PolicyName, PolicySettings, SchedulerOptions, build,
};
use forebay_units::{Bytes, ClassId, Timestamp};

use crate::config::{Algorithm, Config};
use crate::door::{self, Failure};
use crate::library::BATCH_REQUESTS_MAX;

/// Most queue ids under TWINS: the scheduler tells 65,000 classes apart, and one is to spare.
const QUEUES_MAX: u32 = 64_999;

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
        let settings = policy_settings(config);
        let storage = if config.is_rotating { Storage::Disk } else { Storage::Flash };
        let is_chosen = config.algorithm == Algorithm::Auto;
        let selection = is_chosen.then(|| Selection::new(storage, settings));
        let name = match config.algorithm {
            Algorithm::Noop => return Ok(Self { controller: None, queues: Queues::Unused }),
            Algorithm::Mlf => PolicyName::Mlf,
            Algorithm::Aioli => PolicyName::Aioli,
            Algorithm::Sjf => PolicyName::Sjf,
            Algorithm::ToAgg => PolicyName::ToAgg,
            Algorithm::Sw => PolicyName::Sw,
            // Inside a queue AGIOS's two sharing algorithms know arrival only.
            Algorithm::To | Algorithm::Twins | Algorithm::Wfq => PolicyName::To,
            Algorithm::Auto => selection.as_ref().map_or(PolicyName::To, Selection::start),
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
        let policy = move || build(name, &settings);
        let controller = match sharing(config, queues)? {
            None => Controller::new(&options, policy(), Delivery::Rounds),
            Some(classes) => {
                Controller::with_classes(&options, &classes, Box::new(policy), Delivery::Rounds)
            }
        };
        let controller = controller.map_err(|error| cannot_start(&error, error.into()))?;
        if selection.is_some() {
            let begun = controller.choose("policy", "auto", selection, |_, _| Some(()));
            begun.map_err(|error| cannot_start(&error, error.into()))?;
        }
        for (queue, weight) in (0..).zip(&config.weights) {
            set_weight(&controller, ClassId(queue), *weight)?;
        }
        Ok(Self { controller: Some(controller), queues: meaning(config, queues) })
    }
}

fn cannot_start(error: &dyn fmt::Display, failure: Failure) -> Failure {
    door::say(&format!("agios_init: {error}"));
    failure
}

fn meaning(config: &Config, queues: u32) -> Queues {
    match config.algorithm {
        Algorithm::Sw => Queues::Below(u32::MAX),
        // AGIOS has room for the number itself too.
        Algorithm::Twins => Queues::Below(queues.max(1) + 1),
        Algorithm::Wfq => Queues::Below(config.weights.len() as u32),
        _ => Queues::Unused,
    }
}

/// How queue ids share, under the two algorithms that share.
fn sharing(config: &Config, queues: u32) -> Result<Option<ClassOptions>, Failure> {
    let discipline = match config.algorithm {
        Algorithm::Wfq => Discipline::Sfq,
        Algorithm::Twins if queues > QUEUES_MAX => {
            return Err(door::refuse(&format!(
                "agios_init: max_queue_id is {queues}; TWINS serves at most {QUEUES_MAX} queues"
            )));
        }
        Algorithm::Twins => Discipline::Twins(TwinsSettings {
            window: config.twins_window,
            targets: queues.max(1),
            shift: 0,
            start: Timestamp(0),
            idle: WindowIdle::Strict,
        }),
        _ => return Ok(None),
    };
    Ok(Some(ClassOptions {
        sharing: SharingSettings { discipline, cost: CostModel::BYTES, ..Default::default() },
        // Every queue id that is accepted has a class of its own.
        classes_max: QUEUES_MAX as usize + 1,
        class_requests_max: config.queue_requests_max as usize,
        ..ClassOptions::default()
    }))
}

fn set_weight(controller: &Controller, class: ClassId, weight: u32) -> Result<(), Failure> {
    let share = ClassShare { share: Share { weight, ..Share::default() }, ..ClassShare::default() };
    let text = weight.to_string();
    let key = format!("weight.{}", class.0);
    let configured = controller
        .configure(&key, &text, |scheduler, now| scheduler.configure_class(now, class, share));
    configured
        .map_err(|error| cannot_start(&error, error.into()))?
        .map_err(|error| cannot_start(&error, Failure::Invalid))
}

fn policy_settings(config: &Config) -> PolicySettings {
    let limits = Limits {
        run_requests_max: BATCH_REQUESTS_MAX as u32,
        // What is on its way and not given could be neither cancelled nor released.
        batch_bytes_max: Bytes::ZERO,
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
        sw: SwSettings { window: config.sw_window, ..SwSettings::default() },
        ..PolicySettings::default()
    }
}
