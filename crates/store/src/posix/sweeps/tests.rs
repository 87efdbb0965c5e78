//! Turns, pauses and what is closed meanwhile, with a kernel that answers when the test says so.

use super::*;

const MIB: u64 = 1 << 20;
const FILE_BYTES: u64 = 64 * MIB;

/// Sweeps over files of a device that rotates, and what the kernel was given.
struct Rig {
    sweeps: Sweeps,
    files: Vec<Arc<OpenFile>>,
    memory: Pool,
    started: Vec<Work>,
    next_token: u64,
    /// Tokens of the reads that are not over.
    reads: HashSet<u64>,
}

/// What a call that was started is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Advice,
    Arrival,
    Read,
}

fn kind(work: &Work) -> Kind {
    match (work.io.operation, work.io.token & ADVICE) {
        (Operation::Advise { .. }, ADVICE) => Kind::Advice,
        (Operation::Read(_), ARRIVAL) => Kind::Arrival,
        _ => Kind::Read,
    }
}

impl Rig {
    fn new(file_count: usize) -> Self {
        let mut sweeps = Sweeps::new(Bytes::mib(4)).unwrap();
        let open = |_| {
            let file = tempfile::tempfile().unwrap();
            file.set_len(FILE_BYTES).unwrap();
            let (mut file, id) = OpenFile::from_descriptor(file.into()).unwrap();
            file.set_sweep(sweeps.open(id));
            Arc::new(file)
        };
        let files: Vec<_> = (0..file_count).map(open).collect();
        for file in &files {
            let device = sweeps.sweeps.get(file.sweep()).unwrap().device;
            sweeps.devices.get_mut(device).unwrap().is_rotating = true;
        }
        let memory = Pool::new(Bytes::mib(8)).unwrap();
        let (started, next_token, reads) = (Vec::new(), 0, HashSet::new());
        Self { sweeps, files, memory, started, next_token, reads }
    }

    /// Reads 4 KiB; its token.
    fn read(&mut self, file: usize, offset: u64) -> u64 {
        let work = self.work(file, offset);
        let (token, range, started) = (work.io.token, work.range(), &mut self.started);
        self.sweeps.read(work, &range, |work| started.push(work));
        token
    }

    /// A read of 4 KiB that is yet to start.
    fn work(&mut self, file: usize, offset: u64) -> Work {
        let token = self.next_token;
        self.next_token += 1;
        self.reads.insert(token);
        let io = Io {
            token,
            files: Vec::new(),
            operation: Operation::Read(Offset(offset)),
            buffers: vec![self.memory.try_take(Bytes(4096), Share::Dispatch).unwrap()],
            outcome: Ok(Bytes::ZERO),
            end: Offset(0),
        };
        Work::new(io, Arc::clone(&self.files[file]))
    }

    /// Ends the call at this place.
    fn finish(&mut self, at: usize) {
        let work = self.started.remove(at);
        self.reads.remove(&work.io.token);
        let started = &mut self.started;
        let is_own = self.sweeps.is_own(&work.io, |work| started.push(work));
        assert_eq!(is_own, kind(&work) != Kind::Read);
    }

    fn kinds(&self) -> Vec<Kind> {
        self.started.iter().map(kind).collect()
    }

    fn position(&self, wanted: Kind) -> Option<usize> {
        self.started.iter().position(|work| kind(work) == wanted)
    }

    /// Ends all calls of a kind, and those of it that follow.
    fn finish_all(&mut self, of: Kind) {
        while let Some(at) = self.position(of) {
            self.finish(at);
        }
    }

    /// Reads on in a file, with all advice and all reads over at once, until no more is given or the
    /// end of the file; where that is.
    fn read_on(&mut self, file: usize, from: u64) -> u64 {
        let mut at = from;
        while at < FILE_BYTES {
            self.read(file, at);
            self.finish_all(Kind::Advice);
            if self.position(Kind::Read).is_none() {
                return at;
            }
            self.finish_all(Kind::Read);
            at += 4096;
        }
        at
    }

    /// Has a sweep over a file begin, with all reads over.
    fn sweep(&mut self, file: usize) {
        for turn in 0..3 {
            self.read(file, turn * 4096);
            self.finish_all(Kind::Read);
        }
    }
}

