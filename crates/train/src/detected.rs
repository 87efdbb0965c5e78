//! What the tree would choose by what the detector sees, in place of what is true.
//!
//! Each situation runs once in time order, the detector beside the first server hears of what that
//! accepts, and is asked at the end of the run.

use forebay_device::Profile;
use forebay_sched::PolicyName;
use forebay_select::detector::{Detector, DetectorOptions, Offsets};
use forebay_select::{Features, Tree};
use forebay_sim::{Simulation, device_profile};

use crate::device::Device;
use crate::situation::{STRIPE, Situation};
use crate::table::Table;

const SEED: u64 = 5;
/// Events between two looks at the arrivals.
const EVENTS: u64 = 1 << 14;

/// What the tree says of every row by what the detector sees of it; TO where it sees nothing.
pub fn choices(tree: &Tree, table: &Table) -> Vec<PolicyName> {
    let choice = |(situation, _): &(Situation, _)| {
        let seen = features(situation);
        seen.map_or(PolicyName::To, |features| tree.leaf(&features).1.policy)
    };
    table.rows.iter().map(choice).collect()
}

/// What the detector sees of a situation, on its device.
pub fn features(situation: &Situation) -> Option<Features> {
    let device: &Profile =
        &Device::by_name(situation.device).expect("situations are of known devices").profile;
    let scenario = situation.scenario(true);
    let simulation = Simulation::new(&scenario, PolicyName::To, SEED);
    let mut simulation = simulation.expect("situations can be simulated");
    simulation.watch_arrivals();
    let mut detector = Detector::new(DetectorOptions { stripe: STRIPE, offsets: Offsets::Whole });
    let mut last = None;
    loop {
        let goes_on = simulation.advance(EVENTS);
        for arrival in simulation.take_arrivals().into_iter().filter(|one| one.node == 0) {
            detector.arrived(arrival.at, &arrival.request);
            last = Some(arrival.at);
        }
        if !goes_on {
            break;
        }
    }
    let pattern = detector.pattern(last?)?;
    Some(Features::new(&pattern, &device_profile(device)))
}
