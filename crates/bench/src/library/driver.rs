//! The drivers: C programs, compiled against the headers that programs are compiled against, and
//! linked with the shared libraries of this build. A cell is a process of its own.

use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use tempfile::TempDir;

use super::cell::{Cell, Library, Row};
use crate::error::Error;
use crate::machine;
use crate::programs::Programs;

/// Sources and headers, by the names under which they include each other.
const SOURCES: [(&str, &str); 5] = [
    ("work.h", include_str!("programs/work.h")),
    ("forebay.c", include_str!("programs/forebay.c")),
    ("agios.c", include_str!("programs/agios.c")),
    ("forebay.h", include_str!("../../../capi/include/forebay.h")),
    ("agios.h", include_str!("../../../agios/include/agios.h")),
];

/// After how many seconds a cell counts as not finished, as it did for AGIOS.
const SECONDS_MAX: u32 = 20;

/// The same for a program that does more than a cell.
const SECONDS_MAX_BESIDE: u32 = 120;

/// Counts instructions; part of valgrind.
const COUNTER: &str = "valgrind";

/// What ends a driver then, on every Linux.
const SIGALRM: i32 = 14;

/// More than the largest trace of the overheads takes.
const SCRATCH_BYTES: u64 = 64 << 20;

/// The compiled drivers.
pub(crate) struct Drivers {
    folder: TempDir,
}

/// What a cell's driver prints.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Printed {
    pub(crate) ns: u64,
    /// Of all threads, start and end included.
    pub(crate) processor_ns: u64,
    pub(crate) batches: u64,
    pub(crate) p50_ns: u64,
    pub(crate) p99_ns: u64,
    pub(crate) peak_bytes: u64,
}

impl Drivers {
    /// Compiles those of these libraries.
    pub(crate) fn compile(programs: &Programs, libraries: &[Library]) -> Result<Self, Error> {
        let folder = machine::scratch(SCRATCH_BYTES)?;
        for (name, text) in SOURCES {
            let path = folder.path().join(name);
            std::fs::write(&path, text).map_err(Error::file(&path))?;
        }
        let drivers = Self { folder };
        for library in libraries {
            drivers.link(*library, &programs.linked(library_name(*library))?)?;
        }
        Ok(drivers)
    }

    fn link(&self, library: Library, shared: &Path) -> Result<(), Error> {
        // Under the name, and the name with its version, by which programs look for it.
        for name in [library_name(library).to_owned(), format!("{}.0", library_name(library))] {
            let link = self.path(&name);
            std::os::unix::fs::symlink(shared, &link).map_err(Error::file(&link))?;
        }
        let folder = self.folder.path();
        let driver = self.driver(library);
        let mut compile = Command::new("cc");
        compile.args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-pthread", "-I"]).arg(folder);
        compile.arg("-o").arg(&driver).arg(driver.with_extension("c"));
        compile.arg(self.path(library_name(library)));
        compile.arg(format!("-Wl,-rpath,{}", folder.display()));
        let output = compile.output().map_err(|error| {
            Error::fix(format!("cc: {error}; a C compiler is needed: scripts/install-deps build"))
        })?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        Err(Error::failed(format!("{compile:?}: {said}")))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn driver(&self, library: Library) -> PathBuf {
        self.path(match library {
            Library::Forebay => "forebay",
            Library::Agios => "agios",
        })
    }

    /// Does a cell once; `None` if it did not finish in time.
    pub(crate) fn cell(&self, cell: &Cell, requests: u64) -> Result<Option<Printed>, Error> {
        let mut arguments = cell.arguments(requests);
        if cell.linked == Library::Agios {
            arguments.push(format!("path={}", self.configuration(cell.row)?.display()));
        }
        self.run(cell.linked, &arguments, SECONDS_MAX)
    }

    /// Runs the driver of libforebay in another of its modes.
    pub(crate) fn forebay<T: DeserializeOwned>(&self, arguments: &[String]) -> Result<T, Error> {
        let arguments = self.with_trace(arguments);
        self.run(Library::Forebay, &arguments, SECONDS_MAX_BESIDE)?.ok_or_else(|| {
            let arguments = arguments.join(" ");
            Error::failed(format!("not finished after {SECONDS_MAX_BESIDE} s: {arguments}"))
        })
    }

    fn with_trace(&self, arguments: &[String]) -> Vec<String> {
        let path = format!("path={}", self.path("trace").display());
        arguments.iter().cloned().chain([path]).collect()
    }

    /// What counts instructions, as it names itself; `None` if it is not installed.
    pub(crate) fn counter() -> Option<String> {
        let output = Command::new(COUNTER).arg("--version").output().ok()?;
        let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        output.status.success().then_some(said)
    }

    /// How many instructions the driver of libforebay executes in its function `counted`.
    pub(crate) fn count(&self, arguments: &[String]) -> Result<f64, Error> {
        let mut command = Command::new(COUNTER);
        command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
        command.arg("--toggle-collect=counted").arg(self.driver(Library::Forebay));
        command.args(self.with_trace(arguments)).arg(format!("seconds_max={SECONDS_MAX_BESIDE}"));
        let output = command.output().map_err(Error::io(format!("{command:?}")))?;
        let said = String::from_utf8_lossy(&output.stderr);
        let collected = said.lines().find_map(|line| {
            line.split_once("Collected :")?.1.trim().parse().ok().filter(|count| *count > 0.0)
        });
        let collected = collected.filter(|_| output.status.success());
        collected.ok_or_else(|| {
            Error::failed(format!("{command:?}: {}: nothing counted: {said}", output.status))
        })
    }

    fn run<T: DeserializeOwned>(
        &self,
        library: Library,
        arguments: &[String],
        seconds_max: u32,
    ) -> Result<Option<T>, Error> {
        let mut command = Command::new(self.driver(library));
        command.args(arguments).arg(format!("seconds_max={seconds_max}"));
        let output = command.output().map_err(Error::io(format!("{command:?}")))?;
        if output.status.signal() == Some(SIGALRM) {
            return Ok(None);
        }
        let [out, err] =
            [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
        if !output.status.success() {
            return Err(Error::failed(format!("{command:?}: {}: {}", output.status, err.trim())));
        }
        serde_json::from_str(&out)
            .map(Some)
            .map_err(|error| Error::failed(format!("{command:?}: {error}: {out}")))
    }

    /// A configuration for AGIOS with an algorithm, and AGIOS's own values for the rest.
    fn configuration(&self, row: Row) -> Result<PathBuf, Error> {
        let put = |name: String, text: String| {
            let path = self.path(&name);
            std::fs::write(&path, text).map_err(Error::file(&path)).map(|()| path)
        };
        let weights = put("weights".to_owned(), "1\n2\n3\n4\n".to_owned())?;
        let text = format!(
            "library_options:\n{{\n\tdefault_algorithm = \"{}\" ;\n\twfq_conf = \"{}\" ;\n\
             \twaiting_time = 900000 ;\n\taioli_quantum = 65536 ;\n\tmlf_quantum = 8192 ;\n\
             \tSW_window = 1000 ;\n\ttwins_window = 1000 ;\n}};\n",
            row.as_str(),
            weights.display()
        );
        put(format!("{}.conf", row.as_str()), text)
    }
}

fn library_name(library: Library) -> &'static str {
    match library {
        Library::Forebay => "libforebay.so",
        Library::Agios => "libagios.so",
    }
}
