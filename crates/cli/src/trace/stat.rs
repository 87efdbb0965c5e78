//! `forebay trace stat`: what is in a trace.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use forebay_trace::{Adjustment, Change, Pattern, Rows, Spread, Summary};

use super::{read_file, reader};
use crate::columns::Columns;
use crate::console::{print, printable, say};
use crate::failure::{FAILED, Failure, USAGE};
use crate::size::{Length, Size};

const HELP: &str = "\
An access is sequential if it begins at or behind the end of the one before, and consecutive if it
begins exactly there, as Darshan counts it: for each client within each file, for each file as all
clients' requests came, and for each file as batches left for the store.

Examples:
  forebay trace stat run.trace
  forebay trace stat run.trace --json | jq .order
  forebay trace stat run.trace --plot throughput.svg

Exit code: 0; 1 when the trace could not be read, or only in part; 2 when the command line is wrong.";

/// What `forebay trace stat` is told.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(super) struct StatArgs {
    /// The trace
    #[arg(value_name = "FILE")]
    trace: PathBuf,
    /// Print everything as JSON
    #[arg(long)]
    json: bool,
    /// How many files, clients and classes are shown, those with the most bytes first
    #[arg(long, value_name = "NUMBER", default_value_t = 10)]
    rows: usize,
    /// Draw what was moved over time, as .svg or .png
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
}

pub(super) fn stat(args: &StatArgs) -> Result<ExitCode, Failure> {
    let bytes = read_file(&args.trace)?;
    let summary = Summary::read(reader(&args.trace, &bytes)?, args.rows);
    if let Some(path) = &args.plot {
        plot(&summary, path)?;
    }
    match args.json {
        true => print(&format!("{:#}\n", serde_json::json!(summary)))?,
        false => print(&text(&summary, bytes.len() as u64))?,
    }
    for damage in &summary.damages {
        say(format_args!("forebay: {}: {damage}", args.trace.display()));
    }
    Ok(ExitCode::from(if summary.damages.is_empty() { 0 } else { FAILED }))
}

/// Percent of a whole, for people.
#[expect(clippy::cast_precision_loss, reason = "for people to read")]
fn percent(part: u64, whole: u64) -> String {
    if whole == 0 { "-".into() } else { format!("{:.1} %", part as f64 * 100.0 / whole as f64) }
}

fn text(summary: &Summary, file_bytes: u64) -> String {
    let mut text = String::new();
    let (requests, decisions) = (&summary.requests, &summary.decisions);
    let mut line = |name: &str, value: String| {
        let _ = writeln!(text, "{name:<12}{value}");
    };
    let source = match &summary.policy {
        Some(policy) => format!("{}, policy {policy}", summary.source),
        None => summary.source.clone(),
    };
    line("recorded by", printable(&source));
    if let Some(sharing) = &summary.sharing {
        line("sharing", printable(&words(sharing)));
    }
    let per_event = file_bytes.checked_div(summary.events).unwrap_or(0);
    line(
        "events",
        format!(
            "{} in {}, {} ({per_event} bytes each); {} lost",
            summary.events,
            Length(summary.duration_ns),
            Size(file_bytes),
            summary.lost_events
        ),
    );
    line(
        "requests",
        format!(
            "{}: {} reads, {} writes, {} appends and the like, {} syncs",
            requests.all, requests.reads, requests.writes, requests.alone, requests.syncs
        ),
    );
    line(
        "of these",
        format!(
            "{} immediate, {} bypassed, {} blocked, {} failed, {} short, {} cancelled, {} open; {} refused besides",
            requests.immediate,
            requests.bypassed,
            requests.blocked,
            requests.failed,
            requests.short,
            requests.cancelled,
            requests.open,
            requests.refused
        ),
    );
    let moved = summary.bytes.read + summary.bytes.written;
    line(
        "bytes",
        format!(
            "{} read, {} written; {}/s",
            Size(summary.bytes.read),
            Size(summary.bytes.written),
            Size(per_second(moved, summary.duration_ns))
        ),
    );
    line(
        "decisions",
        format!(
            "{} batches of {} requests (largest {}), merge ratio {:.2}; {} waits for {}; {} times nothing to do",
            decisions.batches,
            decisions.batched_requests,
            decisions.largest_batch_requests,
            decisions.merge_ratio,
            decisions.waits,
            Length(decisions.waited_ns),
            decisions.idle
        ),
    );
    if let Some(depth) = summary.depth {
        line("in flight", format!("at most {depth} before a batch leaves"));
    }
    if summary.hints > 0 {
        line("hints", summary.hints.to_string());
    }
    for change in &summary.changes {
        line("changed", printable(&changed(change)));
    }
    let mut parts = vec![text, times(summary), order(summary), sizes(summary)];
    for (what, rows) in
        [("file", &summary.files), ("client", &summary.clients), ("class", &summary.classes)]
    {
        parts.push(heaviest(what, rows));
    }
    parts.retain(|part| !part.is_empty());
    parts.join("\n")
}

