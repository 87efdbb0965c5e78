//! iofsl-small: writes by message size, HBRR against none, and what the ratio hangs on; the half in
//! virtual time, and the whole.

use forebay_sched::PolicyName;
use forebay_sim::Outcome;
use forebay_sim::scenario::Order;
use forebay_units::{Bytes, Nanos};
use serde_json::Value;

use super::real::{self, VIRTUAL};
use super::{
    ASSUMED, Assumed, MODEL, Messages, PAPER, PROCESSES, both_halves, chart, over, rate, ratio,
    row, seeds, small_real, virtual_parameters,
};
use crate::chart::Chart;
use crate::error::Error;
use crate::figures::{Figure, PaperValue, parameter};
use crate::progress::Track;
use crate::report::{Report, Row, median};
use crate::{Options, table};

pub(in crate::figures) const FIGURE: Figure = Figure {
    name: "iofsl-small",
    summary: "writes of 128 processes by message size through one forwarder to four servers, HBRR against none",
    paper: PAPER,
    values: &[
        PaperValue { what: "HBRR over none, 32 KiB", value: "1.486" },
        PaperValue {
            what: "above 2 MiB",
            value: "none performs better; the scheduler is off there by default",
        },
    ],
    sizes: |options| {
        let amount = table::bytes(extent(options).0.0 as f64);
        format!(
            "{amount} from each process in virtual time, where the paper says only that it is the same from each"
        )
    },
    differs: "a model in virtual time of the paper's disks, network and counts, with four assumptions \
              that the paper does not settle and that rows of their own vary one at a time (processor \
              time of a request at a server, share of positioning that writes pay, requests under way, \
              network delay), of which the share was set to 35.6 % after a first guess of 10 % had given \
              1.24 at 32 KiB, so that the model supports the paper's figure and does not predict it; it \
              cannot speak for PVFS2's locks and threads or for the forwarder's copying; and, in real \
              time, 32 processes with O_DIRECT on one machine through one forwarder to one emulated disk, \
              which cannot speak for four servers, their caches, or a network.",
    ratios: &[
        ("hbrr_over_none_32k", PAPER_HBRR_OVER_NONE),
        ("hbrr_over_none_32k_real", PAPER_HBRR_OVER_NONE),
    ],
    beside: |row| {
        let is_ratio = row.name == "hbrr over none";
        let is_assumed = parameter(row, "varied") == "positioning paid"
            && parameter(row, "to") == share_name(ASSUMED.write_share_permille);
        (is_ratio && is_assumed).then_some(PAPER_HBRR_OVER_NONE)
    },
    run: |programs, options, track| {
        let around = (programs, options, track);
        let plan = small_real::plan(options);
        both_halves("iofsl-small", around, plan, modelled, small_real::findings)
    },
    charts,
};

/// Above this the forwarder passes requests by its scheduler, as IOFSL does by default.
pub(super) const THRESHOLD: Bytes = Bytes::mib(2);

/// 48.6 % at 32 KiB.
const PAPER_HBRR_OVER_NONE: f64 = 1.486;

const AT: Bytes = Bytes::kib(32);

/// Batches under way with which none is no longer held up by how many there may be.
const DEPTH_DEEP: u32 = 64;

/// What a case in virtual time may take with one seed; only the progress depends on it.
const SEED_SECONDS: f64 = 0.05;

/// What stands in front of the servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scheduler {
    /// Requests go on as they come.
    None,
    /// HBRR for all of them.
    Hbrr,
    /// HBRR for those up to the threshold.
    HbrrBelow,
}

impl Scheduler {
    const ALL: [Self; 3] = [Self::None, Self::Hbrr, Self::HbrrBelow];

    fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Hbrr => "hbrr",
            Self::HbrrBelow => "hbrr up to 2 MiB",
        }
    }
}

/// One point of the figure.
#[derive(Clone, Copy, Debug)]
struct Point {
    assumed: Assumed,
    message: Bytes,
    order: Order,
    /// Of each process.
    amount: Bytes,
}

