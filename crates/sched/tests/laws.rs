//! The laws that every policy passes, each instantiated for every policy by one macro.
//!
//! Conservation, no invention, order, bounds and the linearisation of cancels are checked by the
//! driver after every operation, so a law here says under which operations they must hold.

mod model;

use std::collections::VecDeque;

use forebay_sched::{
    Access, Batch, Bypass, Decision, GuardMode, PolicyName, Request, Room, Scheduler,
    SchedulerOptions, build,
};
use forebay_units::{ByteRange, Bytes, ClassId, ClientId, FileIndex, Nanos, Offset, Timestamp};
use model::{
    BLOCK, Driver, Op, Sharing, ops, ops_without_switch, settings, settings_without_waits,
};
use proptest::prelude::*;

macro_rules! laws {
    ($($module:ident: $policy:expr),* $(,)?) => {$(
        mod $module {
            use super::*;

            proptest! {
                #![proptest_config(config())]

                #[test]
                fn every_request_leaves_exactly_once_and_in_order(ops in ops_without_switch(150)) {
                    leaves_exactly_once($policy, GuardMode::Overlap, &ops);
                }

                #[test]
                fn the_same_holds_when_only_each_client_is_ordered(ops in ops_without_switch(100)) {
                    leaves_exactly_once($policy, GuardMode::Client, &ops);
                }

                #[test]
                fn the_same_holds_when_whole_files_are_ordered(ops in ops_without_switch(100)) {
                    leaves_exactly_once($policy, GuardMode::File, &ops);
                }

                #[test]
                fn switching_while_requests_are_queued_loses_nothing(ops in ops(150)) {
                    leaves_exactly_once($policy, GuardMode::Overlap, &ops);
                }

                #[test]
                fn the_same_calls_give_the_same_decisions(ops in ops(120)) {
                    prop_assert_eq!(trace($policy, &ops), trace($policy, &ops));
                }

                #[test]
                fn without_waits_whatever_is_ready_goes(ops in ops_without_switch(120)) {
                    never_waits($policy, Sharing::Off, &ops);
                }

                #[test]
                fn drain_hands_back_what_waits_in_arrival_order(ops in ops_without_switch(120)) {
                    drains($policy, Sharing::Off, &ops);
                }

                #[test]
                fn the_same_holds_when_classes_share(ops in ops(150)) {
                    let windows = [Sharing::Sw, Sharing::SwStrict];
                    for sharing in [Sharing::Sfq, Sharing::Drr, Sharing::Tight].iter().chain(&windows) {
                        shares($policy, GuardMode::Overlap, *sharing, &ops);
                    }
                }

                #[test]
                fn the_same_holds_when_classes_share_and_each_client_is_ordered(ops in ops(100)) {
                    shares($policy, GuardMode::Client, Sharing::Sfq, &ops);
                }

                #[test]
                fn without_waits_and_limits_whatever_is_ready_of_any_class_goes(ops in ops(120)) {
                    never_waits($policy, Sharing::Sfq, &ops);
                    never_waits($policy, Sharing::Sw, &ops);
                }

                #[test]
                fn with_classes_the_same_calls_give_the_same_decisions(ops in ops(100)) {
                    for sharing in [Sharing::Drr, Sharing::SwStrict] {
                        let trace = || shares($policy, GuardMode::Overlap, sharing, &ops);
                        prop_assert_eq!(trace(), trace());
                    }
                }

                #[test]
                fn drain_empties_all_classes(ops in ops(100)) {
                    drains($policy, Sharing::Drr, &ops);
                    drains($policy, Sharing::SwStrict, &ops);
                }

                #[test]
                fn where_batches_are_single_runs_none_has_more_requests_than_a_run(
                    ops in ops_without_switch(120)
                ) {
                    sends_single_runs($policy, &ops);
                }

                #[test]
                fn nobody_starves(seed in any::<u64>()) {
                    serves_a_victim_in_time($policy, seed);
                }
            }
        }
    )*};
}

