//! Traces come back as they were recorded, damage is told where it is, and nothing in a file makes
//! the reader fall over.

mod read;

use forebay_sched::{Accepted, Access, Request, RequestId};
use forebay_trace::{
    Asked, DamageKind, Event, Fate, Header, Hinted, Named, Reader, Record, Recorder,
    RecorderOptions, Submit, Summary, Workload,
};
use forebay_units::{ByteRange, Bytes, ClassId, ClientId, FileId, FileIndex, Offset, Timestamp};
use proptest::collection::vec;
use proptest::prelude::*;
use read::{read_any, read_any_and_sealed, sealed};

/// An event that owns its parts.
#[derive(Clone, Debug)]
enum Owned {
    Submit(Request, bool, Fate),
    Immediate(Request, u64),
    Dispatch(Asked, Vec<u64>),
    Wait(Asked, u64),
    Idle(Asked),
    Ready(u64),
    Complete(u64, u16, u64),
    Cancel(u64),
    Drain,
    Switch(String),
    Retire(u32),
    File(u32, FileId),
    Name(u8, u32, String),
    Setting(String, String),
    Refused(Request),
    Depth(u32),
    MoreFollows(u64),
    NoMore,
    Forget(u32),
}

fn request() -> impl Strategy<Value = Request> {
    let access = prop_oneof![
        4 => Just(Access::Read), 4 => Just(Access::Write), 1 => Just(Access::Alone), 1 => Just(Access::Sync)
    ];
    let range = prop_oneof![
        4 => (0..1_u64 << 40, 1..1_u64 << 20).prop_map(|(start, length)| ByteRange::new(Offset(start), Bytes(length))),
        1 => Just(ByteRange::WHOLE_FILE),
        1 => any::<u64>().prop_map(|start| ByteRange::from_start(Offset(start))),
    ];
    (access, range, 0..6_u32, 0..6_u32, prop_oneof![0..4_u32, any::<u32>()]).prop_map(
        |(access, range, file, client, class)| Request {
            tag: 0,
            file: FileIndex(file),
            access,
            range,
            client: ClientId(client),
            class: ClassId(class),
        },
    )
}

fn owned() -> impl Strategy<Value = Owned> {
    use Owned::*;
    let fate = || {
        proptest::sample::select(
            &[Fate::Queued, Fate::Blocked, Fate::Bypassed, Fate::QueueFull, Fate::EmptyRange][..],
        )
    };
    let asked = || proptest::sample::select(&[Asked::Anything, Asked::FromPolicy][..]);
    let seq = || prop_oneof![4 => 0..2000_u64, 1 => any::<u64>()];
    let text = || "\\PC{0,40}";
    prop_oneof![
        6 => (request(), any::<bool>(), fate()).prop_map(|(r, room, fate)| Submit(r, room, fate)),
        2 => (request(), any::<u64>()).prop_map(|(r, moved)| Immediate(r, moved)),
        4 => (asked(), vec(seq(), 0..20)).prop_map(|(a, m)| Dispatch(a, m)),
        1 => (asked(), 0..1_u64 << 30).prop_map(|(a, w)| Wait(a, w)),
        1 => asked().prop_map(Idle),
        1 => seq().prop_map(Ready),
        6 => (seq(), prop_oneof![3 => Just(0), 1 => any::<u16>()], any::<u64>())
            .prop_map(|(s, e, m)| Complete(s, e, m)),
        1 => seq().prop_map(Cancel),
        1 => Just(Drain),
        1 => text().prop_map(Switch),
        1 => any::<u32>().prop_map(Retire),
        1 => (any::<u32>(), any::<[u64; 3]>()).prop_map(|(f, [device, inode, generation])| File(
            f,
            FileId { device, inode, generation }
        )),
        1 => (0..3_u8, any::<u32>(), text()).prop_map(|(w, n, t)| Name(w, n, t)),
        1 => (text(), text()).prop_map(|(k, v)| Setting(k, v)),
        2 => request().prop_map(Refused),
        1 => (1..=u32::MAX).prop_map(Depth),
        1 => (0..1_u64 << 30).prop_map(MoreFollows),
        1 => Just(NoMore),
        1 => any::<u32>().prop_map(Forget),
    ]
}