impl Point {
    fn outcomes(&self, scheduler: Scheduler, seeds: &[u64]) -> Result<Vec<Outcome>, Error> {
        let mut scenario = self.assumed.scenario("iofsl-small");
        scenario.scheduler.large = match scheduler {
            Scheduler::HbrrBelow => THRESHOLD,
            Scheduler::None | Scheduler::Hbrr => Bytes::ZERO,
        };
        let policy = match scheduler {
            Scheduler::None => PolicyName::To,
            Scheduler::Hbrr | Scheduler::HbrrBelow => PolicyName::Hbrr,
        };
        let count = (self.amount.0 / self.message.0).max(1) as u32;
        let Self { order, message, .. } = *self;
        Messages { processes: PROCESSES, order, message, count }.outcomes(scenario, policy, seeds)
    }

    /// HBRR's rate over that of none.
    fn ratios(&self, seeds: &[u64]) -> Result<Vec<f64>, Error> {
        let [none, hbrr] =
            [Scheduler::None, Scheduler::Hbrr].map(|which| self.outcomes(which, seeds));
        Ok(over(&hbrr?, &none?, rate))
    }
}

/// What each process writes, and the smallest message as a power of two KiB.
fn extent(options: &Options) -> (Bytes, u32) {
    if options.quick { (Bytes::mib(1), 4) } else { (Bytes::mib(8), 2) }
}

/// The half in virtual time; `more` are the runs that follow, and the seconds that they may take.
pub(super) fn modelled(
    options: &Options,
    report: &mut Report,
    more: (usize, f64),
    track: &mut Track<'_>,
) -> Result<(), Error> {
    let ((amount, least), seeds) = (extent(options), seeds(options));
    let messages = (least..=13).map(|power| Bytes::kib(1 << power));
    let messages: Vec<Bytes> = messages.filter(|size| *size <= amount).collect();
    describe(report, options, amount);
    let variants = variants();
    let cases = messages.len() * 2 * 3;
    let seconds = seeds.len() as f64 * SEED_SECONDS;
    track.expect(
        cases + variants.len() + more.0,
        (cases + variants.len() * 2) as f64 * seconds + more.1,
    );
    for order in [Order::Strided, Order::Contiguous] {
        for message in &messages {
            let point = Point { assumed: ASSUMED, message: *message, order, amount };
            let mut found = Vec::new();
            for scheduler in Scheduler::ALL {
                let outcomes = point.outcomes(scheduler, seeds)?;
                let rates: Vec<f64> = outcomes.iter().map(rate).collect();
                let (kib, rate) = (message.0 >> 10, median(&rates));
                track.case(seconds, format!("{kib} KiB  {}  {rate:.1} MB/s", scheduler.name()));
                report.rows.extend(rows(&point, scheduler, &outcomes));
                found.push(outcomes);
            }
            if *message == AT {
                let key = match order {
                    Order::Strided => "hbrr_over_none_32k",
                    _ => "hbrr_over_none_32k_segments",
                };
                ratio(report, key, &over(&found[1], &found[0], rate));
            }
        }
    }
    for (what, value, assumed) in variants {
        let is_deep = assumed.depth == DEPTH_DEEP;
        let point = Point { assumed, message: AT, order: Order::Strided, amount };
        let ratios = point.ratios(seeds)?;
        if is_deep {
            ratio(report, "hbrr_over_none_32k_deep", &ratios);
        }
        track.case(2.0 * seconds, format!("{what} = {value}: {:.2}", median(&ratios)));
        let parameters = virtual_parameters([("varied", what.into()), ("to", value.into())]);
        report.rows.push(Row::median("hbrr over none", "at 32 KiB", &parameters, &ratios));
    }
    Ok(())
}

