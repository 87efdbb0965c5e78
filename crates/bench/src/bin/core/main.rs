//! One case of the suite `core`, in a process of its own: its memory is its own, and callgrind can
//! count its instructions.
//!
//! `forebay-bench-core POLICY MIX QUEUED WARM_UP REQUESTS ROUNDS [record]` prints a line of JSON:
//! processor time of each round in nanoseconds a request, and allocations in all rounds together.
//! With `record`, each round is followed by one that is recorded as a trace; its times are apart.

use std::error::Error;
use std::process::ExitCode;

use forebay_bench::workload::{Loop, Mix};

mod sys;

#[global_allocator]
static ALLOCATOR: sys::Counting = sys::Counting;

fn main() -> ExitCode {
    match run() {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("forebay-bench-core: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<String, Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (case, records) = match arguments.split_last() {
        Some((word, case)) if word == "record" => (case, true),
        _ => (&arguments[..], false),
    };
    let [policy, mix, queued, warm_up, requests, rounds] = case else {
        return Err("POLICY MIX QUEUED WARM_UP REQUESTS ROUNDS [record]".into());
    };
    let mix = Mix::by_name(mix).ok_or("MIX: reads or mixed")?;
    let mut work = Loop::new(policy.parse()?, mix, queued.parse()?);
    let (requests, rounds): (u64, usize) = (requests.parse()?, rounds.parse()?);
    work.pass(warm_up.parse()?);

    let mut times_ns = Vec::with_capacity(rounds);
    let (mut recorded_ns, mut event_bytes) = (Vec::with_capacity(rounds), None);
    let allocations_before = sys::allocation_count();
    let mut passed_total = 0;
    for _ in 0..rounds {
        let start_ns = sys::processor_ns();
        let passed = measured(&mut work, requests);
        times_ns.push((sys::processor_ns() - start_ns) as f64 / passed as f64);
        passed_total += passed;
        if records {
            work.record();
            let start_ns = sys::processor_ns();
            let passed = measured(&mut work, requests);
            recorded_ns.push((sys::processor_ns() - start_ns) as f64 / passed as f64);
            event_bytes = work.end_record();
        }
    }
    let allocations = sys::allocation_count() - allocations_before;
    Ok(serde_json::json!({
        "ns": times_ns, "requests": passed_total, "allocations": allocations,
        "recorded_ns": recorded_ns, "event_bytes": event_bytes,
    })
    .to_string())
}

/// What callgrind counts, by this name.
#[inline(never)]
fn measured(work: &mut Loop, requests: u64) -> u64 {
    work.pass(requests)
}
