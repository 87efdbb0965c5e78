//! iofsl-large: messages of many megabytes, sent whole or in chunks through a forwarder with little memory;
//! the half in virtual time, and the whole.

use forebay_sched::PolicyName;
use forebay_sim::scenario::{Forwarder, Job, Operation, Order};
use forebay_sim::{Outcome, run};
use forebay_units::Bytes;
use serde_json::Value;

use super::real::{self, VIRTUAL};
use super::{ASSUMED, MODEL, PAPER, PROCESSES, SEED, chart, large_real};
use crate::Options;
use crate::chart::Chart;
use crate::error::Error;
use crate::figures::{Figure, PaperValue};
use crate::programs::Programs;
use crate::progress::Track;
use crate::report::{Report, Row};

pub(in crate::figures) const FIGURE: Figure = Figure {
    name: "iofsl-large",
    summary: "messages of 4 to 512 MiB sent whole or in chunks through a forwarder of 256 MiB",
    paper: PAPER,
    values: &[
        PaperValue { what: "bandwidth of large writes, pipelined over whole", value: "about 1.3" },
        PaperValue {
            what: "forward latency, spread of completion times",
            value: "reduced (no numbers)",
        },
        PaperValue {
            what: "size of a message",
            value: "no longer limited by the forwarder's memory",
        },
    ],
    differs: "a model in virtual time of the paper's machines; forward latency is taken from a message's \
              sending to the first disk that works on it; it cannot speak for copying in the forwarder, for \
              its threads, or for PVFS2's own flow control; and, in real time, 8 processes through one \
              forwarder to one emulated disk, where only messages of up to 1 MiB can be sent whole, \
              forward latency is the time that the disk is idle for, a message, and known for one process \
              only, and nothing is said of a network.",
    run: large,
    charts,
};

const CHUNK: Bytes = Bytes::mib(1);

/// The forwarder's memory: less than what the processes send together.
const MEMORY: Bytes = Bytes::mib(256);

/// What a case in virtual time may take; only the progress depends on it.
const SECONDS_PER_BYTE: f64 = 1e-9;

/// Messages of each process, one after the other.
const MESSAGES: u32 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Transfer {
    /// A message is received, then written, then answered.
    Whole,
    /// Its chunks are received and written side by side.
    Chunked,
    /// The same, and the chunks are scheduled.
    Scheduled,
}

impl Transfer {
    fn name(self) -> &'static str {
        match self {
            Self::Whole => "whole",
            Self::Chunked => "chunked",
            Self::Scheduled => "chunked, hbrr",
        }
    }
}

const TRANSFERS: [Transfer; 3] = [Transfer::Whole, Transfer::Chunked, Transfer::Scheduled];

#[derive(Clone, Copy, Debug)]
struct Point {
    processes: u32,
    message: Bytes,
    transfer: Transfer,
}

impl Point {
    /// What it shows; nothing, if the message is larger than the forwarder's memory.
    fn outcome(&self) -> Result<Option<Outcome>, Error> {
        if self.transfer == Transfer::Whole && self.message > MEMORY {
            return Ok(None);
        }
        let mut scenario = ASSUMED.scenario("iofsl-large");
        scenario.forwarder = Some(Forwarder {
            chunk: (self.transfer != Transfer::Whole).then_some(CHUNK),
            memory: Some(MEMORY),
            depth: ASSUMED.depth,
            ..Forwarder::default()
        });
        scenario.jobs.push(Job {
            name: "ior".into(),
            clients: self.processes,
            operation: Operation::Write,
            order: Order::Contiguous,
            request: self.message,
            requests: MESSAGES,
            ..Job::default()
        });
        // IOFSL's scheduler is off for messages of this size; it might order their chunks.
        let policy = match self.transfer {
            Transfer::Whole | Transfer::Chunked => PolicyName::To,
            Transfer::Scheduled => PolicyName::Hbrr,
        };
        let outcome = run(&scenario, policy, SEED);
        outcome.map(Some).map_err(|error| Error::failed(error.to_string()))
    }
}

fn large(programs: &Programs, options: &Options, track: &mut Track<'_>) -> Result<Report, Error> {
    let mut report = Report::new("iofsl-large");
    let real = large_real::plan(options).unless_hindered(real::obstacle(), &mut report);
    modelled(options, &mut report, real.expected(), track)?;
    let found = real.run(programs, &mut report, track)?;
    large_real::findings(&mut report, &found);
    Ok(report)
}

