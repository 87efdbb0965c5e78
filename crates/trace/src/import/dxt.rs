//! Darshan's extended traces, as text: the output of `darshan-dxt-parser`.
//!
//! Source: Darshan 3.4, `darshan-util` documentation, "Guide to darshan-dxt-parser output".
//!
//! ```text
//! # DXT, file_id: NUMBER, file_name: NAME
//! # DXT, rank: NUMBER, hostname: NAME
//! # Module    Rank  Wt/Rd  Segment          Offset       Length    Start(s)      End(s)
//!  X_POSIX       0  write        0               0       262144      0.0029      0.0032  [OST] …
//! ```
//!
//! Times are seconds since the job's start, to 0.1 ms. A rank is a client. Rows of the MPI-IO
//! module show accesses that the POSIX module shows again below them, so they are left out unless
//! there are no others. Accesses of no byte are left out.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use forebay_sched::Access;
use forebay_units::{ClientId, Nanos, Timestamp};

use super::{ImportError, Imported, ImportedRequest, number, range};

const SIGN: &str = "# DXT, ";

/// Whether a line shows that this is such a text.
pub(super) fn is_sign(line: &str) -> bool {
    line.starts_with(SIGN) || line.starts_with("# darshan log version")
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Module {
    Posix,
    MpiIo,
}

pub(super) fn read(into: &mut Imported, text: &str) -> Result<(), ImportError> {
    into.set_kind("Darshan DXT", true, 1)?;
    let mut clients: BTreeMap<i64, ClientId> = BTreeMap::new();
    let mut name: Option<String> = None;
    let mut host = String::new();
    let mut found: Vec<(Module, ImportedRequest)> = Vec::new();
    for (line, content) in (1..).zip(text.lines()) {
        let wrong = |text: String| ImportError { line, text };
        if let Some(told) = content.strip_prefix(SIGN) {
            if let Some((_, file)) = told.split_once("file_name: ") {
                name = Some(file.trim_end().into());
            } else if let Some((_, of)) = told.split_once("hostname: ") {
                host = of.trim_end().into();
            }
            continue;
        }
        let content = content.trim();
        if content.is_empty() || content.starts_with('#') {
            continue;
        }
        let fields: Vec<&str> = content.split_ascii_whitespace().collect();
        let [module, rank, direction, _segment, offset, length, start, end, ref more @ ..] =
            fields[..]
        else {
            return Err(wrong(format!(
                "\"{}\" has {} columns of the 8 of a row: Module Rank Wt/Rd Segment Offset Length Start End",
                content.chars().take(80).collect::<String>(),
                fields.len()
            )));
        };
        if more.iter().any(|field| !is_stripe(field)) {
            return Err(wrong(format!(
                "more than 8 columns, and \"{}\" is not an OST in brackets",
                more.join(" ").chars().take(80).collect::<String>()
            )));
        }
        let module = match module {
            "X_POSIX" => Module::Posix,
            "X_MPIIO" => Module::MpiIo,
            other => {
                return Err(wrong(format!(
                    "module \"{other}\" is not known; known: X_POSIX, X_MPIIO"
                )));
            }
        };
        let access = match direction {
            "read" => Access::Read,
            "write" => Access::Write,
            other => {
                return Err(wrong(format!("direction \"{other}\" is neither read nor write")));
            }
        };
        let Some(file) = &name else {
            return Err(wrong("a row before any \"# DXT, file_id: …, file_name: …\"".into()));
        };
        let rank: i64 = rank
            .parse()
            .map_err(|_| wrong(format!("the rank is \"{rank}\"; it has to be a whole number")))?;
        if offset == "N/A" {
            // Older versions do not know where MPI-IO accesses went.
            into.left_out += 1;
            continue;
        }
        let start_byte = number(line, "the offset", offset)?;
        let range = range(line, start_byte, number(line, "the length", length)?)?;
        let [from, to] = [start, end].map(|text| {
            seconds(text).ok_or_else(|| {
                wrong(format!("the time is \"{text}\"; it has to be seconds such as 0.0029"))
            })
        });
        let (from, to) = (from?, to?);
        if range.is_empty() {
            into.left_out += 1;
            continue;
        }
        let client = match clients.get(&rank) {
            Some(client) => *client,
            None => {
                let client = into.client(&format!("rank {rank} {host}"));
                clients.insert(rank, client);
                client
            }
        };
        let file = into.file(file);
        let (at, took) = (Timestamp(from.0), Nanos(to.0.saturating_sub(from.0)));
        found.push((module, ImportedRequest { at, took, client, file, access, range }));
    }
    let wanted = match found.iter().any(|(module, _)| *module == Module::Posix) {
        true => Module::Posix,
        false => Module::MpiIo,
    };
    let all = found.len();
    let before = into.requests.len();
    into.requests.extend(
        found.into_iter().filter(|(module, _)| *module == wanted).map(|(_, request)| request),
    );
    into.left_out += (all - (into.requests.len() - before)) as u64;
    Ok(())
}

/// Whether a further column names a Lustre target: `[12]`, also with the spaces that its width brings.
fn is_stripe(field: &str) -> bool {
    let inner = field.trim_start_matches('[').trim_end_matches(']');
    field.contains(['[', ']']) && inner.trim_start_matches('-').chars().all(|c| c.is_ascii_digit())
}

/// Seconds with up to nine decimals; more are cut off.
fn seconds(text: &str) -> Option<Nanos> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !is_number(whole) || !is_number(decimals) {
        return None;
    }
    let whole: u64 = whole.parse().ok()?;
    let decimals = decimals.bytes().chain(core::iter::repeat(b'0')).take(9);
    let fraction = decimals.fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0'));
    whole.checked_mul(1_000_000_000)?.checked_add(fraction).map(Nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_read_without_rounding() {
        let cases = [("0.0029", 2_900_000), ("4", 4_000_000_000), ("1.0000000019", 1_000_000_001)];
        for (text, ns) in cases {
            assert_eq!(seconds(text), Some(Nanos(ns)), "{text}");
        }
        for text in ["", ".5", "-1.0", "1e3", "1.x", "99999999999999999999"] {
            assert_eq!(seconds(text), None, "{text}");
        }
    }
}
