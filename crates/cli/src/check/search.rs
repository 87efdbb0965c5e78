//! Finding files as the shell, the kernel and the loader would: programs, interpreters, libraries.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::{self, BufRead as _, Read as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use super::elf::{self, Facts};

/// A script may name a script as its interpreter; the kernel gives up after this many (`BINPRM_MAX_RECURSION`).
const SCRIPT_DEPTH_MAX: usize = 4;

/// Parts of the C library itself: they *are* the calls, so what they import says nothing.
const C_LIBRARY: &[&str] =
    &["libc.so.", "libpthread.so.", "libdl.so.", "librt.so.", "libm.so.", "ld-linux", "linux-vdso"];

/// Finds a program as a shell does: a name with a slash is a path, any other is looked up in `PATH`.
pub(crate) fn command(name: &OsStr) -> Option<PathBuf> {
    if name.as_bytes().contains(&b'/') {
        return Path::new(name).exists().then(|| PathBuf::from(name));
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|directory| directory.join(name))
        .find(|candidate| candidate.is_file() && access(candidate, Access::EXEC_OK).is_ok())
}

/// Follows `#!` lines to the ELF file that the kernel will load in the end.
pub(super) fn program_behind(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..=SCRIPT_DEPTH_MAX {
        match interpreter_line(&path)? {
            Some(line) => path = interpreter(&line, &path)?,
            None => return Ok(path),
        }
    }
    Err(io::Error::other("too many interpreters of interpreters"))
}

/// The rest of a script's first line after `#!`.
fn interpreter_line(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let mut start = [0; 2];
    let mut file = io::BufReader::new(std::fs::File::open(path)?);
    if file.read_exact(&mut start).is_err() || start != *b"#!" {
        return Ok(None);
    }
    let mut line = Vec::new();
    file.take(4096).read_until(b'\n', &mut line)?;
    Ok(Some(line))
}

/// The program that a `#!` line names; `env NAME` is looked up in `PATH` as env does.
fn interpreter(line: &[u8], script: &Path) -> io::Result<PathBuf> {
    let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let missing =
        || io::Error::other(format!("{}: the interpreter is not there", script.display()));
    let first = PathBuf::from(OsString::from_vec(words.next().ok_or_else(missing)?.to_vec()));
    if first.file_name() != Some(OsStr::new("env")) {
        return Ok(first);
    }
    let is_name = |word: &&[u8]| !word.starts_with(b"-") && !word.contains(&b'=');
    let name = words.find(is_name).ok_or_else(missing)?;
    command(OsStr::from_bytes(name)).ok_or_else(missing)
}

/// Every library that a program loads at its start, with its facts, apart from the C library's own parts.
/// Libraries that are not found are left out: the program would not start without them either.
pub(super) fn libraries(program: &Path, facts: &Facts) -> BTreeMap<String, Facts> {
    let directories = system_directories();
    let mut found: BTreeMap<String, Facts> = BTreeMap::new();
    let mut wanted = wanted_by(program, facts);
    while let Some((name, first)) = wanted.pop() {
        if found.contains_key(&name) || C_LIBRARY.iter().any(|part| name.starts_with(part)) {
            continue;
        }
        let candidates = first.iter().chain(&directories).map(|directory| directory.join(&name));
        // The first that can be read and fits: a directory may hold a library of another architecture.
        let fitting = candidates
            .filter_map(|path| elf::read(&path).ok().map(|library| (path, library)))
            .find(|(_, library)| (library.machine, library.is_64) == (facts.machine, facts.is_64));
        if let Some((path, library)) = fitting {
            wanted.extend(wanted_by(&path, &library));
            found.insert(name, library);
        }
    }
    found
}

/// The libraries that a file names, each with the directories that the file names for them.
fn wanted_by(file: &Path, facts: &Facts) -> Vec<(String, Vec<PathBuf>)> {
    let origin = file
        .canonicalize()
        .ok()
        .and_then(|file| file.parent().map(Path::to_owned))
        .unwrap_or_default();
    let origin = origin.to_string_lossy();
    let expand = |path: &String| {
        PathBuf::from(path.replace("${ORIGIN}", &origin).replace("$ORIGIN", &origin))
    };
    let directories: Vec<PathBuf> = facts.run_path.iter().map(expand).collect();
    facts.needed.iter().map(|name| (name.clone(), directories.clone())).collect()
}

/// Where the loader looks: `LD_LIBRARY_PATH`, the directories in `/etc/ld.so.conf.d`, the built-in ones.
fn system_directories() -> Vec<PathBuf> {
    let mut directories: Vec<PathBuf> = std::env::var_os("LD_LIBRARY_PATH")
        .map(|path| std::env::split_paths(&path).collect())
        .unwrap_or_default();
    let mut files: Vec<PathBuf> = std::fs::read_dir("/etc/ld.so.conf.d")
        .map(|entries| entries.filter_map(|entry| Some(entry.ok()?.path())).collect())
        .unwrap_or_default();
    files.sort();
    files.insert(0, PathBuf::from("/etc/ld.so.conf"));
    for text in files.iter().filter_map(|file| std::fs::read_to_string(file).ok()) {
        directories.extend(
            text.lines().map(str::trim).filter(|line| line.starts_with('/')).map(PathBuf::from),
        );
    }
    directories.extend(["/lib64", "/usr/lib64", "/lib", "/usr/lib"].map(PathBuf::from));
    directories
}
