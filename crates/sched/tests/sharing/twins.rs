//! TWINS: what leaves is of the server whose window it is, for ever.

use forebay_sched::sharing::{Discipline, Pick, Shares, TwinsSettings, WindowIdle};
use forebay_units::{ClassId, Nanos, Timestamp};
use proptest::prelude::*;

use crate::bed::{Bed, Random, Sizes, Source, What, read};
use crate::sfq::settings;

fn twins(window: u64, targets: u32, idle: WindowIdle) -> TwinsSettings {
    TwinsSettings { window: Nanos(window), targets, shift: 0, start: Timestamp(0), idle }
}

fn gate(twins: TwinsSettings) -> Shares {
    Shares::new(settings(Discipline::Twins(twins)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(80))]

    #[test]
    fn what_leaves_is_of_the_server_whose_window_it_is(
        window in 1u64..3_000_000, targets in 1u32..7, shift in 0u32..9, start in 0u64..5_000_000,
        classes in 1usize..9, depth in 1usize..9, pause in 0u64..5_000_000, seed: u64,
    ) {
        let strict = TwinsSettings {
            shift, start: Timestamp(start), ..twins(window, targets, WindowIdle::Strict)
        };
        let source = Source { sizes: Sizes::Between(1, 200_000), spells: Some((5, pause)) };
        let bed = Bed::new(vec![source; classes], depth, seed);
        let log = bed.run(&mut gate(strict), 300, Nanos::secs(1_000));
        for event in log {
            if let What::Dispatched(_) = event.what {
                let turn = u64::from(shift) + event.at.saturating_sub(start) / window;
                prop_assert_eq!(event.class as u64 % u64::from(targets), turn % u64::from(targets));
            }
        }
    }

    #[test]
    fn the_head_of_a_queue_leaves_within_the_windows_of_the_others(
        window in 1_000u64..3_000_000, targets in 1u32..7, pause in 0u64..5_000_000, seed: u64,
    ) {
        let source = Source { sizes: Sizes::Between(1, 1_000), spells: Some((1, pause)) };
        let bed = Bed::new(vec![source; targets as usize], 10_000, seed);
        let log = bed.run(&mut gate(twins(window, targets, WindowIdle::Strict)), 300, Nanos::secs(1_000));
        let mut came = vec![None; targets as usize];
        for event in log {
            match event.what {
                What::Ready => came[event.class] = Some(event.at),
                What::Dispatched(_) => {
                    let waited = event.at - came[event.class].take().expect("it was ready");
                    prop_assert!(waited <= u64::from(targets - 1) * window, "{waited}");
                }
                _ => {}
            }
        }
    }

    #[test]
    fn a_window_is_lent_after_the_stated_time_and_given_back_at_once(
        window in 100_000u64..3_000_000, targets in 2u32..7, idle in 0u64..200_000, seed: u64,
    ) {
        let lends = twins(window, targets, WindowIdle::LendAfter(Nanos(idle)));
        let mut shares = gate(lends);
        // One server always has something; the others now and then.
        let mut random = Random(seed);
        shares.ready(Timestamp(0), ClassId(0));
        let (mut now, mut waited_since) = (0u64, None);
        let mut emptied = vec![0u64; targets as usize];
        for _ in 0..400 {
            match shares.pick(Timestamp(now)) {
                Pick::Class(class) => {
                    let owner = lends.target_at(Timestamp(now));
                    shares.charge(Timestamp(now), class, read(1_000));
                    let begun = lends.window_start(Timestamp(now)).0;
                    let idle_since = begun.max(emptied[owner as usize]);
                    prop_assert!(class.0 == owner || now - idle_since >= idle, "lent too early");
                    if class.0 > 0 {
                        prop_assert_eq!(class.0, owner, "only server 0 waits for others' windows");
                        shares.empty(Timestamp(now), class);
                        emptied[class.0 as usize] = now;
                    }
                    waited_since = None;
                    now += random.between(1, 100_000);
                    // The owner comes back, and goes before who borrowed its window.
                    let owner = lends.target_at(Timestamp(now));
                    if random.between(0, 3) == 0 {
                        shares.ready(Timestamp(now), ClassId(owner));
                        prop_assert_eq!(shares.pick(Timestamp(now)), Pick::Class(ClassId(owner)));
                    }
                }
                Pick::Wait { until } => {
                    prop_assert!(until.0 > now);
                    // Each window is its owner's first.
                    let begun = lends.window_start(Timestamp(now)).0;
                    let since = begun.max(*waited_since.get_or_insert(now));
                    prop_assert!(until.0 - since <= idle.max(1), "idle longer than stated");
                    now = until.0;
                }
                Pick::Idle => unreachable!("server 0 always has something"),
            }
        }
    }
}

#[test]
fn windows_do_not_drift_however_late_the_questions_are() {
    let strict = twins(1_000_003, 5, WindowIdle::Strict);
    let mut shares = gate(strict);
    (0..5).for_each(|class| shares.ready(Timestamp(0), ClassId(class)));
    let mut random = Random(4);
    // A gate that opens the next window when it is asked, as a counter does, for comparison.
    let (mut now, mut opened, mut counter, mut wrong) = (0u64, 0u64, 0u64, 0);
    for _ in 0..20_000 {
        now += random.between(1, 900_000);
        let right = (now / 1_000_003 % 5) as u32;
        assert_eq!(shares.pick(Timestamp(now)), Pick::Class(ClassId(right)));
        if now - opened >= 1_000_003 {
            (opened, counter) = (now, counter + 1);
        }
        wrong += u64::from(counter % 5 != u64::from(right));
    }
    assert!(wrong > 10_000, "the drifting gate is somewhere else most of the time: {wrong}");
}

#[test]
fn shifted_nodes_are_never_at_the_same_server() {
    let node = |shift| TwinsSettings { shift, ..twins(1_000_000, 4, WindowIdle::Strict) };
    for now in (0..100_000_000).step_by(123_457) {
        let mut at: Vec<u32> = (0..4).map(|shift| node(shift).target_at(Timestamp(now))).collect();
        at.sort_unstable();
        assert_eq!(at, [0, 1, 2, 3]);
    }
}

#[test]
fn the_wait_for_a_window_ends_when_it_begins() {
    let mut shares = gate(twins(1_000, 4, WindowIdle::Strict));
    shares.ready(Timestamp(500), ClassId(3));
    assert_eq!(shares.pick(Timestamp(500)), Pick::Wait { until: Timestamp(3_000) });
    assert!(!shares.admits(Timestamp(2_999), ClassId(3)));
    assert!(shares.admits(Timestamp(3_000), ClassId(3)));
    assert_eq!(shares.pick(Timestamp(3_000)), Pick::Class(ClassId(3)));
    assert_eq!(shares.pick(Timestamp(4_000)), Pick::Wait { until: Timestamp(7_000) });
}
