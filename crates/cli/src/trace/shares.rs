//! Recorded shares in real time: told to a forwarder as `forebay set` would, from the moment on at
//! which the trace tells them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use forebay_client::Endpoint;
use forebay_sched::sharing::{
    AtLimit, ClassShare, CostModel, Discipline, Rate, Share, SharingSettings,
};
use forebay_trace::Adjustment;
use forebay_units::{Bytes, ClassId, Timestamp};

use crate::asked::Asked;
use crate::console::say;
use crate::failure::{Failure, USAGE};

/// What a class's clients call their job.
pub(super) fn job(class: ClassId) -> String {
    format!("class-{}", class.0)
}

/// Changes of shares, at their times since the first request.
pub(super) struct Shares {
    first: Vec<Vec<String>>,
    later: Vec<(Timestamp, Vec<String>)>,
}

/// What a forwarder has no words for.
type Missing = BTreeSet<&'static str>;

/// What a forwarder takes for `sharing.quantum_bytes`, and for `sharing.lend_below`.
const QUANTUM: RangeInclusive<u64> = Bytes::kib(4).0..=Bytes::mib(256).0;
const LEND_BELOW: RangeInclusive<u32> = 1..=4096;

/// Refusals that are told one by one.
const REFUSALS_TOLD: usize = 10;

impl Shares {
    /// Those of a recording, whose classes shared as `made` at first, as words for a forwarder;
    /// what it has no words for is said.
    pub(super) fn of(made: Option<SharingSettings>, changes: &[(Timestamp, Adjustment)]) -> Self {
        let mut missing = Missing::new();
        let shares = Self::new(made, changes, &mut missing);
        for what in missing {
            say(format_args!("forebay: not replayed in real time: {what}"));
        }
        shares
    }

    fn new(
        made: Option<SharingSettings>,
        changes: &[(Timestamp, Adjustment)],
        missing: &mut Missing,
    ) -> Self {
        let begun = changes.partition_point(|(at, _)| *at == Timestamp(0));
        let (mut sharing, mut classes) = (made, BTreeMap::new());
        for (_, change) in &changes[..begun] {
            match change {
                Adjustment::Class(class, share) => {
                    classes.insert(*class, of_class(*class, share.as_ref(), missing));
                }
                Adjustment::Sharing(settings) => sharing = Some(*settings),
                Adjustment::Group(..) => _ = missing.insert(USERS),
                Adjustment::Policy(_) | Adjustment::ClassPolicy(..) => {}
            }
        }
        // A forwarder keeps so many names only, and has the defaults for the others.
        let default = |class| of_class(class, None, &mut Missing::new());
        classes.retain(|class, words| *words != default(*class));
        let sharing = sharing.map(|sharing| of_sharing(&sharing, missing));
        let first = sharing.into_iter().chain(classes.values().cloned()).collect();
        let mut later = Vec::new();
        for (at, change) in &changes[begun..] {
            let words = match change {
                Adjustment::Class(class, share) => {
                    let words = of_class(*class, share.as_ref(), missing);
                    let before = classes.insert(*class, words.clone());
                    if before.unwrap_or_else(|| default(*class)) == words {
                        continue;
                    }
                    words
                }
                Adjustment::Sharing(settings) => of_sharing(settings, missing),
                Adjustment::Group(..) => {
                    missing.insert(USERS);
                    continue;
                }
                Adjustment::Policy(_) | Adjustment::ClassPolicy(..) => continue,
            };
            later.push((*at, words));
        }
        Self { first, later }
    }

    /// Tells what holds from the beginning; what is refused is said.
    ///
    /// # Errors
    /// If the forwarder cannot be told anything.
    pub(super) fn begin(&self, endpoint: &Endpoint) -> Result<(), Failure> {
        if self.first.is_empty() {
            return Ok(());
        }
        let mut told = Telling::to(endpoint)?;
        self.first.iter().try_for_each(|words| told.tell(words))
    }

    /// Tells what changes, each at its time, until `over` hangs up. What fails is said: it is no
    /// reason to lose what is being played.
    pub(super) fn go_on(&self, endpoint: &Endpoint, over: &Receiver<()>) {
        if self.later.is_empty() {
            return;
        }
        if let Err(error) = self.tell_later(endpoint, over) {
            say(format_args!("forebay: later recorded changes are not replayed: {error}"));
        }
    }

