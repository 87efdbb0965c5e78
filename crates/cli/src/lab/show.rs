//! What `forebay lab` prints.

use forebay_device::{Medium, RANDOM_SPAN};
use forebay_lab::{Checked, Owner, ReadBack, Settings, State, Statistics};
use forebay_units::Nanos;
use serde::Serialize;
use serde_json::{Value, json};

use crate::failure::{FAILED, Failure};
use crate::size::{Length, Size};

/// From this share of time in which processors were short a slow disk is no longer told from a slow machine.
const BUSY: f64 = 0.05;

/// A disk as `status` shows it.
#[derive(Debug, Serialize)]
pub(crate) struct Status {
    #[serde(flatten)]
    pub(crate) state: State,
    pub(crate) is: Option<ReadBack>,
    pub(crate) statistics: Option<Statistics>,
}

/// Anything as JSON, with a line's end; in one line or in many.
pub(crate) fn json(value: &impl Serialize, is_line: bool) -> Result<String, Failure> {
    let text = match is_line {
        true => serde_json::to_string(value),
        false => serde_json::to_string_pretty(value),
    };
    text.map(|text| text + "\n").map_err(|error| Failure::new(FAILED, error.to_string()))
}

/// What a disk is: what decides a result on it.
pub(crate) fn settings(is: &ReadBack) -> String {
    let ReadBack { settings, queue, .. } = is;
    let rows = [
        ("mounted on", is.mount_point.display().to_string()),
        ("block device", format!("{}, direct I/O", is.block_device.display())),
        ("model", model(settings)),
        ("size", Size(settings.bytes).to_string()),
        ("time scale", settings.time_scale.to_string()),
        ("read-ahead", format!("{} KiB", queue.read_ahead_kib)),
        ("queue depth", format!("{} at the drive", settings.queue_depth)),
        ("elevator", format!("{}, nr_requests {}", queue.elevator, queue.nr_requests)),
        ("drive's order", settings.reorder.to_string()),
        ("largest request", format!("{} KiB", queue.request_kib_max)),
        ("file system", is.file_system.clone()),
        ("kernel", is.kernel.clone()),
    ];
    table(&rows)
}

/// The device model with what decides its times.
fn model(settings: &Settings) -> String {
    let changed = if settings.changes.is_empty() { "" } else { ", changed" };
    let name = format!("{}{changed}", settings.profile);
    let Ok(Medium::Disk(disk)) = settings.device().map(|profile| profile.medium) else {
        return name;
    };
    let time = |time: Nanos| Length(time.0);
    format!(
        "{name}: {:.1} MB/s, {} rpm, mean seek {} in the first 4 GiB, cache {}",
        disk.transfer.per_second() as f64 / 1e6,
        disk.turns_per_minute,
        time(disk.seek.mean_time(RANDOM_SPAN)),
        Size(disk.cache.0)
    )
}

/// What a disk is and has done.
pub(crate) fn status(status: &Status) -> String {
    let State { name, is_served, answers, has_fuse, block_devices, is_mounted, .. } = &status.state;
    let mut text = format!("{name}\n");
    text.push_str(&table(&[("belongs to", belongs_to(&status.state.owner))]));
    if !status.state.is_whole() {
        let yes = |is: bool| if is { "yes" } else { "no" }.to_owned();
        let devices: Vec<String> =
            block_devices.iter().map(|path| path.display().to_string()).collect();
        text.push_str(&table(&[
            (
                "state",
                format!(
                    "not whole, {}; `forebay lab disk down {name}` cleans up",
                    status.state.fault()
                ),
            ),
            ("daemon alive", yes(*is_served)),
            ("daemon answers", yes(*answers)),
            ("daemon's files mounted", yes(*has_fuse)),
            ("block devices", devices.join(" ")),
            ("file system mounted", yes(*is_mounted)),
            ("daemon's last words", last_words(&status.state.daemon_said)),
        ]));
    } else if matches!(status.state.owner, Owner::Gone(_)) {
        text.push_str(&table(&[("daemon", last_words(&status.state.daemon_said))]));
    }
    text.push_str(&status.is.as_ref().map(settings).unwrap_or_default());
    text.push_str(&status.statistics.as_ref().map(statistics).unwrap_or_default());
    text
}

fn belongs_to(owner: &Owner) -> String {
    match owner {
        Owner::Nobody => "nobody; it stays until `forebay lab disk down`".to_owned(),
        Owner::Living(process) => format!("process {process}, which takes it down"),
        Owner::Gone(process) => format!(
            "process {process}, which is gone; it goes down as soon as nothing uses it any more"
        ),
    }
}

fn last_words(lines: &[String]) -> String {
    match lines {
        [] => "none".to_owned(),
        // Below each other, under the first one.
        lines => lines.join("\n    "),
    }
}

