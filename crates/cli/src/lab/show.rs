//! What `forebay lab` prints.

use forebay_lab::{Checked, ReadBack, State, Statistics};
use serde::Serialize;
use serde_json::{Value, json};

use crate::failure::{FAILED, Failure};
use crate::size::Size;

/// A disk as `status` shows it.
#[derive(Debug, Serialize)]
pub(crate) struct Status {
    #[serde(flatten)]
    pub(crate) state: State,
    pub(crate) is: Option<ReadBack>,
    pub(crate) statistics: Option<Statistics>,
}

/// Anything as JSON, with a line's end.
pub(crate) fn json(value: &impl Serialize) -> Result<String, Failure> {
    serde_json::to_string_pretty(value)
        .map(|text| text + "\n")
        .map_err(|error| Failure::new(FAILED, error.to_string()))
}

/// What a disk is: what decides a result on it.
pub(crate) fn settings(is: &ReadBack) -> String {
    let ReadBack { settings, queue, .. } = is;
    let rows = [
        ("mounted on", is.mount_point.display().to_string()),
        ("block device", format!("{}, direct I/O", is.block_device.display())),
        ("model", format!("{}, {}", settings.profile, Size(settings.bytes))),
        ("time scale", settings.time_scale.to_string()),
        ("read-ahead", format!("{} KiB", queue.read_ahead_kib)),
        ("queue depth", settings.queue_depth.to_string()),
        ("elevator", queue.elevator.clone()),
        ("drive's order", settings.reorder.to_string()),
        ("largest request", format!("{} KiB", queue.request_kib_max)),
        ("file system", is.file_system.clone()),
        ("kernel", is.kernel.clone()),
    ];
    table(&rows)
}

/// What a disk is and has done.
pub(crate) fn status(status: &Status) -> String {
    let State { name, is_served, has_fuse, block_devices, is_mounted } = &status.state;
    let mut text = format!("{name}\n");
    if !status.state.is_whole() {
        let yes = |is: bool| if is { "yes" } else { "no" }.to_owned();
        let devices: Vec<String> =
            block_devices.iter().map(|path| path.display().to_string()).collect();
        text.push_str(&table(&[
            ("state", format!("not whole; `forebay lab disk down {name}` cleans up")),
            ("daemon alive", yes(*is_served)),
            ("daemon's files mounted", yes(*has_fuse)),
            ("block devices", devices.join(" ")),
            ("file system mounted", yes(*is_mounted)),
        ]));
    }
    text.push_str(&status.is.as_ref().map(settings).unwrap_or_default());
    text.push_str(&status.statistics.as_ref().map(statistics).unwrap_or_default());
    text
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
    format!(
        "{:>8} {:10}  {:6.2} MB/s, the model says {:6.2}: {:.3}; in real time {:.3}",
        Size(checked.probe.request_bytes).to_string(),
        order(checked),
        checked.device_mbps(),
        checked.predicted_mbps(),
        checked.over_predicted(),
        checked.real_over_predicted(time_scale),
    )
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
