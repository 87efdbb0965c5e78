//! How classes share, by key and value: what the options begin with, and what changes live.

use forebay_controller::Storage;
use forebay_sched::policies::sw::SwSettings;
use forebay_sched::sharing::{
    CostModel, Discipline, Rate, SharingSettings, Tariff, TwinsSettings, WindowIdle,
};
use forebay_units::{Bytes, Nanos, Timestamp};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::options::{REQUESTS_MAX, SECOND};
use crate::settings::Parameter;

/// Whose turn it is, what a batch costs, and the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sharing {
    pub(crate) turns: Turns,
    /// Under those that have windows; the others do not ask.
    pub(crate) windows: Windows,
    pub(crate) twins_window: Nanos,
    pub(crate) twins_idle: Nanos,
    pub(crate) twins_targets: u32,
    twins_shift: u32,
    sw_window: Nanos,
    /// The wall clock when the controller's own began, in nanoseconds since 1970: windows begin at
    /// multiples of their length since then, so they are aligned where clocks are.
    pub(crate) clock_base_ns: u64,
    cost: Cost,
    /// What suits the cost, if nobody has said anything else.
    quantum: Option<u64>,
    lend_below: u32,
    capacity: Option<u64>,
}

/// Whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turns {
    Sfq,
    Drr,
    Twins,
    Sw,
}

/// Whether windows may be left while the device would idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Windows {
    WorkConserving,
    Strict,
}

/// What a batch costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cost {
    Bytes,
    Requests,
    /// What it takes of the device.
    Time,
    Tariffs(CostModel),
}

const TURNS: [(&str, Turns); 4] =
    [("sfq", Turns::Sfq), ("drr", Turns::Drr), ("twins", Turns::Twins), ("sw", Turns::Sw)];
const KINDS_OF_WINDOWS: [(&str, Windows); 2] =
    [("work-conserving", Windows::WorkConserving), ("strict", Windows::Strict)];
const COSTS: [(&str, Cost); 3] =
    [("bytes", Cost::Bytes), ("requests", Cost::Requests), ("time", Cost::Time)];

const DISCIPLINE: &str = "sharing.discipline";
const WINDOWS: &str = "sharing.windows";
const COST: &str = "sharing.cost";
const COST_READ: &str = "sharing.cost_read";
const COST_WRITE: &str = "sharing.cost_write";

/// The keys that have words for values.
const WORDS: [&str; 5] = [DISCIPLINE, WINDOWS, COST, COST_READ, COST_WRITE];

const PARAMETERS: &[Parameter<Sharing>] = &[
    Parameter("sharing.quantum", 1, 1 << 40, |to, value| to.quantum = Some(value)),
    Parameter("sharing.lend_below", 1, REQUESTS_MAX, |to, value| to.lend_below = value as u32),
    Parameter("sharing.capacity", 0, Rate::MAX, |to, value| {
        to.capacity = (value > 0).then_some(value);
    }),
    Parameter("sharing.twins_window_ns", 1_000, 60 * SECOND, |to, value| {
        to.twins_window = Nanos(value);
    }),
    Parameter("sharing.twins_idle_ns", 0, 60 * SECOND, |to, value| to.twins_idle = Nanos(value)),
    Parameter("sharing.twins_targets", 1, 65_000, |to, value| to.twins_targets = value as u32),
    Parameter("sharing.twins_shift", 0, 65_000, |to, value| to.twins_shift = value as u32),
    Parameter("sharing.sw_window_ns", 1_000, 60 * SECOND, |to, value| to.sw_window = Nanos(value)),
];

/// Every key.
pub(crate) fn keys() -> impl Iterator<Item = &'static str> {
    WORDS.into_iter().chain(PARAMETERS.iter().map(|parameter| parameter.0))
}

/// How much a batch costs under `time` beside its bytes, in the bytes that could have been moved
/// meanwhile: a disk that turns moves about half a MiB in the time of a seek, others far less.
fn position(device: Storage) -> Bytes {
    if device == Storage::Disk { Bytes::kib(512) } else { Bytes::kib(64) }
}

