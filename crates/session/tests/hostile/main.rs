//! Whatever the peer sends: neither half panics, and fragments make no difference.
//!
//! The same harness runs under the fuzzer; see `fuzz/`.

mod harness;

use proptest::collection::vec;
use proptest::prelude::*;

fn cases(few: u32) -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(few)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases(400)) })]

    #[test]
    fn a_hostile_client_is_refused_in_order(bytes in vec(any::<u8>(), 0..600)) {
        harness::against_server(&bytes);
    }

    #[test]
    fn a_hostile_forwarder_is_left_in_order(bytes in vec(any::<u8>(), 0..600)) {
        harness::against_client(&bytes);
    }
}