impl Owned {
    /// Records it; the members of a batch are lent as a scheduler lends them.
    fn record(&self, recorder: &mut Recorder, now: Timestamp) {
        let event = match self {
            Self::Submit(request, has_room, fate) => Event::Submit(Submit {
                seq: None,
                request: *request,
                has_room: *has_room,
                fate: *fate,
            }),
            Self::Immediate(request, moved) => {
                Event::Immediate { request: *request, moved: Bytes(*moved) }
            }
            Self::Dispatch(asked, members) => {
                let batch: Vec<Accepted> = members.iter().map(|seq| accepted(*seq)).collect();
                let members = batch[..].into();
                recorder.record(now, &Event::Dispatch { asked: *asked, members, continues: false });
                return;
            }
            Self::Wait(asked, wait) => {
                Event::Wait { asked: *asked, until: Timestamp(now.0 + wait) }
            }
            Self::Idle(asked) => Event::Idle { asked: *asked },
            Self::Ready(seq) => Event::Ready { seq: *seq },
            Self::Complete(seq, errno, moved) => {
                Event::Complete { seq: *seq, errno: *errno, moved: Bytes(*moved) }
            }
            Self::Cancel(seq) => Event::Cancel { seq: *seq },
            Self::Drain => Event::Drain,
            Self::Switch(policy) => Event::Switch { policy },
            Self::Retire(file) => Event::Retire { file: FileIndex(*file) },
            Self::File(file, id) => Event::File { file: FileIndex(*file), id: *id },
            Self::Name(what, number, text) => Event::Name { of: named(*what, *number), text },
            Self::Setting(key, value) => Event::Setting { key, value },
            Self::Refused(request) => Event::Refused { request: *request },
            Self::Depth(depth) => Event::Depth { depth: *depth },
            Self::MoreFollows(hold) => {
                Event::Hint(Hinted::MoreFollows { until: Timestamp(now.0 + hold) })
            }
            Self::NoMore => Event::Hint(Hinted::NoMore),
            Self::Forget(file) => Event::Hint(Hinted::Forget { file: FileIndex(*file) }),
        };
        recorder.record(now, &event);
    }

    /// Whether a record tells of this, recorded at `now`; accepted requests are counted in `next_seq`.
    fn is(&self, record: &Record<'_>, now: Timestamp, next_seq: &mut u64) -> bool {
        let is_same = match (self, record.event) {
            (Self::Submit(request, has_room, fate), Event::Submit(submit)) => {
                let seq = fate.is_accepted().then_some(*next_seq);
                *next_seq += u64::from(fate.is_accepted());
                submit == Submit { seq, request: *request, has_room: *has_room, fate: *fate }
            }
            (Self::Immediate(request, moved), Event::Immediate { request: read, moved: bytes }) => {
                *request == read && *moved == bytes.0
            }
            (Self::Dispatch(asked, all), Event::Dispatch { asked: read, members, continues }) => {
                *asked == read && members.iter().eq(all.iter().copied()) && !continues
            }
            (Self::Wait(asked, wait), Event::Wait { asked: read, until }) => {
                *asked == read && until.0 == now.0 + wait
            }
            (Self::Idle(asked), Event::Idle { asked: read }) => *asked == read,
            (Self::Ready(seq), Event::Ready { seq: read }) => *seq == read,
            (Self::Complete(seq, errno, moved), Event::Complete { seq: s, errno: e, moved: m }) => {
                (*seq, *errno, *moved) == (s, e, m.0)
            }
            (Self::Cancel(seq), Event::Cancel { seq: read }) => *seq == read,
            (Self::Drain, Event::Drain) => true,
            (Self::Switch(policy), Event::Switch { policy: read }) => policy == read,
            (Self::Retire(file), Event::Retire { file: read }) => *file == read.0,
            (Self::File(file, id), Event::File { file: f, id: i }) => (*file, *id) == (f.0, i),
            (Self::Name(what, number, text), Event::Name { of, text: read }) => {
                named(*what, *number) == of && text == read
            }
            (Self::Setting(key, value), Event::Setting { key: k, value: v }) => {
                (&**key, &**value) == (k, v)
            }
            (Self::Refused(request), Event::Refused { request: read }) => *request == read,
            (Self::Depth(depth), Event::Depth { depth: read }) => *depth == read,
            (Self::MoreFollows(hold), Event::Hint(Hinted::MoreFollows { until })) => {
                until.0 == now.0 + hold
            }
            (Self::NoMore, Event::Hint(Hinted::NoMore)) => true,
            (Self::Forget(file), Event::Hint(Hinted::Forget { file: read })) => *file == read.0,
            _ => false,
        };
        is_same && record.time == now
    }
}

