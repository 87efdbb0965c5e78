//! How far a suite is, and how long it will still take.

use std::fmt;
use std::time::{Duration, Instant};

/// What a suite has just done, and what is left; shown as one line.
#[derive(Clone, Debug)]
pub struct Progress {
    /// Cases done.
    pub cases: usize,
    /// Cases in all.
    pub cases_total: usize,
    /// How long the rest will take, going by what was done so far.
    pub remaining: Duration,
    /// The case that is done and what it showed.
    pub text: String,
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cases, cases_total, text, .. } = self;
        let seconds = self.remaining.as_secs();
        let (minutes, seconds) = (seconds / 60, seconds % 60);
        let width = cases_total.to_string().len();
        write!(f, "{cases:width$}/{cases_total}  {minutes}:{seconds:02} left  {text}")
    }
}

/// Counts a suite's cases and tells a listener of each.
pub(crate) struct Track<'l> {
    listener: &'l mut dyn FnMut(&Progress),
    started: Instant,
    cases: usize,
    cases_total: usize,
    /// Sum of what the cases were expected to take, in any unit.
    work: f64,
    work_total: f64,
}

impl<'l> Track<'l> {
    pub(crate) fn new(listener: &'l mut dyn FnMut(&Progress)) -> Self {
        Self {
            listener,
            started: Instant::now(),
            cases: 0,
            cases_total: 0,
            work: 0.0,
            work_total: 0.0,
        }
    }

    /// So many cases will follow, of so much work.
    pub(crate) fn expect(&mut self, cases: usize, work: f64) {
        (self.cases_total, self.work_total) = (cases, work);
        self.started = Instant::now();
    }

    /// A case is done, and this is what it showed.
    pub(crate) fn case(&mut self, work: f64, text: impl Into<String>) {
        self.cases += 1;
        self.work += work;
        let rest = (self.work_total / self.work - 1.0).max(0.0);
        let remaining = Duration::try_from_secs_f64(self.started.elapsed().as_secs_f64() * rest)
            .unwrap_or_default();
        let Self { cases, cases_total, .. } = *self;
        (self.listener)(&Progress { cases, cases_total, remaining, text: text.into() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_far_and_how_long() {
        let (cases, cases_total, remaining) = (7, 70, Duration::from_secs(125));
        let progress =
            Progress { cases, cases_total, remaining, text: "8 KiB  aioli  56.1 MB/s".into() };
        assert_eq!(progress.to_string(), " 7/70  2:05 left  8 KiB  aioli  56.1 MB/s");
    }

    #[test]
    fn the_last_case_leaves_nothing() {
        let mut last = None;
        let mut listener = |progress: &Progress| last = Some(progress.clone());
        let mut track = Track::new(&mut listener);
        track.expect(2, 10.0);
        track.case(4.0, "a");
        track.case(6.0, "b");
        let last = last.unwrap();
        assert_eq!((last.cases, last.remaining), (2, Duration::ZERO));
    }
}
