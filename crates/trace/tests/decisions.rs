//! A trace is a test case: what a scheduler decided while it was recorded, it decides again.

use forebay_device::SplitMix64;
use forebay_sched::policies::hbrr::HbrrQuantum;
use forebay_sched::sharing::{
    AtLimit, ClassShare, CostModel, Discipline, GroupId, Rate, Share, SharingSettings, SwSettings,
    Tariff, TwinsSettings, WindowIdle,
};
use forebay_sched::{
    Access, Admission, Batch, Bypass, ClassOptions, Decision, GuardMode, Limits, PolicyName,
    Request, RequestId, Room, SchedulerOptions, build,
};
use forebay_trace::{
    Adjustment, Checker, Event, Header, Laws, PolicyChoice, Reader, Recorder, RecorderOptions,
    Setup, Traced, Workload,
};
use forebay_units::{ByteRange, Bytes, ClassId, ClientId, FileIndex, Nanos, Offset, Timestamp};
use proptest::prelude::*;

const OPTIONS: RecorderOptions = RecorderOptions { block_bytes: 16 << 10, blocks: 64 };

fn setup(policy: PolicyName, guard: GuardMode, bypass: Bypass) -> Setup {
    let large_bytes = Some(Bytes::kib(256));
    let options = SchedulerOptions { guard, large_bytes, bypass, queue_requests_max: 40 };
    let limits = Limits { wait_max: Nanos::micros(300), ..Limits::default() };
    Setup { policy, options, limits, hbrr_quantum: HbrrQuantum::Ranges(4), classes: None }
}

/// The same, shared among classes.
fn shared(setup: &Setup, discipline: Discipline) -> Setup {
    let sharing = SharingSettings { discipline, quantum: 16 << 10, ..SharingSettings::default() };
    let classes = ClassOptions {
        sharing,
        classes_max: 3,
        class_requests_max: 25,
        // Some are forgotten while it is recorded.
        idle_max: Nanos::millis(3),
    };
    Setup { classes: Some(classes), ..*setup }
}

const TWINS: Discipline = Discipline::Twins(TwinsSettings {
    window: Nanos::micros(700),
    targets: 2,
    shift: 1,
    start: Timestamp(5),
    idle: WindowIdle::LendAfter(Nanos::micros(100)),
});

const SW: Discipline =
    Discipline::Sw(SwSettings { window: Nanos::micros(900), start: Timestamp(5), is_strict: true });

/// A change to how classes share, the settings that are refused included.
fn adjustment(random: &mut SplitMix64, setup: &Setup) -> Adjustment {
    let class = ClassId(random.below(4) as u32);
    let group = GroupId(random.below(2) as u32);
    let wait_max = Nanos(random.below(400_000));
    let policy = PolicyName::ALL[random.below(PolicyName::ALL.len() as u64) as usize];
    let choice =
        PolicyChoice { policy, limits: Limits { wait_max, ..setup.limits }, ..setup.choice() };
    let mut below = |most| random.below(most);
    let share = Share {
        weight: below(5) as u32,
        ops: (below(3) == 0).then(|| Rate { per_second: 2_000 + below(9_000), burst: below(4) }),
        bytes: (below(3) == 0).then(|| Rate::bytes(20_000_000 + below(1 << 26))),
        cost: None,
        at_limit: if below(3) == 0 { AtLimit::Wait } else { AtLimit::Borrow },
    };
    match below(9) {
        0..4 => {
            let group = (below(2) == 0).then_some(group);
            let reservation = below(2) * 1_000_000;
            Adjustment::Class(class, Some(ClassShare { share, reservation, group }))
        }
        4 => Adjustment::Class(class, None),
        5 => Adjustment::Group(group, (below(4) > 0).then_some(share)),
        6 => Adjustment::Policy(choice),
        7 => Adjustment::ClassPolicy(class, choice),
        _ => {
            let tariff =
                Tariff { per_batch: below(9_000), per_request: below(10), per_mib: 1 << 20 };
            let discipline = [Discipline::Sfq, Discipline::Drr, TWINS, SW][below(4) as usize];
            Adjustment::Sharing(SharingSettings {
                discipline,
                cost: CostModel { write: tariff, ..CostModel::OPS },
                quantum: 1 + below(1 << 16),
                lend_below: 1 + below(4) as u32,
                capacity: (below(2) == 0).then_some(1 << 30),
            })
        }
    }
}