/// The half in virtual time; `more` are the runs that follow, and the seconds that they may take.
pub(super) fn modelled(
    options: &Options,
    report: &mut Report,
    more: (usize, f64),
    track: &mut Track<'_>,
) -> Result<(), Error> {
    let most = if options.quick { 5 } else { 9 };
    let messages: Vec<Bytes> = (2..=most).map(|power| Bytes::mib(1 << power)).collect();
    describe(report);
    let seconds = |message: &Bytes| message.0 as f64 * SECONDS_PER_BYTE;
    let cases = 2 * TRANSFERS.len();
    track.expect(
        messages.len() * cases + more.0,
        messages.iter().map(seconds).sum::<f64>() * cases as f64 + more.1,
    );
    for processes in [1, PROCESSES] {
        for message in &messages {
            let mut outcomes = Vec::new();
            for transfer in TRANSFERS {
                let point = Point { processes, message: *message, transfer };
                let outcome = point.outcome()?;
                let rate = outcome.as_ref().map_or(0.0, |outcome| outcome.bytes_per_second / 1e6);
                let (mib, name) = (message.0 >> 20, transfer.name());
                track.case(
                    seconds(message),
                    format!("{processes} x {mib} MiB  {name}  {rate:.1} MB/s"),
                );
                report.rows.extend(outcome.iter().flat_map(|outcome| rows(&point, outcome)));
                outcomes.push(outcome);
            }
            if *message == Bytes::mib(16)
                && let [Some(whole), Some(chunked), Some(scheduled)] = &outcomes[..]
            {
                ratios(report, processes, whole, chunked, scheduled);
            }
        }
    }
    Ok(())
}

fn describe(report: &mut Report) {
    report.set("processes", PROCESSES);
    report.set("messages_a_process", MESSAGES);
    report.set("chunk_bytes", CHUNK.0);
    report.set("chunks_in_flight", Forwarder::default().chunks_in_flight);
    report.set("memory_bytes", MEMORY.0);
    report.set("server_request_us", ASSUMED.server_request.0 / 1000);
    report.set("write_share_permille", ASSUMED.write_share_permille);
    report.set("forwarder_depth", ASSUMED.depth);
    report.set("seed", SEED);
    let notes = [
        "A message that is larger than the forwarder's memory cannot be sent whole: it has no line.",
        "With one process the overlap of receiving and writing shows. With many, whole messages overlap \
         each other already, and chunks of many messages cost seeks that whole ones do not.",
        "Real time: Forebay sends a message whole up to session.chunk_bytes_max (at most 1 MiB) and in chunks \
         beyond, so whole against chunks is measured at 1 MiB by that setting; chunks of a message are not \
         scheduled one by one, so there is no line for that. The writers use O_DIRECT, because the page \
         cache would take buffered writes at once.",
        "Real time: a process fills its message before it sends it, and the disk is idle meanwhile: forward \
         latency has that in it, and the pauses between chunks, and is an upper bound. With several \
         processes the disk is never idle, and from outside nobody sees whose message it works on.",
    ];
    report.notes.extend(notes.map(str::to_owned));
}

/// Rate and spread of completion times with many processes.
fn charts(report: &Report) -> Vec<(&'static str, Chart)> {
    let names = TRANSFERS.map(Transfer::name);
    [("rate", "rate", "MB/s"), ("spread", "completion spread", "s")]
        .map(|(word, value, unit)| {
            let title = format!("128 processes write large messages: {value}");
            let fixed =
                [(VIRTUAL.0, Value::from(VIRTUAL.1)), ("processes", Value::from(PROCESSES))];
            (word, chart(report, (&title, MODEL), (value, unit), &fixed, ("transfer", &names)))
        })
        .to_vec()
}

fn ratios(
    report: &mut Report,
    processes: u32,
    whole: &Outcome,
    chunked: &Outcome,
    scheduled: &Outcome,
) {
    let spread = |outcome: &Outcome| outcome.applications[0].completion_spread_ns as f64;
    let forward = |outcome: &Outcome| outcome.forward_latency.mean_ns as f64;
    let suffix = if processes == 1 { "16m_one" } else { "16m" };
    let rates = chunked.bytes_per_second / whole.bytes_per_second;
    let rates_scheduled = scheduled.bytes_per_second / whole.bytes_per_second;
    report.ratio(format!("chunked_hbrr_over_whole_{suffix}"), Some(rates_scheduled));
    report.ratio(format!("chunked_over_whole_{suffix}"), Some(rates));
    report.ratio(
        format!("forward_latency_chunked_over_whole_{suffix}"),
        Some(forward(chunked) / forward(whole)),
    );
    if processes > 1 {
        report.ratio(
            "completion_spread_chunked_over_whole_16m",
            Some(spread(chunked) / spread(whole)),
        );
    }
}

fn rows(point: &Point, outcome: &Outcome) -> [Row; 5] {
    let parameters = [
        (VIRTUAL.0, Value::from(VIRTUAL.1)),
        ("processes", point.processes.into()),
        ("message_bytes", point.message.0.into()),
        ("transfer", point.transfer.name().into()),
    ];
    let memory = outcome.nodes.iter().find(|node| node.name == "forwarder");
    let memory = memory.map_or(0, |node| node.memory_peak_bytes);
    let row = |name, unit, value| Row::median(name, unit, &parameters, &[value]);
    [
        row("rate", "MB/s", outcome.bytes_per_second / 1e6),
        row("forward latency", "ms", outcome.forward_latency.mean_ns as f64 / 1e6),
        row("latency", "ms", outcome.latency.mean_ns as f64 / 1e6),
        row("completion spread", "s", outcome.applications[0].completion_spread_ns as f64 / 1e9),
        row("memory", "B", memory as f64),
    ]
}
