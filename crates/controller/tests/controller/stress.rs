//! Many threads at once: nothing is lost, doubled, or dispatched out of order.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use forebay_controller::{
    Batch, Controller, Delivery, Detail, Error, Hint, Notice, Outcome, Submission, Turn,
};
use forebay_sched::{Access, PolicyName, PolicySettings, build};
use forebay_units::{Bytes, Nanos, Offset};

use crate::support::{controller, file, options};

const BLOCK: u64 = 4_096;

/// A seeded random number (Marsaglia's xorshift64*).
struct Random(u64);

impl Random {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) % most
    }
}

/// A store of blocks that notices when two requests that conflict are in flight together.
struct Blocks {
    /// By file and block: the number of readers in flight, or `WRITER`.
    users: Vec<AtomicU32>,
    files: u64,
    each: u64,
}

const WRITER: u32 = u32::MAX;

impl Blocks {
    fn new(files: u64, each: u64) -> Self {
        Self { users: (0..files * each).map(|_| AtomicU32::new(0)).collect(), files, each }
    }

    fn of(&self, file: u64, turn: &Turn) -> &[AtomicU32] {
        assert!(file < self.files);
        let first = (file * self.each + turn.offset.0 / BLOCK) as usize;
        &self.users[first..first + (turn.length.0 / BLOCK) as usize]
    }

    fn enter(&self, file: u64, access: Access, turn: &Turn) {
        for users in self.of(file, turn) {
            match access {
                Access::Write => {
                    assert_eq!(users.swap(WRITER, Ordering::SeqCst), 0, "a write is alone")
                }
                _ => assert_ne!(
                    users.fetch_add(1, Ordering::SeqCst),
                    WRITER,
                    "no read beside a write"
                ),
            }
        }
    }

    fn leave(&self, file: u64, access: Access, turn: &Turn) {
        for users in self.of(file, turn) {
            match access {
                Access::Write => assert_eq!(users.swap(0, Ordering::SeqCst), WRITER),
                _ => _ = users.fetch_sub(1, Ordering::SeqCst),
            }
        }
    }
}

/// What happened to each request, by its mark.
#[derive(Default)]
struct Fates(Mutex<HashMap<u64, &'static str>>);

impl Fates {
    fn note(&self, id: u64, fate: &'static str) {
        let before = self.0.lock().unwrap().insert(id, fate);
        assert_eq!(before, None, "request {id} is {fate} and was over before");
    }

    fn count(&self, fate: &str) -> u64 {
        self.0.lock().unwrap().values().filter(|other| **other == fate).count() as u64
    }
}

struct World {
    blocks: Blocks,
    fates: Fates,
    /// Dispatched and not yet completed, where threads find them.
    in_flight: Mutex<Vec<(u64, Access, Turn)>>,
    extra: AtomicU64,
}

impl World {
    fn complete(&self, controller: &Controller, file: u64, access: Access, turn: &Turn) {
        self.blocks.leave(file, access, turn);
        self.fates.note(turn.id, "completed");
        controller.complete(turn.ticket, Outcome::Moved(turn.length)).unwrap();
        assert_eq!(
            controller.complete(turn.ticket, Outcome::Failed(5)),
            Err(Error::UnknownTicket),
            "a ticket is good once"
        );
    }
}

const EXTRA: u64 = 1 << 40;

/// Threads submit, complete, cancel, switch and take back at random; call-backs complete a part at
/// once, submit more, and leave the rest to the threads.
fn storm(policy: PolicyName, seed: u64, depth: usize, queue: usize, threads: u64, each: u64) {
    let world = Arc::new(World {
        blocks: Blocks::new(4, 64),
        fates: Fates::default(),
        in_flight: Mutex::default(),
        extra: AtomicU64::new(0),
    });
    let called = Arc::clone(&world);
    let call_back = move |controller: &Controller, batch: &Batch<'_>| {
        let mut end = batch.extent.start;
        for turn in batch.turns {
            assert!(turn.offset <= end && turn.offset >= batch.extent.start, "no gap in a batch");
            end = end.max(turn.offset + turn.length);
            called.blocks.enter(batch.file.low, batch.access, turn);
        }
        assert_eq!(end, batch.extent.end);
        for turn in batch.turns {
            match turn.id % 4 {
                0 => called.in_flight.lock().unwrap().push((batch.file.low, batch.access, *turn)),
                1 if turn.id < EXTRA => {
                    // A call-back that submits: half of it is complete before, half after.
                    let id = EXTRA + called.extra.fetch_add(1, Ordering::Relaxed);
                    let more =
                        Submission::new(id, batch.file, batch.access, turn.offset, turn.length);
                    let outcome = controller.submit(&more);
                    if outcome.is_err() {
                        assert!(matches!(outcome, Err(Error::QueueFull | Error::Draining)));
                        called.fates.note(id, "refused");
                    }
                    called.complete(controller, batch.file.low, batch.access, turn);
                }
                _ => called.complete(controller, batch.file.low, batch.access, turn),
            }
        }
    };
    let controller =
        controller(policy, &options(depth, queue), Delivery::CallBack(Box::new(call_back)));
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (world, controller, is_over) = (&world, &controller, &is_over);
        let workers: Vec<_> = (0..threads)
            .map(|thread| {
                scope.spawn(move || {
                    worker(world, controller, seed * 1_000 + thread + 1, thread, each)
                })
            })
            .collect();
        // One more thread does what operators do, and takes what is in flight to its end.
        scope.spawn(move || {
            let mut random = Random(seed * 77 + 5);
            while !is_over.load(Ordering::SeqCst) {
                finish_some(world, controller);
                match random.below(50) {
                    0 => {
                        let to =
                            PolicyName::ALL[random.below(PolicyName::ALL.len() as u64) as usize];
                        controller.switch_policy(build(to, &PolicySettings::default())).unwrap();
                    }
                    1 => {
                        for turn in controller.take_back().unwrap() {
                            world.fates.note(turn.id, "taken back");
                        }
                    }
                    2 => controller.hint(Hint::MoreFollows(Nanos::micros(300))).unwrap(),
                    3 => controller.set_depth(1 + random.below(depth as u64) as usize).unwrap(),
                    4 => _ = controller.snapshot(Detail::Counters).unwrap(),
                    _ => std::thread::yield_now(),
                }
            }
        });
        for worker in workers {
            worker.join().unwrap();
        }
        while controller.drain(Some(std::time::Duration::from_millis(20))).is_err() {}
        is_over.store(true, Ordering::SeqCst);
    });
    let asked = threads * each + world.extra.load(Ordering::Relaxed);
    let fates =
        ["completed", "cancelled", "taken back", "refused"].map(|fate| world.fates.count(fate));
    assert_eq!(fates.iter().sum::<u64>(), asked, "{fates:?}");
    let state = controller.snapshot(Detail::Counters).unwrap();
    assert_eq!(state.queued_count + state.in_flight_count, 0);
    assert_eq!(state.scheduler.completed, fates[0]);
    assert_eq!(state.scheduler.cancelled, fates[1]);
    assert_eq!(state.scheduler.drained, fates[2]);
    assert_eq!(controller.close(), Ok(()));
}

