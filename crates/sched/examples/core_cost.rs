//! What the scheduler core costs: nanoseconds a request for submit + next + complete, by policy and depth.
//!
//! A closed loop of 32 clients over 8 files keeps `queued` requests waiting: each completed request
//! is replaced by its stream's next one. `reads` are interleaved sequential streams of 4 KiB;
//! in `mixed` every fourth stream writes. The device takes no time, so only the core is measured.
//!
//! `cargo run --release -p forebay-sched --example core_cost [POLICY [QUEUED]]`

use forebay_sched::{
    Access, Batch, Bypass, Decision, PolicyName, PolicySettings, Request, Room, Scheduler,
    SchedulerOptions, build,
};
use forebay_units::{ByteRange, Bytes, ClassId, ClientId, FileIndex, Offset, Timestamp};

const CLIENTS: u64 = 32;
const FILES: u64 = 8;
const REQUEST_BYTES: u64 = 4096;
const MEASURED_REQUESTS: u64 = 500_000;
/// The best of so many rounds is shown.
const ROUNDS: u32 = 5;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Workload {
    Reads,
    Mixed,
}

/// The streams: client `c` reads every 32nd block of each file, starting at block `c`.
struct Streams {
    workload: Workload,
    /// Blocks each stream has asked for so far.
    next: Vec<u64>,
    turn: u64,
}

impl Streams {
    fn new(workload: Workload) -> Self {
        Self { workload, next: vec![0; (CLIENTS * FILES) as usize], turn: 0 }
    }

    /// The next request in arrival order: all streams in turn.
    fn arrive(&mut self) -> Request {
        self.turn += 1;
        self.of_stream((self.turn * 89) % (CLIENTS * FILES))
    }

    fn of_stream(&mut self, stream: u64) -> Request {
        let (client, file) = (stream % CLIENTS, stream / CLIENTS);
        let block = self.next[stream as usize] * CLIENTS + client;
        self.next[stream as usize] += 1;
        let writes = self.workload == Workload::Mixed && client % 4 == 0;
        Request {
            tag: stream,
            file: FileIndex(file as u32),
            access: if writes { Access::Write } else { Access::Read },
            range: ByteRange::new(Offset(block * REQUEST_BYTES), Bytes(REQUEST_BYTES)),
            client: ClientId(client as u32),
            class: ClassId(0),
        }
    }
}

fn cost(policy: PolicyName, workload: Workload, queued: u64) -> f64 {
    let options = SchedulerOptions {
        bypass: Bypass::Never,
        queue_requests_max: 1 << 22,
        ..Default::default()
    };
    let mut scheduler = Scheduler::new(options, build(policy, &PolicySettings::default()));
    let mut streams = Streams::new(workload);
    let mut now = Timestamp(0);
    for _ in 0..queued {
        scheduler.submit(now, streams.arrive(), Room::Full).expect("the queue is long enough");
    }
    let mut batch = Batch::new();
    let mut run = |requests: u64, now: &mut Timestamp| {
        let mut done = 0;
        while done < requests {
            now.0 += 1_000;
            match scheduler.next(*now, &mut batch) {
                Decision::Dispatch => {}
                Decision::Wait { until } => {
                    *now = until;
                    continue;
                }
                Decision::Idle => unreachable!("a closed loop always has something queued"),
            }
            for member in batch.members() {
                scheduler
                    .complete(*now, member.id, member.request.range.length())
                    .expect("it is in flight");
                scheduler
                    .submit(*now, streams.of_stream(member.request.tag), Room::Full)
                    .expect("there is room");
                done += 1;
            }
        }
        done
    };
    run(queued.max(100_000), &mut now);
    let round = |_| {
        let start = cpu_nanos();
        let done = run(MEASURED_REQUESTS, &mut now);
        (cpu_nanos() - start) as f64 / done as f64
    };
    (0..ROUNDS).map(round).fold(f64::MAX, f64::min)
}

/// Processor time of this process: what other processes do to the clock does not count.
fn cpu_nanos() -> u64 {
    let schedstat =
        std::fs::read_to_string("/proc/self/schedstat").expect("a Linux kernel with schedstat");
    schedstat
        .split(' ')
        .next()
        .and_then(|nanos| nanos.parse().ok())
        .expect("the first field is nanoseconds")
}

fn main() {
    let only: Option<PolicyName> =
        std::env::args().nth(1).map(|name| name.parse().expect("a policy's name"));
    let depths =
        std::env::args().nth(2).map(|depth| vec![depth.parse().expect("a number of requests")]);
    let depths = depths.unwrap_or_else(|| vec![1_000, 1_000_000]);
    print!("{:8}", "policy");
    for workload in ["reads", "mixed"] {
        depths.iter().for_each(|queued| print!(" {:>14}", format!("{workload} {queued}")));
    }
    println!();
    for policy in
        PolicyName::ALL.into_iter().filter(|policy| only.is_none_or(|only| only == *policy))
    {
        print!("{policy:8}");
        for workload in [Workload::Reads, Workload::Mixed] {
            for &queued in &depths {
                print!(" {:>11.0} ns", cost(policy, workload, queued));
            }
        }
        println!();
    }
}
