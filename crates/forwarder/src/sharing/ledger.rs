//! What the scheduler's ledger says, for the status: numbers become names.

use std::collections::{BTreeMap, HashMap, HashSet};

use forebay_stats::{
    Account, ClassAccount, Gauges, Histogram, Ranking, Reading, Row, Snapshot, Top,
};
use forebay_units::{ClassId, Timestamp};

use super::classes::Classes;
use crate::settings::class::ClassSettings;
use crate::status;

/// Files that a status names; the lighter ones are added up.
const FILES_MAX: usize = 64;

/// The names of what the ledger may know, by the number that it knows them by.
pub(crate) struct Names {
    names: HashMap<u64, String>,
    /// Beyond this many, those that nobody needs are dropped.
    prune_at: usize,
    prune_at_least: usize,
}

impl Names {
    /// Room for the ledger's rows and as many more.
    pub(crate) fn new(rows_max: u32) -> Self {
        let least = (2 * rows_max as usize).max(64);
        Self { names: HashMap::new(), prune_at: least, prune_at_least: least }
    }

    /// Names something; `needed` says which numbers the ledger has rows for, and which may yet get one.
    pub(crate) fn note(&mut self, key: u64, name: String, needed: impl FnOnce() -> HashSet<u64>) {
        if self.names.len() >= self.prune_at && !self.names.contains_key(&key) {
            let needed = needed();
            self.names.retain(|key, _| needed.contains(key));
            // However many are needed, each one is looked at a few times only.
            self.prune_at = (2 * self.names.len()).max(self.prune_at_least);
        }
        self.names.insert(key, name);
    }

    pub(super) fn find(&self, key: u64) -> Option<&str> {
        self.names.get(&key).map(String::as_str)
    }
}

/// The classes of a snapshot, heaviest first.
pub(crate) fn classes(
    ranking: &Ranking<Reading<ClassAccount>>,
    classes: &Classes,
    names: &Names,
    now: Timestamp,
) -> Vec<status::Class> {
    let name = |key| names.find(key).unwrap_or_else(|| classes.rest_name()).to_owned();
    let row = |name_of_row: String, reading: &Reading<ClassAccount>| status::Class {
        name: name_of_row,
        alive: alive(&reading.now, &name, now),
        blocked_by: blockers(&reading.blockers, &name),
        account: self::account(&reading.account),
        ..status::Class::default()
    };
    let rows = ranking.rows.iter().map(|ranked| {
        let mut shown = row(name(ranked.key), &ranked.account);
        let class = ClassId(u32::try_from(ranked.key).unwrap_or(u32::MAX));
        if let Some((connections, settings)) = classes.about(class) {
            shown.connections = u64::from(connections);
            shown.settings = said(&settings);
        }
        shown
    });
    let other = &ranking.other;
    let is_empty = other.account.requests() == 0 && is_idle(&other.now);
    rows.chain((!is_empty).then(|| row("forgotten".to_owned(), other))).collect()
}

fn said(settings: &ClassSettings) -> BTreeMap<String, String> {
    settings.entries().map(|(key, text)| (key.to_owned(), text)).collect()
}

/// The heaviest files of a snapshot.
pub(crate) fn files(
    snapshot: &Snapshot,
    classes: &Classes,
    class_names: &Names,
    names: &Names,
    now: Timestamp,
) -> Vec<status::File> {
    let Ranking { rows, other, .. } = &snapshot.files;
    let class = |key| class_names.find(key).unwrap_or_else(|| classes.rest_name()).to_owned();
    let row = |name: String, reading: &Reading<Account>| status::File {
        name,
        alive: alive(&reading.now, &class, now),
        account: account(reading),
    };
    let name = |key| names.find(key).map_or_else(|| format!("file {key:016x}"), str::to_owned);
    let shown = rows.iter().take(FILES_MAX).map(|ranked| row(name(ranked.key), &ranked.account));
    let mut rest = other.clone();
    for ranked in rows.iter().skip(FILES_MAX) {
        rest.absorb(&ranked.account);
        rest.now.absorb(&ranked.account.now);
    }
    let is_empty = rest.requests() == 0 && is_idle(&rest.now);
    shown.chain((!is_empty).then(|| row("other".to_owned(), &rest))).collect()
}

fn is_idle(gauges: &Gauges) -> bool {
    gauges.waiting + gauges.in_flight == 0
}

fn alive(gauges: &Gauges, name: &impl Fn(u64) -> String, now: Timestamp) -> status::Alive {
    status::Alive {
        waiting: gauges.waiting,
        oldest_waiting_ns: gauges.oldest_waiting.map_or(0, |arrived| (now - arrived).0),
        blocked_now: gauges.blocked,
        blocked_now_ns: gauges.blocked_time.0,
        blocked_now_by: blockers(&gauges.blockers, name),
        in_flight: gauges.in_flight,
    }
}

fn blockers(of: &Top<u64>, name: &impl Fn(u64) -> String) -> Vec<status::Blocker> {
    let rows = of.ranking().rows.into_iter();
    rows.map(|row| status::Blocker {
        class: name(row.key),
        requests: row.account,
        time_ns: row.certain_weight(),
    })
    .collect()
}

fn account(account: &Account) -> status::Account {
    status::Account {
        requests: account.requests(),
        bytes: account.bytes().0,
        read_requests: account.reads.requests,
        read_bytes: account.reads.bytes.0,
        bypassed: account.bypassed,
        batches: account.batches,
        batched_requests: account.batched_requests,
        waits: account.waits,
        waited_ns: account.waited.0,
        throttled: account.throttled,
        throttled_ns: account.throttled_time.0,
        blocked: account.blocked,
        blocked_ns: account.blocked_time.0,
        queue_time: times(&account.queue_time),
        device_time: times(&account.device_time),
    }
}

fn times(histogram: &Histogram) -> status::Times {
    status::Times {
        sum_ns: histogram.sum().0,
        p50_ns: histogram.percentile(50.0).0,
        p99_ns: histogram.percentile(99.0).0,
        max_ns: histogram.max().0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_needed_are_kept_however_many_they_are() {
        let mut names = Names::new(8);
        let mut asked = 0;
        for key in 0..10_000 {
            names.note(key, key.to_string(), || {
                asked += 1;
                (0..5000).collect()
            });
        }
        assert!((0..5000).all(|key| names.find(key) == Some(key.to_string().as_str())));
        assert!(asked < 10, "asked {asked} times");
        for key in 10_000..30_000 {
            names.note(key, key.to_string(), || HashSet::from([7]));
        }
        assert!(names.names.len() <= 10_000 && names.find(7).is_some(), "{}", names.names.len());
    }
}
