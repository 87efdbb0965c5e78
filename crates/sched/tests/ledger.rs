//! The ledger against plain lists, over random histories: what completed, failed, was blocked,
//! cancelled, drained or throttled, and what is alive at any moment and held up by whom.

use std::collections::BTreeMap;

use forebay_sched::sharing::{AtLimit, ClassShare, Rate, Share};
use forebay_sched::{
    Accepted, Access, Admission, Batch, Cancellation, ClassOptions, Decision, GuardMode,
    PolicyName, PolicySettings, Request, RequestId, Room, Scheduler, SchedulerOptions, build,
    source,
};
use forebay_stats::{Account, Gauges, LedgerOptions, Snapshot};
use forebay_units::{
    ByteRange, Bytes, ClassId, ClientId, Direction, FileIndex, Nanos, Offset, Timestamp,
};
use proptest::prelude::*;

const CLASSES: u32 = 4;
const FILES: u32 = 3;
/// Few, so that many requests conflict.
const BLOCKS: u64 = 12;
const BLOCK: u64 = 4096;

#[derive(Clone, Copy, Debug)]
enum Op {
    Submit {
        class: u32,
        file: u32,
        access: Access,
        block: u64,
        blocks: u64,
        room: Room,
    },
    Next,
    /// Which, and whether it fails.
    End(usize, bool),
    Cancel(usize),
    Drain,
    Sleep(u64),
    Look,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let access = prop_oneof![
        4 => Just(Access::Read),
        4 => Just(Access::Write),
        1 => Just(Access::Sync),
        1 => Just(Access::Alone),
    ];
    let room = prop_oneof![Just(Room::Free), Just(Room::Full)];
    let submit = (0..CLASSES, 0..FILES, access, 0..BLOCKS, 1..4_u64, room).prop_map(
        |(class, file, access, block, blocks, room)| Op::Submit {
            class,
            file,
            access,
            block,
            blocks,
            room,
        },
    );
    let op = prop_oneof![
        30 => submit,
        20 => Just(Op::Next),
        20 => (any::<usize>(), any::<bool>()).prop_map(|(which, fails)| Op::End(which, fails)),
        8 => any::<usize>().prop_map(Op::Cancel),
        1 => Just(Op::Drain),
        15 => (1..100_000_u64).prop_map(Op::Sleep),
        6 => Just(Op::Look),
    ];
    prop::collection::vec(op, 1..250)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Blocked,
    Queued,
    InFlight { at: Timestamp, leads: u64, bypassed: bool },
}

#[derive(Clone, Copy, Debug)]
struct Known {
    id: RequestId,
    request: Request,
    arrived: Timestamp,
    place: Place,
}

/// What an account says, and the list of all times that it counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Naive {
    /// Requests and bytes: reads, then writes.
    flows: [(u64, u64); 2],
    bypassed: u64,
    batches: (u64, u64),
    blocked: (u64, u64),
    queue: Vec<u64>,
    device: Vec<u64>,
}

impl Naive {
    fn of(account: &Account) -> Summary {
        let flow = |flow: forebay_stats::Flow| (flow.requests, flow.bytes.0);
        let times = |of: &forebay_stats::Histogram| (of.count(), of.sum().0, of.max().0);
        Summary {
            flows: [flow(account.reads), flow(account.writes)],
            bypassed: account.bypassed,
            batches: (account.batches, account.batched_requests),
            blocked: (account.blocked, account.blocked_time.0),
            queue: times(&account.queue_time),
            device: times(&account.device_time),
        }
    }

    fn summary(&self) -> Summary {
        let times = |all: &[u64]| {
            (all.len() as u64, all.iter().sum(), all.iter().max().copied().unwrap_or(0))
        };
        Summary {
            flows: self.flows,
            bypassed: self.bypassed,
            batches: self.batches,
            blocked: self.blocked,
            queue: times(&self.queue),
            device: times(&self.device),
        }
    }