/// A run by seed: requests that conflict and merge, completions in any order, cancellations,
/// retired files, a policy that changes. Returns the trace and what was dispatched, in order.
fn run(setup: &Setup, seed: u64, steps: usize) -> (Vec<u8>, Vec<u64>) {
    let mut random = SplitMix64::new(seed);
    let mut traced = Traced::from(setup.scheduler());
    traced.attach(Recorder::new(OPTIONS, 0));
    let header = Header { settings: setup.entries(), ..Header::default() };
    let mut bytes = header.to_bytes();
    let (mut now, mut batch) = (Timestamp(1_000), Batch::new());
    let (mut waiting, mut in_flight): (Vec<RequestId>, Vec<(RequestId, Bytes)>) =
        Default::default();
    let mut dispatched = Vec::new();
    for _ in 0..steps {
        now = now + Nanos(random.below(200_000));
        match random.below(20) {
            0..8 => {
                let access = match random.below(12) {
                    0 => Access::Sync,
                    1 => Access::Alone,
                    2..8 => Access::Read,
                    _ => Access::Write,
                };
                let length = if random.below(30) == 0 { Bytes::kib(512) } else { Bytes::kib(8) };
                let request = Request {
                    tag: 77,
                    file: FileIndex(random.below(3) as u32),
                    access,
                    range: ByteRange::new(Offset(random.below(64) << 13), length),
                    client: ClientId(random.below(4) as u32),
                    class: ClassId(random.below(2) as u32),
                };
                let room = if random.below(2) == 0 { Room::Free } else { Room::Full };
                match traced.submit(now, request, room) {
                    Ok(Admission::Bypassed(accepted)) => {
                        dispatched.push(accepted.seq);
                        in_flight.push((accepted.id, accepted.request.range.length()));
                    }
                    Ok(Admission::Queued(id) | Admission::Blocked(id)) => waiting.push(id),
                    Err(_) => {}
                }
            }
            8..13 => {
                let decision = match random.below(3) {
                    0 => traced.next_from_policy(now, &mut batch),
                    _ => traced.next(now, &mut batch),
                };
                if decision == Decision::Dispatch {
                    for member in batch.members() {
                        dispatched.push(member.seq);
                        waiting.retain(|id| *id != member.id);
                        in_flight.push((member.id, member.request.range.length()));
                    }
                }
            }
            13..18 if !in_flight.is_empty() => {
                let place = random.below(in_flight.len() as u64) as usize;
                let (id, moved) = in_flight.swap_remove(place);
                let failed = random.below(10) == 0;
                let (moved, errno) = if failed { (Bytes::ZERO, 5) } else { (moved, 0) };
                assert!(traced.complete(now, id, moved, errno).is_some());
            }
            18 if !waiting.is_empty() => {
                let place = random.below(waiting.len() as u64) as usize;
                traced.cancel(now, waiting.swap_remove(place));
            }
            // Refused ones, too, are refused again.
            19 if setup.classes.is_some() && random.below(2) == 0 => {
                _ = traced.adjust(now, &adjustment(&mut random, setup));
            }
            19 => match random.below(12) {
                0 if setup.classes.is_none() => {
                    let name = PolicyName::ALL[random.below(PolicyName::ALL.len() as u64) as usize];
                    traced.switch_policy(now, build(name, &setup.policy_settings()));
                }
                1 => {
                    traced.drain(now, &mut Vec::new());
                    waiting.clear();
                }
                _ => _ = traced.retire(FileIndex(random.below(3) as u32)),
            },
            _ => {}
        }
        let recorder = traced.recorder().expect("it is attached");
        while let Some(mut block) = recorder.take_block() {
            bytes.extend(block.seal());
            recorder.give_back(block);
        }
    }
    let (blocks, totals) = traced.detach().expect("it is attached").finish();
    blocks.for_each(|mut block| bytes.extend(block.seal()));
    bytes.extend(totals.to_bytes());
    assert_eq!(totals.lost_events, 0);
    (bytes, dispatched)
}

/// The first law that a trace breaks.
fn hold_laws(bytes: &[u8]) -> Result<(), String> {
    let mut reader = Reader::new(bytes).map_err(|error| error.to_string())?;
    let mut laws = Laws::of(reader.header());
    for record in &mut reader {
        laws.take(&record.unwrap()).map_err(|breach| breach.to_string())?;
    }
    laws.finish(reader.totals()).map_err(|breach| breach.to_string())
}