laws! {
    to: PolicyName::To,
    to_agg: PolicyName::ToAgg,
    sjf: PolicyName::Sjf,
    mlf: PolicyName::Mlf,
    aioli: PolicyName::Aioli,
    hbrr: PolicyName::Hbrr,
    sw: PolicyName::Sw,
    noop: PolicyName::Noop,
}

#[test]
fn the_laws_are_checked_for_every_policy() {
    let checked = ["TO", "TO-agg", "SJF", "MLF", "aIOLi", "HBRR", "SW", "NOOP"];
    assert_eq!(PolicyName::ALL.map(PolicyName::as_str), checked);
}

fn config() -> ProptestConfig {
    let cases =
        std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(60);
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases) }
}

fn leaves_exactly_once(policy: PolicyName, mode: GuardMode, ops: &[Op]) {
    let mut driver = Driver::new(policy, mode, settings());
    driver.run(ops);
    driver.run_dry();
}

fn trace(policy: PolicyName, ops: &[Op]) -> Vec<String> {
    let mut driver = Driver::new(policy, GuardMode::Overlap, settings());
    driver.run(ops);
    driver.run_dry();
    driver.trace
}

/// What was decided.
fn shares(policy: PolicyName, mode: GuardMode, sharing: Sharing, ops: &[Op]) -> Vec<String> {
    let mut driver = Driver::sharing(policy, mode, settings(), sharing);
    driver.run(ops);
    driver.run_dry();
    driver.trace
}

fn never_waits(policy: PolicyName, sharing: Sharing, ops: &[Op]) {
    let mut driver = Driver::sharing(policy, GuardMode::Overlap, settings_without_waits(), sharing);
    driver.run(ops);
    driver.run_dry();
    assert_eq!(driver.scheduler.stats().waits, 0);
    assert!(!driver.trace.iter().any(|decision| decision.starts_with("Wait")));
}

/// Neighbours that fill several runs stand in the queue first.
fn sends_single_runs(policy: PolicyName, ops: &[Op]) {
    let mut settings = settings();
    settings.limits.batch_bytes_max = Bytes::ZERO;
    let mut driver = Driver::new(policy, GuardMode::Overlap, settings);
    for tag in 0..40 {
        let request = Request {
            tag,
            file: FileIndex(0),
            access: Access::Read,
            range: ByteRange::new(Offset(tag * BLOCK), Bytes(BLOCK)),
            client: ClientId(0),
            class: ClassId(0),
        };
        driver.submit(request, Room::Full);
    }
    driver.run(ops);
    driver.run_dry();
}

fn drains(policy: PolicyName, sharing: Sharing, ops: &[Op]) {
    let mut driver = Driver::sharing(policy, GuardMode::Overlap, settings(), sharing);
    driver.run(ops);
    let waiting: Vec<u64> = (0..driver.known.len() as u64)
        .filter(|seq| driver.known[*seq as usize].place == model::Place::Waiting)
        .collect();
    let mut drained = Vec::new();
    driver.scheduler.drain(&mut drained);
    assert_eq!(drained.iter().map(|accepted| accepted.seq).collect::<Vec<_>>(), waiting);
    assert_eq!(driver.scheduler.queued_count(), 0);
    assert_eq!(driver.scheduler.next(driver.now, &mut Batch::new()), Decision::Idle);
    for accepted in drained {
        let cancellation = driver.scheduler.cancel(driver.now, accepted.id);
        assert_eq!(cancellation, forebay_sched::Cancellation::Unknown, "a drained id is stale");
    }
    let in_flight = driver.known.iter().filter(|known| known.place == model::Place::InFlight);
    for known in in_flight {
        assert!(driver.scheduler.complete(driver.now, known.id, Bytes::ZERO).is_some());
    }
    assert_eq!(driver.scheduler.stats().guard_cells, 0);
}

const AHEAD: u64 = 40;
const FILES_BUSY: u64 = 4;
/// Time between two batches.
const TICK: Nanos = Nanos::millis(1);

