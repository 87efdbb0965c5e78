//! The detector: how often it is right, and what a choice by what it sees loses.

use forebay_train::detected;
use forebay_train::detection::{DetectionReport, Place};
use forebay_train::detection::{Values, evaluate, group};
use forebay_train::evaluate::outcome;
use forebay_train::protocol::choices;
use forebay_train::reproduce::Data;
use serde_json::Value;

use crate::report::{Report, Row};

const SEED: u64 = 2016;
/// Cases of each kind in a quick run.
const QUICK_CASES: usize = 40;

/// Adds accuracy and loss.
pub(super) fn report(report: &mut Report, data: &Data, is_quick: bool) {
    let found = if is_quick {
        let held_out = |place| group(Values::HeldOut, place, QUICK_CASES, SEED, &mut || {});
        DetectionReport { seed: SEED, groups: Place::ALL.map(held_out).to_vec() }
    } else {
        evaluate(SEED, &mut |_, _| {})
    };
    report.ratio("detector_accuracy_held_out", Some(found.accuracy_held_out()));
    for group in &found.groups {
        let parameters = [
            ("values", Value::from(format!("{:?}", group.values))),
            ("place", Value::from(format!("{:?}", group.place))),
        ];
        for (name, value) in [
            ("spatiality", group.spatiality.accuracy()),
            ("size class", group.size_class.accuracy()),
            ("both", group.both.accuracy()),
        ] {
            report.rows.push(Row::median(name, "part", &parameters, &[value]));
        }
    }
    let tree = forebay_prior::default_tree();
    let by_truth = choices(&tree, &data.paper);
    let by_detector = detected::choices(&tree, &data.paper);
    let (truth, detected) = (outcome(&data.paper, &by_truth), outcome(&data.paper, &by_detector));
    super::offline::rows(report, "by what the detector sees", &data.paper, &by_detector);
    let same = by_truth.iter().zip(&by_detector).filter(|(a, b)| a == b).count();
    report.ratio("detection_same_choice", Some(same as f64 / by_truth.len() as f64));
    // What is lost of the speed, on the geometric mean.
    report.ratio("detection_selection_loss", Some(1.0 - detected.speedup / truth.speedup));
    report.ratio("detection_hurt_over_10pct", Some(detected.hurt as f64));
}
