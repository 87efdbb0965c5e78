//! iofsl-large: messages of many megabytes, sent whole or in chunks through a forwarder with little memory;
//! the half in virtual time, and the whole.

use forebay_sched::PolicyName;
use forebay_sim::Outcome;
use forebay_sim::scenario::{Forwarder, Order};
use forebay_units::Bytes;
use serde_json::Value;

use super::real::VIRTUAL;
use super::{
    ASSUMED, MODEL, Messages, PAPER, PROCESSES, both_halves, chart, large_real, over, rate, ratio,
    row, seeds, virtual_parameters,
};
use crate::chart::Chart;
use crate::error::Error;
use crate::figures::{Figure, PaperValue};
use crate::progress::Track;
use crate::report::{Report, Row, median};
use crate::{Options, table};

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
    sizes: |options| {
        let most = table::bytes(messages(options).last().map_or(0.0, |size| size.0 as f64));
        format!("{MESSAGES} messages of 4 MiB to {most} from each process in virtual time")
    },
    differs: "a model in virtual time of the paper's machines, with the assumptions of iofsl-small; forward latency is taken from a message's \
              sending to the first disk that works on it; it cannot speak for copying in the forwarder, for \
              its threads, or for PVFS2's own flow control; and, in real time, 8 processes through one \
              forwarder to one emulated disk, where only messages of up to 1 MiB can be sent whole, \
              forward latency is the time that the disk is idle for, a message, and known for one process \
              only, and nothing is said of a network.",
    // "About 30 %", of 128 processes; the paper does not say at which size.
    ratios: &[("chunked_over_whole_16m", 1.3), ("chunked_over_whole_1m_real", 1.3)],
    beside: |_| None,
    run: |programs, options, track| {
        let around = (programs, options, track);
        let plan = large_real::plan(options);
        both_halves("iofsl-large", around, plan, modelled, large_real::findings)
    },
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
    /// What it shows, for each seed; nothing, if the message is larger than the forwarder's memory.
    fn outcomes(&self, seeds: &[u64]) -> Result<Vec<Outcome>, Error> {
        let Self { processes, message, transfer } = *self;
        if transfer == Transfer::Whole && message > MEMORY {
            return Ok(Vec::new());
        }
        let mut scenario = ASSUMED.scenario("iofsl-large");
        scenario.forwarder = Some(Forwarder {
            chunk: (transfer != Transfer::Whole).then_some(CHUNK),
            memory: Some(MEMORY),
            depth: ASSUMED.depth,
            ..Forwarder::default()
        });
        // IOFSL's scheduler is off for messages of this size; it might order their chunks.
        let policy = match transfer {
            Transfer::Whole | Transfer::Chunked => PolicyName::To,
            Transfer::Scheduled => PolicyName::Hbrr,
        };
        let messages = Messages { processes, order: Order::Contiguous, message, count: MESSAGES };
        messages.outcomes(scenario, policy, seeds)
    }
}

/// Sizes of messages, rising.
fn messages(options: &Options) -> Vec<Bytes> {
    let most = if options.quick { 5 } else { 9 };
    (2..=most).map(|power| Bytes::mib(1 << power)).collect()
}

/// The half in virtual time; `more` are the runs that follow, and the seconds that they may take.
pub(super) fn modelled(
    options: &Options,
    report: &mut Report,
    more: (usize, f64),
    track: &mut Track<'_>,
) -> Result<(), Error> {
    let (messages, seeds) = (messages(options), seeds(options));
    describe(report, options);
    let seconds = |message: &Bytes| message.0 as f64 * SECONDS_PER_BYTE * seeds.len() as f64;
    let cases = 2 * TRANSFERS.len();
    track.expect(
        messages.len() * cases + more.0,
        messages.iter().map(seconds).sum::<f64>() * cases as f64 + more.1,
    );
    for processes in [1, PROCESSES] {
        for message in &messages {
            let mut found = Vec::new();
            for transfer in TRANSFERS {
                let point = Point { processes, message: *message, transfer };
                let outcomes = point.outcomes(seeds)?;
                let (mib, name) = (message.0 >> 20, transfer.name());
                let rates: Vec<f64> = outcomes.iter().map(rate).collect();
                let rate = if rates.is_empty() { 0.0 } else { median(&rates) };
                let text = format!("{processes} x {mib} MiB  {name}  {rate:.1} MB/s");
                track.case(seconds(message), text);
                if !outcomes.is_empty() {
                    report.rows.extend(rows(&point, &outcomes));
                }
                found.push(outcomes);
            }
            if *message == Bytes::mib(16)
                && let [whole, chunked, scheduled] = &found[..]
            {
                ratios(report, processes, whole, chunked, scheduled);
            }
        }
    }
    Ok(())
}

fn describe(report: &mut Report, options: &Options) {
    super::describe(report, options);
    report.set("messages_a_process", MESSAGES);
    report.set("chunk_bytes", CHUNK.0);
    report.set("chunks_in_flight", Forwarder::default().chunks_in_flight);
    report.set("memory_bytes", MEMORY.0);
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
    whole: &[Outcome],
    chunked: &[Outcome],
    scheduled: &[Outcome],
) {
    let suffix = if processes == 1 { "16m_one" } else { "16m" };
    let rates = [("chunked_hbrr", scheduled), ("chunked", chunked)];
    for (name, outcomes) in rates {
        ratio(report, &format!("{name}_over_whole_{suffix}"), &over(outcomes, whole, rate));
    }
    let latency = over(chunked, whole, forward_latency_ms);
    ratio(report, &format!("forward_latency_chunked_over_whole_{suffix}"), &latency);
    if processes > 1 {
        let spread = over(chunked, whole, completion_spread);
        ratio(report, "completion_spread_chunked_over_whole_16m", &spread);
    }
}

fn forward_latency_ms(outcome: &Outcome) -> f64 {
    outcome.forward_latency.mean_ns as f64 / 1e6
}

/// Between the first process's end and the last one's, in seconds.
fn completion_spread(outcome: &Outcome) -> f64 {
    outcome.applications[0].completion_spread_ns as f64 / 1e9
}

fn rows(point: &Point, outcomes: &[Outcome]) -> [Row; 5] {
    let parameters = virtual_parameters([
        ("processes", point.processes.into()),
        ("message_bytes", point.message.0.into()),
        ("transfer", point.transfer.name().into()),
    ]);
    let memory = |outcome: &Outcome| {
        let forwarder = outcome.nodes.iter().find(|node| node.name == "forwarder");
        forwarder.map_or(0.0, |node| node.memory_peak_bytes as f64)
    };
    let latency_ms = |outcome: &Outcome| outcome.latency.mean_ns as f64 / 1e6;
    [
        row("rate", "MB/s", &parameters, outcomes, rate),
        row("forward latency", "ms", &parameters, outcomes, forward_latency_ms),
        row("latency", "ms", &parameters, outcomes, latency_ms),
        row("completion spread", "s", &parameters, outcomes, completion_spread),
        row("memory", "B", &parameters, outcomes, memory),
    ]
}
