//! SFQ(D): fair within one batch each in the order of dispatch, whatever the sizes and pauses.

use forebay_sched::sharing::{
    ClassShare, CostModel, Discipline, Pick, Share, Shares, SharingSettings, Tariff,
};
use forebay_units::{ClassId, Nanos, Timestamp};
use proptest::prelude::*;

use crate::bed::{
    Bed, Outer, Service, Sizes, Source, advantage, bytes_of, one_batch_each, read, unfairness,
};
use crate::naive::{Mistake, NaiveSfq};

pub(crate) fn settings(discipline: Discipline) -> SharingSettings {
    SharingSettings { discipline, ..SharingSettings::default() }
}

/// One class a weight.
pub(crate) fn weighted(settings: SharingSettings, weights: &[u64]) -> Shares {
    let mut shares = Shares::new(settings);
    for (class, weight) in weights.iter().enumerate() {
        let share = Share { weight: *weight as u32, ..Share::default() };
        let share = ClassShare { share, ..ClassShare::default() };
        shares.configure(Timestamp(0), ClassId(class as u32), share).expect("it is in range");
    }
    shares
}

/// Batch sizes and weights of two to five classes, some of which come and go.
pub(crate) fn crowd() -> impl Strategy<Value = (Vec<Source>, Vec<u64>)> {
    let sizes =
        (1u64..200_000, 1u64..200_000).prop_map(|(a, b)| Sizes::Between(a.min(b), a.max(b)));
    let growing = (1u64..64, 0u32..12)
        .prop_map(|(low, steps)| Sizes::Doubling(low * 512, (low * 512) << steps));
    let spells = prop_oneof![Just(None), (1u64..20, 0u64..400_000).prop_map(Some)];
    let source = (prop_oneof![sizes, growing], spells);
    let class = (source, 1u64..50);
    prop::collection::vec(class, 2..6).prop_map(|mut classes| {
        // The first two always want something.
        classes.iter_mut().take(2).for_each(|((_, spells), _)| *spells = None);
        let weights = classes.iter().map(|(_, weight)| *weight).collect();
        let sources = classes.into_iter().map(|((sizes, spells), _)| Source { sizes, spells });
        (sources.collect(), weights)
    })
}

/// Every pair, with its sizes and weights.
pub(crate) fn pairs(sources: &[Source], weights: &[u64]) -> Vec<([usize; 2], [u64; 2], [u64; 2])> {
    let all = (0..sources.len()).flat_map(|f| (0..sources.len()).map(move |g| [f, g]));
    all.filter(|[f, g]| f != g)
        .map(|pair| {
            let [f, g] = pair;
            (pair, [sources[f].sizes.max(), sources[g].sizes.max()], [weights[f], weights[g]])
        })
        .collect()
}

/// Rounding moves a tag by less than 2^-32 a batch.
const ROUNDING: i128 = 1;

fn worst_excess(outer: &mut dyn Outer, bed: &Bed, weights: &[u64]) -> (i128, i128) {
    let log = bed.run(outer, 400, Nanos::secs(1_000));
    let (mut dispatched, mut completed) = (i128::MIN, i128::MIN);
    for (pair, sizes, weights) in pairs(&bed.sources, weights) {
        let bound = one_batch_each(sizes, weights) + ROUNDING;
        let deep = bound * (bed.depth as i128 + 1);
        dispatched = dispatched
            .max(unfairness(&log, pair, weights, Service::Dispatched) - bound)
            .max(advantage(&log, pair, weights) - bound);
        completed = completed.max(unfairness(&log, pair, weights, Service::Completed) - deep);
    }
    (dispatched, completed)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn two_classes_that_want_to_go_differ_by_one_batch_each(
        (sources, weights) in crowd(), depth in 1usize..17, jitter in 0u64..300_000, seed: u64,
    ) {
        let bed = Bed { jitter, ..Bed::new(sources, depth, seed) };
        let mut shares = weighted(settings(Discipline::Sfq), &weights);
        let (dispatched, completed) = worst_excess(&mut shares, &bed, &weights);
        prop_assert!(dispatched <= 0, "in the order of dispatch, by {dispatched}");
        prop_assert!(completed <= 0, "of what is completed, by {completed}");
    }

    /// Whoever has nothing may come back a moment later, again and again, with large batches while
    /// earlier ones are still in flight.
    #[test]
    fn a_class_that_oscillates_gains_nothing(
        large in 100_000u64..4_000_000, small in 1u64..5_000, weights in (1u64..20, 1u64..20),
        depth in 2usize..9, seed: u64,
    ) {
        let (sources, weights) = oscillating(large, small, weights);
        let bed = Bed::new(sources, depth, seed);
        let mut shares = weighted(settings(Discipline::Sfq), &weights);
        let (dispatched, _) = worst_excess(&mut shares, &bed, &weights);
        prop_assert!(dispatched <= 0, "by {dispatched}");
    }

    #[test]
    fn the_same_calls_have_the_same_answers(
        (sources, weights) in crowd(), depth in 1usize..5, seed: u64,
    ) {
        let bed = Bed::new(sources, depth, seed);
        let run = || {
            let mut shares = weighted(settings(Discipline::Sfq), &weights);
            let log = bed.run(&mut shares, 100, Nanos::secs(1_000));
            log.iter().map(|event| (event.at, event.class)).collect::<Vec<_>>()
        };
        prop_assert_eq!(run(), run());
    }
}

