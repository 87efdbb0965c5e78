//! The main job in virtual time: many synchronous processes, one file in interleaved strides, one
//! disk; and workloads to which none of what helps there may do harm.

mod support;

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

fn run_with(name: PolicyName, setting: Loop, pattern: Pattern) -> Outcome {
    let mut policy = build(name, &PolicySettings::default());
    setting.run(&mut *policy, pattern)
}

fn run(name: PolicyName, processes: u64, block: u64, depth: usize, seed: u64) -> Outcome {
    let setting =
        Loop { clients: processes, request_bytes: block, depth, think: (20_000, 60_000), seed };
    run_with(name, setting, strided(processes, block, (4 << 20) * 32))
}

#[test]
fn strided_readers_get_nearly_what_one_sequential_reader_gets() {
    println!("{:>8} {:>5} {:>5} | {:>8}  MB/s", "KiB", "procs", "depth", "seq");
    let mut worst = f64::MAX;
    for (processes, depth) in [(2, 1), (2, 2), (8, 1), (8, 2), (32, 1), (32, 2), (32, 4)] {
        for block in [8, 16, 32, 64, 128, 256, 512, 1024, 2048].map(|k| k * KIB) {
            let sequential = run(PolicyName::To, 1, block, 1, 1).megabytes_per_second();
            print!("{:>8} {processes:>5} {depth:>5} | {sequential:>8.2}", block / KIB);
            for name in PolicyName::ALL {
                let outcome = run(name, processes, block, depth, 1);
                print!("  {name} {:.2} ({} seeks)", outcome.megabytes_per_second(), outcome.seeks);
                if name == PolicyName::Aioli {
                    worst = worst.min(outcome.megabytes_per_second() / sequential);
                }
            }
            println!();
        }
    }
    println!("{worst}");
    for (processes, depth) in [(32, 1), (32, 2), (8, 2), (2, 1)] {
        for think in [
            (20_000, 60_000),
            (20_000, 400_000),
            (20_000, 800_000),
            (20_000, 1_500_000),
            (1000_000, 2000_000),
        ] {
            for seed in 1..4 {
                for block in [8, 64, 512, 2048].map(|k| k * KIB) {
                    let setting =
                        Loop { clients: processes, request_bytes: block, depth, think, seed };
                    let o = run_with(
                        PolicyName::Aioli,
                        setting,
                        strided(processes, block, (4 << 20) * 32),
                    );
                    print!(
                        "{processes} {depth} {think:?} {} {:.2} ({} seeks, {} batches, idle {:.3})",
                        block / KIB,
                        o.megabytes_per_second(),
                        o.seeks,
                        o.batches,
                        o.idle_waiting as f64 / o.nanos as f64
                    );
                }
                println!();
            }
        }
    }
    let workloads: Vec<(&str, Box<dyn Fn(u64) -> Pattern>)> = vec![
        ("random", Box::new(|s| random(8 * KIB, 200, s))),
        ("segmented", Box::new(|_| segmented(8 * KIB, 200))),
        ("segmented64", Box::new(|_| segmented(64 * KIB, 200))),
        ("files", Box::new(|_| file_per_process(8 * KIB, 200))),
        ("backwards", Box::new(|_| backwards(8 * KIB, 2000))),
    ];
    for (n, w) in workloads {
        for (clients, depth) in [(1, 1), (4, 1), (32, 1), (32, 2), (32, 8)] {
            if n == "backwards" && clients > 1 {
                continue;
            }
            print!("{n} {clients} {depth}: ");
            for name in PolicyName::ALL {
                let setting = Loop {
                    clients,
                    request_bytes: if n == "segmented64" { 64 * KIB } else { 8 * KIB },
                    depth,
                    think: (20_000, 60_000),
                    seed: 1,
                };
                let o = run_with(name, setting, w(1));
                print!(
                    " {name} {:.3} ({} seeks, idle {:.4}, longest {} ms)",
                    o.megabytes_per_second(),
                    o.seeks,
                    o.idle_waiting as f64 / o.nanos as f64,
                    o.longest_response / 1_000_000
                );
            }
            println!();
        }
    }
}