/// What one of few words stands for.
fn word<T: Copy>(key: &str, value: &str, all: &[(&str, T)]) -> Result<T, Failure> {
    let known = all.iter().find(|(name, _)| name.eq_ignore_ascii_case(value));
    known.map(|(_, what)| *what).ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
        Failure::invalid(format_args!("{key} = {value}: not one of {}", names.join(", ")))
    })
}

/// Cost of a batch, of each request and of each MiB, as a trace spells it: `65536,0,1048576`.
fn tariff(key: &str, value: &str) -> Result<Tariff, Failure> {
    let numbers: Option<Vec<u64>> = value.split(',').map(|number| number.parse().ok()).collect();
    match numbers.as_deref() {
        Some(&[per_batch, per_request, per_mib])
            if [per_batch, per_request, per_mib].iter().all(|cost| *cost <= Rate::MAX) =>
        {
            Ok(Tariff { per_batch, per_request, per_mib })
        }
        _ => Err(Failure::invalid(format_args!(
            "{key} = {value}: not PER_BATCH,PER_REQUEST,PER_MIB, whole numbers to {}",
            Rate::MAX
        ))),
    }
}

impl Sharing {
    /// By bytes, and what else `forebay_options` has no field for as it is by default.
    pub(crate) fn new(turns: Turns, windows: Windows) -> Self {
        Self {
            turns,
            windows,
            twins_window: Nanos(1_000_000),
            twins_idle: Nanos(100_000),
            twins_targets: 1,
            twins_shift: 0,
            sw_window: SwSettings::default().window,
            clock_base_ns: 0,
            cost: Cost::Bytes,
            quantum: None,
            lend_below: 1,
            capacity: None,
        }
    }

    /// Changes what one of [`keys`] names.
    pub(crate) fn set(&mut self, key: &str, value: &str, device: Storage) -> Result<(), Failure> {
        match key {
            DISCIPLINE if value == "none" => {
                return Err(Failure::invalid(
                    "sharing.discipline = none: classes are there as long as the controller is",
                ));
            }
            DISCIPLINE => self.turns = word(key, value, &TURNS)?,
            WINDOWS => self.windows = word(key, value, &KINDS_OF_WINDOWS)?,
            COST => self.cost = word(key, value, &COSTS)?,
            COST_READ | COST_WRITE => {
                let (tariff, mut cost) = (tariff(key, value)?, self.cost_model(device));
                *(if key == COST_READ { &mut cost.read } else { &mut cost.write }) = tariff;
                self.cost = Cost::Tariffs(cost);
            }
            _ => {
                let known = PARAMETERS.iter().find(|parameter| parameter.0 == key);
                known.expect("one of the keys").set(self, value)?;
            }
        }
        Ok(())
    }

    /// Whether it is another one before another device.
    pub(crate) fn depends_on_device(&self) -> bool {
        self.cost == Cost::Time
    }

    fn cost_model(&self, device: Storage) -> CostModel {
        match self.cost {
            Cost::Bytes => CostModel::BYTES,
            Cost::Requests => CostModel::OPS,
            Cost::Time => {
                let per_batch = position(device).0;
                CostModel::both(Tariff { per_batch, per_request: 0, per_mib: 1 << 20 })
            }
            Cost::Tariffs(cost) => cost,
        }
    }

    /// As the scheduler takes it.
    pub(crate) fn settings(&self, device: Storage) -> SharingSettings {
        let is_strict = self.windows == Windows::Strict;
        // How many windows have begun between 1970 and `start`, which is less than a window away.
        let begun = |window: Nanos| self.clock_base_ns.div_ceil(window.0);
        let start =
            |window: Nanos| Timestamp((window.0 - self.clock_base_ns % window.0) % window.0);
        let fitting = if self.cost == Cost::Requests { 64 } else { 1 << 20 };
        SharingSettings {
            discipline: match self.turns {
                Turns::Sfq => Discipline::Sfq,
                Turns::Drr => Discipline::Drr,
                Turns::Twins => {
                    let targets = u64::from(self.twins_targets);
                    let shift = begun(self.twins_window) % targets + u64::from(self.twins_shift);
                    Discipline::Twins(TwinsSettings {
                        window: self.twins_window,
                        targets: self.twins_targets,
                        shift: (shift % targets) as u32,
                        start: start(self.twins_window),
                        idle: match self.windows {
                            Windows::Strict => WindowIdle::Strict,
                            Windows::WorkConserving => WindowIdle::LendAfter(self.twins_idle),
                        },
                    })
                }
                Turns::Sw => Discipline::Sw(SwSettings {
                    window: self.sw_window,
                    start: start(self.sw_window),
                    is_strict,
                }),
            },
            cost: self.cost_model(device),
            quantum: self.quantum.unwrap_or(fitting),
            lend_below: self.lend_below,
            capacity: self.capacity,
        }
    }

