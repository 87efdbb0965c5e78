//! What the environment said when the program started.
//!
//! Read once, by the constructor, from the block that the kernel passed: later the program may
//! have changed or overwritten it. Reading makes no system call and allocates nothing (a bad
//! endpoint's message excepted), because every program of a job pays for it.

use core::fmt::Write;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;

use forebay_client::Endpoint;

use crate::sys::Filled;
use crate::text::Text;

/// How long without progress until the forwarder counts as lost, unless set.
const TIMEOUT_MS_DEFAULT: u32 = 30_000;

/// The longest time-out that can be set: an hour.
const TIMEOUT_MS_MAX: u32 = 3_600_000;

/// Where the name of the job is looked for: ours, then those that batch systems set. The first that
/// is set and not empty counts; without any, the forwarder goes by the user.
const JOB_VARIABLES: [&[u8]; 4] = [b"FOREBAY_JOB", b"SLURM_JOB_ID", b"PBS_JOBID", b"FLUX_JOB_ID"];

/// What to do when there is no forwarder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnFailure {
    /// The call fails with `EIO`.
    Fail,
    /// The call goes to the kernel, as if Forebay were not there.
    Direct,
}

/// The environment's `FOREBAY_` variables.
pub(crate) struct Settings {
    /// Where the forwarder is.
    pub(crate) endpoint: Option<Endpoint>,
    /// Colon-separated absolute prefixes.
    pub(crate) paths: Text<8192>,
    /// The directory on this node that is the forwarder's export (TCP only).
    pub(crate) export: Text<4096>,
    /// What to do when there is no forwarder.
    pub(crate) on_failure: OnFailure,
    /// Limit for connecting and for a call without progress.
    pub(crate) timeout: Duration,
    /// Whether to print a summary at exit.
    pub(crate) report: bool,
    /// The job that this process belongs to; empty if nobody said.
    pub(crate) job: Text<64>,
    /// Shell command that starts the node's forwarder.
    pub(crate) start: Text<4096>,
    /// What is wrong with the settings; told when the first file matches, not to every `ls`.
    pub(crate) problem: Text<512>,
}

static WROTE_ELSEWHERE: AtomicBool = AtomicBool::new(false);

static SETTINGS: Filled<Settings> = Filled::new(Settings::new());

/// The settings, when the constructor has run and an endpoint and paths were given.
pub(crate) fn current() -> Option<&'static Settings> {
    SETTINGS.get().filter(|settings| settings.is_on())
}

/// Takes the settings from the environment's `NAME=value` entries.
#[cfg_attr(test, allow(dead_code, reason = "the constructor is not part of tests"))]
pub(crate) fn load<'e>(environment: impl Iterator<Item = &'e [u8]>) {
    SETTINGS.fill(|settings| settings.read(environment));
}

impl Settings {
    const fn new() -> Self {
        Self {
            endpoint: None,
            paths: Text::new(),
            export: Text::new(),
            on_failure: OnFailure::Direct,
            timeout: Duration::from_millis(TIMEOUT_MS_DEFAULT as u64),
            report: false,
            job: Text::new(),
            start: Text::new(),
            problem: Text::new(),
        }
    }

    /// Whether the forwarder is on this node: it shares this kernel's pages, sizes and descriptors.
    pub(crate) fn is_local(&self) -> bool {
        matches!(self.endpoint, Some(Endpoint::Unix(_)))
    }

    /// Remembers that bytes were written through a forwarder on another node.
    pub(crate) fn note_write(&self) {
        if !self.is_local() {
            WROTE_ELSEWHERE.store(true, Ordering::Relaxed);
        }
    }

    /// Whether bytes were written through a forwarder on another node.
    pub(crate) fn wrote_elsewhere(&self) -> bool {
        WROTE_ELSEWHERE.load(Ordering::Relaxed)
    }

    fn is_on(&self) -> bool {
        !self.paths.is_empty() && (self.endpoint.is_some() || !self.problem.is_empty())
    }

