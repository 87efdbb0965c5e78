//! What AGIOS's configuration file says, checked.
//!
//! ```text
//! libconfig   the syntax          algorithm   names of algorithms
//! reader      keys and ranges     weights     WFQ's second file
//! ```
//!
//! A value that cannot be used ends the start, with file, line, key, value and remedy; all of a
//! file's are told at once. A key that is left out and would have mattered is told with the default
//! that holds instead. Nothing is replaced in silence.

use std::ffi::OsStr;
use std::fmt;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use forebay_units::{Bytes, Nanos};

mod algorithm;
mod libconfig;
mod reader;
mod weights;

pub(crate) use algorithm::Algorithm;
use reader::Group;

/// Where the configuration is looked for if the program names no file.
pub(crate) const DEFAULT_FILE: &str = "/etc/agios.conf";

/// The largest configuration file or file of weights that is read.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// A configuration that can be used.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Config {
    /// `default_algorithm`.
    pub(crate) algorithm: Algorithm,
    /// `waiting_time`: the longest that aIOLi waits for a better batch.
    pub(crate) waiting_time: Nanos,
    /// `aioli_quantum`.
    pub(crate) aioli_quantum: Bytes,
    /// `mlf_quantum`.
    pub(crate) mlf_quantum: Bytes,
    /// `SW_window`.
    pub(crate) sw_window: Nanos,
    /// `twins_window`.
    pub(crate) twins_window: Nanos,
    /// The weights in the file `wfq_conf`, by queue id; empty unless the algorithm is WFQ.
    pub(crate) weights: Vec<u32>,
    /// Where to write traces, if `trace` is on.
    pub(crate) trace: Option<Trace>,
    /// `forebay.queue_requests_max`: most requests that wait.
    pub(crate) queue_requests_max: u32,
    /// `forebay.in_flight_max`: most requests that are with the program.
    pub(crate) in_flight_max: u32,
    /// `forebay.rotating`: whether the storage has an arm that moves.
    pub(crate) is_rotating: bool,
}

/// What to write traces with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trace {
    /// `trace_file_prefix`.
    pub(crate) prefix: PathBuf,
    /// `trace_file_sufix`.
    pub(crate) suffix: PathBuf,
    /// `max_trace_buffer_size`.
    pub(crate) buffer: Bytes,
}

/// A configuration, and what the user should be told about it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Loaded {
    /// The configuration.
    pub(crate) config: Config,
    /// One line each: defaults that hold, keys that nobody reads.
    pub(crate) remarks: Vec<String>,
}

/// Why there is no configuration: one line for each thing to correct.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConfigError(Vec<String>);

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("\n"))
    }
}

impl std::error::Error for ConfigError {}

impl Config {
    /// Reads the file `named` by the program, or the one at `default`, of which AGIOS documents
    /// that it may be absent. `queues` is `max_queue_id` as the program gave it.
    pub(crate) fn load(
        named: Option<&Path>,
        default: &Path,
        queues: u32,
    ) -> Result<Loaded, ConfigError> {
        let path = named.unwrap_or(default);
        let text = match read(path) {
            Ok(text) => text,
            Err(error) if named.is_none() && error.kind() == io::ErrorKind::NotFound => {
                return Ok(Loaded::defaults(path));
            }
            Err(error) => {
                return Err(ConfigError(vec![format!(
                    "{}: {error}; give agios_init the path of a file that can be read, or NULL for {DEFAULT_FILE}",
                    path.display()
                )]));
            }
        };
        Self::parse(&text, path, queues)
    }

    /// Reads a configuration from `text`; `path` is for messages.
    fn parse(text: &[u8], path: &Path, queues: u32) -> Result<Loaded, ConfigError> {
        let settings = libconfig::parse(text).map_err(|error| {
            ConfigError(vec![format!("{}:{}: {}", path.display(), error.line, error.what)])
        })?;
        let mut group = Group::new(path, &settings);
        let config = Self::from_group(&mut group, queues);
        let (complaints, remarks) = group.into_messages();
        match config {
            Some(config) if complaints.is_empty() => Ok(Loaded { config, remarks }),
            _ => Err(ConfigError(complaints)),
        }
    }

