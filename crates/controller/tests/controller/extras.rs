//! Classes, accounts, traces and forks.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use forebay_controller::{
    Batch, Controller, Delivery, Detail, Error, Options, Outcome, Submission,
};
use forebay_sched::sharing::{AtLimit, ClassShare, Rate, Share};
use forebay_sched::sharing::{Discipline, GroupId, SharingSettings};
use forebay_sched::{ClassOptions, PolicyName, PolicySettings, build, source};
use forebay_stats::LedgerOptions;
use forebay_trace::{Adjustment, Event, Header, Hinted, Laws, PolicyChoice, Reader};
use forebay_units::{Bytes, ClassId, Nanos};

use crate::support::{KIB, ids, logging, options, read, ticket};

const DONE: Outcome = Outcome::Moved(Bytes(8 * KIB));

fn with_classes(options: &Options, classes: &ClassOptions) -> Controller {
    let call_back = |controller: &Controller, batch: &Batch<'_>| {
        for turn in batch.turns {
            controller.complete(turn.ticket, Outcome::Moved(turn.length)).unwrap();
        }
    };
    let policies = source(PolicyName::ToAgg, &PolicySettings::default());
    let delivery = Delivery::CallBack(Box::new(call_back));
    Controller::with_classes(options, classes, policies, delivery).unwrap()
}

fn of_class(class: u32, id: u64) -> Submission {
    Submission { class: ClassId(class), ..read(id, u64::from(class), id * 8 * KIB) }
}

#[test]
fn a_limit_holds_a_class_back_and_the_alarm_lets_it_go_on() {
    let controller = with_classes(&options(64, 1_000), &ClassOptions::default());
    let limit = Share {
        ops: Some(Rate { per_second: 200, burst: 1 }),
        at_limit: AtLimit::Wait,
        ..Share::default()
    };
    let share = ClassShare { share: limit, ..ClassShare::default() };
    controller
        .configure("class 7", "200 a second", |scheduler, now| {
            scheduler.configure_class(now, ClassId(7), share)
        })
        .unwrap()
        .unwrap();
    let began = std::time::Instant::now();
    for id in 0..21 {
        controller
            .submit(&Submission { range: read(0, 0, id * 64 * KIB).range, ..of_class(7, id) })
            .unwrap();
    }
    controller.drain(Some(Duration::from_secs(20))).unwrap();
    assert!(began.elapsed() >= Duration::from_millis(90), "20 requests at 200 a second");
    let state = controller.snapshot(Detail::Accounts).unwrap();
    let class = state.classes.iter().find(|stats| stats.class == ClassId(7)).unwrap();
    assert_eq!(class.counts.completed, 21);
    assert!(class.served.throttled > 0);
}

#[test]
fn each_class_may_have_so_many_waiting() {
    let classes = ClassOptions { class_requests_max: 10, ..ClassOptions::default() };
    let controller = with_classes(&options(1, 100_000), &classes);
    controller.hint(forebay_controller::Hint::MoreFollows(Nanos::secs(1))).unwrap();
    let taken = (0..2_000).take_while(|id| controller.submit(&of_class(1, *id)).is_ok()).count();
    assert_eq!(taken, 10);
    assert!(controller.submit(&of_class(2, 0)).is_ok(), "another class has room");
    assert_eq!(controller.submit(&of_class(1, 0)), Err(Error::QueueFull));
    let state = controller.snapshot(Detail::Counters).unwrap();
    assert_eq!((state.scheduler.submitted, state.scheduler.rejected), (11, 2));
    controller.hint(forebay_controller::Hint::NoMore).unwrap();
    controller.drain(None).unwrap();
}

#[test]
fn one_policy_is_not_for_all_classes() {
    let controller = with_classes(&Options::default(), &ClassOptions::default());
    let policy = build(PolicyName::To, &PolicySettings::default());
    assert_eq!(controller.switch_policy(policy), Err(Error::HasClasses));
    let policies = source(PolicyName::Aioli, &PolicySettings::default());
    let switched = controller
        .configure("policy", "aIOLi", |scheduler, now| scheduler.switch_policies(now, policies));
    assert!(matches!(switched, Ok(Ok(_))), "each class has one of its own");
    let none = ClassOptions { classes_max: 0, ..ClassOptions::default() };
    let policies = source(PolicyName::To, &PolicySettings::default());
    let refused = Controller::with_classes(&Options::default(), &none, policies, Delivery::Poll);
    assert_eq!(refused.err(), Some(Error::OutOfRange));
}

