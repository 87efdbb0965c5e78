//! A replay in real time: files of the recorded sizes, a forwarder, and a connection for each client.

use std::collections::{BTreeMap, HashMap};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Barrier;

use forebay_client::Endpoint;
use forebay_forwarder::settings::Sources;
use forebay_forwarder::{Forwarder, Status};
use forebay_sched::{Access, GuardMode};
use forebay_sim::{Choice, Pace};
use forebay_trace::{Recorded, Workload};
use forebay_units::{Bytes, ClientId, FileIndex};
use rustix::fs::{Advice, fadvise, statvfs};
use tempfile::TempDir;

use super::player::{Player, Seen, Stage};
use super::table::{Run, per_second, spread};
use crate::console::say;
use crate::failure::{FAILED, Failure, USAGE};

/// Most clients: each is a thread and a connection.
const CLIENTS_MAX: usize = 1024;

/// The longest request that a connection carries, as a call of the kernel's would be.
const REQUEST_BYTES_MAX: u64 = 0x7fff_f000;

/// What the command line says.
pub(super) struct Told<'a> {
    pub(super) against: &'a str,
    pub(super) files: Option<&'a Path>,
    pub(super) export: Option<&'a Path>,
    pub(super) device: Option<&'a str>,
    pub(super) depth: u32,
    pub(super) guard: GuardMode,
    pub(super) pace: Pace,
    /// Those that were named.
    pub(super) policies: Option<&'a [Choice]>,
    pub(super) default_policy: &'a Choice,
}

fn failed(text: impl std::fmt::Display) -> Failure {
    Failure::new(FAILED, text.to_string())
}

fn usage(text: impl std::fmt::Display) -> Failure {
    Failure::new(USAGE, text.to_string())
}

/// Replays once for each policy, or once against a forwarder that runs already.
pub(super) fn replay(workload: &Workload, told: &Told<'_>) -> Result<Vec<Run>, Failure> {
    let players = players(workload)?;
    if told.against.starts_with("unix:") || told.against.starts_with("tcp:") {
        if told.policies.is_some() || told.device.is_some() {
            return Err(usage(
                "--policy and --device are the running forwarder's own; change them with forebay set, or name a directory",
            ));
        }
        let endpoint: Endpoint = told.against.parse().map_err(usage)?;
        let folder = told.files.or(told.export).unwrap_or(Path::new("."));
        let files = Files::make(workload, folder)?;
        let seen = play(&players, &endpoint, &files, told)?;
        return Ok(vec![run("as it is".into(), seen, None)]);
    }
    let folder = Path::new(told.against);
    if !folder.is_dir() {
        return Err(usage(format!(
            "--against {}: neither a directory nor unix:/path nor tcp:address:port",
            told.against
        )));
    }
    let policies = told.policies.unwrap_or(std::slice::from_ref(told.default_policy));
    let replay = |choice: &Choice| {
        let policy = choice.name().to_lowercase();
        let files = Files::make(workload, folder)?;
        let (forwarder, endpoint) = forwarder(&policy, &files, told)?;
        let stopper = forwarder.stopper();
        let (seen, status) = std::thread::scope(|scope| {
            let serving = scope.spawn(move || forwarder.run());
            let seen = play(&players, &endpoint, &files, told);
            stopper.stop();
            (seen, serving.join())
        });
        let status = status.map_err(|_| failed("the forwarder ended by a bug"))?.map_err(failed)?;
        Ok(run(policy, seen?, Some(&status)))
    };
    policies.iter().map(replay).collect()
}

/// A forwarder over the made files, in this process.
fn forwarder(
    policy: &str,
    files: &Files,
    told: &Told<'_>,
) -> Result<(Forwarder, Endpoint), Failure> {
    let socket = files.folder.path().join("socket");
    let root = files.folder.path().display().to_string();
    let store = told.device.map_or("posix".into(), |device| format!("modelled:{device}"));
    let mut sources = Sources::new()
        .flag("listen.unix", &socket.display().to_string())
        .flag("export.root", &root)
        .flag("scheduler.policy", policy)
        .flag("scheduler.guard", told.guard.as_str())
        .flag("store.kind", &store);
    if told.device.is_some() {
        sources = sources.flag("store.depth", &told.depth.to_string());
    }
    let settings = sources.resolve().map_err(usage)?;
    let forwarder = Forwarder::bind(&settings).map_err(failed)?;
    let endpoint = forwarder.endpoints()[0].clone();
    Ok((forwarder, endpoint))
}

/// The recorded clients, each with its requests.
fn players(workload: &Workload) -> Result<Vec<Player<'_>>, Failure> {
    let mut by_client: BTreeMap<ClientId, Vec<(u32, &Recorded)>> = BTreeMap::new();
    for (place, recorded) in (0..).zip(&workload.requests) {
        let length = recorded.request.range.length().0;
        let moves_data = matches!(recorded.request.access, Access::Read | Access::Write);
        if moves_data && length > REQUEST_BYTES_MAX {
            return Err(failed(format!(
                "request {place} has {length} bytes; in real time a request has at most {REQUEST_BYTES_MAX}: replay in virtual time"
            )));
        }
        by_client.entry(recorded.request.client).or_default().push((place, recorded));
    }
    if by_client.len() > CLIENTS_MAX {
        return Err(failed(format!(
            "{} clients; in real time there are at most {CLIENTS_MAX}: replay in virtual time",
            by_client.len()
        )));
    }
    let job = |class| workload.catalog.class_name(class);
    let played = by_client.into_values();
    Ok(played.map(|requests| Player { job: job(requests[0].1.request.class), requests }).collect())
}

