//! Statistics as C gets them: a struct of counters, and a text in JSON with everything.

use forebay_controller::Snapshot;
use forebay_sched::ClassStats;
use forebay_select::{ArmReport, FEATURES, Switch, Why};
use forebay_stats::{Account, ClassAccount, Gauges, Histogram, Ranked, Reading, Top};
use forebay_units::{FileId, Nanos, Timestamp};
use serde_json::{Value, json};

use crate::abi::forebay_counters;

/// The counters.
pub(crate) fn counters(of: &Snapshot) -> forebay_counters {
    let counted = &of.scheduler;
    forebay_counters {
        size: size_of::<forebay_counters>(),
        submitted: counted.submitted,
        rejected: counted.rejected,
        bypassed: counted.bypassed,
        skipped: counted.skipped,
        blocked: counted.blocked,
        batches: counted.batches,
        merged: counted.merged,
        waits: counted.waits,
        waited_ns: counted.waited.0,
        queued_ns: counted.queued.0,
        completed: counted.completed,
        cancelled: counted.cancelled,
        taken_back: counted.drained,
        switches: counted.switches,
        queued_now: of.queued_count as u64,
        blocked_now: of.blocked_count as u64,
        in_flight_now: of.in_flight_count as u64,
        files_now: of.files_count as u64,
        policy_failed: u64::from(fault(of).is_some()),
    }
}

fn fault(of: &Snapshot) -> Option<String> {
    of.policy_fault.map(|fault| fault.to_string())
}

/// Everything: counters, classes, accounts by class and file if they are kept, and why the policy is
/// what it is if it is chosen.
/// `sharing` is how classes share, if there are any, and by which policy each is ordered.
pub(crate) fn text<'a>(
    of: &'a Snapshot,
    policy: &str,
    sharing: Option<(Value, impl Fn(&'a ClassStats) -> &'a str)>,
) -> String {
    let counters = counters(of);
    let mut all = json!({
        "policy": policy,
        "policy_fault": fault(of),
        "requests_submitted": counters.submitted,
        "requests_rejected": counters.rejected,
        "requests_bypassed": counters.bypassed,
        "requests_skipped": counters.skipped,
        "requests_blocked": counters.blocked,
        "requests_merged": counters.merged,
        "requests_completed": counters.completed,
        "requests_cancelled": counters.cancelled,
        "requests_taken_back": counters.taken_back,
        "requests_queued_now": counters.queued_now,
        "requests_blocked_now": counters.blocked_now,
        "requests_in_flight_now": counters.in_flight_now,
        "batches": counters.batches,
        "waits": counters.waits,
        "waited_ns": counters.waited_ns,
        "queued_ns": counters.queued_ns,
        "policy_switches": counters.switches,
        "files_now": counters.files_now,
    });
    if let Some(why) = &of.why {
        all["selection"] = selection(why, of.taken);
    }
    if let Some((sharing, policy_of)) = sharing {
        all["sharing"] = sharing;
        all["classes"] = of.classes.iter().map(|of| class(of, policy_of(of))).collect();
    }
    if let Some(accounts) = &of.accounts {
        let class = |row: &Ranked<_>| class_account(&row.account, of.taken);
        let file = |row: &Ranked<_>| file_account(&row.account, of.taken);
        all["accounts_by_class"] = rows(&accounts.classes.rows, class);
        all["accounts_of_other_classes"] = class_account(&accounts.classes.other, of.taken);
        all["accounts_by_file"] = rows(&accounts.files.rows, |row| {
            let mut file = file(row);
            let id = accounts.file_ids.get(&row.key);
            // In words: a number of 64 bits is more than JSON's readers keep.
            file["file"] = json!(id.map(|id| {
                let FileId { device: high, inode: low, generation: _ } = *id;
                json!({ "high": format!("{high:#x}"), "low": format!("{low:#x}") })
            }));
            file
        });
        all["accounts_of_other_files"] = file_account(&accounts.files.other, of.taken);
    }
    all.to_string()
}

fn selection(why: &Why, now: Timestamp) -> Value {
    let features = why.features.map(|features| {
        FEATURES.iter().map(|one| (one.as_str().to_owned(), features.get(*one).into())).collect()
    });
    let arm = |arm: &ArmReport| {
        json!({
            "policy": arm.policy.as_str(),
            "speedup": arm.speedup,
            "speedup_low": arm.speedup_low,
            "speedup_high": arm.speedup_high,
            "speedup_trained": arm.speedup_prior,
            "blocks": arm.blocks,
            "quarantine_left_ns": arm.quarantined_until.map_or(0, |until| until.0.saturating_sub(now.0)),
        })
    };
    let switched = |(at, switch): &(Timestamp, Switch)| {
        json!({
            "ago_ns": now.0.saturating_sub(at.0),
            "policy": switch.policy.as_str(),
            "reason": switch.reason.as_str(),
        })
    };
    json!({
        "policy": why.policy.as_str(),
        "reason": why.reason.as_str(),
        "features": features.map_or(Value::Null, Value::Object),
        "leaf": why.leaf.as_ref().map(|(index, _)| index),
        "path": why.leaf.as_ref().map(|(_, path)| path),
        "arms": why.arms.iter().map(arm).collect::<Vec<_>>(),
        "switches": why.switches.iter().map(switched).collect::<Vec<_>>(),
    })
}