fn named(what: u8, number: u32) -> Named {
    match what {
        0 => Named::File(FileIndex(number)),
        1 => Named::Client(ClientId(number)),
        _ => Named::Class(ClassId(number)),
    }
}

fn accepted(seq: u64) -> Accepted {
    let range = ByteRange::new(Offset(0), Bytes(1));
    let (file, client, class) = (FileIndex(0), ClientId(0), ClassId(0));
    let request = Request { tag: 0, file, access: Access::Read, range, client, class };
    Accepted { id: RequestId(seq), seq, arrived: Timestamp(0), request }
}

const SMALL: RecorderOptions =
    RecorderOptions { block_bytes: RecorderOptions::BLOCK_BYTES_MIN, blocks: 3 };

fn header() -> Header {
    Header {
        source: "a test".into(),
        clock_base_ns: 1_700_000_000_000_000_000,
        settings: vec![("a".into(), "1".into()), ("b \u{e9}".into(), "".into())],
    }
}

/// Records at steps of time, taking blocks away at once; a block ends after each `per_block` events.
fn trace(events: &[(u64, Owned)], per_block: usize) -> Vec<u8> {
    let mut bytes = header().to_bytes();
    let mut recorder = Recorder::new(SMALL, 0);
    let mut now = Timestamp(7);
    for (at, (step, event)) in events.iter().enumerate() {
        now.0 += step;
        event.record(&mut recorder, now);
        if at % per_block == per_block - 1 {
            recorder.flush();
        }
        while let Some(mut block) = recorder.take_block() {
            bytes.extend(block.seal());
            recorder.give_back(block);
        }
    }
    let (blocks, totals) = recorder.finish();
    for mut block in blocks {
        bytes.extend(block.seal());
    }
    assert_eq!((totals.events, totals.lost_events), (events.len() as u64, 0));
    bytes.extend(totals.to_bytes());
    bytes
}

fn recording() -> impl Strategy<Value = Vec<(u64, Owned)>> {
    vec((0..100_000_u64, owned()), 0..60)
}

