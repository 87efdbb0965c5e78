//! A trace is a test case: what a scheduler decided while it was recorded, it decides again.

use forebay_device::SplitMix64;
use forebay_sched::policies::hbrr::HbrrQuantum;
use forebay_sched::{
    Access, Admission, Batch, Bypass, Decision, GuardMode, Limits, PolicyName, Request, RequestId,
    Room, SchedulerOptions, build,
};
use forebay_trace::{
    Checker, Event, Header, Reader, Recorder, RecorderOptions, Setup, Traced, Workload,
};
use forebay_units::{ByteRange, Bytes, ClassId, ClientId, FileIndex, Nanos, Offset, Timestamp};

const OPTIONS: RecorderOptions = RecorderOptions { block_bytes: 16 << 10, blocks: 64 };

fn setup(policy: PolicyName, guard: GuardMode, bypass: Bypass) -> Setup {
    let large_bytes = Some(Bytes::kib(256));
    let options = SchedulerOptions { guard, large_bytes, bypass, queue_requests_max: 40 };
    let limits = Limits { wait_max: Nanos::micros(300), ..Limits::default() };
    Setup { policy, options, limits, hbrr_quantum: HbrrQuantum::Ranges(4) }
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
            19 => match random.below(12) {
                0 => {
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
