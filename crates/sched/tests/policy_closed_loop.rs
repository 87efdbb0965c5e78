//! The main job in virtual time: many synchronous processes, one file in interleaved strides, one
//! disk; and workloads to which none of what helps there may do harm.

mod support;

use forebay_sched::policies::aioli::{AioliSettings, SynchronousWait};
use forebay_sched::policies::{PolicyName, PolicySettings, build};
use support::{Loop, Outcome, Pattern, Random};

const KIB: u64 = 1024;

/// Process i reads blocks i, i + P, i + 2 P, …
fn strided(processes: u64, block: u64, file_bytes: u64) -> Pattern {
    let rounds = (file_bytes / block / processes).max(4);
    Box::new(move |client, had| (had < rounds).then(|| (0, (client + had * processes) * block)))
}

/// Everybody reads random blocks of a file of 64 GiB.
fn random(block: u64, count: u64, seed: u64) -> Pattern {
    let mut random = Random(seed);
    Box::new(move |_, had| (had < count).then(|| (0, random.next() % (64 << 30) / block * block)))
}

/// Process i reads its own segment of one file from start to end.
fn segmented(block: u64, count: u64) -> Pattern {
    Box::new(move |client, had| (had < count).then(|| (0, (client << 30) + had * block)))
}

/// Process i reads its own file from start to end.
fn file_per_process(block: u64, count: u64) -> Pattern {
    Box::new(move |client, had| (had < count).then(|| (client as u32, had * block)))
}

/// One process reads a file from its end to its start.
fn backwards(block: u64, count: u64) -> Pattern {
    Box::new(move |_, had| (had < count).then(|| (0, (count - had) * block)))
}

/// Think time of a program that does nothing but read.
const PROMPT: (u64, u64) = (20_000, 60_000);

fn run(
    name: PolicyName,
    clients: u64,
    request_bytes: u64,
    depth: usize,
    pattern: Pattern,
) -> Outcome {
    run_thinking(name, clients, request_bytes, depth, PROMPT, pattern)
}

fn run_thinking(
    name: PolicyName,
    clients: u64,
    request_bytes: u64,
    depth: usize,
    think: (u64, u64),
    pattern: Pattern,
) -> Outcome {
    let policy = build(name, &PolicySettings::default());
    Loop { clients, request_bytes, depth, think, seed: 1 }.run(policy, pattern)
}

#[test]
fn strided_readers_get_nearly_what_one_sequential_reader_gets() {
    const FILE_BYTES: u64 = 64 << 20;
    println!("MB/s (seeks)\n{:>5} {:>5} {:>5} {:>10}", "KiB", "procs", "depth", "sequential");
    for (processes, depth) in [(2, 1), (2, 2), (8, 1), (8, 2), (32, 1), (32, 2)] {
        for block in [8, 16, 32, 64, 128, 256, 512, 1024, 2048].map(|k| k * KIB) {
            let sequential = run(PolicyName::To, 1, block, 1, strided(1, block, FILE_BYTES));
            let sequential = sequential.megabytes_per_second();
            print!("{:>5} {processes:>5} {depth:>5} {sequential:>10.2}", block / KIB);
            for name in PolicyName::ALL {
                let outcome =
                    run(name, processes, block, depth, strided(processes, block, FILE_BYTES));
                let rate = outcome.megabytes_per_second();
                print!("  {name} {rate:.2} ({})", outcome.seeks);
                assert!(name != PolicyName::Aioli || rate >= 0.95 * sequential, "{rate} MB/s");
                assert!(
                    name != PolicyName::Aioli || outcome.seeks <= 12,
                    "{} seeks",
                    outcome.seeks
                );
            }
            println!();
        }
    }
}

#[test]
fn readers_that_come_back_late_and_unevenly_still_merge() {
    for (processes, depth) in [(32, 1), (32, 2)] {
        for block in [8, 64, 512].map(|k| k * KIB) {
            let pattern = strided(processes, block, 64 << 20);
            let outcome = run_thinking(
                PolicyName::Aioli,
                processes,
                block,
                depth,
                (20_000, 800_000),
                pattern,
            );
            assert!(outcome.megabytes_per_second() >= 0.9 * 57.0, "{block}: {outcome:?}");
        }
    }
}

#[test]
fn random_readers_lose_next_to_nothing_to_waits() {
    for (clients, depth) in [(1, 1), (4, 1), (32, 1), (32, 2), (32, 8)] {
        let to = run(PolicyName::To, clients, 8 * KIB, depth, random(8 * KIB, 100, 1));
        for name in PolicyName::ALL {
            let outcome = run(name, clients, 8 * KIB, depth, random(8 * KIB, 100, 1));
            assert!(
                outcome.idle_waiting * 200 <= outcome.nanos,
                "{name} {clients} {depth}: {outcome:?}"
            );
            assert!(outcome.nanos * 100 <= to.nanos * 101, "{name} {clients} {depth}: {outcome:?}");
        }
    }
}

#[test]
fn a_single_client_never_waits() {
    for pattern in
        [|| strided(1, 8 * KIB, 16 << 20), || backwards(8 * KIB, 500), || random(8 * KIB, 500, 2)]
    {
        for name in PolicyName::ALL {
            let outcome = run(name, 1, 8 * KIB, 1, pattern());
            assert_eq!(outcome.idle_waiting, 0, "{name}: {outcome:?}");
        }
    }
}

#[test]
fn readers_of_one_segment_each_gain_and_nobody_waits_long() {
    let to = run(PolicyName::To, 32, 8 * KIB, 1, segmented(8 * KIB, 100));
    let outcome = run(PolicyName::Aioli, 32, 8 * KIB, 1, segmented(8 * KIB, 100));
    assert!(outcome.nanos * 5 <= to.nanos, "{outcome:?}");
    assert!(outcome.longest_response <= 1_000_000_000, "{outcome:?}");
}

#[test]
fn the_synchronous_wait_keeps_the_disk_for_one_file_at_a_time() {
    let settings = |synchronous_wait| PolicySettings {
        aioli: AioliSettings { synchronous_wait, ..AioliSettings::default() },
        ..PolicySettings::default()
    };
    let outcome = |synchronous_wait| {
        let policy = build(PolicyName::Aioli, &settings(synchronous_wait));
        let setting = Loop { clients: 4, request_bytes: 8 * KIB, depth: 1, think: PROMPT, seed: 1 };
        setting.run(policy, file_per_process(8 * KIB, 1_000))
    };
    let (off, on) = (outcome(SynchronousWait::Off), outcome(SynchronousWait::On));
    println!(
        "off {:.2} MB/s, on {:.2} MB/s, {on:?}",
        off.megabytes_per_second(),
        on.megabytes_per_second()
    );
    assert!(on.nanos * 5 <= off.nanos, "{on:?}");
    assert!(on.longest_response <= 1_000_000_000, "{on:?}");
}
