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
use crate::processors::DISTURBED_SHARE;
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
        let mut line = format!("{words}  {:5.1} MB/s", measured.throughput());
        if let Some(share) = measured.others_share.filter(|share| *share > DISTURBED_SHARE) {
            line.push_str(&format!("  disturbed: others used {:.0} %", share * 100.0));
        }
        track.case(case.expected_seconds, line);
        runs[idx].push(measured);
    }
    let found = cases.into_iter().zip(runs);
    Ok(found.map(|(case, runs)| Found { parameters: case.parameters, runs }).collect())
}

/// Says of how many runs others took a part of the processors that shows, and of none if it was none.
pub(crate) fn disturbance(shares: impl IntoIterator<Item = Option<f64>>) -> String {
    let shares: Vec<Option<f64>> = shares.into_iter().collect();
    let known: Vec<f64> = shares.iter().copied().flatten().collect();
    let most = known.iter().copied().fold(0.0, f64::max) * 100.0;
    let disturbed = known.iter().filter(|share| **share > DISTURBED_SHARE).count();
    let (limit, all) = (DISTURBED_SHARE * 100.0, shares.len());
    match (known.len() < all, disturbed) {
        (true, _) => "how much of the processors others used is not known here".to_owned(),
        (false, 0) => format!("others used at most {most:.0} % of the processors in any run"),
        (false, _) => format!(
            "DISTURBED: in {disturbed} of {all} runs others used more than {limit:.0} % of the \
             processors, {most:.0} % at most"
        ),
    }
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
        let mut rows = vec![
            self.row("throughput", "MB/s", Measured::throughput),
            self.row("seeks", "", |run| run.disk.seeks as f64),
            self.row("disk_requests", "", |run| run.disk.requests as f64),
            self.row("disk_busy", "%", |run| run.disk.busy_share(device_ns(run)) * 100.0),
            self.row("disk_depth", "", |run| run.disk.depth_mean(device_ns(run))),
        ];
        if self.runs.iter().all(|run| run.others_share.is_some()) {
            let percent = |run: &Measured| run.others_share.unwrap_or_default() * 100.0;
            rows.push(self.row("others", "%", percent));
        }
        rows
    }

    /// What others took in each run.
    pub(crate) fn others(&self) -> impl Iterator<Item = Option<f64>> {
        self.runs.iter().map(|run| run.others_share)
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
    fn who_was_disturbed_is_told() {
        let calm = disturbance([Some(0.01), Some(0.05)]);
        assert_eq!(calm, "others used at most 5 % of the processors in any run");
        let disturbed = disturbance([Some(0.01), Some(0.43)]);
        assert!(disturbed.starts_with("DISTURBED: in 1 of 2 runs"), "{disturbed}");
        assert!(disturbance([Some(0.0), None]).contains("not known"));
    }

    #[test]
    fn every_case_comes_up_as_often_as_asked_and_not_in_turn() {
        let mut shuffled = order(10, 3, &mut SplitMix64::new(7));
        assert_ne!(shuffled, (0..3).flat_map(|_| 0..10).collect::<Vec<_>>());
        assert_eq!(shuffled, order(10, 3, &mut SplitMix64::new(7)));
        shuffled.sort_unstable();
        assert!(shuffled.chunks(3).enumerate().all(|(idx, three)| three == [idx; 3]));
    }
}
