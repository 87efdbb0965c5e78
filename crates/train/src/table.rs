//! What was measured, as text: a line for each situation and arm, with the makespan of every seed.
//!
//! Whole microseconds of virtual time, so that the same program writes the same bytes on every
//! machine.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use forebay_sched::PolicyName;

use crate::situation::Situation;

/// The policies among which the tree chooses, in the order of the tables.
pub const POLICIES: [PolicyName; 6] = [
    PolicyName::To,
    PolicyName::ToAgg,
    PolicyName::Sjf,
    PolicyName::Mlf,
    PolicyName::Aioli,
    PolicyName::Hbrr,
];

/// What stands between clients and device: nothing, or a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Arm {
    /// Requests go to the device as they come, at no cost.
    Without,
    /// A policy, and the time of its decisions.
    Policy(PolicyName),
}

impl Arm {
    /// All of them, in the order of the tables.
    pub fn all() -> impl Iterator<Item = Self> {
        [Self::Without].into_iter().chain(POLICIES.map(Self::Policy))
    }

    /// As tables write it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Without => "without",
            Self::Policy(policy) => policy.as_str(),
        }
    }
}

impl fmt::Display for Arm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Makespans in microseconds: of every arm with the same seeds, in the same order.
pub type Makespans = BTreeMap<Arm, Vec<u64>>;

/// What was measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// Situations in the order of measuring.
    pub rows: Vec<(Situation, Makespans)>,
}

/// Most seeds of a situation.
const SEEDS_MAX: usize = 64;
/// Most bytes of a table.
const BYTES_MAX: usize = 64 << 20;

impl Table {
    fn heading() -> String {
        format!("{},policy,makespan_us", Situation::COLUMNS)
    }

    /// As CSV.
    pub fn to_csv(&self) -> String {
        let mut text = Self::heading() + "\n";
        for (situation, makespans) in &self.rows {
            for (arm, values) in makespans {
                let values: Vec<String> = values.iter().map(u64::to_string).collect();
                writeln!(text, "{situation},{arm},{}", values.join(" ")).expect("text takes all");
            }
        }
        text
    }

    /// Reads what [`to_csv`](Self::to_csv) writes.
    ///
    /// # Errors
    /// Which line is wrong, and what would be right.
    pub fn read_csv(text: &str) -> Result<Self, String> {
        if text.len() > BYTES_MAX {
            return Err(format!("a table of {} bytes; at most {BYTES_MAX}", text.len()));
        }
        let mut lines = text.lines();
        if lines.next() != Some(&Self::heading()) {
            return Err(format!("line 1: a table begins with \"{}\"", Self::heading()));
        }
        let mut table = Self::default();
        for (number, line) in (2..).zip(lines) {
            let read = Self::read_line(line);
            let (situation, arm, values) = read.map_err(|text| format!("line {number}: {text}"))?;
            let place = table.rows.last_mut().filter(|(last, _)| *last == situation);
            let makespans = match place {
                Some((_, makespans)) => makespans,
                None => {
                    table.rows.push((situation, Makespans::new()));
                    &mut table.rows.last_mut().expect("just pushed").1
                }
            };
            if makespans.values().any(|others| others.len() != values.len()) {
                return Err(format!("line {number}: all arms of a situation have the same seeds"));
            }
            if makespans.insert(arm, values).is_some() {
                return Err(format!("line {number}: {situation} has {arm} twice"));
            }
        }
        match table.rows.iter().find(|(_, makespans)| !Arm::all().eq(makespans.keys().copied())) {
            None => Ok(table),
            Some((situation, _)) => Err(format!("{situation}: an arm is missing")),
        }
    }

    fn read_line(line: &str) -> Result<(Situation, Arm, Vec<u64>), String> {
        let mut words = line.rsplitn(3, ',');
        let (values, arm, situation) = match (words.next(), words.next(), words.next()) {
            (Some(values), Some(arm), Some(situation)) => (values, arm, situation),
            _ => return Err(format!("a line has {}", Self::heading())),
        };
        let situation = Situation::read(situation)
            .ok_or_else(|| format!("\"{}\" is no situation", situation.escape_debug()))?;
        let arm = Arm::all()
            .find(|one| one.as_str() == arm)
            .ok_or_else(|| format!("no arm is called \"{}\"", arm.escape_debug()))?;
        let values: Option<Vec<u64>> = values
            .split(' ')
            .map(|word| word.parse().ok().filter(|value| (1..=1 << 50).contains(value)))
            .collect();
        values
            .filter(|values| values.len() <= SEEDS_MAX)
            .map(|values| (situation, arm, values))
            .ok_or_else(|| format!("makespans are 1 to {SEEDS_MAX} whole microseconds"))
    }
}
