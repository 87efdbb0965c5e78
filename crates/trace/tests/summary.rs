//! Statistics and lines of a trace that is small enough to count by hand.

use forebay_sched::{Accepted, Access, Request, RequestId};
use forebay_trace::{
    Asked, Event, Fate, Header, Lives, Named, Pattern, Reader, Record, Recorder, RecorderOptions,
    Submit, Summary, csv_line,
};
use forebay_units::{ByteRange, Bytes, ClassId, ClientId, FileIndex, Offset, Timestamp};

fn request(client: u32, access: Access, start: u64) -> Request {
    Request {
        tag: 0,
        file: FileIndex(3),
        access,
        range: ByteRange::new(Offset(start), Bytes(8)),
        client: ClientId(client),
        class: ClassId(client),
    }
}

fn batch(seqs: &[u64]) -> Vec<Accepted> {
    let request = request(0, Access::Read, 0);
    let accepted =
        |seq: &u64| Accepted { id: RequestId(0), seq: *seq, arrived: Timestamp(0), request };
    seqs.iter().map(accepted).collect()
}

/// Two reads that leave together after a wait, a write that is blocked by one of them and fails, a
/// read from the page cache, and one that is still under way.
fn trace() -> Vec<u8> {
    let mut recorder = Recorder::new(RecorderOptions::default(), 0);
    let submit =
        |request, fate| Event::Submit(Submit { seq: None, request, has_room: false, fate });
    let (both, last) = (batch(&[0, 1]), batch(&[2]));
    let asked = Asked::Anything;
    let done = |seq, errno, moved| Event::Complete { seq, errno, moved: Bytes(moved) };
    for (at, event) in [
        (0, Event::Name { of: Named::File(FileIndex(3)), text: "a, b" }),
        (100, submit(request(1, Access::Read, 0), Fate::Queued)),
        (110, submit(request(2, Access::Read, 8), Fate::Queued)),
        (120, submit(request(1, Access::Write, 0), Fate::Blocked)),
        (130, Event::Wait { asked, until: Timestamp(200) }),
        (150, Event::Dispatch { asked, members: both[..].into(), continues: false }),
        (190, done(0, 0, 8)),
        (190, done(1, 0, 4)),
        (190, Event::Ready { seq: 2 }),
        (200, Event::Dispatch { asked, members: last[..].into(), continues: false }),
        (210, Event::Idle { asked }),
        (250, done(2, 5, 0)),
        (260, Event::Immediate { request: request(2, Access::Read, 16), moved: Bytes(8) }),
        (300, submit(request(2, Access::Read, 32), Fate::Bypassed)),
        (310, submit(request(2, Access::Read, 40), Fate::QueueFull)),
        (320, Event::Switch { policy: "TO" }),
    ] {
        recorder.record(Timestamp(at), &event);
    }
    let mut bytes = Header::default().to_bytes();
    let (blocks, totals) = recorder.finish();
    blocks.for_each(|mut block| bytes.extend(block.seal()));
    bytes.extend(totals.to_bytes());
    bytes
}

#[test]
fn what_can_be_counted_by_hand_is_what_the_summary_says() {
    let bytes = trace();
    let summary = Summary::read(Reader::new(&bytes).unwrap(), 1);
    assert_eq!((summary.events, summary.duration_ns), (16, 320));
    let requests = summary.requests;
    assert_eq!((requests.all, requests.reads, requests.writes), (5, 4, 1));
    assert_eq!((requests.immediate, requests.bypassed, requests.blocked), (1, 1, 1));
    assert_eq!((requests.failed, requests.short, requests.open, requests.refused), (1, 1, 1, 1));
    assert_eq!((summary.bytes.read, summary.bytes.written), (20, 0));
    let decisions = summary.decisions;
    assert_eq!((decisions.batches, decisions.batched_requests), (2, 3));
    assert_eq!((decisions.largest_batch_requests, decisions.idle), (2, 1));
    assert_eq!((decisions.waits, decisions.waited_ns), (1, 20));
    // Three requests in two batches, and one that went at once.
    assert!((decisions.merge_ratio - 4.0 / 3.0).abs() < 1e-12);
    let times = summary.times;
    assert_eq!((times.latency.count, times.latency.max_ns), (4, 130));
    assert_eq!((times.queue.max_ns, times.device.max_ns), (80, 50));
    assert_eq!((times.blocked.count, times.blocked.max_ns), (1, 70));
    let pattern = |accesses, sequential, consecutive| Pattern { accesses, sequential, consecutive };
    // Client 1: back to the start. Client 2: on at once, then over a gap.
    assert_eq!(summary.order.by_client, pattern(3, 2, 1));
    // [0, 8) [8, 16) [0, 8) [16, 24) [32, 40)
    assert_eq!(summary.order.by_arrival, pattern(4, 3, 1));
    // [0, 16) [0, 8) [32, 40); what the cache answered never left.
    assert_eq!(summary.order.by_dispatch, pattern(2, 1, 0));
    assert_eq!((summary.clients.count, summary.clients.heaviest.len()), (2, 1));
    let heaviest = &summary.clients.heaviest[0];
    assert_eq!((&heaviest.name[..], heaviest.requests, heaviest.bytes), ("client 2", 3, 12));
    assert_eq!((&summary.changes[0].key[..], &summary.changes[0].value[..]), ("policy", "TO"));
    let sum = |of: fn(&forebay_trace::Moment) -> u64| summary.timeline.iter().map(of).sum::<u64>();
    assert_eq!((sum(|m| m.arrived), sum(|m| m.ended), sum(|m| m.bytes)), (5, 4, 20));
}