    fn read<'e>(&mut self, environment: impl Iterator<Item = &'e [u8]>) {
        let mut job_rank = JOB_VARIABLES.len();
        for entry in environment {
            let Some(equals) = entry.iter().position(|&byte| byte == b'=') else { continue };
            let (name, value) = (&entry[..equals], &entry[equals + 1..]);
            if let Some(name) = name.strip_prefix(b"FOREBAY_") {
                self.set(name, value);
            }
            let rank = JOB_VARIABLES.iter().position(|known| *known == name);
            if let Some(rank) = rank.filter(|rank| *rank < job_rank && !value.is_empty()) {
                job_rank = rank;
                self.job = Text::new();
                self.job.push(value);
            }
        }
    }

    fn set(&mut self, name: &[u8], value: &[u8]) {
        match name {
            b"ENDPOINT" => match core::str::from_utf8(value).ok().map(str::parse::<Endpoint>) {
                Some(Ok(endpoint)) => self.endpoint = Some(endpoint),
                Some(Err(error)) => self.complain(format_args!("FOREBAY_ENDPOINT: {error}")),
                None => self.complain(format_args!(
                    "FOREBAY_ENDPOINT: expected unix:/path or tcp:address:port"
                )),
            },
            b"PATHS" => self.set_paths(value),
            b"EXPORT" if value.starts_with(b"/") && value.len() < 4096 => self.export.push(value),
            b"EXPORT" => self.complain(format_args!("FOREBAY_EXPORT: expected an absolute path")),
            b"ON_FAILURE" => match value {
                b"fail" => self.on_failure = OnFailure::Fail,
                b"direct" => self.on_failure = OnFailure::Direct,
                _ => self.complain(format_args!("FOREBAY_ON_FAILURE: expected fail or direct")),
            },
            b"TIMEOUT_MS" => match number(value).filter(|ms| (1..=TIMEOUT_MS_MAX).contains(ms)) {
                Some(ms) => self.timeout = Duration::from_millis(u64::from(ms)),
                None => self
                    .complain(format_args!("FOREBAY_TIMEOUT_MS: expected 1 to {TIMEOUT_MS_MAX}")),
            },
            b"REPORT" => match value {
                b"1" => self.report = true,
                b"0" | b"" => self.report = false,
                _ => self.complain(format_args!("FOREBAY_REPORT: expected 0 or 1")),
            },
            b"START" if value.len() < 4096 => self.start.push(value),
            b"START" => self.complain(format_args!("FOREBAY_START: expected at most 4095 bytes")),
            // Other names are the forwarder's.
            _ => {}
        }
    }

    fn set_paths(&mut self, value: &[u8]) {
        let absolute = value.split(|&byte| byte == b':').all(|path| path.starts_with(b"/"));
        if !absolute && !value.is_empty() {
            self.complain(format_args!(
                "FOREBAY_PATHS: expected absolute paths, separated by colons"
            ));
        }
        self.paths.push(value);
        if self.paths.is_cut() {
            self.complain(format_args!("FOREBAY_PATHS: expected at most 8192 bytes"));
        }
    }

    /// Keeps the first problem.
    fn complain(&mut self, what: core::fmt::Arguments<'_>) {
        if self.problem.is_empty() {
            let _ = self.problem.write_fmt(what);
        }
    }
}

fn number(digits: &[u8]) -> Option<u32> {
    core::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(environment: &[&str]) -> Settings {
        let mut settings = Settings::new();
        settings.read(environment.iter().map(|entry| entry.as_bytes()));
        settings
    }

    #[test]
    fn endpoint_and_paths_switch_it_on() {
        assert!(!settings(&["HOME=/root"]).is_on());
        assert!(!settings(&["FOREBAY_ENDPOINT=unix:/x"]).is_on());
        let on = settings(&[
            "FOREBAY_ENDPOINT=unix:/x",
            "FOREBAY_PATHS=/a:/b",
            "FOREBAY_TIMEOUT_MS=250",
        ]);
        assert!(on.is_on());
        assert!(on.problem.is_empty());
        assert_eq!(on.timeout, Duration::from_millis(250));
        assert_eq!(on.on_failure, OnFailure::Direct);
    }

    #[test]
    fn the_job_is_the_one_that_was_named_or_else_the_batch_systems() {
        let job = |environment: &[&str]| settings(environment).job.as_bytes().to_vec();
        assert_eq!(job(&["HOME=/"]), b"");
        assert_eq!(job(&["FLUX_JOB_ID=f1", "PBS_JOBID=7.host"]), b"7.host");
        assert_eq!(job(&["SLURM_JOB_ID=42", "PBS_JOBID=7.host"]), b"42");
        assert_eq!(job(&["SLURM_JOB_ID=42", "FOREBAY_JOB=climate"]), b"climate");
        assert_eq!(job(&["FOREBAY_JOB=climate", "SLURM_JOB_ID=42"]), b"climate");
        assert_eq!(job(&["FOREBAY_JOB=", "SLURM_JOB_ID=42"]), b"42");
        assert_eq!(job(&["SLURM_JOB_IDS=1", "SLURM_JOB=2"]), b"");
    }

    #[test]
    fn a_bad_value_is_named_with_what_was_expected() {
        for entry in [
            "FOREBAY_ENDPOINT=nowhere",
            "FOREBAY_PATHS=/a:relative",
            "FOREBAY_ON_FAILURE=panic",
            "FOREBAY_TIMEOUT_MS=0",
            "FOREBAY_REPORT=yes",
            "FOREBAY_EXPORT=export",
        ] {
            let wrong = settings(&["FOREBAY_PATHS=/a", entry]);
            let problem = core::str::from_utf8(wrong.problem.as_bytes()).expect("text");
            let name = entry.split('=').next().expect("name");
            assert!(problem.starts_with(name) && problem.contains("expected"), "{problem}");
            assert!(wrong.is_on(), "a wrong setting is told, not ignored");
        }
    }
}
