//! fio's I/O logs, versions 2 and 3, as `write_iolog` writes and `read_iolog` reads them.
//!
//! Source: fio(1), "TRACE FILE FORMAT" (3.33). Fields are separated by white space, so names have none.
//!
//! ```text
//! version 2   NAME add|open|close        NAME read|write|sync|datasync|trim|wait OFFSET LENGTH
//! version 3   TIME NAME add|open|close   TIME NAME read|write|sync|datasync|trim OFFSET LENGTH
//! ```
//!
//! TIME is in microseconds since the start. `wait` waits for OFFSET microseconds; fio's own replay
//! passes over waits below 100, here they count. When requests ended is not in these logs. A log is
//! one client.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use forebay_sched::Access;
use forebay_units::{ByteRange, Nanos, Timestamp};

use super::{ImportError, Imported, ImportedRequest, number, range};

pub(super) const VERSION_2: &str = "fio version 2 iolog";
pub(super) const VERSION_3: &str = "fio version 3 iolog";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    Two,
    Three,
}

/// The version that a first line names.
pub(super) fn version(first: &str) -> Option<Version> {
    match first {
        VERSION_2 => Some(Version::Two),
        VERSION_3 => Some(Version::Three),
        _ => None,
    }
}

pub(super) fn read(into: &mut Imported, version: Version, text: &str) -> Result<(), ImportError> {
    into.set_kind("fio iolog", false, 1)?;
    let client = into.client(&format!("log {}", into.clients.len() + 1));
    let mut added: BTreeSet<String> = BTreeSet::new();
    let mut now_us = 0_u64;
    for (line, content) in (1..).zip(text.lines()).skip(1) {
        let mut fields: Vec<&str> = content.split_ascii_whitespace().collect();
        if fields.is_empty() {
            continue;
        }
        let wrong = |text: String| ImportError { line, text };
        if version == Version::Three {
            now_us = now_us.max(number(line, "the time in microseconds", fields.remove(0))?);
        }
        match fields[..] {
            [name, "add"] => _ = added.insert(name.into()),
            [name, "open" | "close"] => check_added(&added, name, line)?,
            [_, "wait", time, _] if version == Version::Two => {
                let time = number(line, "the time to wait", time)?;
                now_us = now_us.saturating_add(time);
            }
            [_, "wait", ..] if version == Version::Three => {
                return Err(wrong(
                    "version 3 has no wait; give the lines after it later times".into(),
                ));
            }
            [name, action, offset, length] => {
                let access = match action {
                    "read" => Access::Read,
                    "write" => Access::Write,
                    "sync" | "datasync" => Access::Sync,
                    "trim" => Access::Alone,
                    _ => {
                        return Err(wrong(format!(
                            "action \"{action}\" is not known; known: read, write, sync, datasync, trim, \
                             wait (version 2), add, open, close"
                        )));
                    }
                };
                check_added(&added, name, line)?;
                let start = number(line, "the offset", offset)?;
                let length = number(line, "the length", length)?;
                let range = match access {
                    Access::Sync => ByteRange::WHOLE_FILE,
                    _ => range(line, start, length)?,
                };
                if range.is_empty() {
                    into.left_out += 1;
                    continue;
                }
                let file = into.file(name);
                let at = Timestamp(Nanos::micros(now_us).0);
                into.requests.push(ImportedRequest {
                    at,
                    took: Nanos::ZERO,
                    client,
                    file,
                    access,
                    range,
                });
            }
            _ => {
                let form = match version {
                    Version::Two => "NAME ACTION or NAME ACTION OFFSET LENGTH",
                    Version::Three => "TIME NAME ACTION or TIME NAME ACTION OFFSET LENGTH",
                };
                return Err(wrong(format!(
                    "\"{}\" is not of the form {form}; names with spaces cannot be read back",
                    content.chars().take(80).collect::<String>()
                )));
            }
        }
    }
    Ok(())
}

fn check_added(added: &BTreeSet<String>, name: &str, line: usize) -> Result<(), ImportError> {
    match added.contains(name) {
        true => Ok(()),
        false => Err(ImportError {
            line,
            text: format!(
                "file \"{name}\" was not added; a line \"{name} add\" has to come before"
            ),
        }),
    }
}
