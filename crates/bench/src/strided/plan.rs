//! Which cases a strided suite runs, and how much each moves.
//!
//! Throughput differs fifty-fold between cases, so a case is as large as what its disk can move in
//! about the same time; rates are compared, not times.

use forebay_device::{Profile, SplitMix64};
use forebay_units::{Bytes, Direction};

/// Processes that share the file.
pub(crate) const PROCESSES: u64 = 32;

/// The policies in the order of the table; `to` is what the disk gets without scheduling, and
/// [`AUTO`] chooses one of the others.
pub(crate) const POLICIES: [&str; 7] = ["to", "to-agg", "sjf", "mlf", "aioli", "hbrr", AUTO];

/// The policy that is another one.
pub(crate) const AUTO: &str = "auto";

/// The disk of the lab page and of the acceptance figures.
pub(crate) const DISK: &str = "hdd-57";

/// A device without an arm, slow enough that this machine can play it.
pub(crate) const FLASH: &str = "edel";

/// The policy in whose place the table says that there was one reader only.
pub(crate) const SEQUENTIAL: &str = "sequential";

/// One run: who does how much in which pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Case {
    /// [`DISK`] or [`FLASH`].
    pub(crate) device: &'static str,
    /// One of [`POLICIES`], or [`SEQUENTIAL`].
    pub(crate) policy: &'static str,
    /// Bytes of one read or write.
    pub(crate) granularity: Bytes,
    /// Reads or writes of each of the processes, if there are 32.
    pub(crate) rounds: u64,
}

/// How much a plan takes on.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Extent {
    granularities: Vec<Bytes>,
    /// What a case should take.
    seconds: f64,
    rounds_min: u64,
}

impl Extent {
    /// 8 KiB … 4 MiB, in less than five minutes.
    pub(crate) fn whole() -> Self {
        let granularities = (3..=12).map(|power| Bytes::kib(1 << power)).collect();
        Self { granularities, seconds: 1.4, rounds_min: 2 }
    }

    /// A look, in half a minute.
    pub(crate) fn quick() -> Self {
        let granularities = [8, 64, 1024].map(Bytes::kib).to_vec();
        Self { granularities, seconds: 0.6, rounds_min: 1 }
    }
}

impl Case {
    pub(crate) fn is_sequential(&self) -> bool {
        self.policy == SEQUENTIAL
    }

    /// Bytes that all processes together move.
    pub(crate) fn bytes(&self) -> u64 {
        self.granularity.0 * PROCESSES * self.rounds
    }

    /// What it will take, if the policy does what it can.
    pub(crate) fn seconds(&self, direction: Direction) -> f64 {
        self.bytes() as f64 / rate(self.device, self.policy, self.granularity, direction)
    }
}

/// Bytes a second that the policy can hope for.
fn rate(device: &str, policy: &str, granularity: Bytes, direction: Direction) -> f64 {
    let profile = Profile::by_name(device).expect("a case is on a device that has a name");
    let time = match policy {
        "to" => profile.random_time(direction, granularity),
        _ => profile.sequential_time(direction, granularity),
    };
    granularity.0 as f64 * 1e9 / time.0 as f64
}

/// The cases in the order in which they run: the disk first, by granularity, the reference first.
pub(crate) fn cases(extent: &Extent, direction: Direction) -> Vec<Case> {
    let case = |device, policy, granularity: Bytes| {
        let bytes = extent.seconds * rate(device, policy, granularity, direction);
        let rounds = (bytes / (granularity.0 * PROCESSES) as f64).round() as u64;
        Case { device, policy, granularity, rounds: rounds.max(extent.rounds_min) }
    };
    let on = |device, policies: &[&'static str]| -> Vec<Case> {
        let of = |granularity: &Bytes| {
            policies.iter().map(|policy| case(device, policy, *granularity)).collect::<Vec<_>>()
        };
        extent.granularities.iter().flat_map(of).collect()
    };
    let with_reference: Vec<&str> = std::iter::once(SEQUENTIAL).chain(POLICIES).collect();
    [on(DISK, &with_reference), on(FLASH, &POLICIES)].concat()
}

/// The order in which the processes are started, and so roughly that in which their first requests
/// arrive: processes of a job do not arrive in the order of their ranks. Always the same one.
pub(crate) fn order_of_start(processes: u64) -> Vec<u64> {
    let mut random = SplitMix64::new(57);
    let mut order: Vec<u64> = (0..processes).collect();
    for last in (1..order.len()).rev() {
        let other = random.below(last as u64 + 1) as usize;
        order.swap(last, other);
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_start_in_another_order_than_their_ranks() {
        let mut order = order_of_start(PROCESSES);
        let in_step = order.windows(2).filter(|two| two[0] + 1 == two[1]).count();
        assert!(in_step < 4, "{order:?}");
        order.sort_unstable();
        assert!(order.into_iter().eq(0..PROCESSES));
    }

    fn plan(extent: &Extent, direction: Direction) -> (Vec<Case>, f64) {
        let cases = cases(extent, direction);
        let seconds = cases.iter().map(|case| case.seconds(direction)).sum();
        (cases, seconds)
    }

    #[test]
    fn a_whole_suite_fits_into_five_minutes() {
        for direction in [Direction::Read, Direction::Write] {
            let (cases, seconds) = plan(&Extent::whole(), direction);
            assert_eq!(cases.len(), 150);
            assert!((60.0..300.0).contains(&seconds), "{seconds}");
        }
    }

    #[test]
    fn a_look_takes_half_a_minute() {
        let (cases, seconds) = plan(&Extent::quick(), Direction::Read);
        assert_eq!(cases.len(), 45);
        assert!(seconds < 30.0, "{seconds}");
    }

    #[test]
    fn every_granularity_has_its_reference_and_every_policy() {
        let (cases, _) = plan(&Extent::whole(), Direction::Read);
        let (disk, flash) = cases.split_at(80);
        for group in disk.chunks(1 + POLICIES.len()) {
            assert!(group[0].is_sequential());
            assert!(group.iter().all(|case| case.granularity == group[0].granularity));
        }
        assert!(disk.iter().all(|case| case.device == DISK));
        assert!(flash.iter().all(|case| case.device == FLASH && !case.is_sequential()));
        for cases in [disk, flash] {
            let ends = (cases[0].granularity, cases.last().unwrap().granularity);
            assert_eq!(ends, (Bytes::kib(8), Bytes::mib(4)));
        }
    }

    #[test]
    fn every_process_does_something_more_than_once() {
        let (cases, _) = plan(&Extent::whole(), Direction::Read);
        assert!(cases.iter().all(|case| case.rounds >= 2));
    }
}
