//! `forebay check`: what of a program can be scheduled, said before it runs.
//!
//! ```text
//! name ──search──► file ──(#! script)──► interpreter ──elf──► facts ─┐
//!                                                                    ├─ judge ──► Finding
//! preload library ──elf──► exports = the hooked calls ───────────────┘
//! ```
//!
//! The hooked calls are read from the library itself, so this never claims more than it does.

use std::ffi::OsStr;
use std::path::Path;
use std::process::ExitCode;

use crate::args::CheckArgs;
use crate::console::print;
use crate::failure::{FAILED, Failure, USAGE};
use crate::library;

mod call;
mod elf;
mod finding;
mod search;

pub(crate) use finding::{Finding, Verdict};
pub(crate) use search::command as find_command;

/// Prints what was found of each binary.
pub(crate) fn check(args: CheckArgs) -> Result<ExitCode, Failure> {
    let library = library::find()?;
    let mut findings = Vec::new();
    for name in &args.binaries {
        let path = find_command(name).ok_or_else(|| {
            Failure::new(USAGE, format!("{}: no such program", Path::new(name).display()))
        })?;
        let finding = examine(&path, &library)
            .map_err(|error| Failure::new(USAGE, format!("{}: {error}", path.display())))?;
        findings.push(finding);
    }
    let text = match args.json {
        true => {
            serde_json::to_string_pretty(&findings).expect("findings have string keys only") + "\n"
        }
        false => findings.iter().map(Finding::to_string).collect(),
    };
    print(&text)?;
    let blocked = findings.iter().any(|finding| finding.verdict == Verdict::NotScheduled);
    Ok(if blocked { ExitCode::from(FAILED) } else { ExitCode::SUCCESS })
}

/// Examines one program file against the preload library.
pub(crate) fn examine(path: &Path, library: &Path) -> std::io::Result<Finding> {
    let program = search::program_behind(path)?;
    let hooked = elf::read(library)?.exports;
    let native = elf::read(&std::env::current_exe()?)?;
    let facts = elf::read(&program)?;
    let libraries = search::libraries(&program, &facts);
    let permissions = finding::permissions_of(&program)?;
    Ok(finding::judge(&finding::Evidence {
        path,
        program: &program,
        facts: &facts,
        native: &native,
        hooked: &hooked,
        libraries: &libraries,
        permissions,
    }))
}

/// What keeps the library out of a program, in one line; `None` when nothing does.
pub(crate) fn obstacle(command: &OsStr, library: &Path) -> Option<String> {
    let path = find_command(command)?;
    let finding = examine(&path, library).ok()?;
    (!finding.obstacles.is_empty())
        .then(|| format!("{}: {}", path.display(), finding.obstacles.join("; ")))
}

#[cfg(test)]
mod tests;