/// How many decisions agree, or the first that does not.
fn check(bytes: &[u8], setup: &Setup) -> Result<u64, String> {
    let mut checker = Checker::new(setup.scheduler(), setup.policy_settings());
    for record in Reader::new(bytes).map_err(|error| error.to_string())? {
        let record = record.map_err(|damage| damage.to_string())?;
        checker.check(&record).map_err(|divergence| divergence.to_string())?;
    }
    Ok(checker.decisions_count())
}

#[test]
fn a_recorded_run_replays_to_the_same_decisions_under_every_policy_and_guard() {
    for (number, policy) in PolicyName::ALL.into_iter().enumerate() {
        for guard in GuardMode::ALL {
            for bypass in [Bypass::Never, Bypass::WhenIdle] {
                let setup = setup(policy, guard, bypass);
                let (bytes, dispatched) = run(&setup, number as u64 * 31 + 5, 1_500);
                assert!(dispatched.len() > 200, "{policy}: {}", dispatched.len());
                assert_eq!(hold_laws(&bytes), Ok(()), "{policy} {guard}");
                let recorded = Setup::of(Reader::new(&bytes).unwrap().header()).unwrap();
                assert_eq!(recorded, setup, "the header says what the scheduler was made with");
                let decisions = check(&bytes, &recorded);
                assert!(
                    decisions.as_ref().is_ok_and(|count| *count > 700),
                    "{policy} {guard}: {decisions:?}"
                );
            }
        }
    }
}

#[test]
fn a_recorded_run_of_classes_replays_to_the_same_decisions_whatever_is_changed() {
    for (number, policy) in PolicyName::ALL.into_iter().enumerate() {
        for discipline in [Discipline::Sfq, Discipline::Drr, TWINS, SW] {
            let setup = shared(&setup(policy, GuardMode::Overlap, Bypass::WhenIdle), discipline);
            let (bytes, dispatched) = run(&setup, number as u64 * 17 + 3, 2_500);
            assert!(dispatched.len() > 200, "{policy}: {}", dispatched.len());
            assert_eq!(hold_laws(&bytes), Ok(()), "{policy} {discipline:?}");
            let recorded = Setup::of(Reader::new(&bytes).unwrap().header()).unwrap();
            assert_eq!(recorded, setup, "the header says how classes shared");
            let decisions = check(&bytes, &recorded);
            assert!(
                decisions.as_ref().is_ok_and(|count| *count > 700),
                "{policy} {discipline:?}: {decisions:?}"
            );
            let alone = check(&bytes, &Setup { classes: None, ..setup });
            assert!(alone.is_err(), "without classes it is another scheduler: {policy}");
        }
    }
}

#[test]
fn a_share_that_is_left_out_diverges() {
    let setup = setup(PolicyName::ToAgg, GuardMode::Overlap, Bypass::Never);
    let setup = shared(&setup, Discipline::Sfq);
    let (bytes, _) = run(&setup, 5, 2_500);
    let mut checker = Checker::new(setup.scheduler(), setup.policy_settings());
    let told = Reader::new(&bytes).unwrap().map(Result::unwrap);
    let mut kept = told.filter(|record| !matches!(record.event, Event::Setting { .. }));
    assert!(kept.any(|record| checker.check(&record).is_err()));
}

#[test]
fn a_setting_that_nobody_can_repeat_ends_the_check_and_is_named() {
    let setup = setup(PolicyName::To, GuardMode::Overlap, Bypass::Never);
    for (key, value) in [
        ("classes.0", "ClassShare { share: Share { weight: 3 } }"),
        ("class.0", "weight=3 colour=red"),
        ("class.0", "weight=3 weight=4"),
        ("sharing", "discipline=sfq cost_read=0,0,1 cost_write=0,0,1 quantum=0 lend_below=1"),
    ] {
        let mut traced = Traced::from(setup.scheduler());
        traced.attach(Recorder::new(OPTIONS, 0));
        traced.change(Timestamp(3), key, value, |_| ());
        let (blocks, _) = traced.detach().unwrap().finish();
        let mut bytes = Header::default().to_bytes();
        blocks.for_each(|mut block| bytes.extend(block.seal()));
        let text = check(&bytes, &setup).unwrap_err();
        assert!(text.contains(key) && text.contains("another version"), "{text}");
    }
}

