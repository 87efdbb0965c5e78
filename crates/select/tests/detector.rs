//! The detector from the outside: made-up processes whose pattern is known, and anything at all.

use forebay_sched::{Access, Request};
use forebay_select::detector::{Detector, DetectorOptions, MEMORY_MAX, Offsets};
use forebay_select::{SizeClass, Spatiality};
use forebay_units::{
    ByteRange, Bytes, ClassId, ClientId, Direction, FileIndex, Nanos, Offset, Timestamp,
};
use proptest::prelude::*;

const STRIPE: Bytes = Bytes::kib(32);
const MESSAGE: u64 = 8 << 10;

fn detector(offsets: Offsets) -> Detector {
    Detector::new(DetectorOptions { stripe: STRIPE, offsets })
}

fn request(file: u32, client: u32, access: Access, start: u64, length: u64) -> Request {
    Request {
        tag: 0,
        file: FileIndex(file),
        access,
        range: ByteRange::new(Offset(start), Bytes(length)),
        client: ClientId(client),
        class: ClassId(0),
    }
}

/// Synchronous processes in step: each asks for `request` bytes where `place` says for its number
/// and the number of the request, in messages of 8 KiB that follow each other closely, the last
/// one first.
struct Processes {
    detector: Detector,
    now: Timestamp,
    access: Access,
    request: u64,
}

impl Processes {
    fn new(request: u64) -> Self {
        let detector = detector(Offsets::Whole);
        Self { detector, now: Timestamp(0), access: Access::Read, request }
    }

    fn run(&mut self, clients: u32, requests: u64, place: impl Fn(u64, u64) -> (u32, u64)) {
        for number in 0..requests {
            for client in 0..clients {
                let (file, start) = place(u64::from(client), number);
                let mut end = start + self.request;
                while end > start {
                    let length = MESSAGE.min(end - start);
                    end -= length;
                    self.now = self.now + Nanos(5_500);
                    let message = request(file, client, self.access, end, length);
                    self.detector.arrived(self.now, &message);
                }
                self.now = self.now + Nanos::micros(300);
            }
        }
    }

    fn says(&self) -> (Spatiality, SizeClass) {
        let pattern = self.detector.pattern(self.now).expect("enough was seen");
        (pattern.spatiality, pattern.size_class)
    }
}

#[test]
fn nothing_is_said_of_nothing() {
    let mut processes = Processes::new(MESSAGE);
    assert_eq!(processes.detector.pattern(Timestamp(0)), None);
    processes.run(1, 10, |_, n| (0, n * MESSAGE));
    assert_eq!(processes.detector.pattern(processes.now), None);
    assert_eq!(processes.detector.pattern_of(processes.now, FileIndex(7)), None);
}

#[test]
fn a_stream_that_goes_on_is_contiguous() {
    for clients in [1, 8] {
        for (request, size_class) in [(16 << 10, SizeClass::Small), (256 << 10, SizeClass::Large)] {
            let mut processes = Processes::new(request);
            processes.run(clients, 100, |client, n| (0, (client << 30) + n * request));
            assert_eq!(processes.says(), (Spatiality::Contiguous, size_class));
            let pattern = processes.detector.pattern(processes.now).unwrap();
            assert_eq!(pattern.application_request, Bytes(request));
            assert_eq!(pattern.request, Bytes(MESSAGE));
            assert_eq!((pattern.files, pattern.clients), (1, clients));
            assert!(pattern.hit_permille > 950, "{pattern:?}");
        }
    }
}

#[test]
fn processes_that_take_turns_in_a_file_are_strided() {
    for (request, size_class) in [(16 << 10, SizeClass::Small), (64 << 10, SizeClass::Large)] {
        let mut processes = Processes::new(request);
        processes.run(6, 100, |client, n| (0, (n * 6 + client) * request));
        assert_eq!(processes.says(), (Spatiality::Strided, size_class));
        let pattern = processes.detector.pattern(processes.now).unwrap();
        assert!(pattern.adjacent_permille > 900, "{pattern:?}");
    }
}

#[test]
fn a_lone_process_that_leaves_out_as_much_each_time_is_strided() {
    let mut processes = Processes::new(MESSAGE);
    processes.run(1, 200, |_, n| (0, n * 5 * MESSAGE));
    assert_eq!(processes.says(), (Spatiality::Strided, SizeClass::Small));
}

#[test]
fn a_file_for_each_process_is_as_many_files() {
    let mut processes = Processes::new(16 << 10);
    processes.access = Access::Write;
    processes.run(24, 60, |client, n| (client as u32, n * (16 << 10)));
    let pattern = processes.detector.pattern(processes.now).unwrap();
    assert_eq!((pattern.files, pattern.clients, pattern.streams), (24, 24, 24));
    assert_eq!((pattern.direction, pattern.reads_permille), (Direction::Write, 0));
    assert_eq!(pattern.spatiality, Spatiality::Contiguous);
    assert!(pattern.file_bytes > Bytes::kib(20 * 16) && pattern.file_bytes < Bytes::kib(60 * 16));
}

#[test]
fn most_files_decide_and_each_has_a_pattern_of_its_own() {
    let mut processes = Processes::new(MESSAGE);
    // Files 0 to 2 are read in a row, file 3 anywhere.
    processes.run(4, 300, |client, n| {
        let place = if client == 3 { n * n * 7919 % 100_003 } else { n };
        (client as u32, place * MESSAGE)
    });
    assert_eq!(processes.says().0, Spatiality::Contiguous);
    let of = |file| processes.detector.pattern_of(processes.now, FileIndex(file)).unwrap();
    assert_eq!(of(0).spatiality, Spatiality::Contiguous);
    assert_eq!(of(3).spatiality, Spatiality::Random);
}

