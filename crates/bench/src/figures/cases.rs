//! Running many cases in random order, several times each.
//!
//! The order is shuffled over all repetitions at once, by a seed that the report names: what
//! drifts while a figure is made (other load on the machine, memory that fills up) falls on every
//! case alike, and shows as spread instead of as a difference.

use forebay_device::SplitMix64;
use serde_json::Value;

use crate::error::Error;
use crate::peers::workload::Workload;
use crate::peers::{Measured, Peer, Stage};
use crate::progress::Track;
use crate::report::Row;
use crate::stop;

/// The first seed of what writers write; no file begins with it.
const WRITE_SEED: u64 = 1 << 32;

/// A workload through a peer.
pub(crate) struct Case {
    /// What tells it from the others, as the table's columns.
    pub(crate) parameters: Vec<(&'static str, Value)>,
    pub(crate) peer: Box<dyn Peer>,
    /// The workload; writers write what follows from the number, another one in every run.
    pub(crate) workload: Box<dyn Fn(u64) -> Workload>,
    /// What one run may take, in seconds; only the progress depends on it.
    pub(crate) expected_seconds: f64,
}

/// A case and its runs.
pub(crate) struct Found {
    pub(crate) parameters: Vec<(&'static str, Value)>,
    pub(crate) runs: Vec<Measured>,
}

/// What all cases take, for [`Track::expect`].
pub(crate) fn expected_seconds(cases: &[Case], repetitions: usize) -> f64 {
    cases.iter().map(|case| case.expected_seconds).sum::<f64>() * repetitions as f64
}

/// Runs each case `repetitions` times, all of them in random order.
pub(crate) fn run(
    stage: &Stage<'_>,
    mut cases: Vec<Case>,
    repetitions: usize,
    random: &mut SplitMix64,
    track: &mut Track<'_>,
) -> Result<Vec<Found>, Error> {
    let mut runs: Vec<Vec<Measured>> = cases.iter().map(|_| Vec::new()).collect();
    for idx in order(cases.len(), repetitions, random) {
        stop::check()?;
        let case = &mut cases[idx];
        let workload = (case.workload)(WRITE_SEED + random.below(WRITE_SEED));
        let words: Vec<String> = case.parameters.iter().map(|(_, value)| plain(value)).collect();
        let words = words.join("  ");
        let measured = stage.run(&mut *case.peer, &workload).map_err(|error| error.of(&words))?;
        let line = format!("{words}  {:5.1} MB/s", measured.throughput());
        track.case(case.expected_seconds, line);
        runs[idx].push(measured);
    }
    let found = cases.into_iter().zip(runs);
    Ok(found.map(|(case, runs)| Found { parameters: case.parameters, runs }).collect())
}

/// Every case so often, shuffled.
pub(crate) fn order(cases: usize, repetitions: usize, random: &mut SplitMix64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..repetitions).flat_map(|_| 0..cases).collect();
    for last in (1..order.len()).rev() {
        order.swap(last, random.below(last as u64 + 1) as usize);
    }
    order
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

impl Found {
    /// A row with the median of what each run says.
    pub(crate) fn row(
        &self,
        name: &'static str,
        unit: &'static str,
        of: impl Fn(&Measured) -> f64,
    ) -> Row {
        let runs: Vec<f64> = self.runs.iter().map(of).collect();
        Row::median(name, unit, &self.parameters, &runs)
    }

    /// What a reader needs to see why: throughput, and what the disk did for it.
    pub(crate) fn rows(&self) -> Vec<Row> {
        let device_ns = |run: &Measured| (run.seconds * 1e9) as u64;
        vec![
            self.row("throughput", "MB/s", Measured::throughput),
            self.row("seeks", "", |run| run.disk.seeks as f64),
            self.row("disk_requests", "", |run| run.disk.requests as f64),
            self.row("disk_busy", "%", |run| run.disk.busy_share(device_ns(run)) * 100.0),
            self.row("disk_depth", "", |run| run.disk.depth_mean(device_ns(run))),
        ]
    }

    /// Each run with what it was, for the archive.
    pub(crate) fn raw(&self) -> impl Iterator<Item = Value> {
        self.runs.iter().map(|run| {
            let mut raw = run.raw();
            for (name, value) in &self.parameters {
                raw[*name] = value.clone();
            }
            raw
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_comes_up_as_often_as_asked_and_not_in_turn() {
        let mut shuffled = order(10, 3, &mut SplitMix64::new(7));
        assert_ne!(shuffled, (0..3).flat_map(|_| 0..10).collect::<Vec<_>>());
        assert_eq!(shuffled, order(10, 3, &mut SplitMix64::new(7)));
        shuffled.sort_unstable();
        assert!(shuffled.chunks(3).enumerate().all(|(idx, three)| three == [idx; 3]));
    }
}