#[test]
fn a_line_says_all_about_a_request() {
    let bytes = trace();
    let (mut lives, mut lines) = (Lives::default(), Vec::new());
    for record in Reader::new(&bytes).unwrap() {
        lives.take(&record.unwrap(), |catalog, life| lines.push(csv_line(catalog, life)));
    }
    lines.extend(lives.open().map(|life| csv_line(&lives.catalog, life)));
    assert_eq!(
        lines[2],
        "2,1,client 1,1,class 1,0,\"a, b\",write,0,8,120,190,200,250,1,0,5,completed"
    );
    assert!(lines[3].starts_with(",2,client 2,") && lines[3].ends_with(",8,0,immediate"));
    assert!(lines[4].ends_with(",refused") && lines[5].ends_with(",0,0,open"), "{lines:?}");
}

/// Drains end what waits; what has been dispatched and never ends must not be gone through each
/// time. If it were, these events would take hours.
#[test]
fn drains_cost_nothing_for_what_is_under_way() {
    const COUNT: u64 = 100_000;
    let mut lives = Lives::default();
    let mut tell = |event| {
        let record = Record { position: 0, time: Timestamp(0), event };
        let mut ended = 0;
        lives.take(&record, |_, _| ended += 1);
        ended
    };
    let submit = |seq, fate| {
        let request = request(0, Access::Read, 8 * seq);
        Event::Submit(Submit { seq: Some(seq), request, has_room: true, fate })
    };
    (0..COUNT).for_each(|seq| _ = tell(submit(seq, Fate::Bypassed)));
    assert_eq!(tell(submit(COUNT, Fate::Queued)), 0);
    let drained: usize = (0..COUNT).map(|_| tell(Event::Drain)).sum();
    assert_eq!((drained, lives.open().count()), (1, COUNT as usize));
    assert!(lives.open().map(|life| life.seq).eq((0..COUNT).map(Some)));
}

/// Refused before the scheduler was asked, a change of the depth, and what was said ahead of time.
#[test]
fn what_a_controller_says_beside_its_scheduler_is_counted_and_has_its_line() {
    use forebay_trace::Hinted;
    let mut recorder = Recorder::new(RecorderOptions::default(), 0);
    let refused = Event::Refused { request: request(7, Access::Write, 64) };
    let hold = Event::Hint(Hinted::MoreFollows { until: Timestamp(90) });
    for (at, event) in [
        (10, Event::Name { of: Named::File(FileIndex(3)), text: "f" }),
        (15, Event::Depth { depth: 4 }),
        (20, Event::Depth { depth: 16 }),
        (30, refused),
        (35, refused),
        (40, hold),
        (50, Event::Hint(Hinted::Forget { file: FileIndex(3) })),
    ] {
        recorder.record(Timestamp(at), &event);
    }
    let mut bytes = Header::default().to_bytes();
    let (blocks, totals) = recorder.finish();
    blocks.for_each(|mut block| bytes.extend(block.seal()));
    bytes.extend(totals.to_bytes());
    let summary = Summary::read(Reader::new(&bytes).unwrap(), 3);
    assert_eq!((summary.requests.refused, summary.requests.all, summary.hints), (2, 0, 2));
    let changes: Vec<_> =
        summary.changes.iter().map(|one| (one.time_ns, &*one.key, &*one.value)).collect();
    assert_eq!((summary.depth, changes), (Some(4), vec![(20, "depth", "16")]));
    let (mut lives, mut lines) = (Lives::default(), Vec::new());
    for record in Reader::new(&bytes).unwrap() {
        lives.take(&record.unwrap(), |catalog, life| lines.push(csv_line(catalog, life)));
    }
    assert_eq!(
        lines,
        [
            ",7,client 7,7,class 7,0,f,write,64,8,30,,,30,,0,0,refused",
            ",7,client 7,7,class 7,0,f,write,64,8,35,,,35,,0,0,refused"
        ]
    );
}
