//! The laws of a trace: what keeps them passes, and each that is broken is told with its event.

use forebay_sched::{Accepted, Access, Request, RequestId};
use forebay_trace::{
    Asked, Breach, Event, Fate, Header, Hinted, Laws, Reader, Recorder, RecorderOptions, Submit,
    Totals,
};
use forebay_units::{ByteRange, Bytes, ClassId, ClientId, FileIndex, Offset, Timestamp};

const NONE: Option<Totals> = None;

/// What happens in a trace.
#[derive(Clone, Copy, Debug)]
enum Told {
    /// Of file 0, class 0: access, first block of 8 KiB, blocks, client, fate.
    Submit(Access, u64, u64, u32, Fate),
    Read(u64),
    /// The same of file 1.
    SubmitOther(Access, u64, Fate),
    Leave(&'static [u64]),
    GoOn(&'static [u64]),
    Ready(u64),
    End(u64),
    Cancel(u64),
    Drain,
    Retire(u32),
    Depth(u32),
    Hold(u64),
    Release,
    Idle,
}
use Access::{Alone, Read, Sync, Write};
use Fate::{Blocked, Bypassed, EmptyRange, QueueFull, Queued};
use Told::*;

fn request(file: u32, access: Access, block: u64, blocks: u64, client: u32) -> Request {
    let range = match access {
        Alone | Sync => ByteRange::WHOLE_FILE,
        Read | Write => ByteRange::new(Offset(block << 13), Bytes(blocks << 13)),
    };
    let (client, class) = (ClientId(client), ClassId(0));
    Request { tag: 0, file: FileIndex(file), access, range, client, class }
}

fn accepted(seq: u64) -> Accepted {
    let request = request(0, Read, 0, 1, 0);
    Accepted { id: RequestId(seq), seq, arrived: Timestamp(0), request }
}

/// Tells a microsecond apart; `first` is the number of the first request.
fn trace(guard: &str, first: u64, told: &[Told]) -> Vec<u8> {
    let options = RecorderOptions { block_bytes: RecorderOptions::BLOCK_BYTES_MIN, blocks: 4 };
    let mut recorder = Recorder::new(options, first);
    let settings = match guard {
        "" => Vec::new(),
        guard => vec![("recorded.guard".into(), guard.into())],
    };
    let mut bytes = Header { settings, ..Header::default() }.to_bytes();
    for (number, one) in (1..).zip(told) {
        let now = Timestamp(number * 1_000);
        let submit = |request, fate| {
            Event::Submit(Submit { seq: None, request, has_room: fate == Bypassed, fate })
        };
        let batch: Vec<Accepted> = match one {
            Leave(members) | GoOn(members) => members.iter().map(|seq| accepted(*seq)).collect(),
            _ => Vec::new(),
        };
        let event = match *one {
            Submit(access, block, blocks, client, fate) => {
                submit(request(0, access, block, blocks, client), fate)
            }
            SubmitOther(access, block, fate) => submit(request(1, access, block, 1, 0), fate),
            Told::Read(block) => {
                Event::Immediate { request: request(0, Read, block, 1, 0), moved: Bytes(8192) }
            }
            Leave(_) | GoOn(_) => Event::Dispatch {
                asked: Asked::Anything,
                members: batch[..].into(),
                continues: matches!(one, GoOn(_)),
            },
            Ready(seq) => Event::Ready { seq },
            End(seq) => Event::Complete { seq, errno: 0, moved: Bytes(8192) },
            Cancel(seq) => Event::Cancel { seq },
            Drain => Event::Drain,
            Retire(file) => Event::Retire { file: FileIndex(file) },
            Depth(depth) => Event::Depth { depth },
            Hold(time) => Event::Hint(Hinted::MoreFollows { until: Timestamp(now.0 + time) }),
            Release => Event::Hint(Hinted::NoMore),
            Idle => Event::Idle { asked: Asked::Anything },
        };
        recorder.record(now, &event);
    }
    let (blocks, totals) = recorder.finish();
    blocks.for_each(|mut block| bytes.extend(block.seal()));
    bytes.extend(totals.to_bytes());
    bytes
}

fn hold(bytes: &[u8]) -> Result<Laws, Breach> {
    let mut reader = Reader::new(bytes).unwrap();
    let mut laws = Laws::of(reader.header());
    for found in &mut reader {
        match found {
            Ok(record) => laws.take(&record)?,
            Err(_) => laws.forget(),
        }
    }
    Ok(laws)
}

fn obeys(guard: &str, told: &[Told]) {
    let bytes = trace(guard, 0, told);
    let laws = hold(&bytes).unwrap_or_else(|breach| panic!("{guard} {told:?}: {breach}"));
    assert_eq!(laws.totals().events, told.len() as u64);
    assert_eq!(laws.finish(NONE), Ok(()));
}

/// The last event breaks a law, in these words.
fn breaks(guard: &str, told: &[Told], words: &str) {
    let breach = hold(&trace(guard, 0, told)).expect_err(words);
    assert!(breach.text.contains(words), "{breach} instead of {words}");
    let last = told.len() as u64;
    assert_eq!((breach.event, breach.time), (last - 1, Timestamp(last * 1_000)), "{breach}");
    assert!(breach.position > 0);
}

fn read(block: u64) -> Told {
    Submit(Read, block, 1, 0, Queued)
}

fn write(block: u64, fate: Fate) -> Told {
    Submit(Write, block, 1, 0, fate)
}

#[test]
fn what_schedulers_do_is_lawful() {
    let alone = Submit(Alone, 0, 0, 0, Blocked);
    for guard in ["none", "overlap", "client", "file"] {
        obeys(guard, &[read(0), read(1), Leave(&[0, 1]), End(1), End(0), Retire(0), Idle]);
        obeys(guard, &[write(0, Bypassed), End(0), write(0, Queued), Cancel(1), write(0, Queued)]);
        obeys(guard, &[read(0), read(5), Drain, Retire(0), read(0), Leave(&[2])]);
        obeys(guard, &[write(0, QueueFull), read(0), Submit(Read, 0, 0, 0, EmptyRange)]);
        obeys(guard, &[Depth(2), read(0), read(9), Leave(&[0]), Leave(&[1]), End(0), Depth(1)]);
        obeys(guard, &[Hold(2_000), read(0), Idle, Leave(&[0]), Hold(9_000), Release, Hold(1)]);
        // A sync waits for writes, and nothing for a sync.
        obeys(guard, &[write(0, Queued), Submit(Sync, 0, 0, 1, Blocked), Leave(&[0]), End(0)]);
        obeys(guard, &[Submit(Sync, 0, 0, 0, Queued), write(0, Bypassed), End(1), read(9)]);
        // A batch in two events.
        obeys(guard, &[read(0), read(1), read(2), GoOn(&[0, 1]), Leave(&[2]), End(1)]);
    }
    for guard in ["overlap", "file"] {
        obeys(
            guard,
            &[write(0, Queued), alone, Leave(&[0]), End(0), Ready(1), Leave(&[1]), End(1)],
        );
    }
    obeys("overlap", &[write(0, Queued), write(1, Bypassed), read(2), Told::Read(3)]);
    let far = Submit(Write, 1 << 40, 1, 0, Bypassed);
    obeys("overlap", &[far, Submit(Write, 0, 1 << 40, 0, Bypassed), End(0)]);
    // Two clients exclude each other, in any order.
    let other = Submit(Write, 0, 1, 1, Queued);
    obeys("client", &[write(0, Queued), other, Leave(&[1]), End(1), Leave(&[0]), End(0)]);
    obeys("none", &[write(0, Bypassed), write(0, Bypassed), read(0), Leave(&[2])]);
    // The order of files is each their own.
    obeys("file", &[write(0, Bypassed), SubmitOther(Write, 0, Bypassed), Retire(2)]);
}

#[test]
fn a_request_lives_once() {
    for guard in ["none", "overlap", "client", "file"] {
        breaks(guard, &[read(0), Leave(&[0]), Leave(&[0])], "request 0 left twice");
        breaks(guard, &[write(0, Bypassed), Leave(&[0])], "request 0 left twice");
        breaks(guard, &[read(0), Leave(&[1])], "request 1 left and was never submitted");
        breaks(guard, &[read(0), Leave(&[0]), End(0), End(0)], "request 0 ended and was over");
        breaks(guard, &[read(0), End(0)], "request 0 ended and has not left");
        breaks(guard, &[read(0), Leave(&[0]), Cancel(0)], "request 0 was cancelled and has left");
        breaks(guard, &[read(0), Cancel(0), Leave(&[0])], "request 0 left and was over");
        breaks(guard, &[read(0), Cancel(0), Cancel(0)], "request 0 was cancelled and was over");
        breaks(guard, &[read(0), Drain, Leave(&[0])], "request 0 left and was over");
        breaks(guard, &[read(0), Ready(0)], "request 0 became ready and was not held up");
        breaks(guard, &[read(0), Retire(0)], "given up while 1 of its requests were alive");
        let sync = Submit(Sync, 0, 0, 0, Queued);
        breaks(guard, &[sync, Retire(0)], "given up while 1 of its requests were alive");
    }
    breaks("overlap", &[End(3), Idle, read(0)], "submitted, and had been told of before");
    breaks("", &[read(0), End(0), End(0)], "request 0 ended and was over");
}

#[test]
fn conflicting_requests_leave_in_the_order_in_which_they_came() {
    let not_held = "was not held up, and request 0, which it conflicts with";
    let left = "while request 0, which it conflicts with, was unfinished";
    for guard in ["overlap", "client", "file"] {
        breaks(guard, &[write(0, Queued), write(0, Queued)], not_held);
        breaks(guard, &[write(0, Bypassed), read(0)], not_held);
        breaks(guard, &[read(0), Submit(Alone, 0, 0, 0, Queued)], not_held);
        breaks(guard, &[read(0), write(0, Blocked), Leave(&[1])], "left while it was held up");
        breaks(guard, &[read(0), write(0, Blocked), Ready(1)], left);
        breaks(guard, &[write(0, Queued), Told::Read(0)], "a read was answered while request 0");
        let writes = [write(0, Queued), write(0, Blocked), Leave(&[0]), Ready(1)];
        breaks(guard, &writes, left);
    }
    for guard in ["none", "overlap", "client", "file"] {
        breaks(guard, &[write(0, Queued), Submit(Sync, 0, 0, 1, Queued)], not_held);
    }
    breaks("file", &[read(0), write(9, Queued)], not_held);
    // A long one that begins far before, and a short one at its end.
    let long = Submit(Write, 0, 1000, 0, Queued);
    breaks("overlap", &[long, read(999)], not_held);
    obeys("overlap", &[long, read(1000)]);
    breaks("overlap", &[read(999), Submit(Write, 0, 1000, 0, Queued)], not_held);
    // Two clients exclude each other in flight.
    let other = Submit(Write, 0, 1, 1, Queued);
    breaks("client", &[write(0, Queued), other, Leave(&[1]), Leave(&[0])], "request 1, which");
}

#[test]
fn a_batch_is_one_piece() {
    let gap = "not in offset order or has a gap";
    let others = "others than reads or writes of its own file";
    breaks("overlap", &[read(0), read(2), Leave(&[0, 1])], gap);
    breaks("overlap", &[read(1), read(0), Leave(&[0, 1])], gap);
    breaks("overlap", &[read(0), write(1, Queued), Leave(&[0, 1])], others);
    breaks("overlap", &[read(0), SubmitOther(Read, 1, Queued), Leave(&[0, 1])], others);
    let sync = Submit(Sync, 0, 0, 0, Queued);
    breaks("overlap", &[sync, sync, Leave(&[0, 1])], others);
    breaks("overlap", &[read(0), read(1), read(3), GoOn(&[0, 1]), Leave(&[2])], gap);
    breaks("overlap", &[read(0), read(1), GoOn(&[0]), Idle], "something else is told");
    let cut = trace("overlap", 0, &[read(0), GoOn(&[0])]);
    let totals = Totals { events: 2, lost_events: 0 };
    let breach = hold(&cut).unwrap().finish(Some(totals)).unwrap_err();
    assert!(breach.event == 2 && breach.text.contains("the trace ends"), "{breach}");
}

#[test]
fn nothing_leaves_beyond_the_depth_or_during_a_hold() {
    let depth = "while 1 requests were in flight, and at most 1 may be";
    breaks("overlap", &[Depth(1), read(0), read(9), Leave(&[0]), Leave(&[1])], depth);
    breaks("overlap", &[Depth(1), write(0, Bypassed), write(9, Bypassed)], depth);
    breaks("overlap", &[Depth(9), read(0), read(9), Leave(&[0]), Depth(1), Leave(&[1])], depth);
    breaks("overlap", &[read(0), Hold(2_000), Leave(&[0])], "during a hold until 4000 ns");
    breaks("overlap", &[Hold(2_000), write(0, Bypassed)], "during a hold until 3000 ns");
}

#[test]
fn what_was_alive_before_the_recording_is_not_held_against_it() {
    let told = [End(3), read(0), Leave(&[4, 10]), End(4), Cancel(2), Ready(1), End(10)];
    assert!(hold(&trace("overlap", 10, &told)).is_ok());
    let again = [read(0), Leave(&[10]), End(10), End(10)];
    assert!(hold(&trace("overlap", 10, &again)).is_err());
}

#[test]
fn a_place_where_events_are_missing_begins_anew_and_the_numbers_go_on() {
    let mut laws = Laws::of(&Header::default());
    let bytes = trace("overlap", 0, &[read(0), Leave(&[0])]);
    for record in Reader::new(&bytes).unwrap() {
        laws.take(&record.unwrap()).unwrap();
    }
    let lost = Event::Lost { events: 5, blocks: 1 };
    let record = |event| forebay_trace::Record { position: 90, time: Timestamp(2_000), event };
    laws.take(&record(lost)).unwrap();
    assert_eq!(laws.open_count(), 0);
    laws.take(&record(Event::Complete { seq: 0, errno: 0, moved: Bytes(1) })).unwrap();
    assert_eq!(laws.totals(), Totals { events: 3, lost_events: 5 });
    let earlier = forebay_trace::Record { time: Timestamp(1), ..record(Event::Drain) };
    let breach = laws.take(&earlier).unwrap_err();
    assert_eq!((breach.event, breach.position), (3, 90));
    assert!(breach.text.contains("time goes back from 2000 ns"), "{breach}");
}

#[test]
fn an_end_that_counts_otherwise_is_told() {
    let bytes = trace("overlap", 0, &[read(0)]);
    let laws = hold(&bytes).unwrap();
    assert!(laws.has_decisions());
    let breach = laws.finish(Some(Totals { events: 2, lost_events: 0 })).unwrap_err();
    assert!(breach.text.contains("2 events and 0 lost, and there are 1 and 0"), "{breach}");
}

/// A log of another tool says when requests came and ended, and nothing of what left.
#[test]
fn a_trace_without_decisions_is_held_to_its_ends() {
    let bytes = trace("", 0, &[write(0, Queued), write(0, Queued), End(0), End(1)]);
    let laws = hold(&bytes).unwrap();
    assert!(!laws.has_decisions());
    assert_eq!((laws.requests_count(), laws.open_count()), (2, 0));
}