fn oscillating(large: u64, small: u64, weights: (u64, u64)) -> (Vec<Source>, Vec<u64>) {
    let sources = vec![
        Source { sizes: Sizes::Between(large, large), spells: Some((1, 0)) },
        Source { sizes: Sizes::Between(small, small), spells: None },
    ];
    (sources, vec![weights.0, weights.1])
}

#[test]
fn the_checks_find_what_is_wrong_with_naive_versions() {
    let (sources, weights) = oscillating(1_000_000, 1_000, (1, 1));
    let oscillates = Bed::new(sources, 4, 1);
    let source = |size, spells| Source { sizes: Sizes::Between(size, size), spells };
    let steady = Bed::new(vec![source(1_000, None), source(100_000, None)], 4, 1);
    let sleeper =
        vec![source(1_000, Some((40, 100_000))), source(1_000, None), source(1_000, None)];
    let sleeper = Bed::new(sleeper, 1, 1);
    let excess = |bed: &Bed, weights: &[u64], mistake| {
        worst_excess(&mut NaiveSfq::new(weights, mistake), bed, weights).0
    };
    for (bed, weights, mistake) in [
        (&oscillates, &weights[..], Mistake::ForgetsDebt),
        (&sleeper, &[1, 1, 1], Mistake::KeepsCredit),
        (&steady, &[1, 1], Mistake::CountsBatches),
        (&steady, &[9, 1], Mistake::IgnoresWeights),
    ] {
        assert!(excess(bed, weights, Mistake::None) <= 0, "{mistake:?} is the only mistake");
        assert!(excess(bed, weights, mistake) > 0, "{mistake:?} is found");
    }
}

#[test]
fn small_random_and_large_sequential_requests_share_the_time_of_a_disk() {
    // 7 ms to get there, 57 MB/s: 4 KiB cost 7.07 ms and 1 MiB costs 25.4 ms.
    let disk =
        CostModel::both(Tariff { per_batch: 7_000_000, per_request: 0, per_mib: 18_396_000 });
    let mut shares = weighted(SharingSettings { cost: disk, ..settings(Discipline::Sfq) }, &[3, 1]);
    let source = |size| Source { sizes: Sizes::Between(size, size), spells: None };
    let bed = Bed::new(vec![source(4096), source(1 << 20)], 4, 0);
    let log = bed.run(&mut shares, 4_000, Nanos::secs(1_000));
    let time = |class: usize, size: u64| bytes_of(&log, class) / size * disk.cost(read(size));
    let ratio = time(0, 4096) as f64 / time(1, 1 << 20) as f64;
    assert!((2.95..=3.05).contains(&ratio), "{ratio}");
}

#[test]
fn what_leaves_out_of_turn_while_nobody_waits_is_no_debt() {
    let mut shares = weighted(settings(Discipline::Sfq), &[1, 1]);
    // Class 0 has the device to itself for long, and something of it is always in flight.
    for _ in 0..1_000 {
        shares.charge(Timestamp(0), ClassId(0), read(1 << 20));
    }
    [0, 1].into_iter().for_each(|class| shares.ready(Timestamp(0), ClassId(class)));
    let mut turns = Vec::new();
    for _ in 0..6 {
        let Pick::Class(class) = shares.pick(Timestamp(0)) else { panic!("both are ready") };
        shares.charge(Timestamp(0), class, read(1 << 20));
        turns.push(class.0);
    }
    assert_eq!(turns, [1, 0, 1, 0, 1, 0], "one batch of debt, not a thousand");
}

#[test]
fn what_leaves_out_of_turn_while_others_wait_is_debt() {
    let mut shares = weighted(settings(Discipline::Sfq), &[1, 1]);
    [0, 1].into_iter().for_each(|class| shares.ready(Timestamp(0), ClassId(class)));
    for _ in 0..10 {
        shares.charge(Timestamp(0), ClassId(0), read(1_000));
    }
    for _ in 0..10 {
        assert_eq!(shares.pick(Timestamp(0)), Pick::Class(ClassId(1)));
        shares.charge(Timestamp(0), ClassId(1), read(1_000));
    }
    assert_eq!(shares.pick(Timestamp(0)), Pick::Class(ClassId(0)), "the older on a tie");
}
