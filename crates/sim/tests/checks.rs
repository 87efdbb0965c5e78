//! The checks find nothing wrong with the scheduler, and something with what is wrong.

use forebay_sched::request::{Accepted, RequestId};
use forebay_sched::{GuardMode, Policy, PolicyName, Requests, Selection};
use forebay_sim::check::{Checked, Plan, Promise, check, check_policy};
use forebay_units::Timestamp;

fn plan(policy: PolicyName, guard: GuardMode, seed: u64) -> Plan {
    Plan { policy, guard, promise: guard, seed }
}

#[test]
fn every_policy_keeps_every_promise_in_every_guard_mode() {
    let mut tried = Checked::default();
    for policy in PolicyName::ALL {
        for guard in GuardMode::ALL {
            for seed in 0..64 {
                match check(&plan(policy, guard, seed)) {
                    Ok(checked) => tried.add(&checked),
                    Err(violations) => panic!("{}", violations[0]),
                }
            }
        }
    }
    // The runs have met what they are about.
    for (what, count) in [
        ("requests", tried.requests / 60),
        ("merged", tried.merged),
        ("blocked", tried.blocked),
        ("cancelled", tried.cancelled),
        ("failed", tried.failed),
        ("switches", tried.switches * 20),
    ] {
        assert!(count > 3_000, "{what}: {tried:?}");
    }
}

fn kinds(plan: &Plan) -> Vec<Promise> {
    match check(plan) {
        Ok(_) => Vec::new(),
        Err(violations) => violations.into_iter().map(|violation| violation.promise).collect(),
    }
}

#[test]
fn without_a_guard_the_bytes_are_wrong_under_every_policy() {
    for policy in PolicyName::ALL {
        let found: Vec<Promise> = (0..30)
            .flat_map(|seed| {
                let promise = GuardMode::Overlap;
                kinds(&Plan { promise, ..plan(policy, GuardMode::None, seed) })
            })
            .collect();
        assert!(found.contains(&Promise::Bytes), "{policy}: the check is blind to bytes");
        assert!(found.contains(&Promise::Order), "{policy}: the check is blind to order");
    }
}

#[test]
fn a_weaker_guard_does_not_keep_a_stronger_promise() {
    for (guard, promise) in
        [(GuardMode::Client, GuardMode::Overlap), (GuardMode::Overlap, GuardMode::File)]
    {
        let broken = (0..40)
            .any(|seed| !kinds(&Plan { promise, ..plan(PolicyName::To, guard, seed) }).is_empty());
        assert!(broken, "{guard} would be {promise}");
    }
}

/// Serves the youngest first.
#[derive(Default)]
struct Youngest {
    queue: Vec<(u64, RequestId)>,
}

impl Policy for Youngest {
    fn name(&self) -> &'static str {
        "youngest"
    }

    fn add(&mut self, _now: Timestamp, _: &Requests<'_>, request: &Accepted) {
        self.queue.push((request.seq, request.id));
    }

    fn select(
        &mut self,
        _now: Timestamp,
        _: &Requests<'_>,
        batch: &mut Vec<RequestId>,
    ) -> Selection {
        let Some((_, id)) = self.queue.pop() else { return Selection::Idle };
        batch.push(id);
        Selection::Batch
    }

    fn cancel(&mut self, _now: Timestamp, _: &Requests<'_>, request: &Accepted) -> bool {
        let place = self.queue.iter().position(|(_, id)| *id == request.id);
        place.map(|place| self.queue.remove(place)).is_some()
    }

    fn drain(&mut self, _: &Requests<'_>, into: &mut Vec<RequestId>) {
        self.queue.sort_unstable();
        into.extend(self.queue.drain(..).map(|(_, id)| id));
    }

    fn queued_count(&self) -> usize {
        self.queue.len()
    }
}

#[test]
fn a_policy_that_starves_breaks_every_policys_bound() {
    for policy in PolicyName::ALL {
        let starves = |seed| {
            let made = plan(policy, GuardMode::Overlap, seed);
            let checked = check_policy(&made, |_| Box::new(Youngest::default()));
            checked.is_err_and(|found| found.iter().any(|one| one.promise == Promise::Bound))
        };
        assert!((0..30).any(starves), "{policy}: the check is blind to starvation");
    }
}

#[test]
fn a_violation_says_how_to_repeat_it() {
    let wrong = |seed| Plan {
        promise: GuardMode::Overlap,
        ..plan(PolicyName::Hbrr, GuardMode::None, seed)
    };
    let violations = (0..20).find_map(|seed| check(&wrong(seed)).err()).expect("one is found");
    let seed = violations[0].plan.seed;
    let command = format!(
        "forebay simulate --check --policy HBRR --guard none --promise overlap --seeds {seed}..{}",
        seed + 1
    );
    assert!(violations[0].to_string().ends_with(&command), "{}", violations[0]);
    assert_eq!(check(&wrong(seed)).err(), Some(violations), "and it repeats");
}
