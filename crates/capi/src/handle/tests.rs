//! What a trace of a controller tells.

use std::sync::atomic::{AtomicBool, Ordering};

use forebay_trace::{Checker, Event, PolicyChoice, Reader, Setup, Summary};

use super::*;
use crate::defaults::{default_options, default_share};

fn polled(policy: &str, options: forebay_options) -> Box<forebay> {
    let options = forebay_options { delivery: FOREBAY_DELIVER_POLL, ..options };
    forebay::create(&options, policy, "", None).unwrap()
}

/// Submits what merges partly, of three classes, and carries it out.
fn work(on: &forebay) {
    for number in 0..60_u64 {
        let asked = forebay_request {
            id: number,
            file: forebay_file { high: 1, low: number % 2 },
            offset: (number * 7 % 60) << 13,
            length: 8 << 10,
            operation: FOREBAY_READ,
            flags: 0,
            client: 0,
            class_id: number as u32 % 3,
        };
        on.submit(&asked).unwrap();
    }
    let mut turns = Vec::new();
    while on.controller().poll(64, &mut turns).unwrap().is_some() {
        for turn in &turns {
            let moved = forebay_controller::Outcome::Moved(turn.length);
            on.controller().complete(turn.ticket, moved).unwrap();
        }
    }
}

/// The trace of what `during` does, checked decision by decision as far as that is possible.
fn traced(on: &forebay, during: impl Fn()) -> (Vec<u8>, Result<u64, String>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    on.record(path.to_str().unwrap(), 1 << 20).unwrap();
    during();
    assert_eq!(on.end_record().unwrap().lost_events, 0);
    let bytes = std::fs::read(path).unwrap();
    let mut reader = Reader::new(&bytes).unwrap();
    let setup = Setup::of(reader.header()).unwrap();
    let mut checker = Checker::new(setup.scheduler(), setup.policy_settings());
    let checked = reader.try_for_each(|record| {
        checker.check(&record.unwrap()).map_err(|divergence| divergence.text)
    });
    (bytes, checked.map(|()| checker.decisions_count()))
}

#[test]
fn a_trace_tells_all_that_it_takes_to_decide_the_same_again() {
    let options = forebay_options { sharing: FOREBAY_SHARE_SFQ, ..default_options() };
    let on = polled("SJF", options);
    // Before and during the recording.
    let share = |weight| forebay_share { weight, ..default_share() };
    on.set_group(9, Some(&share(2))).unwrap();
    on.set_class(1, Some(&forebay_share { group: 9, has_group: 1, ..share(5) })).unwrap();
    let (bytes, checked) = traced(&on, || {
        work(&on);
        on.set_class(2, Some(&share(7))).unwrap();
        on.set("policy", "aIOLi").unwrap();
        work(&on);
        on.set("run_requests_max", "3").unwrap();
        work(&on);
        on.set_class(2, None).unwrap();
        work(&on);
    });
    assert!(checked.unwrap() > 240, "every submission and every batch");
    let summary = Summary::read(Reader::new(&bytes).unwrap(), 0);
    assert_eq!(summary.policy.as_deref(), Some("SJF"));
    assert!(summary.sharing.is_some_and(|text| text.starts_with("discipline=sfq")));
    let keys: Vec<&str> = summary.changes.iter().map(|change| change.key.as_str()).collect();
    assert_eq!(keys, ["group.9", "class.1", "class.2", "policy", "policy", "class.2"]);
    let reader = Reader::new(&bytes).unwrap();
    assert!(reader.header().clock_base_ns > 0);
    assert_eq!(reader.header().setting("policy"), Some("SJF"));
}

#[test]
fn a_trace_tells_how_classes_share_and_which_have_a_policy_of_their_own() {
    let options = forebay_options { sharing: FOREBAY_SHARE_SFQ, ..default_options() };
    let options = forebay_options { delivery: FOREBAY_DELIVER_POLL, ..options };
    let text = "sharing.cost=time device=flash\n class.1.policy=SJF";
    let on = forebay::create(&options, "aIOLi", text, None).unwrap();
    on.set("sharing.quantum", "4096").unwrap();
    let (bytes, checked) = traced(&on, || {
        work(&on);
        on.set("sharing.discipline", "drr").unwrap();
        work(&on);
        on.set("device", "disk").unwrap();
        on.set("class.2.policy", "HBRR").unwrap();
        work(&on);
        on.set_class(1, None).unwrap();
        work(&on);
    });
    assert_eq!(checked.map(|count| count > 240), Ok(true));
    let sharing = Summary::read(Reader::new(&bytes).unwrap(), 0).sharing.unwrap();
    assert!(sharing.contains("discipline=sfq cost_read=65536,0,1048576"), "{sharing}");
    assert!(sharing.contains("quantum=4096"), "{sharing}");
    let classes = |on: &forebay| {
        let text: serde_json::Value = serde_json::from_str(&on.statistics().unwrap()).unwrap();
        let policies = text["classes"].as_array().unwrap().iter();
        let policies: Vec<String> =
            policies.map(|class| class["policy"].as_str().unwrap().to_owned()).collect();
        assert_eq!(text["sharing"]["cost_read"]["per_batch"], 512 << 10);
        policies
    };
    assert_eq!(classes(&on), ["aIOLi", "aIOLi", "HBRR", "aIOLi"]);
    // What changes for all leaves a class its own.
    on.set("policy", "MLF").unwrap();
    on.set("run_requests_max", "3").unwrap();
    assert_eq!(classes(&on), ["MLF", "MLF", "HBRR", "MLF"]);
}