#[test]
fn another_files_turn_begins_when_what_the_last_one_was_given_has_arrived() {
    let mut rig = Rig::new(2);
    rig.sweep(0);
    assert_eq!(rig.kinds(), [Kind::Advice]);
    rig.sweep(1);
    assert_eq!(rig.position(Kind::Arrival), None);
    while let Some(at) = rig.position(Kind::Advice) {
        assert!(Arc::ptr_eq(&rig.started[at].file, &rig.files[0]), "its turn is not over");
        rig.finish(at);
    }
    let at = rig.position(Kind::Arrival).expect("the last byte is waited for");
    rig.finish(at);
    let piece = &rig.started[rig.position(Kind::Advice).expect("then it is its turn")];
    assert!(Arc::ptr_eq(&piece.file, &rig.files[1]));
}

#[test]
fn who_has_the_turn_goes_on_with_it_while_its_bytes_are_on_their_way() {
    let mut rig = Rig::new(2);
    rig.sweep(0);
    rig.sweep(1);
    rig.finish_all(Kind::Advice);
    let arrival = rig.position(Kind::Arrival).expect("the other one waits for it");
    // A reader of the first file is past the middle of what was given.
    rig.read(0, 192 << 10);
    let advice = rig.position(Kind::Advice).expect("there is more to ask for");
    assert!(Arc::ptr_eq(&rig.started[advice].file, &rig.files[0]));
    rig.finish(arrival);
    rig.finish_all(Kind::Advice);
    rig.finish_all(Kind::Arrival);
    let advice = rig.position(Kind::Advice).expect("it asks for nothing more");
    assert!(Arc::ptr_eq(&rig.started[advice].file, &rig.files[1]));
}

#[test]
fn little_is_on_its_way_at_any_time_on_a_device_that_rotates() {
    for is_rotating in [true, false] {
        let mut rig = Rig::new(1);
        rig.sweeps.devices.get_mut(0).unwrap().is_rotating = is_rotating;
        let reached = rig.read_on(0, 0);
        if !is_rotating {
            assert_eq!(reached, FILE_BYTES);
            continue;
        }
        let marks = MARKS_MAX as u64;
        let range = marks * MARK..=marks * (MARK + PIECE_MAX);
        assert!(range.contains(&reached), "{reached}");
        rig.finish(rig.position(Kind::Arrival).unwrap());
        let further = rig.read_on(0, reached) - reached;
        assert!((MARK..=MARK + PIECE_MAX).contains(&further), "{further}");
    }
}

#[test]
fn reads_to_come_leave_their_places_to_others_but_not_without_end() {
    let mut rig = Rig::new(2);
    rig.sweep(0);
    rig.sweep(1);
    for place in 0..2 * HELD_FREE_MAX as u64 {
        rig.read(1, (3 + place) * 4096);
    }
    assert_eq!(rig.position(Kind::Read), None, "it is not the second file's turn");
    assert_eq!(rig.sweeps.arriving_count(), HELD_FREE_MAX);
    while !rig.started.is_empty() {
        rig.finish(0);
    }
    assert_eq!((rig.reads.len(), rig.sweeps.arriving_count()), (0, 0));
}

#[test]
fn what_waits_for_a_sweep_that_ends_waits_no_more() {
    let mut rig = Rig::new(2);
    rig.sweep(0);
    rig.sweep(1);
    let held = rig.read(1, 3 * 4096);
    let is_started = |rig: &Rig| rig.started.iter().any(|work| work.io.token == held);
    assert!(!is_started(&rig));
    rig.read(1, 48 * MIB);
    assert!(is_started(&rig), "nobody asks for it any more");
}

#[test]
fn who_goes_around_the_page_cache_passes_a_sweep_too() {
    let mut rig = Rig::new(2);
    rig.sweep(0);
    rig.finish_all(Kind::Advice);
    rig.sweep(1);
    let (work, started) = (rig.work(1, 0), &mut rig.started);
    rig.sweeps.read_elsewhere(work, |work| started.push(work));
    rig.finish_all(Kind::Arrival);
    assert_eq!(rig.position(Kind::Advice), None, "it is at the device");
    rig.finish_all(Kind::Read);
    assert!(rig.position(Kind::Advice).is_some());
}

#[test]
fn who_reads_elsewhere_passes_a_sweep_after_so_much() {
    let mut rig = Rig::new(2);
    let elsewhere = rig.read(1, 32 * MIB);
    let mut given = 0;
    for place in 0..160 {
        rig.read(0, place * (64 << 10));
        // Everything but the other file's read comes back at once.
        while let Some(at) = rig.started.iter().position(|work| work.io.token != elsewhere) {
            if let Operation::Advise { length, .. } = rig.started[at].io.operation {
                given += length.0;
            }
            rig.finish(at);
        }
    }
    assert!((LET_PASS_AFTER..LET_PASS_AFTER + MIB).contains(&given), "{given}");
    let at = rig.started.iter().position(|work| work.io.token == elsewhere).unwrap();
    rig.finish(at);
    assert!(rig.position(Kind::Advice).is_some());
}

