//! A site's own traces as further situations.
//!
//! The requests of a trace are replayed in a closed loop in front of a modelled device under every
//! policy; what a tree may ask is what the detector says of the same requests.

use forebay_device::Profile;
use forebay_sched::{Access, PolicyName};
use forebay_select::detector::{Detector, DetectorOptions, Offsets};
use forebay_select::{Features, Pattern};
use forebay_sim::scenario::{Network, Scenario, Scheduling, Servers};
use forebay_sim::{Pace, Simulation, device_profile};
use forebay_trace::Workload;
use forebay_units::{Nanos, Timestamp};

use crate::examples::example;
use crate::learn::Example;
use crate::situation::STRIPE;
use crate::table::{Arm, Makespans};

/// Seeds of each policy. Only noise is drawn from them.
const SEEDS: u64 = 8;
/// The standard deviation of the logarithm of a service time.
const NOISE_PERCENT: u32 = 5;
/// Arrivals between two questions to the detector.
const LOOK_EVERY: usize = 256;

/// A trace in front of a device.
///
/// # Errors
/// A trace without a recognisable pattern (too few requests), or one that cannot be replayed.
pub fn situation(workload: &Workload, device: &Profile) -> Result<Example, String> {
    let pattern = pattern(workload).ok_or_else(|| {
        format!("{} requests show no access pattern yet; record more", workload.requests.len())
    })?;
    let features = Features::new(&pattern, &device_profile(device));
    Ok(example(features, &makespans(workload, device)?))
}

/// What the detector says at the end.
fn pattern(workload: &Workload) -> Option<Pattern> {
    let mut detector = Detector::new(DetectorOptions { stripe: STRIPE, offsets: Offsets::Whole });
    let (mut last, mut now) = (None, Timestamp(0));
    for (number, recorded) in workload.requests.iter().enumerate() {
        if matches!(recorded.request.access, Access::Read | Access::Write) {
            now = recorded.at;
            detector.arrived(now, &recorded.request);
        }
        if number % LOOK_EVERY == LOOK_EVERY - 1 {
            last = detector.pattern(now).or(last);
        }
    }
    detector.pattern(now).or(last)
}

fn makespans(workload: &Workload, device: &Profile) -> Result<Makespans, String> {
    let scenario = |cpu| Scenario {
        name: "trace".to_owned(),
        network: Network { delay: Nanos::ZERO, jitter: Nanos::ZERO, bandwidth: None },
        servers: Servers {
            device: *device,
            noise_percent: NOISE_PERCENT,
            request_cpu: Nanos::ZERO,
            ..Servers::default()
        },
        scheduler: Scheduling { cpu, ..Scheduling::default() },
        ..Scenario::default()
    };
    let (with, without) = (scenario(None), scenario(Some(Nanos::ZERO)));
    let run = |arm: Arm, seed: u64| {
        let (scenario, policy) = match arm {
            Arm::Without => (&without, PolicyName::Noop),
            Arm::Policy(policy) => (&with, policy),
        };
        let requests = &workload.requests;
        let simulation = Simulation::replay(scenario, requests, Pace::Closed, policy, seed);
        let outcome = simulation.map_err(|error| error.to_string())?.finish();
        Ok((outcome.makespan_ns / 1000).max(1))
    };
    let of_arm = |arm: Arm| {
        let values = (1..=SEEDS).map(|seed| run(arm, seed)).collect::<Result<Vec<u64>, String>>();
        values.map(|values| (arm, values))
    };
    Arm::all().map(of_arm).collect()
}
