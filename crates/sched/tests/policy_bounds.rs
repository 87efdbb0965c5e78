//! The bounds that the policies state, each against random and against unfriendly arrivals.

mod support;

use forebay_sched::policies::aioli::{Aioli, AioliSettings, effective_wait};
use forebay_sched::policies::hbrr::{Hbrr, HbrrQuantum, HbrrSettings};
use forebay_sched::policies::mlf::{Mlf, MlfGrowth, MlfSettings};
use forebay_sched::policies::sjf::{Sjf, SjfSettings};
use forebay_sched::policies::to_agg::ToAgg;
use forebay_sched::policy::{Limits, Policy, Selection};
use forebay_sched::request::Accepted;
use forebay_units::{Bytes, Nanos, Timestamp};
use support::{Bare, Random, check_batch, read, run_dry};

const KIB: u64 = 1024;

fn limits(run_kib: u64, wait_max: Nanos) -> Limits {
    Limits {
        run_bytes_max: Bytes::kib(run_kib),
        run_requests_max: 16,
        batch_bytes_max: Bytes::kib(4 * run_kib),
        wait_max,
    }
}

/// The next batch; waits are sat out, and the batch is completed at once.
fn next(policy: &mut Bare<impl Policy>, now: &mut Timestamp) -> Option<Vec<Accepted>> {
    let mut batch = Vec::new();
    loop {
        match policy.select(*now, &mut batch) {
            Selection::Wait { until } => {
                assert!(until > *now, "a wait ends later than now");
                *now = until;
            }
            Selection::Idle => return None,
            Selection::Batch => {
                check_batch(&batch);
                for request in &batch {
                    policy.complete(*now, request, request.request.range.length());
                }
                return Some(batch);
            }
        }
    }
}

fn contains(batch: &[Accepted], seq: u64) -> bool {
    batch.iter().any(|request| request.seq == seq)
}

#[test]
fn to_agg_lets_no_more_pass_than_the_runs_in_front_can_hold() {
    for seed in 0..60 {
        let mut random = Random(seed);
        let mut policy = Bare::new(ToAgg::new(&limits(64, Nanos::ZERO)));
        let mut add = |policy: &mut Bare<ToAgg>, seq: u64| {
            let start = random.between(0, 60) * 8 * KIB;
            policy.add(Timestamp(seq), &read(seq, (random.next() % 3) as u32, start, 8 * KIB));
        };
        (0..40).for_each(|seq| add(&mut policy, seq));
        let runs_in_front = run_dry(&mut policy.clone(), Timestamp(0)).len() as u64;
        add(&mut policy, 40);
        let mut passed = 0;
        for seq in 41.. {
            (0..4).for_each(|more| add(&mut policy, seq * 4 + more));
            let batch = next(&mut policy, &mut Timestamp(seq)).expect("it is queued");
            if contains(&batch, 40) {
                break;
            }
            passed += check_batch(&batch).length().0;
        }
        assert!(passed <= runs_in_front * 64 * KIB, "{passed} bytes passed {runs_in_front} runs");
    }
}

#[test]
fn sjf_takes_the_smallest_queue_until_something_has_aged_and_then_the_oldest() {
    for seed in 0..60 {
        let mut random = Random(seed);
        let age_max = Nanos::millis(10);
        let mut policy = Bare::new(Sjf::new(&limits(64, Nanos::ZERO), SjfSettings { age_max }));
        let mut queued: Vec<Accepted> = Vec::new();
        let (mut now, mut seq) = (Timestamp(0), 0);
        for _ in 0..400 {
            now = now + Nanos(random.between(0, 2_000_000));
            for _ in 0..random.between(0, 2) {
                seq += 1;
                let file = (random.next() % 4) as u32;
                let mut request = read(seq, file, random.between(0, 200) * 8 * KIB, 8 * KIB);
                request.arrived = now;
                policy.add(now, &request);
                queued.push(request);
            }
            let bytes_of = |file| {
                let of_file = queued.iter().filter(|request| request.request.file == file);
                of_file.map(|request| request.request.range.length().0).sum::<u64>()
            };
            let smallest = queued.iter().map(|request| bytes_of(request.request.file)).min();
            let oldest = queued.iter().min_by_key(|request| request.seq).copied();
            let Some(batch) = next(&mut policy, &mut now) else { continue };
            let oldest = oldest.expect("something was queued");
            if now - oldest.arrived >= age_max {
                assert!(contains(&batch, oldest.seq), "nothing passes an aged request");
            } else {
                assert_eq!(Some(bytes_of(batch[0].request.file)), smallest);
            }
            queued.retain(|request| !contains(&batch, request.seq));
        }
    }
}

