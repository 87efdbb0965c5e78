//! The daemon: a process of its own that is the disk, so that the disk outlives whoever set it up.
//!
//! It holds a lock for as long as it lives, ignores what would end it (a disk that goes away
//! under a mounted file system loses data and may hang the machine), and ends by itself when its
//! file system is unmounted. Should its owner be killed, it takes the disk down itself.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command as Program, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::{configure_io_flusher_behavior, setpriority_process, setsid};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::control::Control;
use crate::error::Error;
use crate::fuse::connection::Connection;
use crate::lock::{self, Try};
use crate::places::Places;
use crate::server::Server;
use crate::teardown::attend;

/// The program that is the daemon.
const PROGRAM: &str = "forebay-lab-disk";

/// What it says when the disk can be used.
const READY: &str = "ready";

/// Its answers are due to a few microseconds; nothing on the machine is more urgent.
const NICE: i32 = -20;

const OUT_OF_MEMORY_SCORE: &str = "/proc/self/oom_score_adj";

/// Never the one that is killed: the machine would wait for its disk for ever.
const OUT_OF_MEMORY_NEVER: &str = "-1000";

/// Is the disk that the settings in `directory` describe, until it is unmounted: what the daemon's program does.
///
/// # Errors
/// If another daemon has this directory, or the kernel refuses something.
pub fn serve(directory: &Path) -> Result<(), Error> {
    let places = Places { directory: directory.to_owned() };
    let settings = places.read_settings()?;
    let path = places.lock();
    let lock = File::options().write(true).create(true).truncate(false).open(&path);
    let mut held = lock.map_err(Error::file(&path))?;
    let outcome = lock::take(|| lock::try_take(&held, || Ok(()))).map_err(Error::file(&path))?;
    if outcome != Try::Taken {
        return Err(Error::failed(format!("another daemon serves {}", directory.display())));
    }
    held.set_len(0)
        .and_then(|()| write!(held, "{}", std::process::id()))
        .map_err(Error::file(&path))?;
    // A session of its own: what a terminal sends to those before it does not come here.
    setsid().map_err(Error::io("a session"))?;
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))
            .map_err(Error::io("signals"))?;
    }
    setpriority_process(None, NICE).map_err(Error::io("a higher priority"))?;
    survive_lack_of_memory();
    let control = Control::open(&places)?;
    let server = Server::new(&settings, Connection::mount(&places.fuse())?, control)?;
    let is_begun = Arc::new(AtomicBool::new(false));
    let attendant = std::thread::spawn({
        let is_begun = Arc::clone(&is_begun);
        move || attend(&places, &is_begun)
    });
    let mut output = std::io::stdout();
    writeln!(output, "{READY}").and_then(|()| output.flush()).map_err(Error::io("saying so"))?;
    let outcome = server.run().map_err(Error::io("serving the disk"));
    drop(held);
    if is_begun.load(Ordering::Acquire) {
        // It is in the middle of removing what is left. A panic of its own is in the log.
        let _ = attendant.join();
    }
    outcome
}

/// Asks the kernel to let this process allocate when memory is short, without writing back to the
/// disk that it is: that write would wait for the one that allocates. What the kernel refuses (a
/// container may not have the capabilities) is said, and the disk works as long as there is memory.
fn survive_lack_of_memory() {
    if let Err(errno) = configure_io_flusher_behavior(true) {
        eprintln!("not exempt from write-back when memory is short (PR_SET_IO_FLUSHER: {errno})");
    }
    if let Err(error) = std::fs::write(OUT_OF_MEMORY_SCORE, OUT_OF_MEMORY_NEVER) {
        eprintln!("may be killed when memory is short ({OUT_OF_MEMORY_SCORE}: {error})");
    }
}

/// Starts a daemon and waits until its file system is mounted.
pub(crate) fn start(places: &Places) -> Result<(), Error> {
    let log = File::create(places.log()).map_err(Error::file(&places.log()))?;
    let mut program = Program::new(find()?);
    program.arg(&places.directory).current_dir("/");
    program.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
    let mut child = program.spawn().map_err(Error::io(PROGRAM))?;
    let mut output = BufReader::new(child.stdout.take().expect("it was piped"));
    let mut said = String::new();
    output.read_line(&mut said).map_err(Error::io(PROGRAM))?;
    if said.trim() == READY {
        reap(child);
        return Ok(());
    }
    let ended = child.wait().map_err(Error::io(PROGRAM))?;
    let said = places.last_words().join("; ");
    Err(Error::failed(format!("{PROGRAM} ended with {ended}: {said}")))
}

/// A child that is not waited for stays in the process table; the thread ends with the daemon or with this process.
fn reap(mut child: std::process::Child) {
    std::thread::spawn(move || child.wait());
}

/// The daemon's program, built or installed with the running one.
fn find() -> Result<PathBuf, Error> {
    let program = std::env::current_exe()
        .and_then(|path| path.canonicalize())
        .map_err(Error::io("cannot find out where this program is"))?;
    let folder = program.parent().unwrap_or(Path::new("/"));
    // Tests run one folder below the programs that they start.
    let folder = if folder.ends_with("deps") { folder.parent().unwrap_or(folder) } else { folder };
    let candidates = [folder.join(PROGRAM), folder.join("../lib/forebay").join(PROGRAM)];
    candidates.iter().find_map(|path| path.canonicalize().ok()).ok_or_else(|| {
        let [here, installed] = &candidates;
        let places = format!("{} nor {}", here.display(), installed.display());
        Error::fix(format!("neither {places} is there; build it with `make build`"))
    })
}