#[test]
fn accounts_are_kept_by_class_and_file_when_asked_for() {
    let kept = Options { ledger: Some(LedgerOptions::default()), ..Options::default() };
    let controller = with_classes(&kept, &ClassOptions::default());
    for id in 0..10 {
        controller.submit(&of_class(id as u32 % 2, id)).unwrap();
    }
    let state = controller.snapshot(Detail::Accounts).unwrap();
    let accounts = state.accounts.as_ref().unwrap();
    assert_eq!(accounts.total().requests(), 10);
    assert_eq!(accounts.classes.rows.len(), 2);
    assert_eq!(accounts.files.rows.len(), 2);
    assert!(controller.snapshot(Detail::Counters).unwrap().accounts.is_none());
}

#[test]
fn a_trace_has_every_submission_decision_and_completion() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    let (controller, log) = logging(PolicyName::ToAgg, &options(1, 100));
    assert_eq!(controller.end_record(), Err(Error::NotRecorded));
    let before = controller.submit(&read(99, 1, 0)).unwrap();
    controller.record(&path, &Header::default(), 1 << 20).unwrap();
    assert_eq!(controller.record(&path, &Header::default(), 1 << 20), Err(Error::Recorded));
    for id in 0..4 {
        controller.submit(&read(id, 1, id * 8 * KIB)).unwrap();
    }
    controller.cancel(controller.submit(&read(5, 2, 0)).unwrap()).unwrap();
    controller.complete(before, DONE).unwrap();
    for id in 0..4 {
        controller.complete(ticket(&log, id), Outcome::Failed(5)).unwrap();
    }
    let totals = controller.end_record().unwrap();
    assert_eq!(ids(&log), [vec![99], vec![0, 1, 2, 3]]);
    let bytes = std::fs::read(path).unwrap();
    let mut counts = [0; 5];
    for record in Reader::new(&bytes).unwrap() {
        let index = match record.unwrap().event {
            Event::Submit(_) => 0,
            Event::Dispatch { .. } => 1,
            Event::Complete { errno: 0, .. } => 2,
            Event::Complete { errno: 5, .. } => 3,
            Event::Cancel { .. } => 4,
            _ => continue,
        };
        counts[index] += 1;
    }
    assert_eq!((counts, totals.lost_events), ([5, 1, 1, 4, 1], 0));
}

/// Everything that a trace tells, read once the recording has ended, and held to the laws.
fn told<T>(path: &std::path::Path, mut pick: impl FnMut(&Event<'_>) -> Option<T>) -> Vec<T> {
    let bytes = std::fs::read(path).unwrap();
    let mut reader = Reader::new(&bytes).unwrap();
    let mut laws = Laws::of(reader.header());
    let mut picked = Vec::new();
    for record in &mut reader {
        let record = record.unwrap();
        laws.take(&record).unwrap();
        picked.extend(pick(&record.event));
    }
    laws.finish(reader.totals()).unwrap();
    picked
}

fn lawful() -> Header {
    let settings = vec![("recorded.guard".to_owned(), "overlap".to_owned())];
    Header { settings, ..Header::default() }
}

#[test]
fn a_trace_has_refusals_the_depth_and_what_was_said_ahead() {
    use forebay_controller::Hint;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    let classes = ClassOptions { class_requests_max: 3, ..ClassOptions::default() };
    let controller = with_classes(&options(2, 100_000), &classes);
    controller.record(&path, &lawful(), 1 << 20).unwrap();
    controller.hint(Hint::MoreFollows(Nanos::secs(1))).unwrap();
    let taken = (0..5).filter(|id| controller.submit(&of_class(1, *id)).is_ok()).count();
    let other = Submission { class: ClassId(1), ..read(9, 77, 0) };
    assert_eq!((taken, controller.submit(&other)), (3, Err(Error::QueueFull)));
    controller.set_depth(9).unwrap();
    controller.hint(Hint::Forget(read(0, 1, 0).file)).unwrap();
    controller.hint(Hint::NoMore).unwrap();
    controller.hint(Hint::MoreFollows(Nanos::secs(1))).unwrap();
    controller.drain(None).unwrap();
    controller.end_record().unwrap();
    let mut files = Vec::new();
    let events = told(&path, |event| match event {
        Event::File { file, id } => {
            files.push((*file, id.inode));
            None
        }
        Event::Refused { request } => {
            let (_, inode) = files.iter().rfind(|(file, _)| *file == request.file).unwrap();
            Some(format!("refused {} {inode} {}", request.class.0, request.range.start.0 / KIB))
        }
        Event::Depth { depth } => Some(format!("depth {depth}")),
        Event::Hint(Hinted::MoreFollows { .. }) => Some("hold".into()),
        Event::Hint(Hinted::NoMore) => Some("release".into()),
        Event::Hint(Hinted::Forget { .. }) => Some("forget".into()),
        _ => None,
    });
    let low = |file| read(0, file, 0).file.low;
    let refused = [24, 32].map(|start| format!("refused 1 {} {start}", low(1)));
    let other = format!("refused 1 {} 0", low(77));
    let expected = ["depth 2", "hold", &refused[0], &refused[1], &other, "depth 9", "forget"];
    assert_eq!(events[..7], expected);
    assert_eq!(events[7..], ["release", "hold", "release"], "a drain ends a hold");
    assert_eq!(controller.snapshot(Detail::Counters).unwrap().scheduler.rejected, 3);
}

#[test]
fn a_trace_that_begins_late_tells_what_was_adjusted_before() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    let controller = with_classes(&options(7, 1_000), &ClassOptions::default());
    let share = Share { weight: 5, ..Share::default() };
    let own = ClassShare { share, ..ClassShare::default() };
    let choice = |policy| PolicyChoice::of(policy, &PolicySettings::default()).unwrap();
    let sharing = SharingSettings { discipline: Discipline::Drr, ..SharingSettings::default() };
    let adjust = |adjustment| controller.adjust(&adjustment).unwrap().unwrap();
    adjust(Adjustment::Policy(choice(PolicyName::Sjf)));
    adjust(Adjustment::Class(ClassId(3), Some(own)));
    adjust(Adjustment::ClassPolicy(ClassId(3), choice(PolicyName::To)));
    adjust(Adjustment::Group(GroupId(4), Some(share)));
    adjust(Adjustment::Sharing(sharing));
    assert_eq!(controller.made_with().1.unwrap().sharing, sharing);
    let changes = || {
        controller.record(&path, &lawful(), 1 << 20).unwrap();
        controller.end_record().unwrap();
        told(&path, |event| match event {
            Event::Setting { key, value } => Some(Adjustment::read(key, value).unwrap()),
            _ => None,
        })
    };
    let expected = [
        Adjustment::Sharing(sharing),
        Adjustment::Policy(choice(PolicyName::Sjf)),
        Adjustment::Group(GroupId(4), Some(share)),
        Adjustment::Class(ClassId(3), Some(own)),
        Adjustment::ClassPolicy(ClassId(3), choice(PolicyName::To)),
    ];
    assert_eq!(changes(), expected);
    // What is taken back, or what the header tells, is not told.
    adjust(Adjustment::Group(GroupId(4), None));
    let policies = source(PolicyName::Aioli, &PolicySettings::default());
    let switch = |scheduler: &mut forebay_sched::Scheduler, now| {
        assert!(scheduler.switch_policies(now, policies).is_ok());
    };
    controller.configure("policy", "aIOLi", switch).unwrap();
    assert_eq!(changes(), [expected[0], expected[3]]);
}

