//! The detector on a few of the cases that `forebay_train::detection::evaluate` has thousands of.

use forebay_train::detection::{Case, Group, Place, Values, examine, group};

use forebay_device::SplitMix64;

const CASES: usize = 4;

fn few(place: Place, seed: u64) -> Group {
    group(Values::HeldOut, place, CASES, seed, &mut || {})
}

#[test]
fn what_the_detector_was_not_made_with_is_recognised() {
    let groups =
        [Place::Server, Place::ServerFileOffsets, Place::Forwarder].map(|place| few(place, 7));
    let right: f64 = groups.iter().map(|group| group.both.accuracy()).sum();
    let mistakes: Vec<_> = groups.iter().flat_map(|group| &group.mistakes).collect();
    assert!(right / 3.0 >= 0.97, "{mistakes:#?}");
    for group in &groups {
        assert_eq!(group.both.total(), 3 * CASES as u64, "three times a case");
    }
}

#[test]
fn the_same_seed_gives_the_same_cases_and_verdicts() {
    let mut random = [SplitMix64::new(3), SplitMix64::new(3)];
    let cases =
        random.each_mut().map(|random| Case::draw(Values::Training, Place::Forwarder, random));
    let [one, other] = cases.each_ref().map(examine);
    assert_eq!(cases[0].describe(), cases[1].describe());
    assert_eq!((one.said, one.arrivals), (other.said, other.arrivals));
}