    fn tell_later(&self, endpoint: &Endpoint, over: &Receiver<()>) -> Result<(), Failure> {
        let (mut told, start) = (Telling::to(endpoint)?, Instant::now());
        for (at, words) in &self.later {
            let left = Duration::from_nanos(at.0).saturating_sub(start.elapsed());
            match over.recv_timeout(left) {
                Err(RecvTimeoutError::Timeout) => told.tell(words)?,
                Ok(()) | Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        Ok(())
    }
}

/// A forwarder that is told recorded changes.
struct Telling {
    asked: Asked,
    refusals: usize,
}

impl Telling {
    fn to(endpoint: &Endpoint) -> Result<Self, Failure> {
        let endpoint = endpoint.to_string();
        let asked = Asked::connect(&endpoint, "forebay trace replay", "nothing was set at")?;
        Ok(Self { asked, refusals: 0 })
    }

    /// Says what is refused; fails if there is no answer.
    fn tell(&mut self, words: &[String]) -> Result<(), Failure> {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match self.asked.tell(&words) {
            Ok(_) => {}
            Err(error) if error.code == USAGE => {
                self.refusals += 1;
                if self.refusals <= REFUSALS_TOLD {
                    let words = words.join(" ");
                    say(format_args!("forebay: not replayed in real time: {words}: {error}"));
                }
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

impl Drop for Telling {
    fn drop(&mut self) {
        if self.refusals > REFUSALS_TOLD {
            let more = self.refusals - REFUSALS_TOLD;
            say(format_args!("forebay: and {more} more changes that the forwarder refused"));
        }
    }
}

const USERS: &str = "shares of users: all clients are one user here";

fn of_sharing(settings: &SharingSettings, missing: &mut Missing) -> Vec<String> {
    let SharingSettings { discipline, cost, quantum, lend_below, capacity } = *settings;
    let mut words = vec![match discipline {
        Discipline::Sfq | Discipline::Drr | Discipline::Sw(_) => format!("discipline={discipline}"),
        Discipline::Twins(_) => {
            missing.insert("windows of data servers (twins): classes share by sfq instead");
            "discipline=sfq".into()
        }
    }];
    if let Discipline::Sw(sw) = discipline {
        let windows = if sw.is_strict { "strict" } else { "work-conserving" };
        words.extend([format!("sw_window={}ns", sw.window.0), format!("windows={windows}")]);
    }
    words.push(if cost == CostModel::BYTES {
        "cost=bytes".into()
    } else if cost == CostModel::OPS {
        "cost=requests".into()
    } else {
        missing.insert("what a batch costs in a device's time: the forwarder estimates it anew");
        "cost=time".into()
    });
    let is_in_bytes = [cost.read, cost.write].iter().all(|tariff| tariff.per_mib == 1 << 20);
    if is_in_bytes && QUANTUM.contains(&quantum) {
        words.push(format!("quantum_bytes={quantum}"));
    } else {
        missing.insert("a quantum that is not 4 KiB to 256 MiB: the forwarder has its own");
    }
    if LEND_BELOW.contains(&lend_below) {
        words.push(format!("lend_below={lend_below}"));
    } else {
        missing.insert("lend_below above 4096, the most that a forwarder has");
    }
    match capacity {
        None => words.push("capacity=none".into()),
        Some(cost @ 1..=Rate::MAX) => words.push(format!("capacity={cost}/s")),
        Some(_) => _ = missing.insert("a capacity that no forwarder has"),
    }
    words
}

fn of_class(class: ClassId, own: Option<&ClassShare>, missing: &mut Missing) -> Vec<String> {
    let ClassShare { share, reservation, .. } = own.copied().unwrap_or_default();
    let Share { weight, ops, bytes, cost, at_limit } = share;
    let has_own_burst = |rate: Option<Rate>, told: fn(u64) -> Rate| {
        rate.is_some_and(|rate| rate != told(rate.per_second))
    };
    for (is_so, what) in [
        (reservation > 0, "reservations, which a trace does not tell in bytes"),
        (cost.is_some(), "limits by cost: a forwarder has them by bytes and by requests"),
        (
            has_own_burst(ops, Rate::ops) || has_own_burst(bytes, Rate::bytes),
            "what may go at once within a limit: a forwarder has 3 requests and 1 MiB",
        ),
    ] {
        if is_so {
            missing.insert(what);
        }
    }
    let rate = |rate: Option<Rate>| {
        rate.map_or_else(|| "none".into(), |rate| format!("{}/s", rate.per_second))
    };
    let at_limit = if at_limit == AtLimit::Wait { "wait" } else { "borrow" };
    vec![
        "class".into(),
        job(class),
        format!("weight={weight}"),
        format!("limit_bytes_per_second={}", rate(bytes)),
        format!("limit_operations_per_second={}", rate(ops)),
        format!("at_limit={at_limit}"),
    ]
}

#[cfg(test)]
mod tests {
    use forebay_sched::sharing::{SwSettings, Tariff, TwinsSettings};
    use forebay_units::Nanos;

    use super::*;

    fn shares(made: Discipline, changes: &[(u64, Adjustment)]) -> (Shares, Vec<&'static str>) {
        let made = SharingSettings { discipline: made, ..SharingSettings::default() };
        let changes: Vec<_> = changes.iter().map(|(at, it)| (Timestamp(*at), *it)).collect();
        let mut missing = Missing::new();
        let shares = Shares::new(Some(made), &changes, &mut missing);
        (shares, missing.into_iter().collect())
    }

    #[test]
    fn sharing_is_told_as_a_forwarder_has_it_and_what_it_has_not_is_named() {
        let sw = SwSettings { window: Nanos::millis(20), is_strict: true, ..Default::default() };
        let (found, missing) = shares(Discipline::Sw(sw), &[]);
        assert!(missing.is_empty(), "{missing:?}");
        let words = "discipline=sw sw_window=20000000ns windows=strict cost=bytes \
                     quantum_bytes=1048576 lend_below=1 capacity=none";
        assert_eq!(found.first, [words.split(' ').collect::<Vec<_>>()]);

        // A header that says twins, without a word of it later.
        let (found, missing) = shares(Discipline::Twins(TwinsSettings::default()), &[]);
        assert_eq!(found.first[0][0], "discipline=sfq");
        assert!(missing.len() == 1 && missing[0].contains("twins"), "{missing:?}");

        let time = CostModel::both(Tariff { per_batch: 9, per_request: 0, per_mib: 7 });
        let capacity = Some(77);
        let drr = SharingSettings {
            discipline: Discipline::Drr,
            cost: time,
            lend_below: 3,
            capacity,
            ..SharingSettings::default()
        };
        let limit = Some(Rate { per_second: 5, burst: 9 });
        let share = Share { bytes: limit, cost: limit, ..Share::default() };
        let class = ClassShare { share, reservation: 1, group: None };
        let class = Adjustment::Class(ClassId(1), Some(class));
        let (found, missing) =
            shares(Discipline::Sfq, &[(0, class), (5, Adjustment::Sharing(drr))]);
        let words = ["discipline=drr", "cost=time", "lend_below=3", "capacity=77/s"];
        assert_eq!(found.later, [(Timestamp(5), words.map(str::to_owned).to_vec())]);
        for part in ["a batch costs", "a quantum", "limits by cost", "at once", "reservations"] {
            assert!(missing.iter().any(|what| what.contains(part)), "{part}: {missing:?}");
        }
        assert_eq!(missing.len(), 5, "{missing:?}");
    }

    #[test]
    fn classes_are_told_when_something_changes_for_them() {
        let own = |weight| {
            let share = Share { weight, ..Share::default() };
            Some(ClassShare { share, ..ClassShare::default() })
        };
        let mut changes = vec![(0, Adjustment::Class(ClassId(1), own(3)))];
        let later = [(1, own(3)), (1, None), (1, None), (2, own(5)), (2, own(1))];
        changes.extend(later.map(|(class, share)| (9, Adjustment::Class(ClassId(class), share))));
        // Any number of jobs that come and go.
        changes.extend((10..9_000).flat_map(|class| {
            [own(1), None].map(|share| (u64::from(class), Adjustment::Class(ClassId(class), share)))
        }));
        let (found, _) = shares(Discipline::Sfq, &changes);
        assert_eq!(found.first.len(), 2);
        let told: Vec<_> =
            found.later.iter().map(|(_, words)| (words[1].as_str(), words[2].as_str())).collect();
        assert_eq!(
            told,
            [("class-1", "weight=1"), ("class-2", "weight=5"), ("class-2", "weight=1")]
        );
    }
}
