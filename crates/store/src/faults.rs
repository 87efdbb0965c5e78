//! Which faults a [`Faulty`](crate::Faulty) store has, and how they are spelled.
//!
//! ```text
//!   seed=7,write:ENOSPC@3,read:short@10%,sync:EIO@2+,any:delay=5ms
//!
//!   OPERATION:FAULT[@WHEN], separated by commas
//!   OPERATION  any, open, stat, read, write, append, sync, data-sync, truncate, allocate, advise
//!   FAULT      an errno's name; short (read, write, append); delay=TIME with ns, us, ms or s
//!   WHEN       N: the N-th such call alone;  N+: that one and all later;  P%: by chance;  absent: always
//!   seed=N     what chance follows from; 0 if absent
//! ```
//!
//! Each rule counts its calls and draws its numbers by itself: the same calls in the same order
//! have the same faults, and a rule more does not change what the others do.

use std::fmt;
use std::str::FromStr;

use forebay_device::SplitMix64;
use forebay_engine::store::Operation;
use forebay_units::Nanos;
use rustix::io::Errno;

/// Rules for faults; by default there are none.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    rules: Vec<Rule>,
}

/// What is to go wrong with one call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mishap {
    pub(crate) fail: Option<Errno>,
    /// A number to choose the length from.
    pub(crate) short: Option<u64>,
    pub(crate) delay: Nanos,
}

/// A call, as far as a rule tells them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Open,
    Stat,
    Read,
    Write,
    Append,
    Sync,
    DataSync,
    Truncate,
    Allocate,
    Advise,
}

#[derive(Clone, Debug)]
struct Rule {
    /// None for any.
    kind: Option<Kind>,
    fault: Fault,
    when: When,
    seen: u64,
    chance: SplitMix64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Fail(Errno),
    Short,
    Delay(Nanos),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    Always,
    Once(u64),
    From(u64),
    Millionths(u64),
}

const MILLION: u64 = 1_000_000;

const KINDS: [(&str, Kind); 10] = [
    ("open", Kind::Open),
    ("stat", Kind::Stat),
    ("read", Kind::Read),
    ("write", Kind::Write),
    ("append", Kind::Append),
    ("sync", Kind::Sync),
    ("data-sync", Kind::DataSync),
    ("truncate", Kind::Truncate),
    ("allocate", Kind::Allocate),
    ("advise", Kind::Advise),
];

const ERRNOS: [(&str, Errno); 20] = [
    ("EACCES", Errno::ACCESS),
    ("EAGAIN", Errno::AGAIN),
    ("EBADF", Errno::BADF),
    ("EBUSY", Errno::BUSY),
    ("EDQUOT", Errno::DQUOT),
    ("EFBIG", Errno::FBIG),
    ("EINTR", Errno::INTR),
    ("EINVAL", Errno::INVAL),
    ("EIO", Errno::IO),
    ("EMFILE", Errno::MFILE),
    ("ENODEV", Errno::NODEV),
    ("ENOENT", Errno::NOENT),
    ("ENOMEM", Errno::NOMEM),
    ("ENOSPC", Errno::NOSPC),
    ("ENXIO", Errno::NXIO),
    ("EOPNOTSUPP", Errno::OPNOTSUPP),
    ("EPERM", Errno::PERM),
    ("EROFS", Errno::ROFS),
    ("ESTALE", Errno::STALE),
    ("ETIMEDOUT", Errno::TIMEDOUT),
];

impl Faults {
    /// What goes wrong with the next call of this kind. All rules that fire count; of several
    /// errors the first rule's is the call's.
    pub(crate) fn next(&mut self, kind: Kind) -> Mishap {
        let mut mishap = Mishap::default();
        for rule in self.rules.iter_mut().filter(|rule| rule.covers(kind)) {
            if !rule.fires() {
                continue;
            }
            match rule.fault {
                Fault::Fail(errno) => mishap.fail = mishap.fail.or(Some(errno)),
                Fault::Short => mishap.short = Some(rule.chance.next_u64()),
                Fault::Delay(time) => mishap.delay += time,
            }
        }
        mishap
    }
}

impl Rule {
    fn covers(&self, kind: Kind) -> bool {
        self.kind.is_none_or(|own| own == kind) && self.fault.can_befall(kind)
    }

    fn fires(&mut self) -> bool {
        self.seen += 1;
        match self.when {
            When::Always => true,
            When::Once(count) => self.seen == count,
            When::From(count) => self.seen >= count,
            When::Millionths(share) => self.chance.below(MILLION) < share,
        }
    }
}

