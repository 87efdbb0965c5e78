//! Space-Saving against exact counts: the bounds of Metwally et al. 2005, with weights.

use std::collections::BTreeMap;

use forebay_stats::{Ranking, Top};
use proptest::prelude::*;

/// A skewed stream: small keys often, large keys rarely, as jobs and files are.
fn stream() -> impl Strategy<Value = Vec<(u64, u64)>> {
    let key = (0_u32..7, any::<u64>()).prop_map(|(bits, n)| n & ((1 << bits) - 1));
    prop::collection::vec((key, 0_u64..100), 1..600)
}

struct Told {
    ranking: Ranking<u64>,
    truth: BTreeMap<u64, u64>,
    rows_max: usize,
}

/// Feeds both; each key's account adds up the same weights.
fn tell(stream: &[(u64, u64)], rows_max: usize) -> Told {
    let mut top = Top::new(rows_max);
    let mut truth = BTreeMap::new();
    for (key, weight) in stream {
        *top.add(*key, *weight) += weight;
        *truth.entry(*key).or_default() += weight;
    }
    Told { ranking: top.ranking(), truth, rows_max }
}

proptest! {
    #[test]
    fn a_weight_is_never_too_small_and_at_most_its_error_too_large(stream in stream(), k in 1_usize..20) {
        let told = tell(&stream, k);
        for row in &told.ranking.rows {
            let truth = told.truth[&row.key];
            prop_assert!(truth <= row.weight && row.weight <= truth + row.error, "{row:?}, truly {truth}");
        }
    }

    #[test]
    fn errors_are_at_most_the_lightest_row_and_that_at_most_n_over_k(stream in stream(), k in 1_usize..20) {
        let Told { ranking, rows_max, .. } = tell(&stream, k);
        prop_assert!(ranking.rows.len() <= rows_max);
        let lightest = ranking.rows.iter().map(|row| row.weight).min().unwrap();
        prop_assert!(ranking.rows.iter().all(|row| row.error <= lightest));
        if ranking.rows.len() == rows_max {
            prop_assert!(lightest <= ranking.weight / rows_max as u64);
        }
    }

    #[test]
    fn whoever_weighs_more_than_n_over_k_has_a_row(stream in stream(), k in 1_usize..20) {
        let told = tell(&stream, k);
        for (key, _) in told.truth.iter().filter(|(_, w)| **w > told.ranking.weight / k as u64) {
            prop_assert!(told.ranking.rows.iter().any(|row| row.key == *key), "{key}");
        }
    }

    #[test]
    fn rows_and_the_other_row_add_up_to_everything(stream in stream(), k in 1_usize..20) {
        let Told { ranking, .. } = tell(&stream, k);
        let rows: u64 = ranking.rows.iter().map(|row| row.account).sum();
        prop_assert_eq!(rows + ranking.other, stream.iter().map(|(_, w)| w).sum::<u64>());
        for row in &ranking.rows {
            prop_assert_eq!(row.account, row.certain_weight());
        }
    }

    #[test]
    fn with_room_for_all_everything_is_exact(stream in stream()) {
        let Told { ranking, truth, .. } = tell(&stream, 128);
        prop_assert_eq!(ranking.rows.len(), truth.len());
        prop_assert!(ranking.rows.iter().all(|row| row.error == 0 && row.weight == truth[&row.key]));
        prop_assert!(ranking.rows.is_sorted_by(|a, b| a.weight >= b.weight));
    }

    #[test]
    fn keys_of_any_kind_are_found_again(keys in prop::collection::hash_set(any::<u64>(), 1..200), k in 1_usize..50) {
        let mut top = Top::<u64>::new(k);
        for round in 1..=3 {
            for key in &keys {
                top.add(*key, round);
            }
        }
        let ranking = top.ranking();
        prop_assert_eq!(ranking.rows.len(), k.min(keys.len()));
        prop_assert!(ranking.rows.iter().all(|row| keys.contains(&row.key)));
        prop_assert_eq!(ranking.weight, 6 * keys.len() as u64);
    }
}

#[test]
fn a_forgotten_key_starts_anew_and_nothing_is_lost() {
    let mut top = Top::<u64>::new(4);
    *top.add(7, 10) += 10;
    top.forget(7);
    *top.add(7, 3) += 3;
    let ranking = top.ranking();
    assert_eq!((ranking.rows[0].account, ranking.rows[0].certain_weight()), (3, 3));
    assert_eq!((ranking.other, ranking.weight), (10, 13));
}

#[test]
fn a_note_takes_a_free_row_but_nobody_elses() {
    let mut top = Top::<u64>::new(1);
    *top.note(1) += 5;
    *top.note(2) += 7;
    let ranking = top.ranking();
    assert_eq!((ranking.rows[0].key, ranking.rows[0].account, ranking.other), (1, 5, 7));
}