/// How many of `events` a damaged trace still has at its start.
fn whole_at_start(bytes: &[u8], events: &[(u64, Owned)]) -> usize {
    let (mut now, mut next_seq) = (Timestamp(7), 0);
    let mut events = events.iter();
    let reader = Reader::new(bytes).expect("the header is whole");
    let whole = reader.map_while(Result::ok).take_while(|record| {
        let Some((step, event)) = events.next() else { return false };
        now.0 += step;
        event.is(record, now, &mut next_seq)
    });
    whole.count()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn what_was_recorded_comes_back(events in recording(), per_block in 1..40_usize) {
        let bytes = trace(&events, per_block);
        read_any(&bytes);
        let mut reader = Reader::new(&bytes).unwrap();
        prop_assert_eq!(reader.header(), &header());
        let (mut now, mut next_seq) = (Timestamp(7), 0);
        for (step, event) in &events {
            now.0 += step;
            let record = reader.next().expect("one for each").expect("no damage");
            prop_assert!(event.is(&record, now, &mut next_seq), "{event:?} at {now:?}: {record:?}");
        }
        prop_assert!(reader.next().is_none());
        prop_assert_eq!(reader.totals().unwrap().events, events.len() as u64);
    }

    #[test]
    fn a_trace_that_was_cut_off_is_read_up_to_there(events in recording(), per_block in 1..40_usize, cut in any::<prop::sample::Index>()) {
        let bytes = trace(&events, per_block);
        let cut = cut.index(bytes.len());
        let Ok(reader) = Reader::new(&bytes[..cut]) else {
            prop_assert!(cut < header().to_bytes().len());
            return Ok(());
        };
        let found: Vec<_> = reader.collect();
        let damages: Vec<_> = found.iter().filter_map(|found| found.as_ref().err()).collect();
        prop_assert_eq!(damages.len(), 1, "{:?}", damages);
        prop_assert!(matches!(damages[0].kind, DamageKind::CutOff | DamageKind::Unfinished));
        prop_assert!(found.last().unwrap().is_err());
        let whole = found.len() - 1;
        prop_assert_eq!(whole_at_start(&bytes[..cut], &events), whole);
        // Only the block that was cut is missing.
        prop_assert!(whole % per_block == 0 || whole == events.len());
    }

    #[test]
    fn a_flipped_bit_costs_its_block_and_is_told(events in recording(), per_block in 1..40_usize, bit in any::<prop::sample::Index>()) {
        let mut bytes = trace(&events, per_block);
        let bit = bit.index(bytes.len() * 8);
        bytes[bit / 8] ^= 1 << (bit % 8);
        let start = header().to_bytes().len();
        let Ok(reader) = Reader::new(&bytes) else {
            prop_assert!(bit / 8 < start);
            return Ok(());
        };
        // The two reserved bytes after the version mean nothing yet.
        if bit / 8 < start {
            prop_assert!((10..12).contains(&(bit / 8)));
            return Ok(());
        }
        let found: Vec<_> = reader.collect();
        let damage = found.iter().find_map(|found| found.as_ref().err()).expect("it is told");
        prop_assert!(damage.position <= bit / 8);
        let read = found.iter().filter(|found| found.is_ok()).count();
        prop_assert!(events.len() - read <= per_block, "{} of {}: {:?}", read, events.len(), found);
        prop_assert!(whole_at_start(&bytes, &events) >= found.iter().position(Result::is_err).unwrap());
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in vec(any::<u8>(), 0..400)) {
        read_any_and_sealed(&bytes);
        let mut trace = header().to_bytes();
        trace.extend(&bytes);
        read_any(&trace);
    }

    #[test]
    fn any_events_with_a_fitting_checksum_are_read_or_refused(events in vec(any::<u8>(), 0..400), count in 0..200_u32) {
        let mut block = vec![0; 40];
        block[20..24].copy_from_slice(&count.to_le_bytes());
        block.extend(events);
        read_any_and_sealed(&block);
    }
}

/// A trace in which each event takes a block of its own.
fn ready_events(count: u64) -> Vec<(u64, Owned)> {
    (0..count).map(|seq| (1, Owned::Ready(seq))).collect()
}