#[test]
fn a_header_of_a_version_without_sharing_is_one_of_a_scheduler_without_classes() {
    let setup = setup(PolicyName::To, GuardMode::None, Bypass::Never);
    let mut header = Header { settings: setup.entries(), ..Header::default() };
    assert_eq!(header.settings.pop().unwrap(), ("recorded.sharing".into(), "none".into()));
    assert_eq!(Setup::of(&header), Ok(setup));
    header.settings.push(("recorded.sharing".into(), "discipline=fair".into()));
    let error = Setup::of(&header).unwrap_err().to_string();
    assert!(error.contains("recorded.sharing = 'discipline=fair'"), "{error}");
}

#[test]
fn a_header_with_an_impossible_quantum_is_refused_before_a_policy_is_made() {
    let setup = setup(PolicyName::Hbrr, GuardMode::None, Bypass::Never);
    for (key, value) in [("recorded.hbrr_ranges", "0"), ("recorded.hbrr_bytes", "1")] {
        let mut header = Header { settings: setup.entries(), ..Header::default() };
        header.settings.retain(|(key, _)| key != "recorded.hbrr_ranges");
        header.settings.push((key.into(), value.into()));
        let error = Setup::of(&header).unwrap_err().to_string();
        assert!(error.contains(&format!("{key} = '{value}'")), "{error}");
    }
}

proptest! {
    #[test]
    fn every_change_is_read_as_it_was_spelled(seed in any::<u64>()) {
        let setup = setup(PolicyName::To, GuardMode::Overlap, Bypass::Never);
        let adjustment = adjustment(&mut SplitMix64::new(seed), &setup);
        let (key, value) = (adjustment.key(), adjustment.value());
        prop_assert_eq!(Adjustment::read(&key, &value), Some(adjustment), "{} = {}", key, value);
    }

    #[test]
    fn no_text_is_more_than_not_understood(key in "[a-z0-9.]{0,12}", value in ".{0,60}") {
        for key in [&*key, "sharing", "policy", "class.1", "group.2", "class.3.policy"] {
            if let Some(read) = Adjustment::read(key, &value) {
                prop_assert_eq!(Adjustment::read(&read.key(), &read.value()), Some(read));
            }
        }
    }

    #[test]
    fn words_in_any_order_and_any_number_of_them_are_read_or_not_but_never_stop_the_reader(
        words in prop::collection::vec(
            prop_oneof!["[a-z_]{1,12}=[0-9,/s+]{0,24}", "(weight|ops|bytes|cost|group|quantum|capacity|discipline|policy)=[0-9a-z/+,]{0,24}"],
            0..8,
        )
    ) {
        let value = words.join(" ");
        for key in ["sharing", "policy", "class.1", "group.2", "class.3.policy"] {
            if let Some(read) = Adjustment::read(key, &value) {
                prop_assert_eq!(Adjustment::read(&read.key(), &read.value()), Some(read));
            }
        }
    }
}

#[test]
fn windows_that_nobody_would_live_to_see_are_not_understood() {
    let rest = "cost_read=0,0,1 cost_write=0,0,1 quantum=1 lend_below=1";
    let most = 1_u64 << 56;
    let is_read = |words: &str| Adjustment::read("sharing", &format!("{words} {rest}")).is_some();
    for (start, allowed) in [(most, true), (most + 1, false), (u64::MAX, false)] {
        let sw = format!("discipline=sw window_ns=1000000 start_ns={start} strict=true");
        let twins = format!("discipline=twins window_ns=1000 targets=2 shift=0 start_ns={start}");
        assert_eq!((is_read(&sw), is_read(&twins)), (allowed, allowed), "{start}");
    }
    for (window, allowed) in [(most / 2, true), (most / 2 + 1, false), (u64::MAX, false)] {
        let words = format!("discipline=twins window_ns={window} targets=2 shift=0 start_ns=0");
        assert_eq!(is_read(&words), allowed, "{window}");
    }
}