fn describe(report: &mut Report, options: &Options, amount: Bytes) {
    super::describe(report, options);
    report.set("bytes_a_process", amount.0);
    let notes = [
        "Virtual time: 35.6 % is the share of positioning that AGIOS 2015 gives for its disk graphene; the rows \
         \"positioning paid\" show the ratio at other shares.",
        "In strides neighbouring messages of different processes meet at the forwarder and merge; with a \
         segment for each process they never do, and what HBRR's order alone does hangs on the amount: it \
         gained a third with 1 MiB of each process (--quick) and lost 4 % with 8 MiB.",
        "What is under way is counted in batches: none has at most 16 messages of 32 KiB under way, HBRR 16 \
         batches of up to 16 merged messages, and that is part of its gain. hbrr_over_none_32k_deep is the \
         ratio with 64 batches under way.",
        "The ratio is about 1 where a request costs the servers nothing, neither processor time nor \
         positioning, and grows with what positioning costs and with how few batches are under way; in this model HBRR is not behind none above 2 MiB either.",
        "Real time: the emulated disk is that of the same share, graphene. The writers use O_DIRECT, because \
         the page cache takes buffered writes at once and writes them back in order, whoever scheduled them.",
    ];
    report.notes.extend(notes.map(str::to_owned));
}

/// A chart for each layout, and one of the real half, where there is one.
fn charts(report: &Report) -> Vec<(&'static str, Chart)> {
    let names = Scheduler::ALL.map(Scheduler::name);
    let of = |word: &'static str, layout: &str, subtitle, (key, time), names: &[&str]| {
        let title = format!("Processes write one file, {layout}, HBRR against none");
        let fixed = [(key, Value::from(time)), ("layout", layout.into())];
        let titles = (title.as_str(), subtitle);
        (word, chart(report, titles, ("rate", "MB/s"), &fixed, ("scheduler", names)))
    };
    let modelled = ["strided", "segments"].map(|layout| of(layout, layout, MODEL, VIRTUAL, &names));
    let real = of("real", "strided", small_real::SUBTITLE, real::REAL, &small_real::NAMES);
    modelled.into_iter().chain([real]).filter(|(_, chart)| !chart.x_labels.is_empty()).collect()
}

fn rows(point: &Point, scheduler: Scheduler, outcomes: &[Outcome]) -> [Row; 4] {
    let layout = match point.order {
        Order::Strided => "strided",
        _ => "segments",
    };
    let parameters = virtual_parameters([
        ("layout", layout.into()),
        ("message_bytes", point.message.0.into()),
        ("scheduler", scheduler.name().into()),
    ]);
    let requests = |outcome: &Outcome| {
        let servers = outcome.nodes.iter().filter(|node| node.name != "forwarder");
        servers.map(|node| node.dispatched).sum::<u64>() as f64
    };
    let seeks = |outcome: &Outcome| outcome.nodes.iter().map(|node| node.seeks).sum::<u64>() as f64;
    [
        row("rate", "MB/s", &parameters, outcomes, rate),
        row("merged", "a batch", &parameters, outcomes, |outcome| outcome.merge_ratio),
        row("requests", "at servers", &parameters, outcomes, requests),
        row("seeks", "", &parameters, outcomes, seeks),
    ]
}

/// A share of thousandths, in percent.
fn share_name(permille: u64) -> String {
    format!("{}.{} %", permille / 10, permille % 10)
}

/// Each assumption at other values, the others as assumed.
fn variants() -> Vec<(&'static str, String, Assumed)> {
    let mut variants = Vec::new();
    for micros in [0, 25, 50, 100, 200, 400] {
        let assumed = Assumed { server_request: Nanos::micros(micros), ..ASSUMED };
        variants.push(("server request", format!("{micros} us"), assumed));
    }
    for share in [0, 50, 100, 150, 200, 263, 356, 535, 1000] {
        let assumed = Assumed { write_share_permille: share, ..ASSUMED };
        variants.push(("positioning paid", share_name(share), assumed));
    }
    for depth in [1, 4, 8, 16, 32, DEPTH_DEEP] {
        variants.push(("requests under way", format!("{depth}"), Assumed { depth, ..ASSUMED }));
    }
    for micros in [10, 30, 100, 300] {
        let assumed = Assumed { delay: Nanos::micros(micros), ..ASSUMED };
        variants.push(("network delay", format!("{micros} us"), assumed));
    }
    let nothing = Assumed { server_request: Nanos::ZERO, write_share_permille: 0, ..ASSUMED };
    variants.push(("no cost of a request", "0".to_owned(), nothing));
    variants
}