fn statistics(statistics: &Statistics) -> String {
    let elapsed = statistics.now_ns;
    let seconds = |ns: u64| format!("{:.3} s", ns as f64 / 1e9);
    table(&[
        ("up for", format!("{} of its own time", seconds(elapsed))),
        (
            "at work",
            format!(
                "{}, {:.1} %",
                seconds(statistics.busy_ns),
                statistics.busy_share(elapsed) * 100.0
            ),
        ),
        (
            "requests",
            format!(
                "{}: {} sequential, {} seeks",
                statistics.requests, statistics.sequential, statistics.seeks
            ),
        ),
        ("read", format!("{} in {}", Size(statistics.bytes_read), statistics.reads)),
        (
            "written",
            format!(
                "{} in {}, {} syncs",
                Size(statistics.bytes_written),
                statistics.writes,
                statistics.syncs
            ),
        ),
        (
            "at the drive",
            format!(
                "{:.2} on average, {} at most",
                statistics.depth_mean(elapsed),
                statistics.depth_max
            ),
        ),
        (
            "answers late by",
            format!(
                "{:.1} us on average, {:.1} us at most, of real time",
                statistics.oversleep_mean_real_ns() / 1e3,
                statistics.oversleep_max_real_ns as f64 / 1e3
            ),
        ),
        ("free of charge", format!("{} requests", statistics.free)),
        ("memory", Size(statistics.resident_bytes).to_string()),
    ])
}

/// One finding, for the impatient.
pub(crate) fn line(checked: &Checked, time_scale: f64) -> String {
    let verdict = match checked.verdict(time_scale) {
        Ok(()) => String::new(),
        Err(fault) => format!("; NOT its model: {fault}"),
    };
    format!(
        "{:>8} {:10}  {:6.2} MB/s, the model says {:6.2}: {:.3}; in real time {:.3}, \
         processors short for {:.0} %, {}{verdict}",
        Size(checked.probe.request_bytes).to_string(),
        order(checked),
        checked.device_mbps(),
        checked.predicted_mbps(),
        checked.over_predicted(),
        checked.real_over_predicted(time_scale),
        short(checked) * 100.0,
        rounds(checked),
    )
}

fn rounds(checked: &Checked) -> String {
    match checked.rounds {
        1 => "1 round".to_owned(),
        rounds => format!("{rounds} rounds"),
    }
}

/// The share of real time in which something waited for a processor.
fn short(checked: &Checked) -> f64 {
    checked.waited_ns as f64 / checked.real_ns.max(1) as f64
}

/// Sequential beside random.
pub(crate) fn check_table(found: &[Checked], time_scale: f64) -> String {
    let mut text = String::from(
        " request  sequential  random       ratio  ratio of  real time over\n\
         \x20               MB/s    MB/s  sequential  the model       the model\n\
         \x20                         over random\n",
    );
    for pair in found.chunks_exact(2) {
        let [sequential, random] = pair else { continue };
        let ratio = sequential.device_mbps() / random.device_mbps();
        let predicted = sequential.predicted_mbps() / random.predicted_mbps();
        text.push_str(&format!(
            "{:>8}  {:10.2}  {:6.2}  {ratio:10.2}  {predicted:9.2}  {:.3}, {:.3}\n",
            Size(sequential.probe.request_bytes).to_string(),
            sequential.device_mbps(),
            random.device_mbps(),
            sequential.real_over_predicted(time_scale),
            random.real_over_predicted(time_scale),
        ));
    }
    if found.iter().any(|checked| short(checked) > BUSY) {
        text.push_str(
            "Processors were short meanwhile: what is slower than the model may be the machine.\n",
        );
    }
    text
}

/// The findings with their ratios.
pub(crate) fn checks(found: &[Checked], time_scale: f64) -> Value {
    let one = |checked: &Checked| {
        json!({
            "order": order(checked),
            "request_bytes": checked.probe.request_bytes,
            "requests": checked.probe.requests,
            "device_mbps": checked.device_mbps(),
            "predicted_mbps": checked.predicted_mbps(),
            "over_predicted": checked.over_predicted(),
            "real_over_predicted": checked.real_over_predicted(time_scale),
            "processors_short": short(checked),
            "rounds": checked.rounds,
            "fault": checked.verdict(time_scale).err().map(|fault| fault.to_string()),
        })
    };
    found.iter().map(one).collect()
}

fn order(checked: &Checked) -> &'static str {
    if checked.probe.is_sequential { "sequential" } else { "random" }
}

fn table(rows: &[(&str, String)]) -> String {
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
    rows.iter().map(|(name, value)| format!("  {name:width$}  {value}\n")).collect()
}