fn worker(world: &World, controller: &Controller, seed: u64, thread: u64, each: u64) {
    let mut random = Random(seed);
    let mut open = Vec::new();
    for number in 0..each {
        let id = thread << 20 | number;
        let length = 1 + random.below(4);
        let offset = random.below(64 - length + 1);
        let access = if random.below(3) == 0 { Access::Write } else { Access::Read };
        let of = random.below(4);
        let mut asked =
            Submission::new(id, file(of), access, Offset(offset * BLOCK), Bytes(length * BLOCK));
        if random.below(20) == 0 {
            asked.notice = Notice::Wait;
        }
        match controller.submit(&asked) {
            Ok(ticket) if asked.notice == Notice::Wait => {
                wait_and_complete(world, controller, &asked, ticket, of);
            }
            Ok(ticket) => open.push((id, ticket)),
            Err(error) => {
                assert!(matches!(error, Error::QueueFull | Error::Draining), "{error:?}");
                world.fates.note(id, "refused");
            }
        }
        if random.below(4) == 0
            && let Some((id, ticket)) = open.pop()
        {
            match controller.cancel(ticket) {
                Ok(()) => world.fates.note(id, "cancelled"),
                Err(error) => assert!(matches!(error, Error::UnknownTicket | Error::Dispatched)),
            }
        }
        if random.below(8) == 0 {
            finish_some(world, controller);
        }
    }
}

fn wait_and_complete(
    world: &World,
    controller: &Controller,
    asked: &Submission,
    ticket: forebay_controller::Ticket,
    of: u64,
) {
    loop {
        finish_some(world, controller);
        match controller.wait(ticket, Some(std::time::Duration::from_millis(1))) {
            Ok(()) => {
                let turn = Turn {
                    ticket,
                    id: asked.id,
                    offset: asked.range.start,
                    length: asked.range.length(),
                    client: asked.client,
                    class: asked.class,
                };
                world.blocks.enter(of, asked.access, &turn);
                return world.complete(controller, of, asked.access, &turn);
            }
            // Taken back; the one who did has noted it.
            Err(Error::Cancelled | Error::UnknownTicket) => return,
            Err(error) => assert_eq!(error, Error::TimedOut),
        }
    }
}

