//! What the scheduler is told when a running forwarder is, as a trace has it.

use forebay_trace::{Event, Header, Reader, Recorder, RecorderOptions};

use super::*;
use crate::settings::Sources;

const TARGETS: &[(&str, &str)] =
    &[("sharing.level", "target"), ("store.targets", "3"), ("sharing.class_count_max", "5")];

/// The classes then: each target, and whoever has no place.
const ALL: [&str; 4] = ["0", "1", "2", "4294967295"];

struct Forwarder {
    sharing: Sharing,
    engine: Engine,
}

impl Forwarder {
    fn begin(flags: &[(&str, &str)]) -> Self {
        let small = [("store.kind", "memory"), ("pool.bytes", "8MiB"), ("scheduler.policy", "mlf")];
        let flags = small.iter().chain(flags);
        let sources = flags.fold(Sources::new(), |all, (key, value)| all.flag(key, value));
        let settings = sources.resolve().expect("they fit");
        let (assembled, _) = assemble::assemble(&settings).expect("there is memory");
        let mut engine = assembled.engine;
        let mut sharing = Sharing::new(&settings, assembled.selection, assembled.is_rotating);
        sharing.begin(&mut engine, 0);
        Self { sharing, engine }
    }

    /// Says something; which of the scheduler's settings are changed by it, and policies to what.
    fn set(&mut self, words: &str) -> Vec<String> {
        self.engine.record(Recorder::new(RecorderOptions::default(), 0));
        let answer = self.answer(words);
        assert!(matches!(answer, Answer::Set(_)), "{words}: {answer:?}");
        let mut bytes = Header::default().to_bytes();
        let (blocks, totals) = self.engine.end_record().expect("it records").finish();
        blocks.for_each(|mut block| bytes.extend(block.seal()));
        bytes.extend(totals.to_bytes());
        let reader = Reader::new(&bytes).expect("a trace");
        let mut told = Vec::new();
        for record in reader {
            let Event::Setting { key, value } = record.expect("it is whole").event else {
                continue;
            };
            told.push(match Adjustment::read(key, value) {
                Some(Adjustment::Class(class, None)) => format!("class.{} goes", class.0),
                Some(Adjustment::Class(..)) => key.to_owned(),
                Some(Adjustment::ClassPolicy(_, choice)) => format!("{key} {}", choice.policy),
                _ => key.to_owned(),
            });
        }
        told
    }

    fn answer(&mut self, words: &str) -> Answer {
        let text = words.replace(' ', "\n");
        self.sharing.control(&mut self.engine, Timestamp(0), text.as_bytes())
    }
}

/// Each has a new share and, perhaps, another policy.
fn of_each(classes: &[&str], policy: Option<&str>) -> Vec<String> {
    let told = |class: &&str| {
        let policy = policy.map(|policy| format!("class.{class}.policy {policy}"));
        [Some(format!("class.{class}")), policy].into_iter().flatten()
    };
    classes.iter().flat_map(told).collect()
}

#[test]
fn a_policy_that_is_taken_back_leaves_targets_what_all_have() {
    let mut forwarder = Forwarder::begin(TARGETS);
    assert_eq!(forwarder.set("class default policy=sjf"), of_each(&ALL, Some("SJF")));
    assert_eq!(forwarder.set("class default policy=none"), of_each(&ALL, Some("MLF")));
}

#[test]
fn a_policy_stays_with_all_it_has_seen_until_there_is_another() {
    let mut forwarder = Forwarder::begin(TARGETS);
    forwarder.set("class default policy=sjf");
    assert_eq!(forwarder.set("class default weight=2"), of_each(&ALL, None));
    assert_eq!(forwarder.set("class default policy=sjf"), of_each(&[], None));
    assert_eq!(forwarder.set("class nobody weight=2"), of_each(&[], None));
    // What all have is replaced, so they need theirs anew.
    let mut expected = vec!["policy".to_owned()];
    expected.extend(of_each(&ALL, Some("SJF")));
    assert_eq!(forwarder.set("policy=to"), expected);

    let mut forwarder = Forwarder::begin(&[("sharing.level", "job")]);
    let (sharing, engine) = (&mut forwarder.sharing, &mut forwarder.engine);
    sharing.enter(engine, Timestamp(0), Identity::new(7, b"climate"));
    assert_eq!(forwarder.set("class climate policy=sjf"), of_each(&["0"], Some("SJF")));
    assert_eq!(forwarder.set("class climate weight=2"), of_each(&["0"], None));
    assert_eq!(forwarder.set("class climate policy=none"), of_each(&["0"], Some("MLF")));
}

#[test]
fn targets_come_and_go() {
    let mut forwarder = Forwarder::begin(TARGETS);
    forwarder.set("class default policy=sjf");
    assert_eq!(forwarder.set("targets=5"), of_each(&["3", "4"], Some("SJF")));
    assert_eq!(forwarder.set("targets=3"), ["class.3 goes", "class.4 goes"]);
    let Answer::Wrong(text) = forwarder.answer("targets=6") else { panic!("there are 5 places") };
    assert!(text.contains("store.targets") && text.contains("class_count_max (5)"), "{text}");
    assert_eq!(forwarder.set("class default policy=none"), of_each(&ALL, Some("MLF")));
}

#[test]
fn turns_begin_anew_only_if_there_is_a_reason() {
    let mut by_job = Forwarder::begin(&[("sharing.level", "job")]);
    for words in ["targets=4", "stripe_bytes=64KiB", "twins_window=2ms", "run_requests_max=4"] {
        assert!(!by_job.set(words).contains(&"sharing".to_owned()), "{words}");
    }
    for words in ["quantum_bytes=2MiB", "discipline=drr", "cost=requests", "run_requests_max=8"] {
        assert!(by_job.set(words).contains(&"sharing".to_owned()), "{words}");
    }
    let mut by_target = Forwarder::begin(TARGETS);
    assert_eq!(by_target.set("targets=4"), of_each(&["3"], None));
    assert_eq!(by_target.set("discipline=twins"), ["sharing"]);
    assert_eq!(by_target.set("targets=3"), ["sharing", "class.3 goes"]);
    assert_eq!(by_target.set("stripe_bytes=64KiB"), of_each(&[], None));
}