/// Each policy's bound: how many batches leave at most, up to and including the victim's, with
/// `AHEAD` requests before it. `passes` is how many turns of its own queue may pass it over.
fn batches_max(policy: PolicyName) -> u64 {
    let (settings, ahead) = (settings(), AHEAD + 1);
    let run_max = settings.limits.run_bytes_max.0;
    match policy {
        PolicyName::To | PolicyName::ToAgg | PolicyName::Noop => ahead,
        // Whatever comes while the victim waits is in its window at the worst, of its class, and younger.
        PolicyName::Sw => ahead,
        PolicyName::Sjf => settings.sjf.age_max.0 / TICK.0 + ahead + 1,
        PolicyName::Mlf => {
            let visits = run_max.div_ceil(32 << 10);
            FILES_BUSY * (ahead * u64::from(settings.mlf.passes_max + 1) + visits)
        }
        PolicyName::Aioli => {
            let steps = run_max.div_ceil(settings.aioli.quantum_bytes_min.0);
            ahead * u64::from(settings.aioli.passes_max + 1) + steps
        }
        PolicyName::Hbrr => FILES_BUSY * 8 * ahead * u64::from(settings.hbrr.passes_max + 1),
    }
}

/// One victim among requests that do their best to be preferred: they continue the last batch,
/// they are small, they come at once whenever something has left.
fn serves_a_victim_in_time(policy: PolicyName, seed: u64) {
    let options = SchedulerOptions { bypass: Bypass::Never, ..SchedulerOptions::default() };
    let mut scheduler = Scheduler::new(options, build(policy, &settings()));
    let mut now = Timestamp(0);
    let mut random = seed;
    let mut next_random = move |below: u64| {
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % below
    };
    let read = |tag: u64, file: u64, block: u64, count: u64| Request {
        tag,
        file: FileIndex(file as u32),
        access: Access::Read,
        range: ByteRange::new(Offset(block * BLOCK), Bytes(count * BLOCK)),
        client: ClientId(0),
        class: ClassId(0),
    };
    for _ in 0..AHEAD {
        let request = read(0, next_random(FILES_BUSY), next_random(1_000), 1 + next_random(4));
        scheduler.submit(now, request, Room::Full).expect("there is room");
    }
    scheduler.submit(now, read(1, 0, 500, 8), Room::Full).expect("there is room");
    let mut batch = Batch::new();
    let mut ends: VecDeque<(u64, u64)> = VecDeque::new();
    let mut count = 0;
    loop {
        now = now + TICK;
        match scheduler.next(now, &mut batch) {
            Decision::Wait { until } => {
                now = until;
                continue;
            }
            Decision::Idle => unreachable!("the victim is queued"),
            Decision::Dispatch => count += 1,
        }
        assert!(
            count <= batches_max(policy),
            "{policy}: not within {} batches",
            batches_max(policy)
        );
        ends.push_back((batch.file().0.into(), batch.range().end.0 / BLOCK));
        for member in batch.members() {
            scheduler.complete(now, member.id, member.request.range.length());
            let (file, end) = if next_random(2) == 0 {
                ends[ends.len() - 1]
            } else {
                (next_random(FILES_BUSY), next_random(1_000))
            };
            scheduler.submit(now, read(0, file, end, 1), Room::Full).expect("there is room");
        }
        if batch.members().iter().any(|member| member.request.tag == 1) {
            return;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    /// Most of what is queued is blocked or behind a limit here, is cancelled, and its class forgotten.
    #[test]
    fn classes_behind_limits_come_and_go(ops in ops(150)) {
        let narrow = |op| match op {
            Op::Submit(request, _) => {
                let block = request.range.start.0 / BLOCK % 2;
                let range = ByteRange::new(Offset(block * BLOCK), Bytes(BLOCK));
                let is_read = request.access == Access::Read;
                let access = if is_read { Access::Read } else { Access::Write };
                Op::Submit(Request { file: FileIndex(0), access, range, ..request }, false)
            }
            Op::Switch(number) => Op::Share(number),
            op => op,
        };
        let limits = (0..3).map(|class| Op::Share(class + 4));
        let ops: Vec<Op> = limits.chain(ops.into_iter().map(narrow)).collect();
        shares(PolicyName::To, GuardMode::Overlap, Sharing::Tight, &ops);
    }
}
