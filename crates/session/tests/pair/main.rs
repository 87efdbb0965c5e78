//! Both ends of the protocol against each other: no socket, one thread, one seed.
//!
//! A program and a forwarder exchange fragments of any size through two byte queues; the
//! forwarder does in any order whatever the protocol leaves open. A failing seed says how to
//! replay it: `FOREBAY_SEED=<seed> cargo test -p forebay-session --test pair`.
//! `FOREBAY_SEEDS=<count>` runs more seeds than usual.

mod forwarder;
mod program;
mod random;

use forebay_session::server::{Limits, Session};
use forwarder::Forwarder;
use program::{Lengths, Program};
use random::Random;

const FILES_COUNT: usize = 4;
/// Whatever reads or writes this file fails.
const FAULTY_FILE: usize = 0;
const ENOENT: i32 = 2;
const EIO: i32 = 5;
const ENOSPC: i32 = 28;

/// Says how to replay a seed when its run panics.
struct Replay(&'static str, u64);

impl Drop for Replay {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Self(test, seed) = self;
            eprintln!(
                "replay with: FOREBAY_SEED={seed} cargo test -p forebay-session --test pair {test}"
            );
        }
    }
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().expect("the variable is a number"))
}

/// Runs a property for the one seed that is asked for, or for many.
fn for_seeds(test: &'static str, count: u64, property: impl Fn(&mut Random)) {
    let seeds = match number("FOREBAY_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("FOREBAY_SEEDS").unwrap_or(count),
    };
    for seed in seeds {
        let _replay = Replay(test, seed);
        property(&mut Random(seed));
    }
}

/// Who goes away in the middle of a run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Loss {
    Nobody,
    Program { at_step: usize },
    Forwarder { at_step: usize },
}

struct Run {
    program: Program,
    forwarder: Forwarder,
    fragment_bytes_max: usize,
    /// Chance in percent that the program reads in a step: low is a slow reader.
    program_reads: usize,
}

impl Run {
    fn new(
        limits: Limits,
        requests_count: usize,
        request_bytes_max: usize,
        random: &mut Random,
    ) -> Self {
        let files: Vec<Vec<u8>> = (0..FILES_COUNT)
            .map(|_| {
                let size = random.below(4 * request_bytes_max);
                random.bytes(size)
            })
            .collect();
        let chunk_bytes_max = limits.chunk_bytes_max as usize;
        Self {
            program: Program::new(files.clone(), requests_count, request_bytes_max),
            forwarder: Forwarder::new(Session::new(limits), files, chunk_bytes_max, random),
            fragment_bytes_max: [1, 20, 300, 100_000][random.below(4)],
            program_reads: [5, 50, 95][random.below(3)],
        }
    }

    fn random(random: &mut Random) -> Self {
        let limits = Limits {
            eager_bytes_max: random.below(400) as u32,
            chunk_bytes_max: random.between(1, 500) as u32,
            requests_max: random.between(1, 24) as u32,
        };
        let (requests_count, request_bytes_max) =
            (random.between(1, 60), [50, 1000, 5000][random.below(3)]);
        Self::new(limits, requests_count, request_bytes_max, random)
    }

    /// One random thing happens.
    fn step(&mut self, random: &mut Random) {
        let length = random.between(1, self.fragment_bytes_max);
        match random.below(4) {
            0 => self.program.step(random),
            1 => drop(self.forwarder.step(random)),
            2 => {
                let fragment = take(&mut self.program.out, length);
                self.forwarder.receive(&fragment, random);
            }
            _ if random.percent(self.program_reads) => {
                self.program.receive(&take(&mut self.forwarder.out, length));
            }
            _ => {}
        }
    }

    fn play(&mut self, loss: Loss, random: &mut Random) {
        for step in 0..20_000_000 {
            if self.program.is_over {
                return;
            }
            match loss {
                Loss::Program { at_step } if step == at_step => {
                    let rest = std::mem::take(&mut self.program.out);
                    self.forwarder.receive(&rest[..random.below(rest.len() + 1)], random);
                    self.forwarder.assert_it_knows_what_is_left();
                    return;
                }
                Loss::Forwarder { at_step } if step == at_step => {
                    let rest = std::mem::take(&mut self.forwarder.out);
                    self.program.receive(&rest[..random.below(rest.len() + 1)]);
                    self.program.assert_it_knows_what_is_left();
                    return;
                }
                _ => self.step(random),
            }
        }
        panic!("the run does not come to an end");
    }

    fn assert_all_is_done(&self) {
        assert!(self.forwarder.has_left);
        assert!(self.program.unanswered.is_empty());
        assert!(self.program.session.unanswered().next().is_none());
        assert!(self.forwarder.session.unanswered().next().is_none());
        assert!(self.program.out.is_empty() && self.forwarder.out.is_empty());
        for file in (0..FILES_COUNT).filter(|file| *file != FAULTY_FILE) {
            assert!(
                self.program.files[file] == self.forwarder.files[file],
                "file {file} is another than was written"
            );
        }
    }
}

fn take(queue: &mut Vec<u8>, length: usize) -> Vec<u8> {
    queue.drain(..length.min(queue.len())).collect()
}

#[test]
fn every_request_is_answered_once_with_the_right_bytes() {
    for_seeds("every_request_is_answered_once_with_the_right_bytes", 150, |random| {
        let mut run = Run::random(random);
        run.play(Loss::Nobody, random);
        run.assert_all_is_done();
    });
}

#[test]
fn a_lost_peer_leaves_nothing_unknown() {
    for_seeds("a_lost_peer_leaves_nothing_unknown", 150, |random| {
        let at_step = random.below(5000);
        let loss = if random.percent(50) {
            Loss::Program { at_step }
        } else {
            Loss::Forwarder { at_step }
        };
        let mut run = Run::random(random);
        run.play(loss, random);
    });
}

#[test]
fn a_request_much_larger_than_a_chunk_passes() {
    for_seeds("a_request_much_larger_than_a_chunk_passes", 5, |random| {
        let limits = Limits { eager_bytes_max: 64, chunk_bytes_max: 256, requests_max: 16 };
        let mut run = Run::new(limits, 60, 200_000, random);
        run.fragment_bytes_max = 10_000;
        run.program_reads = 95;
        run.program.lengths = Lengths::Longest;
        run.play(Loss::Nobody, random);
        run.assert_all_is_done();
        assert!(run.forwarder.chunks_count > 700, "{} chunks", run.forwarder.chunks_count);
    });
}

#[test]
fn many_requests_are_under_way_at_once() {
    for_seeds("many_requests_are_under_way_at_once", 5, |random| {
        let limits = Limits { eager_bytes_max: 64, chunk_bytes_max: 64, requests_max: 64 };
        let mut run = Run::new(limits, 2000, 100, random);
        run.program_reads = 5;
        run.fragment_bytes_max = 300;
        run.play(Loss::Nobody, random);
        run.assert_all_is_done();
        assert!(run.program.most_unanswered >= 10, "{} at once", run.program.most_unanswered);
    });
}

#[test]
fn a_seed_gives_the_same_run_twice() {
    let run = |seed| {
        let random = &mut Random(seed);
        let mut run = Run::random(random);
        run.play(Loss::Nobody, random);
        (random.next(), run.forwarder.files)
    };
    assert!(run(3) == run(3));
}
