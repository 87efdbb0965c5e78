//! What was found of a program, and what it amounts to.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::call::{is_sent, moves_data, reason_unhooked};
use super::elf::Facts;

/// What can be expected of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Verdict {
    /// Every call through which it moves data is hooked.
    Scheduled,
    /// Some are, some go the kernel's way.
    PartlyScheduled,
    /// The library is not loaded, or nothing that it hooks is called.
    NotScheduled,
}

/// What was found of one program.
#[derive(Debug, Serialize)]
pub(crate) struct Finding {
    /// The program as asked for.
    pub(crate) path: PathBuf,
    /// The ELF file that runs: the interpreter when `path` is a script.
    pub(crate) program: PathBuf,
    /// What it amounts to.
    pub(crate) verdict: Verdict,
    /// What keeps the library out of it; a program without obstacles may still import nothing that is hooked.
    pub(crate) obstacles: Vec<String>,
    /// Imported calls that are sent to the forwarder, on matching files.
    pub(crate) scheduled: Vec<String>,
    /// Imported calls that are hooked to keep count or track, and then are the kernel's.
    pub(crate) followed: Vec<String>,
    /// Imported calls that move data and are not scheduled.
    pub(crate) unhooked: Vec<UnhookedCall>,
}

/// An imported call that moves data unscheduled.
#[derive(Debug, Serialize)]
pub(crate) struct UnhookedCall {
    /// Its name.
    pub(crate) call: String,
    /// Why it is not hooked.
    pub(crate) reason: &'static str,
    /// Who imports it: `program`, or names of libraries.
    pub(crate) importers: Vec<String>,
}

/// What makes the loader ignore `LD_PRELOAD`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Permissions {
    /// Runs as another user or group than the caller.
    pub(super) set_id: bool,
    /// Gains capabilities that the caller does not have.
    pub(super) capabilities: bool,
}

/// Everything that a verdict is made from.
pub(super) struct Evidence<'a> {
    /// The program as asked for.
    pub(super) path: &'a Path,
    /// The ELF file that runs.
    pub(super) program: &'a Path,
    /// Its facts.
    pub(super) facts: &'a Facts,
    /// The facts of this very process: its architecture and loader are the library's.
    pub(super) native: &'a Facts,
    /// The calls that the library hooks.
    pub(super) hooked: &'a BTreeSet<String>,
    /// The program's libraries.
    pub(super) libraries: &'a BTreeMap<String, Facts>,
    /// Set-id bits and capabilities.
    pub(super) permissions: Permissions,
}

/// Reads the permissions of a file as they act on the calling user.
pub(super) fn permissions_of(program: &Path) -> io::Result<Permissions> {
    let metadata = std::fs::metadata(program)?;
    let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
    let owner = (metadata.uid(), metadata.gid());
    let set_id = changes_identity(metadata.mode(), owner, (user.as_raw(), group.as_raw()));
    let mut attribute = [0_u8; 64];
    let capable = rustix::fs::getxattr(program, "security.capability", &mut attribute).is_ok();
    Ok(Permissions { set_id, capabilities: capable && !user.is_root() })
}

/// Whether executing a file with this mode and (user, group) owner changes the caller's user or group.
pub(super) fn changes_identity(mode: u32, owner: (u32, u32), caller: (u32, u32)) -> bool {
    const SET_USER: u32 = 0o4000;
    const SET_GROUP: u32 = 0o2000;
    let changes_user = mode & SET_USER != 0 && owner.0 != caller.0;
    let changes_group = mode & SET_GROUP != 0 && owner.1 != caller.1;
    changes_user || changes_group
}