/// Lets all clients play at the same time.
fn play(
    players: &[Player<'_>],
    endpoint: &Endpoint,
    files: &Files,
    told: &Told<'_>,
) -> Result<Vec<Seen>, Failure> {
    let ready = Barrier::new(players.len());
    let export = told.export.map(|path| path.canonicalize().unwrap_or(path.to_owned()));
    let stage = Stage {
        endpoint,
        files: &files.paths,
        export: export.as_deref(),
        pace: told.pace,
        ready: &ready,
    };
    let seen: Result<Vec<Seen>, String> = std::thread::scope(|scope| {
        let playing: Vec<_> =
            players.iter().map(|player| scope.spawn(|| player.play(&stage))).collect();
        let join = |one: std::thread::ScopedJoinHandle<'_, _>| one.join().expect("a bug");
        playing.into_iter().map(join).collect()
    });
    seen.map_err(failed)
}

fn run(policy: String, seen: Vec<Seen>, status: Option<&Status>) -> Run {
    let makespan_ns = seen.iter().map(|seen| seen.ended_after.as_nanos()).max().unwrap_or(0);
    let makespan_ns = u64::try_from(makespan_ns).unwrap_or(u64::MAX);
    let bytes = seen.iter().map(|seen| seen.bytes).sum();
    let mut latencies: Vec<u64> = seen.iter().flat_map(|seen| &seen.latencies).copied().collect();
    let scheduler = status.map(|status| &status.scheduler);
    #[expect(clippy::cast_precision_loss, reason = "a ratio")]
    let merge_ratio = scheduler.map(|scheduler| {
        let left = scheduler.submitted;
        let pieces = scheduler.batches + left.saturating_sub(scheduler.batched_requests);
        if pieces == 0 { 0.0 } else { left as f64 / pieces as f64 }
    });
    Run {
        policy,
        makespan_ns,
        requests: latencies.len() as u64,
        failed: seen.iter().map(|seen| seen.failed).sum(),
        bytes,
        bytes_per_second: per_second(bytes, makespan_ns),
        merge_ratio,
        latency: spread(&mut latencies),
        seeks: status.and_then(|status| status.store_counters.get("seeks").copied()),
        waits: scheduler.map(|scheduler| scheduler.waits),
        late_ns_max: seen.iter().map(|seen| seen.late_ns_max).max(),
    }
}

/// Files as large as the recorded ones, in a folder that goes away with them.
struct Files {
    folder: TempDir,
    paths: HashMap<FileIndex, PathBuf>,
}

impl Files {
    /// Makes the files, with data where requests read, and drops them from the page cache.
    fn make(workload: &Workload, beneath: &Path) -> Result<Self, Failure> {
        let wrong = |path: &Path, error: &dyn std::fmt::Display| {
            failed(format!("{}: {error}", path.display()))
        };
        let beneath = beneath.canonicalize().map_err(|error| wrong(beneath, &error))?;
        let mut is_read: BTreeMap<FileIndex, bool> = BTreeMap::new();
        for recorded in &workload.requests {
            *is_read.entry(recorded.request.file).or_default() |=
                recorded.request.access == Access::Read;
        }
        let size_of = |file: &FileIndex| workload.catalog.files[file.0 as usize].size;
        let needed: u64 = is_read.keys().map(|file| size_of(file).0).fold(0, u64::saturating_add);
        let free = statvfs(&beneath).map_err(|error| wrong(&beneath, &error))?;
        let free = free.f_bavail.saturating_mul(free.f_frsize);
        if needed > free {
            return Err(failed(format!(
                "{}: the recorded files take {needed} bytes, and {free} are free; name another directory",
                beneath.display()
            )));
        }
        let folder = tempfile::Builder::new()
            .prefix("forebay-replay-")
            .tempdir_in(&beneath)
            .map_err(|error| wrong(&beneath, &error))?;
        say(format_args!(
            "forebay: making {} files of {needed} bytes beneath {}",
            is_read.len(),
            folder.path().display()
        ));
        let mut paths = HashMap::new();
        for (file, is_read) in &is_read {
            let path = folder.path().join(format!("file-{}", file.0));
            make(&path, size_of(file), *is_read).map_err(|error| wrong(&path, &error))?;
            paths.insert(*file, path);
        }
        Ok(Self { folder, paths })
    }
}

/// A file of a size; with data, so that its reads reach the device, or only long.
fn make(path: &Path, size: Bytes, with_data: bool) -> std::io::Result<()> {
    let mut file = std::fs::File::create_new(path)?;
    if with_data {
        let block: Vec<u8> = (0..1_u32 << 20).map(|at| (at * 31 / 7) as u8).collect();
        let mut left = size.0;
        while left > 0 {
            let count = left.min(block.len() as u64);
            file.write_all(&block[..usize::try_from(count).expect("at most a block")])?;
            left -= count;
        }
    } else {
        file.set_len(size.0)?;
    }
    file.sync_all()?;
    // A file system without advice keeps it in the cache.
    let _ = fadvise(&file, 0, None, Advice::DontNeed);
    Ok(())
}
