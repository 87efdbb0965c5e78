//! iofsl-small: writes by message size, HBRR against none, and what the ratio hangs on.

use forebay_sched::PolicyName;
use forebay_sim::scenario::{Job, Operation, Order};
use forebay_sim::{Outcome, run};
use forebay_units::{Bytes, Nanos};
use serde_json::Value;

use super::{ASSUMED, Assumed, PAPER, PROCESSES, SEED, chart};
use crate::Options;
use crate::chart::Chart;
use crate::error::Error;
use crate::figures::{Figure, PaperValue};
use crate::programs::Programs;
use crate::progress::Track;
use crate::report::{Report, Row};

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
    differs: "a model in virtual time of the paper's disks, network and counts, with four assumptions \
              that the paper does not settle and that the last rows vary one at a time (processor time of \
              a request at a server, share of positioning that writes pay, requests under way, network \
              delay); it cannot speak for PVFS2's locks and threads or for the forwarder's copying.",
    run: small,
    charts,
};

/// Above this the forwarder passes requests by its scheduler, as IOFSL does by default.
const THRESHOLD: Bytes = Bytes::mib(2);

const AT: Bytes = Bytes::kib(32);

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
    fn outcome(&self, scheduler: Scheduler) -> Result<Outcome, Error> {
        let mut scenario = self.assumed.scenario("iofsl-small");
        scenario.scheduler.large = match scheduler {
            Scheduler::HbrrBelow => THRESHOLD,
            Scheduler::None | Scheduler::Hbrr => Bytes::ZERO,
        };
        scenario.jobs.push(Job {
            name: "ior".into(),
            clients: PROCESSES,
            operation: Operation::Write,
            order: self.order,
            request: self.message,
            requests: (self.amount.0 / self.message.0).max(1) as u32,
            ..Job::default()
        });
        let policy = match scheduler {
            Scheduler::None => PolicyName::To,
            Scheduler::Hbrr | Scheduler::HbrrBelow => PolicyName::Hbrr,
        };
        run(&scenario, policy, SEED).map_err(|error| Error::failed(error.to_string()))
    }

    /// HBRR's rate over that of none.
    fn ratio(&self) -> Result<f64, Error> {
        let [none, hbrr] = [Scheduler::None, Scheduler::Hbrr].map(|which| self.outcome(which));
        Ok(hbrr?.bytes_per_second / none?.bytes_per_second)
    }
}

fn small(_programs: &Programs, options: &Options, track: &mut Track<'_>) -> Result<Report, Error> {
    let (amount, least) = if options.quick { (Bytes::mib(1), 4) } else { (Bytes::mib(8), 2) };
    let messages = (least..=13).map(|power| Bytes::kib(1 << power));
    let messages: Vec<Bytes> = messages.filter(|size| *size <= amount).collect();
    let mut report = Report::new("iofsl-small");
    describe(&mut report, amount);
    let variants = variants();
    track.expect(
        messages.len() * 2 * 3 + variants.len(),
        (messages.len() * 6 + variants.len() * 2) as f64,
    );
    for order in [Order::Strided, Order::Contiguous] {
        for message in &messages {
            let point = Point { assumed: ASSUMED, message: *message, order, amount };
            let mut rates = Vec::new();
            for scheduler in Scheduler::ALL {
                let outcome = point.outcome(scheduler)?;
                let rate = outcome.bytes_per_second / 1e6;
                let text = format!("{} KiB  {}  {rate:.1} MB/s", message.0 >> 10, scheduler.name());
                track.case(1.0, text);
                report.rows.extend(rows(&point, scheduler, &outcome));
                rates.push(rate);
            }
            if *message == AT {
                let key = match order {
                    Order::Strided => "hbrr_over_none_32k",
                    _ => "hbrr_over_none_32k_segments",
                };
                report.ratio(key, Some(rates[1] / rates[0]));
            }
        }
    }
    for (what, value, assumed) in variants {
        let point = Point { assumed, message: AT, order: Order::Strided, amount };
        let ratio = point.ratio()?;
        track.case(2.0, format!("{what} = {value}: {ratio:.2}"));
        let parameters = [("varied", Value::from(what)), ("to", Value::from(value))];
        report.rows.push(Row::median("hbrr over none", "at 32 KiB", &parameters, &[ratio]));
    }
    Ok(report)
}

fn describe(report: &mut Report, amount: Bytes) {
    report.set("processes", PROCESSES);
    report.set("bytes_a_process", amount.0);
    report.set("server_request_us", ASSUMED.server_request.0 / 1000);
    report.set("write_share_permille", ASSUMED.write_share_permille);
    report.set("forwarder_depth", ASSUMED.depth);
    report.set("network_delay_us", ASSUMED.delay.0 / 1000);
    report.set("seed", SEED);
    report.notes = [
        "In strides neighbouring messages of different processes meet at the forwarder and merge; with a \
         segment for each process they never do, and HBRR's order alone gains little or loses.",
        "The ratio is 1 where a request costs the servers nothing, and grows with what positioning costs and \
         with how few requests are under way; in this model HBRR is not behind none above 2 MiB either.",
    ]
    .map(str::to_owned)
    .to_vec();
}

/// A chart for each layout.
fn charts(report: &Report) -> Vec<(&'static str, Chart)> {
    let names = Scheduler::ALL.map(Scheduler::name);
    ["strided", "segments"]
        .map(|layout| {
            let title = format!("128 processes write one file, {layout}, HBRR against none");
            let fixed = ("layout", Value::from(layout));
            (layout, chart(report, &title, ("rate", "MB/s"), fixed, ("scheduler", &names)))
        })
        .to_vec()
}

fn rows(point: &Point, scheduler: Scheduler, outcome: &Outcome) -> [Row; 4] {
    let layout = match point.order {
        Order::Strided => "strided",
        _ => "segments",
    };
    let parameters = [
        ("layout", Value::from(layout)),
        ("message_bytes", point.message.0.into()),
        ("scheduler", scheduler.name().into()),
    ];
    let servers = outcome.nodes.iter().filter(|node| node.name != "forwarder");
    let requests: u64 = servers.map(|node| node.dispatched).sum();
    let row = |name, unit, value| Row::median(name, unit, &parameters, &[value]);
    [
        row("rate", "MB/s", outcome.bytes_per_second / 1e6),
        row("merged", "a batch", outcome.merge_ratio),
        row("requests", "at servers", requests as f64),
        row("seeks", "", outcome.nodes.iter().map(|node| node.seeks).sum::<u64>() as f64),
    ]
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
        variants.push(("positioning paid", format!("{}.{} %", share / 10, share % 10), assumed));
    }
    for depth in [1, 4, 8, 16, 32, 64] {
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