    /// `None` if something was complained about.
    fn from_group(group: &mut Group<'_>, queues: u32) -> Option<Self> {
        group.enter("library_options")?;
        let algorithm = group.algorithm("default_algorithm");
        let is = |wanted| algorithm == Some(wanted);
        let waiting_time = group.integer(
            "waiting_time",
            900_000,
            0..=i64::from(i32::MAX),
            "ns",
            is(Algorithm::Aioli),
        );
        let aioli_quantum =
            group.integer("aioli_quantum", 8_192, 512..=1 << 30, "bytes", is(Algorithm::Aioli));
        let mlf_quantum =
            group.integer("mlf_quantum", 8_192, 4_096..=1 << 30, "bytes", is(Algorithm::Mlf));
        let sw_window = group.integer("SW_window", 1_000, 1..=60_000, "ms", is(Algorithm::Sw));
        let twins_window =
            group.integer("twins_window", 1_000, 1..=60_000_000, "us", is(Algorithm::Twins));
        let trace = if group.boolean("trace", false) { Trace::from_group(group) } else { None };
        // Without a trace nobody minds what these say.
        for key in ["trace_file_prefix", "trace_file_sufix"] {
            group.is_set(key);
        }
        let buffer_range = 1..=1 << 20;
        let buffer =
            group.integer("max_trace_buffer_size", 1_024, buffer_range, "KiB", trace.is_some());
        let wfq_conf = if is(Algorithm::Wfq) {
            group.path("wfq_conf", "default_algorithm is WFQ")
        } else {
            group.is_set("wfq_conf");
            None
        };
        // These tell AGIOS's own algorithms that choose others how to; the one here goes by what it
        // measures.
        group.integer("performance_values", 5, 0..=i64::from(i32::MAX), "", false);
        group.integer("select_algorithm_period", -1, -1..=i64::from(i32::MAX), "ms", false);
        group.integer("select_algorithm_min_reqnumber", 1, 0..=i64::from(i32::MAX), "", false);
        group.boolean("enable_SW", false);
        if group.is_set("starting_algorithm") {
            group.algorithm("starting_algorithm");
        }
        group.leave();

        group.enter_optional("forebay");
        let queue_requests_max =
            group.integer("queue_requests_max", 1 << 20, 1..=1 << 24, "requests", false);
        let in_flight_max = group.integer("in_flight_max", 1 << 16, 1..=1 << 20, "requests", false);
        let is_rotating = group.boolean("rotating", true);
        group.leave();

        let weights = wfq_conf.map(|path| load_weights(&path, queues)).transpose();
        let weights = weights.map_err(|complaint| group.complain(complaint)).ok()?;
        let unsigned = |number: i64| number.unsigned_abs();
        Some(Self {
            algorithm: algorithm?,
            waiting_time: Nanos(unsigned(waiting_time)),
            aioli_quantum: Bytes(unsigned(aioli_quantum)),
            mlf_quantum: Bytes(unsigned(mlf_quantum)),
            sw_window: Nanos::millis(unsigned(sw_window)),
            twins_window: Nanos::micros(unsigned(twins_window)),
            weights: weights.unwrap_or_default(),
            trace: trace.map(|trace| Trace { buffer: Bytes::kib(unsigned(buffer)), ..trace }),
            queue_requests_max: u32::try_from(queue_requests_max).ok()?,
            in_flight_max: u32::try_from(in_flight_max).ok()?,
            is_rotating,
        })
    }
}

impl Trace {
    /// The file's two parts; the buffer is read beside them.
    fn from_group(group: &mut Group<'_>) -> Option<Self> {
        let prefix = group.path("trace_file_prefix", "trace is true")?;
        let suffix = group.path("trace_file_sufix", "trace is true")?;
        Some(Self { prefix, suffix, buffer: Bytes::ZERO })
    }
}

impl Loaded {
    /// What AGIOS documents for a default file that is not there: SJF with default values.
    fn defaults(path: &Path) -> Self {
        let text = b"library_options: { default_algorithm = \"SJF\" }";
        let mut loaded = Config::parse(text, path, 0).expect("the text above is right");
        loaded.remarks = vec![format!(
            "{} does not exist and the program names no other file; SJF with default values is used",
            path.display()
        )];
        loaded
    }
}

fn load_weights(path: &Path, queues: u32) -> Result<Vec<u32>, String> {
    let text = read(path).map_err(|error| {
        format!("{}: {error}; wfq_conf names the file of weights", path.display())
    })?;
    let queues = usize::try_from(queues.max(1)).unwrap_or(usize::MAX);
    weights::parse(&text, queues).map_err(|complaint| format!("{}: {complaint}", path.display()))
}

/// The whole file, if it is of a reasonable size.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    std::fs::File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_end(&mut text)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        let what = format!("larger than {FILE_BYTES_MAX} bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidData, what));
    }
    Ok(text)
}

fn path_from(text: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(text))
}

#[cfg(test)]
mod tests;
