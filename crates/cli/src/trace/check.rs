//! `forebay trace check`: whether traces obey the laws that every trace obeys, and whether a
//! scheduler of today decides as they tell.

use std::fmt;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use forebay_trace::{Breach, Checker, Event, Laws, MAGIC, Reader, Setup};
use forebay_units::Timestamp;
use serde::Serialize;
use serde_json::json;

use super::{DAMAGES_TOLD, read_file};
use crate::console::{print, printable};
use crate::failure::{FAILED, Failure};

const HELP: &str = "\
Every request has its number once, leaves at most once and ends once after that; conflicting
requests keep their order under the recorded guard; what is cancelled has not left and does nothing
afterwards; batches are of one piece; nothing leaves beyond the depth or during a hold. The laws are
listed in docs/trace-format.md. The first event that breaks one is told, with its number from 0.

With --decisions the recorded calls are made once more, to a scheduler of this version made as the
header says, which has to decide as is recorded. That takes a trace from a scheduler's beginning.

A directory stands for every trace in it, by name; other files in it are left out.

Examples:
  forebay trace check run.trace
  forebay trace check --decisions tests/traces
  forebay trace check run.trace --json | jq '.[0].breach'

Exit code: 0 when each trace is whole and obeys; 1 when one does not, is damaged, has lost events or
cannot be read; 2 when the command line is wrong.";

/// What `forebay trace check` is told.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(super) struct CheckArgs {
    /// Traces, or directories with traces in them
    #[arg(required = true, value_name = "FILE")]
    traces: Vec<PathBuf>,
    /// Hold a scheduler's decisions against the recorded ones, too
    #[arg(long)]
    decisions: bool,
    /// Print everything as JSON
    #[arg(long)]
    json: bool,
}

/// What is wrong at one event.
#[derive(Debug, Serialize)]
struct Place {
    /// The number of the event, counted from 0.
    event: u64,
    /// Where its first byte is.
    byte: usize,
    time_ns: u64,
    text: String,
}

impl From<Breach> for Place {
    fn from(breach: Breach) -> Self {
        let Breach { event, position, time, text } = breach;
        Self { event, byte: position, time_ns: time.0, text }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { event, byte, time_ns, text } = self;
        write!(f, "event {event} (byte {byte}, {time_ns} ns): {text}")
    }
}

/// What was found of one trace.
#[derive(Debug, Default, Serialize)]
struct Finding {
    trace: PathBuf,
    /// It is whole, and breaks no law.
    obeys: bool,
    /// Events up to the breach, if there is one.
    events: u64,
    lost_events: u64,
    requests: u64,
    /// Of these, those that have not ended.
    open: u64,
    /// Whether it tells what a scheduler decided; the log of another tool does not.
    has_decisions: bool,
    /// How many decisions were the same; `None` if that was not asked for.
    same_decisions: Option<u64>,
    /// The first event that breaks a law.
    breach: Option<Place>,
    /// The first decision that is another one today.
    divergence: Option<Place>,
    /// Places that cannot be read.
    damages: Vec<String>,
    /// Why it cannot be read at all.
    error: Option<String>,
}

pub(super) fn check(args: &CheckArgs) -> Result<ExitCode, Failure> {
    let mut findings = Vec::new();
    for path in &args.traces {
        if path.is_dir() {
            findings.extend(traces_in(path)?.iter().map(|trace| find(trace, args.decisions)));
        } else {
            findings.push(find(path, args.decisions));
        }
    }
    match args.json {
        true => print(&format!("{:#}\n", json!(findings)))?,
        false => print(&findings.iter().map(Finding::text).collect::<String>())?,
    }
    let is_well = findings.iter().all(|finding| finding.obeys);
    Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}

/// The traces in a directory, by name.
fn traces_in(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let failed =
        |error: &dyn fmt::Display| Failure::new(FAILED, format!("{}: {error}", folder.display()));
    let mut traces = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(|error| failed(&error))? {
        let path = entry.map_err(|error| failed(&error))?.path();
        let is_trace = |path: &Path| -> std::io::Result<bool> {
            let mut start = [0; MAGIC.len()];
            Ok(path.is_file()
                && std::fs::File::open(path)?.read_exact(&mut start).is_ok()
                && start == MAGIC)
        };
        // One that cannot be opened is told when its turn comes.
        if is_trace(&path).unwrap_or(true) {
            traces.push(path);
        }
    }
    if traces.is_empty() {
        return Err(failed(&"no traces in it"));
    }
    traces.sort();
    Ok(traces)
}