#[test]
fn a_trace_tells_that_a_class_has_given_up_its_place_with_its_policy() {
    let options =
        forebay_options { sharing: FOREBAY_SHARE_SFQ, classes_max: 4, ..default_options() };
    let on = polled("aIOLi", options);
    let (bytes, checked) = traced(&on, || {
        for class in [7, 8] {
            on.set(&format!("class.{class}.policy"), "SJF").unwrap();
        }
        on.set_class(8, Some(&default_share())).unwrap();
        for class in [9, 8, 7, 7] {
            on.set(&format!("class.{class}.policy"), COMMON).unwrap();
        }
        // There is one place for the third class, that of the one that was released.
        work(&on);
    });
    assert_eq!(checked.map(|count| count > 60), Ok(true));
    let summary = Summary::read(Reader::new(&bytes).unwrap(), 0);
    let keys: Vec<&str> = summary.changes.iter().map(|change| change.key.as_str()).collect();
    let policies = ["class.7.policy", "class.8.policy", "class.8"];
    assert_eq!(keys[..3], policies);
    assert_eq!(keys[3..], ["class.8.policy", "class.7.policy", "class.7"]);
    let state = on.controller().snapshot(Detail::Accounts).unwrap();
    assert!(state.classes.iter().all(|class| class.class != ClassId(7)), "{:?}", state.classes);
}

#[test]
fn a_trace_has_said_all_that_was_changed_when_its_first_decision_comes() {
    let options = forebay_options { sharing: FOREBAY_SHARE_SFQ, ..default_options() };
    let on = polled("aIOLi", options);
    on.set_class(1, Some(&forebay_share { weight: 5, ..default_share() })).unwrap();
    on.set("class.1.policy", "SJF").unwrap();
    let (bytes, checked) = traced(&on, || work(&on));
    assert_eq!(checked.map(|count| count > 60), Ok(true));
    let summary = Summary::read(Reader::new(&bytes).unwrap(), 0);
    let keys: Vec<&str> = summary.changes.iter().map(|change| change.key.as_str()).collect();
    assert_eq!(keys, ["class.1", "class.1.policy"]);
    assert_eq!(summary.changes[0].time_ns, summary.changes[1].time_ns, "nothing comes between");
}

#[test]
fn a_trace_that_another_thread_ends_has_begun() {
    let options = forebay_options { sharing: FOREBAY_SHARE_SFQ, ..default_options() };
    let on = polled("SJF", options);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|threads| {
        // So that a trace is often begun anew, and there is somebody to end it first.
        threads.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                on.set("sharing.lend_below", "2").unwrap();
            }
        });
        threads.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let ended = on.end_record();
                assert!(ended.is_ok() || ended.is_err_and(|none| none.errno() == libc::ENOENT));
            }
        });
        let mut recorded = Ok(0);
        while recorded.as_ref().is_ok_and(|count| *count < 20) {
            match on.record("/dev/null", 1 << 20) {
                Ok(()) => recorded = recorded.map(|count| count + 1),
                // The one before has not been ended yet.
                Err(busy) if busy.errno() == libc::EBUSY => std::thread::yield_now(),
                Err(failure) => recorded = Err(failure),
            }
        }
        is_over.store(true, Ordering::Relaxed);
        assert_eq!(recorded, Ok(20));
    });
}

#[test]
fn a_trace_of_auto_tells_the_policy_in_charge_and_each_other_one() {
    let on = polled("auto", default_options());
    let (bytes, checked) = traced(&on, || work(&on));
    assert!(checked.unwrap() > 60);
    let reader = Reader::new(&bytes).unwrap();
    assert_eq!(reader.header().setting("policy"), Some("auto"));
    let start = Setup::of(reader.header()).unwrap();
    let told = reader.map(|record| record.unwrap()).find_map(|record| match record.event {
        Event::Setting { key, value } => Adjustment::read(key, value),
        _ => None,
    });
    let choice = PolicyChoice { policy: start.policy, ..start.choice() };
    assert_eq!(told, Some(Adjustment::Policy(choice)));
}

#[test]
fn a_parameter_that_a_trace_has_no_words_for_ends_the_check_and_nothing_else() {
    let on = polled("SJF", default_options());
    let (_, checked) = traced(&on, || {
        work(&on);
        on.set("sjf.age_ns", "1000000").unwrap();
        work(&on);
    });
    assert!(checked.unwrap_err().starts_with("sjf.age_ns = 1000000 was set"));
    let (_, checked) = traced(&on, || work(&on));
    assert!(checked.is_err(), "what was set before is not forgotten");
}