#[test]
fn mlf_lets_a_large_run_go_after_the_stated_number_of_visits() {
    for (growth, visits) in
        [(MlfGrowth::Add(Bytes::kib(32)), 1024 / 32), (MlfGrowth::Double(Bytes::kib(8)), 1 + 7)]
    {
        let mut policy =
            Bare::new(Mlf::new(&limits(1024, Nanos::ZERO), MlfSettings { growth, passes_max: 16 }));
        let (mut seq, mut now, others) = (1, Timestamp(0), 7);
        policy.add(now, &read(0, 0, 0, 1024 * KIB));
        let mut passed = 0;
        loop {
            for file in 1..=others {
                seq += 1;
                policy.add(now, &read(seq, file, seq * 32 * KIB, 4 * KIB));
            }
            let batch = next(&mut policy, &mut now).expect("something is queued");
            if contains(&batch, 0) {
                break;
            }
            passed += 1;
        }
        assert!(passed <= visits * u64::from(others), "{passed} batches passed the large run");
        assert!(passed > u64::from(others), "it had to wait for its quantum");
    }
}

#[test]
fn mlf_serves_every_queue_once_a_round() {
    let mut policy = Bare::new(Mlf::new(&limits(64, Nanos::ZERO), MlfSettings::default()));
    for seq in 0..400 {
        policy.add(Timestamp(0), &read(seq, (seq % 8) as u32, seq * 64 * KIB, 8 * KIB));
    }
    let batches = run_dry(&mut policy, Timestamp(0));
    for round in batches.chunks(8) {
        let mut files: Vec<u32> = round.iter().map(|batch| batch[0].request.file.0).collect();
        files.sort_unstable();
        files.dedup();
        assert_eq!(files.len(), 8, "one batch a file and round");
    }
}

#[test]
fn mlf_skips_rounds_in_which_nothing_could_go() {
    let growth = MlfGrowth::Add(Bytes::kib(4));
    let mut policy =
        Bare::new(Mlf::new(&limits(1024, Nanos::ZERO), MlfSettings { growth, passes_max: 16 }));
    policy.add(Timestamp(0), &read(0, 0, 0, 1024 * KIB));
    assert_eq!(next(&mut policy, &mut Timestamp(0)).map(|batch| batch.len()), Some(1));
}

#[test]
fn hbrr_serves_a_queue_again_after_a_quantum_of_each_other() {
    for quantum in [HbrrQuantum::Ranges(3), HbrrQuantum::Bytes(Bytes::kib(64))] {
        let limits = limits(32, Nanos::ZERO);
        let mut policy = Bare::new(Hbrr::new(&limits, HbrrSettings { quantum, passes_max: 16 }));
        let (mut seq, mut random) = (0, Random(7));
        let others_max = match quantum {
            HbrrQuantum::Ranges(count) => 4 * u64::from(count) * limits.run_bytes_max.0,
            HbrrQuantum::Bytes(bytes) => 4 * (bytes + limits.batch_bytes_max).0,
        };
        let mut others = [0u64; 5];
        for _ in 0..3_000 {
            for file in 0..5 {
                seq += 1;
                let length = [4, 8, 16][(file % 3) as usize] * KIB;
                policy.add(
                    Timestamp(0),
                    &read(seq, file, random.between(0, 4_000) * 16 * KIB, length),
                );
            }
            let batch = next(&mut policy, &mut Timestamp(0)).expect("something is queued");
            for (file, bytes) in others.iter_mut().enumerate() {
                *bytes += check_batch(&batch).length().0;
                if batch[0].request.file.0 as usize == file {
                    *bytes = 0;
                }
                assert!(*bytes <= others_max, "{bytes} bytes of others between two turns");
            }
        }
    }
}

#[test]
fn hbrr_by_bytes_gives_files_equal_bytes_whatever_their_ranges() {
    let settings = HbrrSettings { quantum: HbrrQuantum::Bytes(Bytes::kib(64)), passes_max: 16 };
    let mut policy = Bare::new(Hbrr::new(&limits(64, Nanos::ZERO), settings));
    for seq in 0..4_000 {
        let (file, length) = if seq % 2 == 0 { (0, 4 * KIB) } else { (1, 64 * KIB) };
        policy.add(Timestamp(0), &read(seq, file, seq * 128 * KIB, length));
    }
    let mut served = [0u64; 2];
    while served.iter().sum::<u64>() < 8 << 20 {
        let batch = next(&mut policy, &mut Timestamp(0)).expect("something is queued");
        served[batch[0].request.file.0 as usize] += check_batch(&batch).length().0;
    }
    assert!(served[0].abs_diff(served[1]) <= 2 * 64 * KIB, "{served:?}");
}

/// Requests that arrive so as to pass `victim` if anything can: in its file, before and behind it
/// and next to what left last, and in other files.
fn unfriendly(random: &mut Random, seq: u64, last: u64) -> Accepted {
    let file = (random.next() % 12).saturating_sub(8) as u32;
    let start = match random.next() % 3 {
        0 => random.between(0, 20) * 4 * KIB,
        1 => last,
        _ => random.between(0, 400) * 4 * KIB,
    };
    read(seq, file, start, random.between(1, 4) * 4 * KIB)
}