impl Fault {
    fn can_befall(self, kind: Kind) -> bool {
        match self {
            Self::Fail(_) => true,
            Self::Short => matches!(kind, Kind::Read | Kind::Write | Kind::Append),
            // These two are answered at once; a store has no way to be slow with them but to block.
            Self::Delay(_) => !matches!(kind, Kind::Open | Kind::Stat),
        }
    }
}

impl From<Operation> for Kind {
    fn from(operation: Operation) -> Self {
        match operation {
            Operation::Read(_) => Self::Read,
            Operation::Write(_) => Self::Write,
            Operation::Append => Self::Append,
            Operation::Sync => Self::Sync,
            Operation::DataSync => Self::DataSync,
            Operation::Truncate(_) => Self::Truncate,
            Operation::Allocate { .. } => Self::Allocate,
            Operation::Advise { .. } => Self::Advise,
        }
    }
}

/// A part of a specification that means nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultsError {
    /// The whole rule.
    rule: String,
    /// Which part of it.
    part: &'static str,
    value: String,
    allowed: String,
}

impl FaultsError {
    fn new(rule: &str, part: &'static str, value: &str, allowed: impl Into<String>) -> Self {
        Self { rule: rule.into(), part, value: value.into(), allowed: allowed.into() }
    }
}

impl fmt::Display for FaultsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rule, part, value, allowed } = self;
        write!(f, "fault rule \"{rule}\": {part} \"{value}\" is not one of: {allowed}")
    }
}

impl std::error::Error for FaultsError {}

impl FromStr for Faults {
    type Err = FaultsError;

    fn from_str(text: &str) -> Result<Self, FaultsError> {
        let (mut seed, mut rules) = (0, Vec::new());
        for rule in text.split(',').map(str::trim).filter(|rule| !rule.is_empty()) {
            match rule.strip_prefix("seed=") {
                Some(number) => {
                    let allowed = "a number from 0 to 2^64 - 1";
                    seed = number
                        .parse()
                        .map_err(|_| FaultsError::new(rule, "seed", number, allowed))?;
                }
                None => rules.push(parse_rule(rule)?),
            }
        }
        let mut seeds = SplitMix64::new(seed);
        rules.iter_mut().for_each(|rule| rule.chance = SplitMix64::new(seeds.next_u64()));
        Ok(Self { rules })
    }
}

fn parse_rule(rule: &str) -> Result<Rule, FaultsError> {
    let Some((kind_name, rest)) = rule.split_once(':') else {
        return Err(FaultsError::new(rule, "form", rule, "OPERATION:FAULT[@WHEN], seed=N"));
    };
    let (fault_name, when) = match rest.split_once('@') {
        Some((fault, when)) => (fault, parse_when(rule, when)?),
        None => (rest, When::Always),
    };
    let kind = parse_kind(rule, kind_name)?;
    let fault = parse_fault(rule, fault_name)?;
    if kind.is_some_and(|kind| !fault.can_befall(kind)) {
        let able = KINDS.iter().filter(|(_, kind)| fault.can_befall(*kind)).map(|(name, _)| *name);
        let part = "an operation that can have this fault:";
        return Err(FaultsError::new(rule, part, kind_name, join(able)));
    }
    Ok(Rule { kind, fault, when, seen: 0, chance: SplitMix64::new(0) })
}

fn parse_kind(rule: &str, name: &str) -> Result<Option<Kind>, FaultsError> {
    if name == "any" {
        return Ok(None);
    }
    let found = KINDS.iter().find(|(known, _)| *known == name).map(|(_, kind)| Some(*kind));
    found.ok_or_else(|| {
        let known = KINDS.iter().map(|(known, _)| *known);
        FaultsError::new(rule, "operation", name, format!("any, {}", join(known)))
    })
}

fn parse_fault(rule: &str, name: &str) -> Result<Fault, FaultsError> {
    if name == "short" {
        return Ok(Fault::Short);
    }
    if let Some(time) = name.strip_prefix("delay=") {
        let allowed = "a whole number with ns, us, ms or s";
        let parsed = parse_time(time).ok_or_else(|| FaultsError::new(rule, "delay", time, allowed));
        return parsed.map(Fault::Delay);
    }
    let found =
        ERRNOS.iter().find(|(known, _)| *known == name).map(|(_, errno)| Fault::Fail(*errno));
    found.ok_or_else(|| {
        let known = ERRNOS.iter().map(|(known, _)| *known);
        FaultsError::new(rule, "fault", name, format!("short, delay=TIME, {}", join(known)))
    })
}