/// Weighs the evidence.
pub(super) fn judge(evidence: &Evidence<'_>) -> Finding {
    let obstacles = obstacles(evidence);
    let importers = importers(evidence);
    let (mut scheduled, mut followed, mut unhooked) = (Vec::new(), Vec::new(), Vec::new());
    for (call, importers) in importers {
        let is_hooked = evidence.hooked.contains(call);
        let call = call.to_owned();
        if let Some(reason) = reason_unhooked(&call) {
            let importers = importers.into_iter().map(str::to_owned).collect();
            unhooked.push(UnhookedCall { call, reason, importers });
        } else if is_hooked {
            if is_sent(&call) { scheduled.push(call) } else { followed.push(call) }
        }
    }
    let is_reached = obstacles.is_empty() && scheduled.iter().any(|call| moves_data(call));
    let verdict = match (is_reached, unhooked.is_empty()) {
        (false, _) => Verdict::NotScheduled,
        (true, false) => Verdict::PartlyScheduled,
        (true, true) => Verdict::Scheduled,
    };
    let (path, program) = (evidence.path.to_owned(), evidence.program.to_owned());
    Finding { path, program, verdict, obstacles, scheduled, followed, unhooked }
}

/// What keeps the library out of the program, or the program's calls out of the library.
fn obstacles(evidence: &Evidence<'_>) -> Vec<String> {
    let Evidence { facts, native, permissions, .. } = evidence;
    let mut obstacles = Vec::new();
    let mut add = |holds: bool, text: &str| {
        if holds {
            obstacles.push(text.to_owned());
        }
    };
    let foreign = (facts.machine, facts.is_64) != (native.machine, native.is_64);
    add(foreign, "it is built for another architecture than the library");
    add(facts.interpreter.is_none(), "it is statically linked, so no library can be preloaded");
    add(facts.is_go, "it is a Go program, which makes its system calls itself");
    add(permissions.set_id, "it is set-user-id or set-group-id, so the loader ignores LD_PRELOAD");
    add(permissions.capabilities, "it has file capabilities, so the loader ignores LD_PRELOAD");
    if let (Some(theirs), Some(ours), false) = (&facts.interpreter, &native.interpreter, foreign)
        && !same_file(theirs, ours)
    {
        obstacles.push(format!(
            "its loader is {theirs}, but the library is built for {ours} (another C library)"
        ));
    }
    obstacles
}

fn same_file(a: &str, b: &str) -> bool {
    a == b
        || matches!((Path::new(a).canonicalize(), Path::new(b).canonicalize()), (Ok(a), Ok(b)) if a == b)
}

/// Every import with those who import it. `syscall` counts for the program only: libraries use it for futexes.
fn importers<'a>(evidence: &Evidence<'a>) -> BTreeMap<&'a str, Vec<&'a str>> {
    let mut importers: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for call in &evidence.facts.imports {
        importers.entry(call).or_default().push("program");
    }
    for (name, library) in evidence.libraries {
        for call in library.imports.iter().filter(|call| *call != "syscall") {
            importers.entry(call).or_default().push(name);
        }
    }
    importers
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Scheduled => "scheduled",
            Self::PartlyScheduled => "partly scheduled",
            Self::NotScheduled => "not scheduled",
        })
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.verdict)?;
        if self.program != self.path {
            write!(f, " (run by {})", self.program.display())?;
        }
        writeln!(f)?;
        for obstacle in &self.obstacles {
            writeln!(f, "  because {obstacle}")?;
        }
        if self.obstacles.is_empty() && self.verdict == Verdict::NotScheduled {
            writeln!(f, "  because it imports no call that reads or writes and is hooked")?;
        }
        let scheduled = match self.scheduled.is_empty() {
            true => "nothing".to_owned(),
            false => self.scheduled.join(", "),
        };
        writeln!(
            f,
            "  {:<14} {scheduled}",
            if self.obstacles.is_empty() { "scheduled" } else { "would be" }
        )?;
        for UnhookedCall { call, reason, importers } in &self.unhooked {
            writeln!(
                f,
                "  {:<14} {call}: {reason} (in {})",
                "not scheduled",
                importers.join(", ")
            )?;
        }
        Ok(())
    }
}