#[test]
fn aioli_serves_a_request_within_the_stated_number_of_batches() {
    for (seed, wait_max) in
        (0..120).flat_map(|seed| [(seed, Nanos::ZERO), (seed, Nanos::micros(900))])
    {
        let mut random = Random(seed);
        let settings = AioliSettings { passes_max: 4, ..AioliSettings::default() };
        let mut policy = Bare::new(Aioli::new(&limits(64, wait_max), settings));
        let (mut now, mut last) = (Timestamp(0), 0);
        let ahead = random.between(0, 30);
        (0..ahead).for_each(|seq| policy.add(now, &unfriendly(&mut random, seq, last)));
        let length = random.between(1, 16) * 4 * KIB;
        policy.add(now, &read(ahead, 0, random.between(0, 400) * 4 * KIB, length));
        let bound = (ahead + 1) * (4 + 1) + 64 * KIB / (4 * KIB);
        let mut seq = ahead;
        for count in 1.. {
            assert!(count <= bound, "seed {seed}: not within {bound} batches");
            for _ in 0..random.between(0, 5) {
                seq += 1;
                policy.add(now, &unfriendly(&mut random, seq, last));
            }
            now = now + Nanos::micros(10);
            let batch = next(&mut policy, &mut now).expect("something is queued");
            last = check_batch(&batch).end.0;
            if contains(&batch, ahead) {
                break;
            }
        }
    }
}

/// Two readers of file 0 were served; one is back with request 4, far away, the other may continue.
fn waiting() -> (Bare<Aioli>, Timestamp, Timestamp) {
    let mut policy =
        Bare::new(Aioli::new(&limits(1024, Nanos::micros(900)), AioliSettings::default()));
    let mut now = Timestamp(0);
    policy.add(now, &read(2, 0, 0, 8 * KIB));
    policy.add(now, &read(3, 0, 8 * KIB, 8 * KIB));
    assert_eq!(next(&mut policy, &mut now).map(|batch| batch.len()), Some(2));
    policy.add(now, &read(4, 0, 1 << 30, 8 * KIB));
    let Selection::Wait { until } = policy.select(now, &mut Vec::new()) else {
        panic!("a jump waits")
    };
    (policy, now, until)
}

#[test]
fn aioli_waits_before_a_jump_and_no_longer_than_the_limit() {
    let (mut policy, now, until) = waiting();
    assert_eq!(until, now + Nanos::micros(900));
    let mut batch = Vec::new();
    assert_eq!(policy.select(Timestamp(until.0 - 1), &mut batch), Selection::Wait { until });
    assert_eq!(policy.select(until, &mut batch), Selection::Batch);
    assert!(contains(&batch, 4));
}

#[test]
fn aioli_ends_a_wait_as_soon_as_the_continuation_is_there() {
    let (mut policy, now, _) = waiting();
    policy.add(now, &read(5, 0, 16 * KIB, 8 * KIB));
    let mut batch = Vec::new();
    assert_eq!(policy.select(now, &mut batch), Selection::Batch);
    assert!(contains(&batch, 5));
}

#[test]
fn aioli_serves_other_files_while_one_waits() {
    let (mut policy, now, _) = waiting();
    policy.add(now, &read(5, 1, 8 * KIB, 8 * KIB));
    let mut batch = Vec::new();
    assert_eq!(policy.select(now, &mut batch), Selection::Batch);
    assert!(contains(&batch, 5));
}

#[test]
fn aioli_is_idle_when_the_waiting_queue_is_cancelled_away() {
    let (mut policy, now, _) = waiting();
    assert!(policy.cancel(now, &read(4, 0, 1 << 30, 8 * KIB)));
    assert_eq!(policy.select(now, &mut Vec::new()), Selection::Idle);
}

#[test]
fn aioli_never_waits_where_the_device_gains_nothing_from_order() {
    let mut random = Random(3);
    let mut policy = Bare::new(Aioli::new(&limits(1024, Nanos::ZERO), AioliSettings::default()));
    for seq in 0..500 {
        policy.add(Timestamp(seq), &unfriendly(&mut random, seq, 0));
        let mut batch = Vec::new();
        assert_eq!(policy.select(Timestamp(seq), &mut batch), Selection::Batch);
        batch
            .iter()
            .for_each(|done| policy.complete(Timestamp(seq), done, done.request.range.length()));
    }
}

#[test]
fn the_effective_wait_is_what_a_seek_costs_and_nothing_without_a_gain() {
    let wait = Nanos::micros(900);
    assert_eq!(effective_wait(Nanos::millis(7), Nanos::micros(140), wait), wait);
    assert_eq!(effective_wait(Nanos::micros(500), Nanos::micros(140), wait), Nanos::micros(360));
    assert_eq!(effective_wait(Nanos::micros(110), Nanos::micros(100), wait), Nanos::ZERO);
    assert_eq!(effective_wait(Nanos::micros(66), Nanos::micros(100), wait), Nanos::ZERO);
}
