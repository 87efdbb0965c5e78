//! DRR with the SURPLUS rule: fair within a quantum and one batch each, however the quantum is chosen.

use forebay_sched::sharing::{Discipline, SharingSettings};
use forebay_units::Nanos;
use proptest::prelude::*;

use crate::bed::{Bed, Service, Sizes, Source, advantage, bytes_of, one_batch_each, unfairness};
use crate::sfq::{crowd, pairs, settings, weighted};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn two_classes_that_want_to_go_differ_by_a_quantum_and_one_batch_each(
        (sources, weights) in crowd(), quantum in 1u64..2_000_000, depth in 1usize..9, seed: u64,
    ) {
        let bed = Bed::new(sources, depth, seed);
        let drr = SharingSettings { quantum, ..settings(Discipline::Drr) };
        let log = bed.run(&mut weighted(drr, &weights), 400, Nanos::secs(1_000));
        for (pair, sizes, weights) in pairs(&bed.sources, &weights) {
            let turn = i128::from(quantum) * i128::from(weights[0]) * i128::from(weights[1]);
            let bound = turn + one_batch_each(sizes, weights);
            let worst = unfairness(&log, pair, weights, Service::Dispatched);
            prop_assert!(worst <= bound, "{worst} of {bound}");
            let worst = advantage(&log, pair, weights);
            prop_assert!(worst <= bound, "one that comes and goes is ahead by {worst} of {bound}");
        }
    }

    /// Between two turns of a class the others get at most their quanta and one batch each.
    #[test]
    fn a_class_waits_for_one_round(
        (mut sources, weights) in crowd(), quantum in 1u64..2_000_000, seed: u64,
    ) {
        sources.iter_mut().for_each(|source| source.spells = None);
        // Each batch fits the budget of a turn, so each round serves everybody.
        let largest = sources.iter().map(|source| source.sizes.max()).max().expect("some");
        let quantum = quantum.max(largest);
        let drr = SharingSettings { quantum, ..settings(Discipline::Drr) };
        let bed = Bed::new(sources, 1, seed);
        let log = bed.run(&mut weighted(drr, &weights), 600, Nanos::secs(1_000));
        for class in 0..weights.len() {
            let others = (0..weights.len()).filter(|other| *other != class);
            let bound: u64 =
                others.map(|other| quantum * weights[other] + bed.sources[other].sizes.max()).sum();
            let mut waited = 0;
            for event in &log {
                waited = if event.class == class { 0 } else { waited + bytes_of(&[*event], event.class) };
                prop_assert!(waited <= bound, "{waited} of {bound}");
            }
        }
    }
}

#[test]
fn a_tiny_quantum_costs_no_empty_rounds() {
    // A million rounds lie between two batches; each decision is still one look-up.
    let drr = SharingSettings { quantum: 1, ..settings(Discipline::Drr) };
    let source = Source { sizes: Sizes::Between(1 << 20, 1 << 20), spells: None };
    let bed = Bed::new(vec![source.clone(), source], 1, 0);
    let log = bed.run(&mut weighted(drr, &[3, 1]), 4_000, Nanos::secs(1_000));
    assert_eq!((bytes_of(&log, 0) >> 20, bytes_of(&log, 1) >> 20), (3_000, 1_000));
}
