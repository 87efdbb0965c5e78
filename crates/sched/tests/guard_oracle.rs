//! The guard against a brute-force list of all pairs: the same requests are ready at every moment.
//!
//! The comparison itself is in the driver: each admission, each dispatch and each idle answer is
//! checked against the oracle, and the number of map cells against its bound.

mod model;

use forebay_sched::{GuardMode, PolicyName};
use model::{Driver, ops_without_switch, settings_without_waits};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases(200)) })]

    #[test]
    fn by_overlap_it_agrees_with_all_pairs(ops in ops_without_switch(120)) {
        agrees(GuardMode::Overlap, &ops);
    }

    #[test]
    fn by_client_it_agrees_with_all_pairs(ops in ops_without_switch(120)) {
        agrees(GuardMode::Client, &ops);
    }

    #[test]
    fn by_file_it_agrees_with_all_pairs(ops in ops_without_switch(120)) {
        agrees(GuardMode::File, &ops);
    }

    #[test]
    fn without_a_guard_only_syncs_wait(ops in ops_without_switch(120)) {
        agrees(GuardMode::None, &ops);
    }
}

fn cases(default: u32) -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(default)
}

fn agrees(mode: GuardMode, ops: &[model::Op]) {
    let mut driver = Driver::new(PolicyName::To, mode, settings_without_waits());
    driver.run(ops);
    driver.run_dry();
    assert_eq!(driver.scheduler.stats().guard_cells, 0, "cells remain although nothing is alive");
}
