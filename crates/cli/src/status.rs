//! `forebay status`: what a running forwarder says of itself.

use std::process::ExitCode;
use std::time::Duration;

use forebay_client::{Connection, Endpoint, Limits, Who};
use forebay_forwarder::Status;

use crate::args::StatusArgs;
use crate::console::print;
use crate::failure::{FAILED, Failure, USAGE};
use crate::size::Size;

/// A forwarder that does not answer within this is not well: its loop never waits for anything.
const PATIENCE: Duration = Duration::from_secs(5);

/// Asks a forwarder and prints its answer.
pub(crate) fn status(args: StatusArgs) -> Result<ExitCode, Failure> {
    let endpoint: Endpoint =
        args.endpoint.parse().map_err(|error| Failure::new(USAGE, format!("{error}")))?;
    let failed = |error: &dyn std::fmt::Display| {
        Failure::new(FAILED, format!("no status from {endpoint}: {error}"))
    };
    let who = Who { job: b"", program: b"forebay status" };
    let limits = Limits { connect: PATIENCE, progress: PATIENCE };
    let mut connection =
        Connection::connect(&endpoint, &who, limits).map_err(|error| failed(&error))?;
    let text = connection.status().map_err(|error| failed(&error))?;
    if args.json {
        print(&(text + "\n"))?;
    } else {
        let status = serde_json::from_str(&text).map_err(|error| failed(&error))?;
        print(&table(&endpoint.to_string(), &status))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The status for people: one line a subject.
fn table(endpoint: &str, status: &Status) -> String {
    let Status { clients, pool, calls, scheduler, .. } = status;
    let uptime = Duration::from_nanos(status.uptime_ns).as_secs();
    let counters: String =
        status.store_counters.iter().map(|(name, count)| format!(", {name} {count}")).collect();
    let not_hooked: Vec<String> =
        status.not_hooked.iter().map(|(reason, calls)| format!("{reason} {calls}")).collect();
    let lines = [
        (
            "forwarder",
            format!(
                "{endpoint}, version {}, up {uptime} s, policy {}",
                status.version, status.policy
            ),
        ),
        (
            "clients",
            format!(
                "{} connections, {} processes so far, {} open files, {} refused, {} violations, {} stalled",
                clients.connections,
                clients.processes,
                clients.open_files,
                clients.connections_refused,
                clients.violations,
                clients.stalled
            ),
        ),
        (
            "calls",
            format!(
                "{} reads of {}, {} writes of {}, {} unanswered, {} errors",
                calls.reads,
                Size(calls.read_bytes),
                calls.writes,
                Size(calls.written_bytes),
                calls.unanswered,
                calls.errors
            ),
        ),
        (
            "merged",
            format!(
                "{} requests in {} batches of {:.1} requests and {}",
                scheduler.batched_requests,
                scheduler.batches,
                scheduler.batch_requests_mean(),
                Size(scheduler.batched_bytes / scheduler.batches.max(1)),
            ),
        ),
        (
            "bypassed",
            format!(
                "{} at once, {} with nothing to be ordered against, {} by size or kind",
                calls.immediate, scheduler.bypassed, scheduler.skipped
            ),
        ),
        (
            "waiting",
            format!(
                "{} queued, {} in flight; so far {} behind a conflict, {} for memory, {} for a better batch",
                scheduler.queued,
                scheduler.in_flight,
                scheduler.blocked,
                calls.memory_waits,
                scheduler.waits
            ),
        ),
        (
            "pool",
            format!(
                "{} of {} in use, {} at most so far",
                Size(pool.used_bytes),
                Size(pool.capacity_bytes),
                Size(pool.peak_bytes)
            ),
        ),
        ("store", format!("{}: {} calls{counters}", status.store, calls.store_calls)),
        (
            "not hooked",
            if not_hooked.is_empty() { "nothing seen".to_owned() } else { not_hooked.join(", ") },
        ),
    ];
    lines.iter().map(|(name, text)| format!("{name:<10}  {text}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_names_every_subject() {
        let mut status = Status { policy: "aioli".to_owned(), ..Status::default() };
        status.pool.capacity_bytes = 128 << 20;
        status.not_hooked.insert("mapped".to_owned(), 2);
        let text = table("unix:/x", &status);
        for part in ["unix:/x", "policy aioli", "0 B of 128.0 MiB", "mapped 2", "0 queued"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