    /// For people.
    pub(crate) fn text(&self, device: Storage) -> Value {
        let SharingSettings { cost, quantum, lend_below, capacity, .. } = self.settings(device);
        let name = TURNS.iter().find(|(_, turns)| *turns == self.turns);
        let windows = KINDS_OF_WINDOWS.iter().find(|(_, windows)| *windows == self.windows);
        let has_windows = matches!(self.turns, Turns::Twins | Turns::Sw);
        let tariff = |of: Tariff| {
            json!({
                "per_batch": of.per_batch,
                "per_request": of.per_request,
                "per_mib": of.per_mib,
            })
        };
        json!({
            "discipline": name.map(|(name, _)| *name),
            "windows": windows.filter(|_| has_windows).map(|(name, _)| *name),
            "cost_read": tariff(cost.read),
            "cost_write": tariff(cost.write),
            "quantum": quantum,
            "lend_below": lend_below,
            "capacity": capacity,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(mut sharing: Sharing, key: &str, value: &str) -> Result<Sharing, Failure> {
        sharing.set(key, value, Storage::Disk).map(|()| sharing)
    }

    fn set(key: &str, value: &str) -> Result<Sharing, Failure> {
        with(Sharing::new(Turns::Sfq, Windows::WorkConserving), key, value)
    }

    fn settings(key: &str, value: &str) -> SharingSettings {
        set(key, value).unwrap().settings(Storage::Disk)
    }

    #[test]
    fn what_nobody_has_changed_is_as_the_scheduler_has_it() {
        let sharing = Sharing::new(Turns::Sfq, Windows::WorkConserving);
        assert_eq!(sharing.settings(Storage::Disk), SharingSettings::default());
    }

    #[test]
    fn each_cost_is_what_it_says() {
        assert_eq!(settings(COST, "requests").cost, CostModel::OPS);
        assert_eq!(settings(COST, "requests").quantum, 64);
        let time = set(COST, "time").unwrap();
        assert_eq!(time.settings(Storage::Disk).cost.read.per_batch, 512 << 10);
        assert_eq!(time.settings(Storage::Flash).cost.write.per_batch, 64 << 10);
        // A tariff of one direction leaves the other as it is.
        let cost = settings(COST_READ, "5,6,7").cost;
        assert_eq!(cost.read, Tariff { per_batch: 5, per_request: 6, per_mib: 7 });
        assert_eq!(cost.write, CostModel::BYTES.write);
        let both = with(time, COST_WRITE, "1,2,3").unwrap();
        let cost = both.settings(Storage::Flash).cost;
        assert_eq!((cost.read.per_batch, cost.write.per_request), (512 << 10, 2));
        assert!(time.depends_on_device() && !both.depends_on_device());
    }

    #[test]
    fn numbers_go_where_their_names_say() {
        assert_eq!(settings("sharing.quantum", "7").quantum, 7);
        assert_eq!(settings("sharing.lend_below", "9").lend_below, 9);
        assert_eq!(settings("sharing.capacity", "11").capacity, Some(11));
        assert_eq!(settings("sharing.capacity", "0").capacity, None);
        let mut sharing = set(DISCIPLINE, "twins").unwrap();
        // The third window of four has half passed when the controller's clock begins: the next one
        // is the fourth, and with a shift of five the first server's.
        sharing.clock_base_ns = 1_000_000 * 8_000 + 5_000;
        for (key, value) in [
            ("sharing.twins_window_ns", "2000"),
            ("sharing.twins_idle_ns", "3000"),
            ("sharing.twins_targets", "4"),
            ("sharing.twins_shift", "5"),
            ("sharing.sw_window_ns", "6000"),
        ] {
            sharing = with(sharing, key, value).unwrap();
        }
        let twins = |idle| {
            Discipline::Twins(TwinsSettings {
                window: Nanos(2000),
                targets: 4,
                shift: 0,
                start: Timestamp(1000),
                idle,
            })
        };
        let lent = twins(WindowIdle::LendAfter(Nanos(3000)));
        assert_eq!(sharing.settings(Storage::Disk).discipline, lent);
        let strict = with(sharing, WINDOWS, "strict").unwrap();
        assert_eq!(strict.settings(Storage::Disk).discipline, twins(WindowIdle::Strict));
        let sw = with(strict, DISCIPLINE, "sw").unwrap();
        let window = SwSettings { window: Nanos(6000), start: Timestamp(5000), is_strict: true };
        sharing.clock_base_ns = 1_000;
        let early = with(sharing, DISCIPLINE, "sw").unwrap();
        let other = SwSettings { is_strict: false, ..window };
        assert_eq!(early.settings(Storage::Disk).discipline, Discipline::Sw(other));
        let base = sw.clock_base_ns % 6000;
        let start = Timestamp(6000 - base);
        let window = SwSettings { start, ..window };
        assert_eq!(sw.settings(Storage::Disk).discipline, Discipline::Sw(window));
    }

    #[test]
    fn windows_are_those_of_1970_from_the_first_that_begins_on() {
        for (window, targets, shift) in
            [(1_000, 7, 3), (100_000_000, 20, 0), (60 * SECOND, 65_000, 65_000)]
        {
            for clock_base_ns in [0, 1, 999, 1_000, 1_763_800_000_123_456_789, u64::MAX] {
                let sharing = Sharing {
                    twins_window: Nanos(window),
                    twins_targets: targets,
                    twins_shift: shift,
                    clock_base_ns,
                    ..Sharing::new(Turns::Twins, Windows::Strict)
                };
                let Discipline::Twins(twins) = sharing.settings(Storage::Disk).discipline else {
                    panic!("it is TWINS");
                };
                assert!(twins.start.0 < window, "one server has all the time until then");
                for later in [0, 1, window - 1, window, window * u64::from(targets) + 5] {
                    let now = twins.start + Nanos(later);
                    let windows =
                        (u128::from(clock_base_ns) + u128::from(now.0)) / u128::from(window);
                    let target = (windows + u128::from(shift)) % u128::from(targets);
                    assert_eq!(u128::from(twins.target_at(now)), target, "{sharing:?} at {now:?}");
                }
            }
        }
    }

    #[test]
    fn a_failure_says_what_would_be_possible() {
        for (key, value, text) in [
            (DISCIPLINE, "fair", "sharing.discipline = fair: not one of sfq, drr, twins, sw"),
            (DISCIPLINE, "none", "as long as the controller is"),
            (COST, "money", "sharing.cost = money: not one of bytes, requests, time"),
            (COST_READ, "1,2", "sharing.cost_read = 1,2: not PER_BATCH,PER_REQUEST,PER_MIB"),
            (COST_READ, "1,2,3,4", "not PER_BATCH"),
            (COST_WRITE, "1,2,1000000000000001", "whole numbers to 1000000000000000"),
            ("sharing.quantum", "0", "not a whole number from 1 to"),
        ] {
            let failure = format!("{:?}", set(key, value).unwrap_err());
            assert!(failure.contains(text), "{failure}");
        }
    }

    #[test]
    fn every_number_is_possible_at_both_ends_and_not_beyond() {
        for Parameter(key, least, most, _) in PARAMETERS {
            assert!(set(key, &least.to_string()).is_ok() && set(key, &most.to_string()).is_ok());
            assert!(set(key, &(most + 1).to_string()).is_err(), "{key}");
            assert!(*least == 0 || set(key, &(least - 1).to_string()).is_err(), "{key}");
        }
    }
}