#[test]
fn who_reads_much_elsewhere_lets_the_sweep_have_as_much() {
    let mut rig = Rig::new(2);
    rig.sweep(0);
    rig.finish_all(Kind::Advice);
    rig.sweeps.devices.get_mut(0).unwrap().let_pass = 16 * MIB;
    let elsewhere = rig.read(1, 32 * MIB);
    let given = |rig: &Rig| rig.sweeps.counts.ahead_bytes;
    let mut place = 0;
    while given(&rig) < 16 * MIB && place < 1200 {
        rig.read(0, place * (16 << 10));
        place += 1;
        while let Some(at) = rig.started.iter().position(|work| work.io.token != elsewhere) {
            rig.finish(at);
        }
    }
    assert!(given(&rig) >= 16 * MIB, "{}", given(&rig));
}

#[test]
fn a_file_that_is_closed_holds_nobody_up() {
    let mut rig = Rig::new(2);
    // No call is under way when a file is closed, but the kernel may be being asked for a piece.
    rig.sweep(0);
    rig.finish_all(Kind::Advice);
    rig.finish_all(Kind::Read);
    rig.read(0, 192 << 10);
    rig.finish_all(Kind::Read);
    let asking = rig.position(Kind::Advice).expect("the window grows");
    rig.sweep(1);
    let first = rig.files.remove(0);
    rig.sweeps.close(&first);
    rig.finish(asking);
    let piece = &rig.started[rig.position(Kind::Advice).expect("nothing is to arrive")];
    assert!(Arc::ptr_eq(&piece.file, &rig.files[0]));
    rig.finish_all(Kind::Advice);
    rig.finish_all(Kind::Read);
    rig.read(0, 192 << 10);
    rig.finish_all(Kind::Read);
    let second = rig.files.remove(0);
    rig.sweeps.close(&second);
    assert_eq!(rig.sweeps.devices.len(), 1, "a piece is to come back");
    while !rig.started.is_empty() {
        rig.finish(0);
    }
    assert_eq!(rig.sweeps.devices.len(), 0);
}

#[test]
fn it_reads_ahead_from_the_first_piece_until_the_file_is_closed() {
    let mut rig = Rig::new(2);
    rig.read(0, 32 * MIB);
    rig.read(1, 16 * MIB);
    assert!(!rig.sweeps.reads_ahead(), "nothing was asked for ahead");
    rig.sweep(0);
    assert!(rig.sweeps.reads_ahead());
    while !rig.started.is_empty() {
        rig.finish(0);
    }
    assert!(rig.sweeps.reads_ahead(), "bytes may be on their way, or here");
    let other = rig.files.remove(1);
    rig.sweeps.close(&other);
    assert!(rig.sweeps.reads_ahead());
    let file = rig.files.remove(0);
    rig.sweeps.close(&file);
    assert!(!rig.sweeps.reads_ahead());
}

#[test]
fn whatever_is_read_one_piece_is_asked_for_at_a_time_and_every_read_ends() {
    let steps = proptest::collection::vec((0..3_usize, 0..64_u64, 0..8_u8, 0..16_usize), 1..400);
    proptest::proptest!(|(steps in steps)| {
        let mut rig = Rig::new(3);
        let mut at = [0; 3];
        for (file, place, action, which) in steps {
            match action {
                0 => at[file] = place * MIB,
                1..4 if rig.reads.len() < 64 => {
                    rig.read(file, at[file] % (FILE_BYTES - MIB));
                    at[file] += 16 << 10;
                }
                _ if rig.started.is_empty() => {}
                _ => rig.finish(which % rig.started.len()),
            }
            let count = |wanted| rig.kinds().into_iter().filter(|kind| *kind == wanted).count();
            let (advice, arrivals) = (count(Kind::Advice), count(Kind::Arrival));
            proptest::prop_assert!(advice <= 1 && arrivals <= MARKS_MAX + 1, "{advice} {arrivals}");
            proptest::prop_assert!(rig.sweeps.arriving_count() <= rig.reads.len());
        }
        while !rig.started.is_empty() {
            rig.finish(0);
        }
        proptest::prop_assert!(rig.reads.is_empty(), "{:?} never end", rig.reads);
        proptest::prop_assert!(rig.sweeps.arriving.is_empty() && rig.sweeps.elsewhere.is_empty());
        proptest::prop_assert_eq!(rig.sweeps.held_count, 0);
    });
}