#[test]
fn the_longest_change_fits_into_an_event() {
    let most = Tariff { per_batch: u64::MAX, per_request: u64::MAX, per_mib: u64::MAX };
    let twins = TwinsSettings {
        window: Nanos(u64::MAX),
        targets: u32::MAX,
        shift: u32::MAX,
        start: Timestamp(u64::MAX),
        idle: WindowIdle::LendAfter(Nanos(u64::MAX)),
    };
    let sharing = SharingSettings {
        discipline: Discipline::Twins(twins),
        cost: CostModel::both(most),
        quantum: u64::MAX,
        lend_below: u32::MAX,
        capacity: Some(u64::MAX),
    };
    let longest = Adjustment::Sharing(sharing);
    assert!(longest.value().len() <= forebay_trace::TEXT_BYTES_MAX);
    let twins = TwinsSettings { window: Nanos(1 << 24), start: Timestamp(1 << 56), ..twins };
    let discipline = Discipline::Twins(twins);
    let adjustment = Adjustment::Sharing(SharingSettings { discipline, ..sharing });
    assert_eq!(Adjustment::read(&adjustment.key(), &adjustment.value()), Some(adjustment));
}

#[test]
fn nothing_to_do_is_told_once_where_asking_again_changes_nothing() {
    let alone = setup(PolicyName::To, GuardMode::Overlap, Bypass::WhenIdle);
    for (setup, told) in [(alone, 2), (shared(&alone, Discipline::Sfq), 5)] {
        let mut traced = Traced::from(setup.scheduler());
        traced.attach(Recorder::new(OPTIONS, 0));
        let mut batch = Batch::new();
        for now in [1, 2, 3, 4] {
            assert_eq!(traced.next(Timestamp(now), &mut batch), Decision::Idle);
        }
        assert_eq!(traced.next_from_policy(Timestamp(5), &mut batch), Decision::Idle);
        let (blocks, totals) = traced.detach().unwrap().finish();
        let mut bytes = Header::default().to_bytes();
        blocks.for_each(|mut block| bytes.extend(block.seal()));
        bytes.extend(totals.to_bytes());
        let events = Reader::new(&bytes).unwrap().map(|record| record.unwrap().event);
        assert_eq!(events.filter(|event| matches!(event, Event::Idle { .. })).count(), told);
    }
}

#[test]
fn the_trace_has_the_dispatches_in_their_order() {
    let setup = setup(PolicyName::Aioli, GuardMode::Overlap, Bypass::WhenIdle);
    let (bytes, dispatched) = run(&setup, 11, 2_000);
    let mut found = Vec::new();
    for record in Reader::new(&bytes).unwrap() {
        match record.unwrap().event {
            Event::Submit(submit) if submit.fate == forebay_trace::Fate::Bypassed => {
                found.extend(submit.seq);
            }
            Event::Dispatch { members, .. } => found.extend(members.iter()),
            _ => {}
        }
    }
    assert_eq!(found, dispatched);
}

#[test]
fn another_policy_or_guard_diverges_and_the_place_is_told() {
    let recorded = setup(PolicyName::Aioli, GuardMode::Overlap, Bypass::Never);
    let (bytes, _) = run(&recorded, 3, 1_000);
    for (policy, guard) in
        [(PolicyName::To, GuardMode::Overlap), (PolicyName::Aioli, GuardMode::None)]
    {
        let other = Setup { policy, ..setup(policy, guard, Bypass::Never) };
        let text = check(&bytes, &other).unwrap_err();
        assert!(text.starts_with("byte ") && text.contains("recorded"), "{text}");
    }
}