fn find(path: &Path, with_decisions: bool) -> Finding {
    let mut finding = Finding { trace: path.to_owned(), ..Finding::default() };
    let bytes = match read_file(path) {
        Ok(bytes) => bytes,
        Err(failure) => {
            finding.error = Some(failure.to_string());
            return finding;
        }
    };
    if let Err(text) = finding.look(&bytes, with_decisions) {
        finding.error = Some(format!("{}: {text}", path.display()));
    }
    let is_whole = finding.damages.is_empty() && finding.lost_events == 0;
    let is_as_told = finding.breach.is_none() && finding.divergence.is_none();
    finding.obeys = finding.error.is_none() && is_whole && is_as_told;
    finding
}

impl Finding {
    fn look(&mut self, bytes: &[u8], with_decisions: bool) -> Result<(), String> {
        let mut reader = Reader::new(bytes).map_err(|error| error.to_string())?;
        let mut laws = Laws::of(reader.header());
        self.has_decisions = laws.has_decisions();
        let mut checker = match with_decisions {
            true => {
                let setup = Setup::of(reader.header()).map_err(|error| error.to_string())?;
                Some(Checker::new(setup.scheduler(), setup.policy_settings()))
            }
            false => None,
        };
        for found in &mut reader {
            let record = match found {
                Ok(record) => record,
                Err(damage) => {
                    self.damages.push(damage.to_string());
                    laws.forget();
                    checker = None;
                    continue;
                }
            };
            let event = laws.totals().events;
            if let Err(breach) = laws.take(&record) {
                self.breach = Some(breach.into());
                break;
            }
            if let Event::Lost { .. } = record.event {
                checker = None;
            }
            let Some(checker) = checker.as_mut().filter(|_| self.divergence.is_none()) else {
                continue;
            };
            if let Err(divergence) = checker.check(&record) {
                let (byte, Timestamp(time_ns)) = (divergence.position, divergence.time);
                self.divergence = Some(Place { event, byte, time_ns, text: divergence.text });
            }
        }
        let totals = laws.totals();
        (self.events, self.lost_events) = (totals.events, totals.lost_events);
        (self.requests, self.open) = (laws.requests_count(), laws.open_count());
        self.same_decisions = checker.map(|checker| checker.decisions_count());
        if self.breach.is_none() && self.damages.is_empty() {
            self.breach = laws.finish(reader.totals()).err().map(Into::into);
        }
        Ok(())
    }

    /// Lines for people.
    fn text(&self) -> String {
        let name = printable(&self.trace.display().to_string());
        if let Some(error) = &self.error {
            return format!("{}\n", printable(error));
        }
        let mut lines = Vec::new();
        lines.extend(self.breach.as_ref().map(|breach| format!("{name}: {breach}")));
        let differs = |place: &Place| format!("{name}: decided otherwise today: {place}");
        lines.extend(self.divergence.as_ref().map(differs));
        lines.extend(self.damages.iter().take(DAMAGES_TOLD).map(|text| format!("{name}: {text}")));
        if let Some(more) = self.damages.len().checked_sub(DAMAGES_TOLD).filter(|more| *more > 0) {
            lines.push(format!("{name}: and {more} more such places"));
        }
        if self.lost_events > 0 {
            lines.push(format!("{name}: {} events were lost while recording", self.lost_events));
        }
        if self.obeys {
            let Self { events, requests, open, .. } = self;
            let of_what = if self.has_decisions { "" } else { " (a log without decisions)" };
            let same = self.same_decisions;
            let same = same.map(|count| format!(", {count} decisions as recorded"));
            lines.push(format!(
                "{name}: obeys{of_what}: {events} events, {requests} requests, {open} of them open{}",
                same.unwrap_or_default()
            ));
        }
        lines.iter().map(|line| format!("{}\n", printable(line))).collect()
    }
}