fn finish_some(world: &World, controller: &Controller) {
    loop {
        let Some((of, access, turn)) = world.in_flight.lock().unwrap().pop() else { return };
        world.complete(controller, of, access, &turn);
    }
}

#[test]
fn a_storm_with_little_room() {
    for (seed, policy) in (1..).zip(PolicyName::ALL) {
        storm(policy, seed, 2, 8, 4, 400);
    }
}

#[test]
fn a_storm_with_much_room() {
    for (seed, policy) in (100..).zip(PolicyName::ALL) {
        storm(policy, seed, 64, 10_000, 4, 1_500);
    }
}

#[test]
fn writes_of_one_block_take_effect_in_the_order_of_each_thread() {
    const EACH: u64 = 3_000;
    let last = Arc::new([const { AtomicU64::new(0) }; 4]);
    let seen = Arc::clone(&last);
    let call_back = move |controller: &Controller, batch: &Batch<'_>| {
        for turn in batch.turns {
            let (thread, number) = (turn.id >> 32, turn.id & 0xffff_ffff);
            let before = seen[thread as usize].swap(number, Ordering::SeqCst);
            assert_eq!(number, before + 1, "thread {thread}");
            controller.complete(turn.ticket, Outcome::Moved(turn.length)).unwrap();
        }
    };
    for policy in PolicyName::ALL {
        last.iter().for_each(|number| number.store(0, Ordering::SeqCst));
        let seen = call_back.clone();
        let controller =
            controller(policy, &options(16, 100_000), Delivery::CallBack(Box::new(seen)));
        std::thread::scope(|scope| {
            for thread in 0..4_u64 {
                let controller = &controller;
                scope.spawn(move || {
                    for number in 1..=EACH {
                        let asked = Submission::new(
                            thread << 32 | number,
                            file(1),
                            Access::Write,
                            Offset(0),
                            Bytes(BLOCK),
                        );
                        controller.submit(&asked).unwrap();
                    }
                });
            }
        });
        controller.drain(None).unwrap();
        assert!(last.iter().all(|number| number.load(Ordering::SeqCst) == EACH));
    }
}

#[test]
fn nothing_is_left_lying_when_everybody_goes_quiet() {
    // Each round ends with all threads gone at once. Nobody calls the controller while the rest is
    // awaited, so what was left in the ring must have been found by one of those who left.
    let done = Arc::new(AtomicU64::new(0));
    let counts = Arc::clone(&done);
    let controller = controller(
        PolicyName::ToAgg,
        &options(64, 100_000),
        Delivery::CallBack(Box::new(move |controller: &Controller, batch: &Batch<'_>| {
            for turn in batch.turns {
                controller.complete(turn.ticket, Outcome::Moved(turn.length)).unwrap();
                counts.fetch_add(1, Ordering::SeqCst);
            }
        })),
    );
    for round in 0..300 {
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let controller = &controller;
                scope.spawn(move || {
                    for number in 0..20 {
                        let at = Offset((round + number) % 40 * BLOCK);
                        let asked =
                            Submission::new(0, file(thread), Access::Read, at, Bytes(BLOCK));
                        controller.submit(&asked).unwrap();
                    }
                });
            }
        });
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while done.load(Ordering::SeqCst) < (round + 1) * 60 {
            assert!(
                std::time::Instant::now() < deadline,
                "round {round}: something was left lying"
            );
            std::thread::yield_now();
        }
    }
}

#[test]
fn a_controller_may_come_and_go_at_any_time() {
    for round in 0..200 {
        let call_back = |controller: &Controller, batch: &Batch<'_>| {
            for turn in batch.turns {
                controller.complete(turn.ticket, Outcome::Moved(turn.length)).unwrap();
            }
        };
        let controller = controller(
            PolicyName::Aioli,
            &options(4, 1_000),
            Delivery::CallBack(Box::new(call_back)),
        );
        std::thread::scope(|scope| {
            for thread in 0..2 {
                let controller = &controller;
                scope.spawn(move || {
                    let asked =
                        Submission::new(0, file(thread), Access::Read, Offset(0), Bytes(BLOCK));
                    // Every other one has an alarm to be ended.
                    if round % 2 == 0 {
                        controller.hint(Hint::MoreFollows(Nanos::micros(50))).unwrap();
                    }
                    controller.submit(&asked).unwrap();
                });
            }
        });
        controller.drain(None).unwrap();
        assert_eq!(controller.snapshot(Detail::Counters).unwrap().scheduler.completed, 2);
        controller.close().unwrap();
    }
}