fn rows<V>(rows: &[Ranked<V>], value: impl Fn(&Ranked<V>) -> Value) -> Value {
    let with_key = |row: &Ranked<V>| {
        let mut found = value(row);
        found["key"] = row.key.into();
        found["weight_error"] = row.error.into();
        found
    };
    rows.iter().map(with_key).collect()
}

fn class(of: &ClassStats, policy: &str) -> Value {
    json!({
        "class": of.class.0,
        "policy": policy,
        "weight": of.share.share.weight,
        "requests_ready_now": of.ready,
        "requests_blocked_now": of.blocked,
        "requests_in_flight_now": of.in_flight,
        "requests_submitted": of.counts.submitted,
        "requests_completed": of.counts.completed,
        "requests_cancelled": of.counts.cancelled,
        "requests_bypassed": of.counts.bypassed,
        "requests_boosted": of.counts.boosted,
        "requests_blocked": of.counts.blocked,
        "blocked_ns": of.counts.blocked_time.0,
        "blocked_by_others_ns": of.counts.blocked_by_others_time.0,
        "waits": of.counts.waits,
        "waited_ns": of.counts.waited.0,
        "batches": of.served.batches,
        "bytes": of.served.bytes.0,
        "batches_reserved": of.served.reserved,
        "batches_borrowed": of.served.borrowed,
        "throttled": of.served.throttled,
        "throttled_ns": of.served.throttled_time.0,
    })
}

fn account(of: &Account) -> Value {
    json!({
        "reads": of.reads.requests,
        "read_bytes": of.reads.bytes.0,
        "writes": of.writes.requests,
        "written_bytes": of.writes.bytes.0,
        "requests_bypassed": of.bypassed,
        "batches": of.batches,
        "merge_percent": of.merge_percent(),
        "waits": of.waits,
        "waited_ns": of.waited.0,
        "throttled": of.throttled,
        "throttled_ns": of.throttled_time.0,
        "blocked": of.blocked,
        "blocked_ns": of.blocked_time.0,
        "queue_time": histogram(&of.queue_time),
        "device_time": histogram(&of.device_time),
    })
}

fn class_account(of: &Reading<ClassAccount>, now: Timestamp) -> Value {
    let mut value = account(&of.account);
    value["blocked_by"] = blockers(&of.blockers);
    alive(&of.now, now, &mut value);
    value
}

fn file_account(of: &Reading<Account>, now: Timestamp) -> Value {
    let mut value = account(of);
    alive(&of.now, now, &mut value);
    value
}

/// What is of this moment.
fn alive(of: &Gauges, now: Timestamp, value: &mut Value) {
    value["requests_waiting_now"] = of.waiting.into();
    value["oldest_waiting_ns"] = of.oldest_waiting.map(|arrived| (now - arrived).0).into();
    value["requests_blocked_now"] = of.blocked.into();
    value["blocked_ns_now"] = of.blocked_time.0.into();
    value["blocked_by_now"] = blockers(&of.blockers);
    value["requests_in_flight_now"] = of.in_flight.into();
}

fn blockers(of: &Top<u64>) -> Value {
    let row = |row: &Ranked<u64>| json!({ "class": row.key, "times": row.account, "ns": row.certain_weight() });
    of.ranking().rows.iter().map(row).collect()
}

fn histogram(of: &Histogram) -> Value {
    let Nanos(mean) = of.mean();
    let [p50, p99, p999] = [50.0, 99.0, 99.9].map(|percent| of.percentile(percent).0);
    json!({ "count": of.count(), "mean_ns": mean, "p50_ns": p50, "p99_ns": p99, "p999_ns": p999 })
}

#[cfg(test)]
mod tests {
    use forebay_stats::{Ledger, LedgerOptions, Live, Stage};
    use forebay_units::{ClassId, FileIndex};

    use super::*;

    #[test]
    fn what_is_blocked_is_told_with_who_holds_it_up_before_anything_of_it_has_left() {
        let stuck = Live {
            class: ClassId(2),
            file: FileIndex(7),
            arrived: Timestamp(10),
            stage: Stage::Blocked { by: Some(ClassId(1)) },
        };
        let ledger = Ledger::new(LedgerOptions::default());
        let snapshot = ledger.snapshot(Timestamp(50), std::iter::once(stuck));
        let class = class_account(&snapshot.classes.rows[0].account, Timestamp(50));
        let file = file_account(&snapshot.files.rows[0].account, Timestamp(50));
        for told in [&class, &file] {
            assert_eq!(told["requests_waiting_now"], 1);
            assert_eq!(told["requests_blocked_now"], 1);
            assert_eq!(told["oldest_waiting_ns"], 40);
            assert_eq!(told["blocked_ns_now"], 40);
            assert_eq!(told["blocked_by_now"], json!([{ "class": 1, "times": 1, "ns": 40 }]));
            assert_eq!((&told["requests_in_flight_now"], &told["blocked"]), (&json!(0), &json!(0)));
        }
    }
}
