//! iofsl-small, the real half: 32 processes write one file on the emulated disk.

use forebay_units::Bytes;
use serde_json::Value;

use super::real::{self, Plan, counted};
use crate::Options;
use crate::figures::cases::Found;
use crate::peers::Measured;
use crate::report::{Report, Row};

/// As many as two processors can keep waiting for a disk; the paper has 128.
const PROCESSES: u64 = 32;

/// What the chart says below its title.
pub(super) const SUBTITLE: &str =
    "32 processes with O_DIRECT, a forwarder, one emulated disk, by size of message";

const AT: Bytes = Bytes::kib(32);

/// What orders the forwarder's requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scheduler {
    /// By arrival, each alone.
    None,
    /// In no order, each alone.
    Noop,
    /// HBRR for all of them.
    Hbrr,
    /// HBRR for those up to the threshold.
    HbrrBelow,
}

/// In the order of the table; the lines of the plot are compared with the first.
const SCHEDULERS: [Scheduler; 4] =
    [Scheduler::None, Scheduler::Noop, Scheduler::Hbrr, Scheduler::HbrrBelow];

impl Scheduler {
    const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Noop => "none (noop)",
            Self::Hbrr => "hbrr",
            Self::HbrrBelow => "hbrr up to 2 MiB",
        }
    }

    /// The forwarder's settings.
    fn flags(self) -> [String; 3] {
        let (policy, large) = match self {
            Self::None => ("to", Bytes::ZERO),
            Self::Noop => ("noop", Bytes::ZERO),
            Self::Hbrr => ("hbrr", Bytes::ZERO),
            Self::HbrrBelow => ("hbrr", super::small::THRESHOLD),
        };
        [
            format!("--scheduler-policy={policy}"),
            format!("--scheduler-large-bytes={}", large.0),
            // IOFSL's batch.
            "--scheduler-run-requests-max=16".to_owned(),
        ]
    }
}

/// What the legend of a plot calls them.
pub(super) const NAMES: [&str; 4] = {
    let [none, noop, hbrr, below] = SCHEDULERS;
    [none.name(), noop.name(), hbrr.name(), below.name()]
};

/// Layout, message, and what each process writes.
const CASES: [(&str, Bytes, Bytes); 6] = [
    ("strided", Bytes::kib(8), Bytes::kib(256)),
    ("strided", AT, Bytes::kib(512)),
    ("strided", Bytes::kib(128), Bytes::mib(1)),
    ("strided", Bytes::mib(1), Bytes::mib(1)),
    ("strided", Bytes::mib(4), Bytes::mib(4)),
    ("segments", AT, Bytes::kib(512)),
];

/// What is run; a quick look has the message of the figure, in strides.
pub(super) fn plan(options: &Options) -> Plan {
    let mut cases = Vec::new();
    for (layout, message, amount) in CASES {
        let is_looked_at = message == AT && layout == "strided";
        if options.quick && !is_looked_at {
            continue;
        }
        for scheduler in SCHEDULERS {
            // Up to the threshold it is the same forwarder.
            if scheduler == Scheduler::HbrrBelow && message <= super::small::THRESHOLD {
                continue;
            }
            let parameters = [
                ("layout", Value::from(layout)),
                ("message_bytes", message.0.into()),
                ("scheduler", scheduler.name().into()),
            ];
            let workload = move |seed| match layout {
                "strided" => real::strided(seed, PROCESSES, message, amount),
                _ => real::segmented(seed, PROCESSES, message, amount),
            };
            cases.push(real::case(&parameters, &scheduler.flags(), workload));
        }
    }
    let repetitions = options.repetitions.unwrap_or(if options.quick { 1 } else { 3 }).max(1);
    Plan { figure: super::SMALL.name, cases, repetitions }
}

/// Adds rows and ratios.
pub(super) fn findings(report: &mut Report, found: &[Found]) {
    report.set("real_processes", PROCESSES);
    report.rows.extend(found.iter().flat_map(rows));
    let rate = |layout: &str, message: Bytes, scheduler: Scheduler| {
        let parameters = [
            (real::REAL.0, real::REAL.1.into()),
            ("layout", layout.into()),
            ("message_bytes", message.0.into()),
            ("scheduler", scheduler.name().into()),
        ];
        report.value("rate", &parameters)
    };
    let over = |layout, message, scheduler, other| {
        Some(rate(layout, message, scheduler)? / rate(layout, message, other)?)
    };
    let (largest, hbrr) = (Bytes::mib(4), Scheduler::Hbrr);
    let ratios = [
        ("hbrr_over_none_32k_real", over("strided", AT, hbrr, Scheduler::None)),
        ("hbrr_over_noop_32k_real", over("strided", AT, hbrr, Scheduler::Noop)),
        ("hbrr_over_none_32k_segments_real", over("segments", AT, hbrr, Scheduler::None)),
        ("hbrr_over_none_4m_real", over("strided", largest, hbrr, Scheduler::None)),
        (
            "hbrr_up_to_2m_over_none_4m_real",
            over("strided", largest, Scheduler::HbrrBelow, Scheduler::None),
        ),
    ];
    ratios.into_iter().for_each(|(name, ratio)| report.ratio(name, ratio));
}

fn rows(found: &Found) -> [Row; 4] {
    [
        found.row("rate", "MB/s", Measured::throughput),
        found.row("merged", "a batch", |run| merged(&run.counters)),
        found.row("requests", "at servers", |run| run.disk.requests as f64),
        found.row("seeks", "", |run| run.disk.seeks as f64),
    ]
}

/// Requests that left together, on average; those that met nobody, or are too long for the policy,
/// left alone.
fn merged(counters: &Value) -> f64 {
    let counted = |place| counted(counters, place);
    let alone = counted("/scheduler/bypassed");
    let left = counted("/scheduler/batches") + alone;
    if left > 0.0 { (counted("/scheduler/batched_requests") + alone) / left } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_request_that_no_policy_sees_leaves_alone() {
        let counters = |bypassed: u64, batches: u64, requests: u64| {
            json!({ "scheduler": {
                "bypassed": bypassed, "batches": batches, "batched_requests": requests,
            } })
        };
        assert_eq!(merged(&counters(0, 0, 0)), 1.0);
        assert_eq!(merged(&counters(2, 2, 10)), 3.0);
    }

    #[test]
    fn every_message_is_measured_without_and_with() {
        for quick in [true, false] {
            let plan = plan(&Options { quick, ..Options::default() });
            let of = |scheduler: Scheduler| {
                let wanted = ("scheduler", Value::from(scheduler.name()));
                plan.cases.iter().filter(|case| case.parameters.contains(&wanted)).count()
            };
            assert!(of(Scheduler::None) > 0);
            assert_eq!(of(Scheduler::None), of(Scheduler::Hbrr));
            assert_eq!(of(Scheduler::None), of(Scheduler::Noop));
            assert_eq!(of(Scheduler::HbrrBelow), usize::from(!quick));
        }
    }
}