#[test]
fn another_phase_is_recognised() {
    let mut processes = Processes::new(16 << 10);
    processes.run(8, 100, |client, n| (0, (client << 30) + n * (16 << 10)));
    assert_eq!(processes.says(), (Spatiality::Contiguous, SizeClass::Small));
    processes.access = Access::Write;
    processes.request = 256 << 10;
    processes.run(8, 100, |client, n| (1, (n * 8 + client) * (256 << 10)));
    assert_eq!(processes.says(), (Spatiality::Strided, SizeClass::Large));
    let pattern = processes.detector.pattern(processes.now).unwrap();
    assert_eq!((pattern.direction, pattern.files), (Direction::Write, 1));
}

#[test]
fn a_server_that_sees_its_stripes_only_is_not_misled_by_the_holes() {
    for servers in [2u64, 3, 4, 7] {
        let mut detector = detector(Offsets::Striped);
        let mut now = Timestamp(0);
        for number in 0..400u64 {
            for client in 0..2u64 {
                // The second of the servers; each client reads a part of the file in a row.
                let stripe = (client * 10_000 + number) * servers + 1;
                now = now + Nanos::micros(400);
                let start = stripe * STRIPE.0;
                let message = request(0, client as u32, Access::Read, start, STRIPE.0);
                detector.arrived(now, &message);
            }
        }
        let pattern = detector.pattern(now).expect("enough was seen");
        assert_eq!(pattern.spatiality, Spatiality::Contiguous, "{servers} servers");
    }
}

#[test]
fn what_was_long_ago_is_forgotten() {
    let mut processes = Processes::new(MESSAGE);
    processes.run(4, 100, |client, n| (0, (client << 30) + n * MESSAGE));
    assert!(processes.detector.pattern(processes.now + Nanos::secs(9)).is_some());
    assert_eq!(processes.detector.pattern(processes.now + Nanos::secs(11)), None);
    processes.now = processes.now + Nanos::secs(11);
    processes.run(4, 1, |client, n| (0, (client << 30) + n * MESSAGE));
    assert_eq!(processes.detector.pattern(processes.now), None);
}

#[test]
fn streams_beyond_its_room_are_sampled() {
    let mut processes = Processes::new(MESSAGE);
    processes.run(3_000, 12, |client, n| (client as u32, n * MESSAGE));
    assert_eq!(processes.says(), (Spatiality::Contiguous, SizeClass::Small));
    let pattern = processes.detector.pattern(processes.now).unwrap();
    assert!(pattern.files > 1_000, "{}", pattern.files);
}

#[test]
fn its_room_is_bounded() {
    assert!(MEMORY_MAX <= Bytes::kib(48), "{MEMORY_MAX:?}");
}

/// Numbers without a pattern (the finisher of splitmix64).
fn mixed(number: u64) -> u64 {
    let n = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}

/// Any request at all, often near others.
fn any_arrival() -> impl Strategy<Value = (u64, Request)> {
    let access = prop_oneof![
        Just(Access::Read),
        Just(Access::Write),
        Just(Access::Alone),
        Just(Access::Sync)
    ];
    let number = || prop_oneof![4 => 0..4u32, 1 => any::<u32>()];
    let place = prop_oneof![4 => (0..64u64).prop_map(|n| n << 13), 1 => any::<u64>()];
    let length = prop_oneof![4 => Just(8u64 << 10), 1 => any::<u64>()];
    let pause = prop_oneof![6 => 0..100_000u64, 1 => any::<u64>()];
    (pause, access, number(), number(), place, length).prop_map(
        |(pause, access, file, client, place, length)| {
            (pause, request(file, client, access, place, length))
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_arrivals_give_the_same_pattern_twice_and_no_panic(
        arrivals in prop::collection::vec(any_arrival(), 0..600),
        striped: bool,
    ) {
        let offsets = if striped { Offsets::Striped } else { Offsets::Whole };
        let mut twins = [detector(offsets), detector(offsets)];
        let mut now = Timestamp(0);
        for (pause, request) in &arrivals {
            now = now + Nanos(*pause);
            twins.iter_mut().for_each(|one| one.arrived(now, request));
            let [one, other] = twins.each_ref().map(|one| one.pattern(now));
            prop_assert_eq!(one, other);
            if let Some(pattern) = one {
                prop_assert!(pattern.reads_permille <= 1000);
                prop_assert!(pattern.hit_permille <= 1000);
                prop_assert!(pattern.adjacent_permille <= 1000);
                prop_assert!(pattern.files > 0 && pattern.clients > 0);
            }
            let _ = twins[0].pattern_of(now, request.file);
        }
    }

    #[test]
    fn steady_processes_are_recognised_whatever_their_numbers(
        clients in 1..40u32,
        kib in 1..200u64,
        stride in 0..3usize,
    ) {
        let length = kib << 10;
        let mut processes = Processes::new(length);
        let clients = clients.max(if stride == 1 { 2 } else { 1 });
        let expected = [Spatiality::Contiguous, Spatiality::Strided, Spatiality::Random][stride];
        // A client alone may be many: it takes longer until places are seen again.
        processes.run(clients, if clients == 1 { 2_000 } else { 90 }, |client, n| match stride {
            0 => (0, (client << 40) + n * length),
            1 => (0, (n * u64::from(clients) + client) * length),
            _ => (0, (mixed(client << 20 | n) >> 30) * length),
        });
        let size_class = if length >= STRIPE.0 { SizeClass::Large } else { SizeClass::Small };
        prop_assert_eq!(processes.says(), (expected, size_class));
    }
}