/// A change as people read it; one that an embedder has spelled for itself stays as it is.
fn changed(change: &Change) -> String {
    let Change { time_ns, key, class, value } = change;
    let name = class.as_ref().map_or_else(String::new, |class| format!(" ({class})"));
    let value = match Adjustment::read(key, value) {
        Some(_) => words(value),
        None => value.clone(),
    };
    format!("{}: {key}{name}: {value}", Length(*time_ns))
}

/// `weight=3 group=0` as `weight 3, group 0`.
fn words(text: &str) -> String {
    text.split(' ').map(|word| word.replacen('=', " ", 1)).collect::<Vec<_>>().join(", ")
}

fn per_second(bytes: u64, ns: u64) -> u64 {
    u64::try_from(u128::from(bytes) * 1_000_000_000 / u128::from(ns.max(1))).unwrap_or(u64::MAX)
}

fn times(summary: &Summary) -> String {
    let mut columns = Columns::new(&["time", "requests", "mean", "p50", "p90", "p99", "max"]);
    let times = &summary.times;
    let named = [
        ("latency", times.latency),
        ("queue", times.queue),
        ("device", times.device),
        ("blocked", times.blocked),
    ];
    if times.latency.count == 0 {
        return String::new();
    }
    for (name, Spread { count, mean_ns, p50_ns, p90_ns, p99_ns, max_ns }) in named {
        let [mean, p50, p90, p99, max] =
            [mean_ns, p50_ns, p90_ns, p99_ns, max_ns].map(|ns| Length(ns).to_string());
        columns.push([name.to_owned(), count.to_string(), mean, p50, p90, p99, max]);
    }
    columns.to_string()
}

fn order(summary: &Summary) -> String {
    let mut columns = Columns::new(&["order", "accesses", "sequential", "consecutive"]);
    let order = &summary.order;
    for (name, Pattern { accesses, sequential, consecutive }) in [
        ("as each client asked", order.by_client),
        ("as all came", order.by_arrival),
        ("as they left", order.by_dispatch),
    ] {
        columns.push([
            name.to_owned(),
            accesses.to_string(),
            percent(sequential, accesses),
            percent(consecutive, accesses),
        ]);
    }
    columns.to_string()
}

fn sizes(summary: &Summary) -> String {
    let mut columns = Columns::new(&["size from", "requests", "share"]);
    for row in &summary.sizes {
        columns.push([
            Size(row.from_bytes).to_string(),
            row.requests.to_string(),
            percent(row.requests, summary.requests.all),
        ]);
    }
    columns.to_string()
}

fn heaviest(what: &str, rows: &Rows) -> String {
    let mut columns = Columns::new(&[what, "requests", "bytes", "mean", "max"]);
    for row in &rows.heaviest {
        columns.push([
            printable(&row.name),
            row.requests.to_string(),
            Size(row.bytes).to_string(),
            Length(row.latency_mean_ns).to_string(),
            Length(row.latency_max_ns).to_string(),
        ]);
    }
    let more = rows.count - rows.heaviest.len() as u64;
    let more = if more > 0 { format!("… and {more} more: --rows\n") } else { String::new() };
    format!("{columns}{more}")
}

/// Draws bytes over time.
#[expect(clippy::cast_precision_loss, reason = "a drawing")]
fn plot(summary: &Summary, path: &Path) -> Result<(), Failure> {
    use forebay_bench::chart::{Chart, Series};
    let moments = &summary.timeline;
    let every = moments.len().div_ceil(8).max(1);
    let label = |(number, moment): (usize, &forebay_trace::Moment)| {
        if number % every == 0 { Length(moment.from_ns).to_string() } else { String::new() }
    };
    let rate =
        |moment: &forebay_trace::Moment| moment.bytes as f64 * 1e3 / moment.length_ns.max(1) as f64;
    let chart = Chart {
        title: format!("moved over time: {}", summary.source),
        subtitle: format!(
            "{} requests, {} in {}",
            summary.requests.all,
            Size(summary.bytes.read + summary.bytes.written),
            Length(summary.duration_ns)
        ),
        x_labels: moments.iter().enumerate().map(label).collect(),
        y_label: "MB/s".into(),
        series: vec![Series {
            name: "moved".into(),
            points: moments.iter().enumerate().map(|(n, m)| (n as f64, rate(m))).collect(),
            is_reference: false,
        }],
    };
    let drawing = match path.extension().and_then(|extension| extension.to_str()) {
        Some("svg") => chart.to_svg().into_bytes(),
        Some("png") => chart.to_png(),
        _ => {
            let text = format!("--plot {}: ends in neither .svg nor .png", path.display());
            return Err(Failure::new(USAGE, text));
        }
    };
    std::fs::write(path, drawing)
        .map_err(|error| Failure::new(FAILED, format!("{}: {error}", path.display())))
}