    fn add(&mut self, other: &Self) {
        for (mine, theirs) in self.flows.iter_mut().zip(other.flows) {
            *mine = (mine.0 + theirs.0, mine.1 + theirs.1);
        }
        self.bypassed += other.bypassed;
        self.batches = (self.batches.0 + other.batches.0, self.batches.1 + other.batches.1);
        self.blocked = (self.blocked.0 + other.blocked.0, self.blocked.1 + other.blocked.1);
        self.queue.extend(&other.queue);
        self.device.extend(&other.device);
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Summary {
    flows: [(u64, u64); 2],
    bypassed: u64,
    batches: (u64, u64),
    blocked: (u64, u64),
    queue: (u64, u64, u64),
    device: (u64, u64, u64),
}

/// Waiting, the oldest, blocked, for how long, in flight.
type Alive = (u64, Option<Timestamp>, u64, u64, u64);

fn alive_of(gauges: &Gauges) -> Alive {
    let Gauges { waiting, oldest_waiting, blocked, blocked_time, in_flight, .. } = *gauges;
    (waiting, oldest_waiting, blocked, blocked_time.0, in_flight)
}

struct Model {
    scheduler: Scheduler,
    now: Timestamp,
    /// By `seq`; a request that is gone is not there.
    alive: BTreeMap<u64, Known>,
    classes: BTreeMap<u64, Naive>,
    files: BTreeMap<u64, Naive>,
    has_buried: bool,
    guard: GuardMode,
    rows_max: usize,
}

impl Model {
    fn new(policy: PolicyName, guard: GuardMode, has_classes: bool, rows_max: usize) -> Self {
        let options = SchedulerOptions { guard, ..SchedulerOptions::default() };
        let settings = PolicySettings::default();
        let mut scheduler = match has_classes {
            true => {
                let classes = ClassOptions::default();
                Scheduler::with_classes(options, classes, source(policy, &settings))
            }
            false => Scheduler::new(options, build(policy, &settings)),
        };
        if has_classes {
            let ops = Some(Rate { per_second: 50_000, burst: 2 });
            let share = Share { ops, at_limit: AtLimit::Wait, ..Share::default() };
            let share = ClassShare { share, ..ClassShare::default() };
            scheduler.configure_class(Timestamp(0), ClassId(0), share).expect("there is a place");
        }
        scheduler.keep_ledger(LedgerOptions { classes_max: rows_max, files_max: rows_max });
        Self {
            scheduler,
            now: Timestamp(0),
            alive: BTreeMap::new(),
            classes: BTreeMap::new(),
            files: BTreeMap::new(),
            has_buried: false,
            guard,
            rows_max,
        }
    }

    /// Notes something in the lists of a request's class and file.
    fn note(&mut self, request: &Request, change: impl Fn(&mut Naive)) {
        change(self.classes.entry(u64::from(request.class.0)).or_default());
        change(self.files.entry(u64::from(request.file.0)).or_default());
    }

    fn blocked(&mut self, known: &Known) {
        let time = (self.now - known.arrived).0;
        self.note(&known.request, |naive| {
            naive.blocked = (naive.blocked.0 + 1, naive.blocked.1 + time);
        });
    }

    /// Those that the latest call let go.
    fn note_made_ready(&mut self) {
        let ready: Vec<u64> = self.scheduler.made_ready().map(|accepted| accepted.seq).collect();
        for seq in ready {
            let known = self.alive[&seq];
            assert_eq!(known.place, Place::Blocked);
            self.blocked(&known);
            self.alive.get_mut(&seq).expect("it is alive").place = Place::Queued;
        }
    }

    fn step(&mut self, op: Op) {
        match op {
            Op::Submit { class, file, access, block, blocks, room } => {
                let range = ByteRange::new(Offset(block * BLOCK), Bytes(blocks * BLOCK));
                let range = match access {
                    Access::Alone => ByteRange::WHOLE_FILE,
                    _ => range,
                };
                self.submit(
                    Request {
                        tag: 0,
                        file: FileIndex(file),
                        access,
                        range,
                        client: ClientId(class),
                        class: ClassId(class),
                    },
                    room,
                );
            }
            Op::Next => self.next(),
            Op::End(which, fails) => {
                let is_asked = |known: &Known| matches!(known.place, Place::InFlight { .. });
                if let Some(seq) = self.pick(which, is_asked) {
                    self.end(seq, fails);
                }
            }
            Op::Cancel(which) => {
                let is_asked = |known: &Known| !matches!(known.place, Place::InFlight { .. });
                if let Some(seq) = self.pick(which, is_asked) {
                    self.cancel(seq);
                }
            }
            Op::Drain => {
                let mut drained = Vec::new();
                self.scheduler.drain(&mut drained);
                for Accepted { seq, .. } in drained {
                    let known = self.alive.remove(&seq).expect("it is alive");
                    self.has_buried |= known.place == Place::Blocked;
                }
            }
            Op::Sleep(time) => self.now = self.now + Nanos(time),
            Op::Look => self.check(),
        }
    }

    fn pick(&self, which: usize, is_asked: impl Fn(&Known) -> bool) -> Option<u64> {
        let asked: Vec<u64> =
            self.alive.iter().filter(|(_, known)| is_asked(known)).map(|(seq, _)| *seq).collect();
        asked.get(which % asked.len().max(1)).copied()
    }

    fn submit(&mut self, request: Request, room: Room) {
        let admission = self.scheduler.submit(self.now, request, room).expect("there is room");
        let place = match admission {
            Admission::Blocked(_) => Place::Blocked,
            Admission::Queued(_) => Place::Queued,
            Admission::Bypassed(_) => Place::InFlight { at: self.now, leads: 0, bypassed: true },
        };
        let id = admission.id();
        let seq = self.scheduler.find(id).expect("it is alive").seq;
        self.alive.insert(seq, Known { id, request, arrived: self.now, place });
    }

    fn next(&mut self) {
        let mut batch = Batch::new();
        if self.scheduler.next(self.now, &mut batch) != Decision::Dispatch {
            return;
        }
        let mut leads = batch.members().len() as u64;
        for member in batch.members() {
            let known = self.alive.get_mut(&member.seq).expect("it is alive");
            assert_eq!(known.place, Place::Queued);
            known.place = Place::InFlight { at: self.now, leads, bypassed: false };
            leads = 0;
        }
    }

    fn end(&mut self, seq: u64, fails: bool) {
        let known = self.alive.remove(&seq).expect("it is alive");
        let Place::InFlight { at, leads, bypassed } = known.place else { unreachable!() };
        let request = &known.request;
        let is_data = matches!(request.access, Access::Read | Access::Write);
        let moved = if fails || !is_data { Bytes(0) } else { request.range.length() };
        let ended = match fails {
            true => self.scheduler.fail(self.now, known.id, moved),
            false => self.scheduler.complete(self.now, known.id, moved),
        };
        assert_eq!(ended.map(|accepted| accepted.seq), Some(seq));
        let queued = (at - known.arrived).0;
        let device = (self.now - at).0;
        let way = usize::from(request.access.direction() == Direction::Write);
        self.note(request, |naive| {
            let flow = &mut naive.flows[way];
            *flow = (flow.0 + 1, flow.1 + moved.0);
            naive.bypassed += u64::from(bypassed);
            naive.batches.0 += u64::from(leads > 0);
            naive.batches.1 += leads;
            naive.queue.push(queued);
            naive.device.push(device);
        });
        self.note_made_ready();
    }

    fn cancel(&mut self, seq: u64) {
        let known = self.alive.remove(&seq).expect("it is alive");
        assert_eq!(self.scheduler.cancel(self.now, known.id), Cancellation::Cancelled);
        if known.place == Place::Blocked {
            self.blocked(&known);
            self.has_buried = true;
        }
        self.note_made_ready();
    }

    fn check(&self) {
        let snapshot = self.scheduler.snapshot(self.now).expect("it is kept");
        let of = |known: &Known| u64::from(known.request.class.0);
        let readings = |snapshot: &Snapshot| -> Vec<_> {
            let ranking = &snapshot.classes;
            let rows = ranking
                .rows
                .iter()
                .map(|row| (Some(row.key), row.account.account.clone(), row.account.now.clone()));
            rows.chain([(None, ranking.other.account.clone(), ranking.other.now.clone())]).collect()
        };
        self.check_rows(&readings(&snapshot), &self.classes, of);
        let ranking = &snapshot.files;
        let rows = ranking
            .rows
            .iter()
            .map(|row| (Some(row.key), (*row.account).clone(), row.account.now.clone()));
        let rows: Vec<_> =
            rows.chain([(None, (*ranking.other).clone(), ranking.other.now.clone())]).collect();
        self.check_rows(&rows, &self.files, |known| u64::from(known.request.file.0));
        let total = snapshot.total();
        assert_eq!(total.waited, self.scheduler.stats().waited);
        let throttled = self.scheduler.classes(self.now).map(|class| class.served.throttled_time.0);
        assert_eq!(total.throttled_time.0, throttled.sum::<u64>());
        self.check_blockers(&snapshot);
    }

    /// Rows, the last of which is *other*, against the lists by key.
    fn check_rows(
        &self,
        rows: &[(Option<u64>, Account, Gauges)],
        naive: &BTreeMap<u64, Naive>,
        key_of: impl Fn(&Known) -> u64,
    ) {
        let alive = |key: Option<u64>| -> Alive {
            let of_key =
                self.alive.values().filter(|known| key.is_none_or(|key| key == key_of(known)));
            of_key.fold((0, None, 0, 0, 0), |mut sum: Alive, known| {
                if let Place::InFlight { .. } = known.place {
                    sum.4 += 1;
                    return sum;
                }
                sum.0 += 1;
                sum.1 = Some(sum.1.map_or(known.arrived, |oldest| oldest.min(known.arrived)));
                if known.place == Place::Blocked {
                    sum.2 += 1;
                    sum.3 += (self.now - known.arrived).0;
                }
                sum
            })
        };
        assert!(rows.len() <= self.rows_max + 1);
        let mut everything = Naive::default();
        naive.values().for_each(|one| everything.add(one));
        let mut total = Account::default();
        let mut now = Gauges::default();
        for (_, account, gauges) in rows {
            forebay_stats::Row::absorb(&mut total, account);
            now.absorb(gauges);
        }
        assert_eq!(Naive::of(&total), everything.summary());
        assert_eq!(alive_of(&now), alive(None));
        if self.rows_max < CLASSES as usize {
            return;
        }
        // With room for all of them, each row is exact, and whoever has sent something has one.
        for (key, account, gauges) in rows {
            let Some(key) = *key else { continue };
            let known = naive.get(&key).cloned().unwrap_or_default();
            assert_eq!(Naive::of(account), known.summary(), "{key}");
            assert_eq!(alive_of(gauges), alive(Some(key)), "{key}");
        }
        for known in self.alive.values() {
            assert!(rows.iter().any(|(key, ..)| *key == Some(key_of(known))), "{known:?}");
        }
    }

    /// Whoever is said to hold a class up has a request that does.
    fn check_blockers(&self, snapshot: &Snapshot) {
        for row in &snapshot.classes.rows {
            let now = &row.account.now;
            let blockers = now.blockers.ranking().rows;
            let named: u64 = blockers.iter().map(|by| by.account).sum();
            // Only a long chain of cancelled requests is not followed to its end.
            assert!(named == now.blocked || self.has_buried && named < now.blocked);
            let blocked = || {
                let of_class = |known: &&Known| u64::from(known.request.class.0) == row.key;
                let all = self.alive.iter().filter(move |(_, known)| of_class(known));
                all.filter(|(_, known)| known.place == Place::Blocked)
            };
            for by in blockers {
                let holds_up = |(seq, known): (&u64, &Known)| {
                    self.alive.iter().any(|(other_seq, other)| {
                        let may_pass = self.guard == GuardMode::Client;
                        u64::from(other.request.class.0) == by.key
                            && (other_seq < seq || may_pass && other_seq != seq)
                            && (conflict(self.guard, &other.request, &known.request)
                                || self.has_buried && other.request.file == known.request.file)
                    })
                };
                assert!(blocked().any(holds_up), "{} does not hold {} up", by.key, row.key);
            }
        }
    }
}

fn conflict(guard: GuardMode, earlier: &Request, later: &Request) -> bool {
    let writes = |request: &Request| matches!(request.access, Access::Write | Access::Alone);
    let shares_bytes = guard == GuardMode::File
        || earlier.range.start < later.range.end && later.range.start < earlier.range.end;
    earlier.file == later.file
        && match later.access {
            Access::Sync => writes(earlier),
            _ => {
                earlier.access != Access::Sync && shares_bytes && (writes(earlier) || writes(later))
            }
        }
}

#[test]
fn a_sync_behind_a_long_chain_of_cancelled_writes_is_held_up_by_the_one_that_is_not() {
    let mut model = Model::new(PolicyName::To, GuardMode::Client, false, 16);
    let mut submit = |client, access, block: u64, blocks: u64| {
        let range = ByteRange::new(Offset(block * BLOCK), Bytes(blocks * BLOCK));
        let (client, class) = (ClientId(client), ClassId(client));
        let request = Request { tag: 0, file: FileIndex(0), access, range, client, class };
        model.submit(request, Room::Free);
    };
    // The oldest write waits for a read of its own client, and claims its blocks after others have.
    submit(0, Access::Read, 0, 1);
    submit(0, Access::Write, 0, 2);
    (1..=12).for_each(|client| submit(client, Access::Write, 1, 1));
    submit(13, Access::Sync, 0, 1);
    model.end(0, false);
    (3..=13).rev().for_each(|seq| model.cancel(seq));
    model.cancel(1);
    let snapshot = model.scheduler.snapshot(model.now).expect("it is kept");
    let row = snapshot.classes.rows.iter().find(|row| row.key == 13).expect("it waits");
    let by = row.account.now.blockers.ranking().rows;
    assert_eq!(by.iter().map(|by| (by.key, by.account)).collect::<Vec<_>>(), [(1, 1)]);
}

proptest! {
    #[test]
    fn its_sums_are_those_of_plain_lists(
        ops in ops(),
        policy in prop::sample::select(PolicyName::ALL.to_vec()),
        guard in prop::sample::select(GuardMode::ALL.to_vec()),
        has_classes in any::<bool>(),
        rows_max in prop::sample::select(vec![1, 2, 16]),
    ) {
        let mut model = Model::new(policy, guard, has_classes, rows_max);
        for op in ops {
            model.step(op);
        }
        model.check();
    }
}