fn parse_time(text: &str) -> Option<Nanos> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: u64 = digits.parse().ok()?;
    match &text[digits.len()..] {
        "ns" => Some(Nanos(number)),
        "us" => Some(Nanos::micros(number)),
        "ms" => Some(Nanos::millis(number)),
        "s" => Some(Nanos::secs(number)),
        _ => None,
    }
}

fn parse_when(rule: &str, text: &str) -> Result<When, FaultsError> {
    let count = |digits: &str| digits.parse().ok().filter(|&count: &u64| count > 0);
    let parsed = if let Some(percent) = text.strip_suffix('%') {
        let share = percent.parse().ok().filter(|percent| (0.0..=100.0).contains(percent));
        share.map(|percent: f64| When::Millionths((percent * 10_000.0).round() as u64))
    } else if let Some(digits) = text.strip_suffix('+') {
        count(digits).map(When::From)
    } else {
        count(text).map(When::Once)
    };
    let allowed = "N or N+ from 1, P% from 0 to 100";
    parsed.ok_or_else(|| FaultsError::new(rule, "time", text, allowed))
}

fn join<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(text: &str) -> Faults {
        text.parse().unwrap()
    }

    #[test]
    fn a_count_names_one_call_or_all_from_it() {
        let mut faults = faults("write:ENOSPC@3, sync:EIO@2+");
        let mut fails = |kind| [0; 4].map(|_| faults.next(kind).fail);
        assert_eq!(fails(Kind::Write), [None, None, Some(Errno::NOSPC), None]);
        assert_eq!(fails(Kind::Sync), [None, Some(Errno::IO), Some(Errno::IO), Some(Errno::IO)]);
        assert_eq!(fails(Kind::Read), [None; 4]);
    }

    #[test]
    fn chance_follows_the_seed_and_comes_near_its_share() {
        let drawn = |text| {
            let mut faults = faults(text);
            (0..2000).map(|_| faults.next(Kind::Read).fail.is_some()).collect::<Vec<_>>()
        };
        let ten = drawn("read:EIO@10%");
        let count = ten.iter().filter(|fails| **fails).count();
        assert!((150..250).contains(&count), "{count}");
        assert_eq!(ten, drawn("seed=0,read:EIO@10%"));
        assert_ne!(ten, drawn("seed=1,read:EIO@10%"));
        assert_eq!(ten, drawn("read:EIO@10%,write:EIO@50%"));
        assert!(!drawn("read:EIO@0%").contains(&true) && !drawn("read:EIO@100%").contains(&false));
    }

    #[test]
    fn faults_add_up_and_any_means_where_it_can_be() {
        let mut faults = faults("any:delay=2ms,read:delay=500us,any:short,read:EIO,read:EPERM");
        let read = faults.next(Kind::Read);
        assert_eq!((read.fail, read.delay), (Some(Errno::IO), Nanos::micros(2_500)));
        assert!(read.short.is_some() && faults.next(Kind::Append).short.is_some());
        assert_eq!(
            faults.next(Kind::Sync),
            Mishap { delay: Nanos::millis(2), ..Mishap::default() }
        );
        assert_eq!(faults.next(Kind::Open), Mishap::default());
    }

    #[test]
    fn an_error_names_the_part_its_value_and_what_is_allowed() {
        let cases = [
            ("write", "form", "OPERATION:FAULT"),
            ("wirte:EIO", "operation \"wirte\"", "any, open, stat, read, write"),
            ("write:EOI", "fault \"EOI\"", "short, delay=TIME, EACCES"),
            ("sync:short", "can have this fault: \"sync\"", "read, write, append"),
            ("open:delay=1s", "can have this fault: \"open\"", "read"),
            ("read:delay=5", "delay \"5\"", "ns, us, ms or s"),
            ("read:EIO@0", "time \"0\"", "from 1"),
            ("read:EIO@", "time \"\"", "N or N+"),
            ("read:EIO@101%", "time \"101%\"", "0 to 100"),
            ("read:EIO,seed=x", "seed \"x\"", "a number"),
        ];
        for (text, part, allowed) in cases {
            let message = text.parse::<Faults>().unwrap_err().to_string();
            assert!(message.contains(part) && message.contains(allowed), "{message}");
        }
    }

    #[test]
    fn nothing_said_is_no_fault() {
        assert_eq!(faults("").next(Kind::Write), Mishap::default());
    }
}
