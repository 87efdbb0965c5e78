//! A histogram against the sorted list of what it was told.

use forebay_stats::Histogram;
use forebay_units::Nanos;
use proptest::prelude::*;

/// Durations of every order of magnitude, up to where percentiles are promised.
fn durations() -> impl Strategy<Value = Vec<u64>> {
    let one = (0_u32..40, any::<u64>()).prop_map(|(bits, n)| n & ((1 << bits) - 1));
    prop::collection::vec(one, 1..300)
}

fn histogram(durations: &[u64]) -> Histogram {
    let mut histogram = Histogram::new();
    durations.iter().for_each(|n| histogram.record(Nanos(*n)));
    histogram
}

proptest! {
    #[test]
    fn a_percentile_is_within_the_stated_error(mut durations in durations(), percent in 0.0..100.0_f64) {
        let histogram = histogram(&durations);
        durations.sort_unstable();
        let rank = (durations.len() as f64 * percent / 100.0).ceil() as usize;
        let truth = durations[rank.clamp(1, durations.len()) - 1];
        let told = histogram.percentile(percent).0;
        prop_assert!(told.abs_diff(truth) <= 32.max(truth / 16), "{told} for {truth}");
    }

    #[test]
    fn count_sum_and_maximum_are_exact(durations in durations()) {
        let histogram = histogram(&durations);
        prop_assert_eq!(histogram.count(), durations.len() as u64);
        prop_assert_eq!(histogram.sum(), Nanos(durations.iter().sum()));
        prop_assert_eq!(histogram.max(), Nanos(*durations.iter().max().unwrap()));
        prop_assert_eq!(histogram.buckets().map(|(_, n)| n).sum::<u64>(), durations.len() as u64);
    }

    #[test]
    fn merging_is_recording_both(a in durations(), b in durations()) {
        let mut merged = histogram(&a);
        merged.merge(&histogram(&b));
        let both: Vec<_> = a.into_iter().chain(b).collect();
        prop_assert_eq!(merged, histogram(&both));
    }

    #[test]
    fn any_duration_is_counted(durations in prop::collection::vec(any::<u64>(), 1..50)) {
        let histogram = histogram(&durations);
        prop_assert_eq!(histogram.count(), durations.len() as u64);
        prop_assert_eq!(histogram.percentile(100.0), Nanos(*durations.iter().max().unwrap()));
    }
}