#[test]
fn a_file_that_is_recorded_into_is_refused_and_stays_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let (path, other) = (folder.path().join("trace"), folder.path().join("other"));
    let (first, _) = logging(PolicyName::To, &options(1, 100));
    let (second, _) = logging(PolicyName::To, &options(1, 100));
    first.record(&path, &lawful(), 1 << 20).unwrap();
    let begun = std::fs::read(&path).unwrap();
    let header = Header { source: "another".into(), ..lawful() };
    assert_eq!(second.record(&path, &header, 1 << 20), Err(Error::Recorded));
    assert_eq!(std::fs::read(&path).unwrap(), begun);
    // One that has a trace makes no file for another.
    assert_eq!(first.record(&other, &header, 1 << 20), Err(Error::Recorded));
    assert!(!other.exists());
    assert_eq!(second.end_record(), Err(Error::NotRecorded));
    first.end_record().unwrap();
    second.record(&path, &header, 1 << 20).unwrap();
    second.end_record().unwrap();
    assert_eq!(Reader::new(&std::fs::read(&path).unwrap()).unwrap().header().source, "another");
}

#[test]
fn a_trace_that_cannot_be_written_says_so() {
    let (controller, _) = logging(PolicyName::To, &options(1, 100));
    let nowhere = std::path::Path::new("/nonexistent/trace");
    let refused = controller.record(nowhere, &Header::default(), 1 << 20);
    assert_eq!(refused, Err(Error::System(2)));
    let full = std::path::Path::new("/dev/full");
    // The header is small enough to wait in no buffer: the failure is immediate.
    assert_eq!(controller.record(full, &Header::default(), 1 << 20), Err(Error::System(28)));
}

#[test]
fn polling_ends_with_the_controller() {
    let policy = build(PolicyName::To, &PolicySettings::default());
    let controller = Controller::new(&Options::default(), policy, Delivery::Poll).unwrap();
    let copy: OwnedFd = controller.descriptor().unwrap().as_fd().try_clone_to_owned().unwrap();
    drop(controller);
    assert!(rustix::io::fcntl_getfd(&copy).is_ok(), "a copy is the caller's own");
}