#[test]
fn a_writer_that_is_too_slow_costs_whole_blocks_and_the_trace_says_how_many() {
    let mut recorder = Recorder::new(SMALL, 0);
    let total = 20_000;
    for seq in 0..total {
        recorder.record(Timestamp(seq), &Event::Ready { seq });
    }
    // Three blocks of 16 KiB are all there is: two finished, one being filled over and over.
    let (blocks, totals) = recorder.finish();
    let mut bytes = header().to_bytes();
    blocks.for_each(|mut block| bytes.extend(block.seal()));
    bytes.extend(totals.to_bytes());
    assert!(bytes.len() < 4 * SMALL.block_bytes);
    let mut reader = Reader::new(&bytes).unwrap();
    let (mut read, mut lost) = (0, 0);
    for record in &mut reader {
        match record.unwrap().event {
            Event::Ready { seq } => {
                assert_eq!(seq, read + lost, "what follows a gap is what was recorded there");
                read += 1;
            }
            Event::Lost { events, blocks } => {
                assert!(blocks > 0);
                lost += events;
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(read + lost, total);
    assert!(lost > 0 && read > 5_000, "{read} {lost}");
    assert_eq!(reader.totals().unwrap(), totals);
    assert_eq!((totals.events, totals.lost_events), (read, lost));
}

#[test]
fn a_missing_block_is_told() {
    let bytes = trace(&ready_events(3), 1);
    let [head, one, two] = [0, 1, 2].map(|count| trace(&ready_events(count), 1).len() - END);
    let mut cut = bytes[..one].to_vec();
    cut.extend(&bytes[two..]);
    let found: Vec<_> = Reader::new(&cut).unwrap().collect();
    assert!(head < one);
    assert!(
        matches!(&found[1], Err(damage) if damage.kind == DamageKind::MissingBlock),
        "{found:?}"
    );
    assert_eq!(found.iter().filter(|found| found.is_ok()).count(), 2);
}

/// Length of the last two frames of a trace whose last block is empty.
const END: usize = 16 + 40 + 16 + 2;

#[test]
fn a_batch_longer_than_an_event_comes_back_in_pieces() {
    let batch: Vec<Accepted> = (0..2_500).map(|number| accepted(number * 3)).collect();
    let mut recorder = Recorder::new(SMALL, 0);
    let event =
        Event::Dispatch { asked: Asked::Anything, members: batch[..].into(), continues: false };
    recorder.record(Timestamp(5), &event);
    let mut bytes = header().to_bytes();
    let (blocks, totals) = recorder.finish();
    blocks.for_each(|mut block| bytes.extend(block.seal()));
    bytes.extend(totals.to_bytes());
    let mut members = Vec::new();
    let mut pieces = Vec::new();
    for record in Reader::new(&bytes).unwrap() {
        let Event::Dispatch { members: piece, continues, .. } = record.unwrap().event else {
            panic!("not a batch")
        };
        members.extend(piece.iter());
        pieces.push(continues);
    }
    assert_eq!(pieces, [true, true, false]);
    assert!(members.into_iter().eq(batch.iter().map(|accepted| accepted.seq)));
}

#[test]
fn events_and_fields_of_later_versions_are_passed_over() {
    // A ready event with a field more, and an event of a kind that does not exist yet.
    let mut block = vec![0; 40];
    block[20] = 3;
    block.extend([6, 4, 1, 8, 99, 99]);
    block.extend([200, 3, 5, 1, 2]);
    block.extend([6, 2, 1, 2]);
    let mut bytes = Vec::new();
    read_any_and_sealed(&block);
    bytes.extend(read::sealed(&block));
    let found: Vec<_> = Reader::new(&bytes).unwrap().filter_map(Result::ok).collect();
    assert_eq!(found[0].event, Event::Ready { seq: 4 });
    assert_eq!(found[1].event, Event::Unknown { kind: 200 });
    assert_eq!((found[2].event, found[2].time), (Event::Ready { seq: 5 }, Timestamp(7)));
}

/// What readers before these kinds do: pass over them by their length, after the time.
#[test]
fn a_reader_that_does_not_know_the_later_kinds_reads_what_follows_them() {
    let submit = |start: u64| {
        let range = ByteRange::new(Offset(start), Bytes(8192));
        let request = Request {
            tag: 0,
            file: FileIndex(2),
            access: Access::Write,
            range,
            client: ClientId(3),
            class: ClassId(1),
        };
        (5, Owned::Submit(request, true, Fate::Queued))
    };
    let refused = Request { file: FileIndex(9), access: Access::Read, ..accepted(0).request };
    let later = [
        Owned::Refused(refused),
        Owned::Depth(7),
        Owned::MoreFollows(300),
        Owned::NoMore,
        Owned::Forget(4),
    ];
    let events: Vec<(u64, Owned)> = [submit(0)]
        .into_iter()
        .chain(later.into_iter().map(|event| (5, event)))
        .chain([submit(8192)])
        .collect();
    let mut bytes = trace(&events, 100);
    // The one block begins behind the header: its head, then the events, of which the later ones
    // get kinds that nobody knows.
    let block = header().to_bytes().len();
    let length = u32::from_le_bytes(bytes[block + 8..block + 12].try_into().unwrap()) as usize;
    let payload = block + 16..block + 16 + length;
    let mut at = payload.start + 40;
    let mut renamed = 0;
    while at < payload.end {
        if bytes[at] >= 15 {
            bytes[at] += 200;
            renamed += 1;
        }
        at += 2 + usize::from(bytes[at + 1]);
    }
    assert_eq!(renamed, 5);
    let trace = sealed(&bytes[payload]);
    let found: Vec<_> = Reader::new(&trace).unwrap().filter_map(Result::ok).collect();
    let (mut next_seq, last) = (1, found.last().unwrap());
    assert!(matches!(found[1].event, Event::Unknown { kind: 215 }), "{:?}", found[1]);
    assert!(submit(8192).1.is(last, Timestamp(7 + 7 * 5), &mut next_seq), "{last:?}");
}

#[test]
fn what_is_no_trace_is_refused_with_its_place_and_a_remedy() {
    let refuse = |bytes: &[u8]| Reader::new(bytes).unwrap_err().to_string();
    assert!(refuse(b"fio version 2 iolog\n").contains("forebay trace import"));
    let mut newer = header().to_bytes();
    newer[8] = 9;
    assert!(refuse(&newer).contains("version 9"));
    let whole = header().to_bytes();
    assert!(refuse(&whole[..whole.len() - 1]).contains("byte 12: the header is damaged"));
}

/// Numbers as large as they may be, in events that were made by hand.
#[test]
fn the_largest_numbers_are_added_up_without_harm() {
    let most = Request {
        tag: 0,
        file: FileIndex(0),
        access: Access::Write,
        range: ByteRange::from_start(Offset(0)),
        client: ClientId(0),
        class: ClassId(0),
    };
    let alone = Request { access: Access::Alone, ..most };
    let events: Vec<(u64, Owned)> = [most, alone, most, alone]
        .map(|request| (1 << 61, Owned::Immediate(request, u64::MAX)))
        .into_iter()
        .chain((0..3).map(|_| (1, Owned::Wait(Asked::Anything, 1 << 62))))
        .collect();
    let mut bytes = trace(&events, 2);
    read_any(&bytes);
    // Two blocks that say that as many events as can be were lost before them.
    let mut head = vec![0; 40];
    head[8..16].copy_from_slice(&u64::MAX.to_le_bytes());
    let lost = sealed(&head);
    let block = &lost[Header::default().to_bytes().len()..];
    bytes.extend([block, block].concat());
    read_any(&bytes);
    let summary = Summary::read(Reader::new(&bytes).unwrap(), 1);
    assert_eq!((summary.lost_events, summary.bytes.written), (u64::MAX, u64::MAX));
}

/// Heads of frames as long as the file, which are none.
#[test]
fn looking_for_a_frame_takes_no_longer_than_the_file_is_long() {
    let mut bytes = header().to_bytes();
    let start = bytes.len();
    for _ in 0..(1 << 20) / 16 {
        bytes.extend([0xf0, b'F', b'b', b't', 9, 0, 0, 0]);
        bytes.extend((1_u32 << 18).to_le_bytes());
        bytes.extend([1, 2, 3, 4]);
    }
    let mut reader = Reader::new(&bytes).unwrap();
    let damage = reader.next().unwrap().unwrap_err();
    assert_eq!((damage.position, damage.kind), (start, DamageKind::Hopeless));
    assert_eq!(damage.skipped, bytes.len() - start);
    assert!(reader.next().is_none());
}

#[test]
fn after_a_loss_an_index_is_no_longer_the_file_that_it_was() {
    let id = FileId { device: 1, inode: 2, generation: 0 };
    let request = Request {
        tag: 0,
        file: FileIndex(3),
        access: Access::Read,
        range: ByteRange::new(Offset(0), Bytes(10)),
        client: ClientId(0),
        class: ClassId(0),
    };
    let events = |file: bool| {
        let read = (1, Owned::Immediate(request, 10));
        let file = file.then_some((1, Owned::File(3, id)));
        file.into_iter().chain([read]).collect::<Vec<_>>()
    };
    // A block that tells of loss stands between the two.
    let mut head = vec![0; 40];
    head[8] = 5;
    let begins = trace(&[events(true)].concat(), 100);
    let goes_on = |again| {
        let (mut bytes, lost) = (begins.clone(), sealed(&head));
        bytes.extend(&lost[Header::default().to_bytes().len()..]);
        bytes.extend(&trace(&events(again), 100)[header().to_bytes().len()..]);
        Workload::read(Reader::new(&bytes).unwrap())
    };
    let files = |workload: &Workload| {
        workload.requests.iter().map(|one| one.request.file.0).collect::<Vec<_>>()
    };
    assert_eq!((files(&goes_on(false)), files(&goes_on(true))), (vec![0, 1], vec![0, 0]));
}