#[test]
fn a_run_without_a_guard_breaks_the_order_that_a_guard_keeps() {
    let recorded = setup(PolicyName::Sjf, GuardMode::None, Bypass::WhenIdle);
    let (bytes, _) = run(&recorded, 4, 1_500);
    assert_eq!(hold_laws(&bytes), Ok(()));
    for guard in ["overlap", "client", "file"] {
        let settings = vec![("recorded.guard".into(), guard.into())];
        let mut laws = Laws::of(&Header { settings, ..Header::default() });
        let mut records = Reader::new(&bytes).unwrap().map(Result::unwrap);
        let breach = records.find_map(|record| laws.take(&record).err()).expect(guard);
        assert!(breach.text.contains("which it conflicts with"), "{guard}: {breach}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// What happens to a request once cannot happen twice, wherever in a run it does.
    #[test]
    fn an_event_that_is_told_twice_breaks_a_law_there(seed in any::<u64>(), place in any::<prop::sample::Index>()) {
        let policy = PolicyName::ALL[(seed % PolicyName::ALL.len() as u64) as usize];
        let guard = GuardMode::ALL[(seed / 64 % 4) as usize];
        let (bytes, _) = run(&setup(policy, guard, Bypass::WhenIdle), seed, 400);
        let reader = Reader::new(&bytes).unwrap();
        let mut laws = Laws::of(reader.header());
        let records: Vec<_> = reader.map(Result::unwrap).collect();
        let is_of_one = |event: &Event<'_>| {
            matches!(event, Event::Dispatch { .. } | Event::Ready { .. } | Event::Complete { .. } | Event::Cancel { .. })
        };
        let places: Vec<usize> = (0..records.len()).filter(|at| is_of_one(&records[*at].event)).collect();
        let at = *place.get(&places);
        let told = records[..=at].iter().chain(&records[at..]);
        let breach = told.map(|record| laws.take(record)).find_map(Result::err).unwrap();
        prop_assert_eq!(breach.event, at as u64 + 1, "{}", breach);
    }
}

#[test]
fn the_same_run_makes_the_same_trace() {
    let setup = setup(PolicyName::Hbrr, GuardMode::File, Bypass::WhenIdle);
    assert_eq!(run(&setup, 9, 800), run(&setup, 9, 800));
}

#[test]
fn a_header_without_a_setup_is_told_by_key() {
    let error = Setup::of(&Header::default()).unwrap_err().to_string();
    assert!(error.contains("recorded.large_bytes") && error.contains("name a policy"), "{error}");
    let mut header = Header {
        settings: setup(PolicyName::To, GuardMode::None, Bypass::Never).entries(),
        ..Header::default()
    };
    header.settings[0].1 = "best".into();
    let error = Setup::of(&header).unwrap_err().to_string();
    assert!(error.contains("recorded.policy = 'best'"), "{error}");
}

#[test]
fn a_workload_is_what_was_accepted_with_files_told_apart() {
    let setup = setup(PolicyName::To, GuardMode::Overlap, Bypass::WhenIdle);
    let mut traced = Traced::from(setup.scheduler());
    traced.attach(Recorder::new(OPTIONS, 0));
    let request = |file, client, at: u64| Request {
        tag: 9,
        file: FileIndex(file),
        access: Access::Read,
        range: ByteRange::new(Offset(at), Bytes(10)),
        client: ClientId(client),
        class: ClassId(0),
    };
    let mut ask = |now, file, client, at| {
        let admission = traced.submit(Timestamp(now), request(file, client, at), Room::Free);
        admission.unwrap().id()
    };
    let a = ask(100, 0, 1, 0);
    let b = ask(110, 0, 2, 50);
    traced.complete(Timestamp(150), a, Bytes(10), 0);
    traced.submit(Timestamp(170), request(0, 1, 10), Room::Free).unwrap();
    traced.complete(Timestamp(180), b, Bytes(4), 0);
    let range = ByteRange::new(Offset(3), Bytes(0));
    let refused = Request { range, ..request(0, 1, 3) };
    traced.submit(Timestamp(185), refused, Room::Free).unwrap_err();
    traced.retire(FileIndex(7)).unwrap();
    traced.note_immediate(Timestamp(190), request(7, 2, 90), Bytes(10));
    traced.submit(Timestamp(200), request(7, 2, 100), Room::Free).unwrap();
    let (blocks, totals) = traced.detach().unwrap().finish();
    let mut bytes = Header::default().to_bytes();
    blocks.for_each(|mut block| bytes.extend(block.seal()));
    bytes.extend(totals.to_bytes());

    let workload = Workload::read(Reader::new(&bytes).unwrap());
    let rows: Vec<_> = workload
        .requests
        .iter()
        .map(|r| (r.at.0, r.request.tag, r.request.file.0, r.after, r.think.0, r.moved))
        .collect();
    assert_eq!(
        rows,
        [
            (0, 0, 0, None, 0, Some(Bytes(10))),
            (10, 1, 0, None, 10, Some(Bytes(4))),
            (70, 2, 0, Some(0), 20, None),
            (90, 3, 1, Some(1), 10, Some(Bytes(10))),
            (100, 4, 1, Some(3), 10, None),
        ]
    );
    assert_eq!(workload.requests[0].latency, Some(Nanos(50)));
    let sizes: Vec<u64> = workload.catalog.files.iter().map(|file| file.size.0).collect();
    assert_eq!(sizes, [60, 110]);
    assert!(workload.damages.is_empty() && workload.lost_events == 0);
}
