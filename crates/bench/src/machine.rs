//! Where a suite runs: the machine as reports describe it, and a place for its files.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{statfs, statvfs};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::error::Error;
use crate::report::Report;

/// `statfs`'s number for tmpfs.
const TMPFS: i64 = 0x0102_1994;

const SHARED_MEMORY: &str = "/dev/shm";

/// A folder for `bytes` of files, in memory where there is room: a modelled disk should be the
/// only disk. It is deleted when dropped.
pub(crate) fn scratch(bytes: u64) -> Result<TempDir, Error> {
    let has_room = |path: &Path| {
        statvfs(path)
            .is_ok_and(|stat| stat.f_bavail.saturating_mul(stat.f_frsize) > bytes.saturating_mul(2))
    };
    let elsewhere = std::env::temp_dir();
    let candidates = [Path::new(SHARED_MEMORY), &elsewhere];
    let named =
        |parent: &Path| tempfile::Builder::new().prefix("forebay-bench-").tempdir_in(parent);
    let mut folders = candidates.iter().filter(|path| has_room(path)).map(|path| named(path));
    folders.find_map(Result::ok).ok_or_else(|| {
        let places = format!("{SHARED_MEMORY} or {}", elsewhere.display());
        Error::fix(format!(
            "no room for {} MB in {places}; set TMPDIR to a larger place",
            bytes.saturating_mul(2) / 1_000_000
        ))
    })
}

/// What kind of file system a folder is on.
pub(crate) fn file_system(folder: &Path) -> String {
    match statfs(folder) {
        Ok(stat) if stat.f_type == TMPFS => "tmpfs".to_owned(),
        Ok(stat) => format!("file system {:#x}", stat.f_type),
        Err(errno) => format!("unknown: {errno}"),
    }
}

/// How many processes wanted to run in the last minute: others than the suite's falsify its figures.
pub(crate) fn load() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/loadavg").ok()?;
    text.split(' ').next()?.parse().ok()
}

/// Adds what every report says of its circumstances.
pub(crate) fn describe(report: &mut Report) {
    report.set("version", env!("CARGO_PKG_VERSION"));
    report.set("time", iso(seconds_now()));
    report.set("machine", machine());
    report.set("commit", option_env!("FOREBAY_COMMIT").unwrap_or("unknown: built without git"));
    if cfg!(debug_assertions) {
        report.set("build", "debug");
        report.notes.push("built without optimisation: a look, not a measurement".to_owned());
    }
}

fn machine() -> Value {
    let uname = rustix::system::uname();
    let text = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
    json!({
        "processor": field("/proc/cpuinfo", "model name"),
        "processors": std::thread::available_parallelism().map_or(0, usize::from),
        "memory": field("/proc/meminfo", "MemTotal"),
        "system": format!("{} {}", text(uname.sysname()), text(uname.release())),
        "distribution": field("/etc/os-release", "PRETTY_NAME"),
        "host": text(uname.nodename()),
    })
}

/// The host's name without its domain.
pub(crate) fn host() -> String {
    let uname = rustix::system::uname();
    let name = uname.nodename().to_string_lossy().into_owned();
    name.split('.').next().filter(|host| !host.is_empty()).unwrap_or("host").to_owned()
}

/// The first value of a name in a file of `name: value` or `name=value` lines.
fn field(path: &str, name: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    let mut pairs = text.lines().filter_map(|line| line.split_once([':', '=']));
    let (_, value) = pairs.find(|(key, _)| key.trim() == name)?;
    Some(value.trim().trim_matches('"').to_owned())
}

/// Today, as `2026-01-31`, in UTC.
pub(crate) fn today() -> String {
    iso(seconds_now())[..10].to_owned()
}

/// A number that is another one in every run, short enough to be typed.
pub(crate) fn seed_of_now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::from(since.subsec_nanos()) % 1_000_000
}

fn seconds_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Seconds since 1970 as `2026-01-31T12:00:00Z`.
fn iso(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Days since 1 March of year 0, in eras of 400 years; the year begins in March, so that the
    // leap day is its last (Hinnant, "chrono-compatible low-level date algorithms").
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (rest / 3_600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_right_around_leap_days() {
        let dates =
            [0, 951_782_399, 951_782_400, 1_000_000_000, 1_709_164_800, 4_107_542_400].map(iso);
        assert_eq!(
            dates,
            [
                "1970-01-01T00:00:00Z",
                "2000-02-28T23:59:59Z",
                "2000-02-29T00:00:00Z",
                "2001-09-09T01:46:40Z",
                "2024-02-29T00:00:00Z",
                "2100-03-01T00:00:00Z",
            ]
        );
    }

    #[test]
    fn scratch_is_gone_when_dropped() {
        let folder = scratch(1 << 20).unwrap();
        let path = folder.path().to_owned();
        assert!(path.is_dir());
        drop(folder);
        assert!(!path.exists());
    }

    #[test]
    fn more_than_there_is_room_for_is_refused() {
        assert!(scratch(u64::MAX / 4).unwrap_err().to_string().contains("TMPDIR"));
    }
}
