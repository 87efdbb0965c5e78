//! What a run amounted to: forwarded, merged, bypassed, and not hooked.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

use forebay_forwarder::Status;
use serde::Serialize;

use crate::args::RunArgs;
use crate::console::say;
use crate::failure::{Failure, RUN_FAILED};
use crate::size::Size;

/// The end of a run, for people ([`fmt::Display`]) and for programs (JSON).
#[derive(Serialize)]
pub(super) struct Report<'a> {
    /// The program and its arguments.
    #[serde(serialize_with = "lossy")]
    pub(super) command: &'a [OsString],
    /// The code that `forebay run` ends with.
    pub(super) exit_code: u8,
    /// What went through the forwarder lies under these.
    pub(super) paths: &'a [PathBuf],
    /// The forwarder's last word.
    pub(super) status: &'a Status,
}

fn lossy<S: serde::Serializer>(words: &[OsString], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(words.iter().map(|word| word.to_string_lossy()))
}

impl Report<'_> {
    /// Writes the report where and how the user wants it.
    pub(super) fn write(&self, args: &RunArgs) -> Result<(), Failure> {
        let json = || serde_json::to_string_pretty(self).expect("a report has string keys only");
        match &args.report {
            Some(path) => std::fs::write(path, json() + "\n").map_err(|error| {
                Failure::new(RUN_FAILED, format!("--report {}: {error}", path.display()))
            }),
            None if args.json => {
                say(format_args!("{}", json()));
                Ok(())
            }
            None => {
                say(format_args!("{}", self.to_string().trim_end()));
                Ok(())
            }
        }
    }
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Status { clients, calls, scheduler, .. } = self.status;
        writeln!(
            f,
            "forebay: {} read in {} calls, {} written in {} calls, by {} processes",
            Size(calls.read_bytes),
            calls.reads,
            Size(calls.written_bytes),
            calls.writes,
            clients.processes
        )?;
        if clients.processes == 0 {
            let paths: Vec<String> =
                self.paths.iter().map(|path| path.display().to_string()).collect();
            return writeln!(
                f,
                "  nothing under {} was read or written through a hooked call",
                paths.join(", ")
            );
        }
        writeln!(
            f,
            "  merged      {} requests in {} batches, {:.1} requests and {} a batch ({})",
            scheduler.batched_requests,
            scheduler.batches,
            scheduler.batch_requests_mean(),
            Size(scheduler.batched_bytes / scheduler.batches.max(1)),
            self.status.policy
        )?;
        writeln!(
            f,
            "  bypassed    {} served at once, {} with nothing to be ordered against, {} by size or kind",
            calls.immediate, scheduler.bypassed, scheduler.skipped
        )?;
        writeln!(
            f,
            "  at store    {} calls, {}{}",
            calls.store_calls,
            self.status.store,
            self.store_counters()
        )?;
        if calls.errors > 0 {
            writeln!(f, "  errors      {}", calls.errors)?;
        }
        writeln!(f, "  not hooked  {}", self.not_hooked())
    }
}

impl Report<'_> {
    fn store_counters(&self) -> String {
        self.status.store_counters.iter().map(|(name, count)| format!(", {name} {count}")).collect()
    }

    fn not_hooked(&self) -> String {
        let seen = self.status.not_hooked.iter().filter(|(_, calls)| **calls > 0);
        let texts: Vec<String> = seen.map(|(reason, calls)| format!("{reason} {calls}")).collect();
        if texts.is_empty() { "nothing seen".to_owned() } else { texts.join(", ") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_of(status: &Status) -> String {
        let paths = [PathBuf::from("/data")];
        Report { command: &["dd".into()], exit_code: 0, paths: &paths, status }.to_string()
    }

    #[test]
    fn a_run_that_used_nothing_says_what_was_watched() {
        let text = text_of(&Status::default());
        assert!(text.contains("nothing under /data"), "{text}");
    }

    #[test]
    fn the_report_names_what_was_merged_and_what_was_not_hooked() {
        let mut status = Status { policy: "aioli".to_owned(), ..Status::default() };
        status.clients.processes = 2;
        status.scheduler.batches = 4;
        status.scheduler.batched_requests = 32;
        status.scheduler.batched_bytes = 4 << 20;
        status.not_hooked.insert("mmap".to_owned(), 3);
        status.not_hooked.insert("sendfile".to_owned(), 0);
        let text = text_of(&status);
        assert!(
            text.contains("32 requests in 4 batches, 8.0 requests and 1.0 MiB a batch (aioli)"),
            "{text}"
        );
        assert!(text.contains("not hooked  mmap 3\n"), "{text}");
    }
}
