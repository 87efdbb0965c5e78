//! A replay in real time: files of the recorded sizes, a forwarder, and a connection for each client.
//!
//! The trace is gone over twice, and never in memory as a whole: once to know clients and files, and
//! once for each replay, a bounded way ahead of it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Barrier, mpsc};

use forebay_client::Endpoint;
use forebay_forwarder::settings::Sources;
use forebay_forwarder::{Forwarder, Status};
use forebay_sched::{Access, GuardMode, PolicyName};
use forebay_sim::{Choice, Pace};
use forebay_stats::Histogram;
use forebay_trace::{Catalog, Damage, Reader, Step, Steps};
use forebay_units::{Bytes, ClassId, ClientId, FileIndex};
use rustix::fs::{Advice, fadvise, statvfs};
use tempfile::TempDir;

use super::feed::{Feed, LOOK_AHEAD};
use super::player::{Player, Seen, Stage};
use super::recording::Recording;
use super::replay::Finished;
use super::shares::{Shares, job};
use super::table::{Run, latency, per_second};
use crate::console::say;
use crate::failure::{FAILED, Failure, USAGE};

/// Most clients: each is a thread and a connection.
const CLIENTS_MAX: usize = 1024;

/// The longest request that a connection carries, as a call of the kernel's would be.
const REQUEST_BYTES_MAX: u64 = 0x7fff_f000;

/// What the command line says.
pub(super) struct Told<'a> {
    pub(super) recording: &'a Recording,
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

/// What is known of a trace once it has been gone over.
#[derive(Debug, Default)]
pub(super) struct Survey {
    clients: BTreeMap<ClientId, Surveyed>,
    /// Whether a file is read from.
    is_read: BTreeMap<FileIndex, bool>,
    catalog: Catalog,
    pub(super) damages: Vec<Damage>,
    pub(super) lost_events: u64,
}

#[derive(Debug)]
struct Surveyed {
    class: ClassId,
    files: BTreeSet<FileIndex>,
}

impl Survey {
    /// Goes over a trace.
    ///
    /// # Errors
    /// If there is no request in it, or one that cannot be made in real time.
    pub(super) fn of(path: &Path, reader: Reader<'_>) -> Result<Self, Failure> {
        let mut survey = Self::default();
        let mut steps = Steps::new(reader, LOOK_AHEAD);
        for step in &mut steps {
            let Step::Ask(recorded) = step else { continue };
            let request = recorded.request;
            let length = request.range.length().0;
            let moves_data = matches!(request.access, Access::Read | Access::Write);
            if moves_data && length > REQUEST_BYTES_MAX {
                return Err(failed(format!(
                    "request {} has {length} bytes; in real time a request has at most {REQUEST_BYTES_MAX}: replay in virtual time",
                    request.tag
                )));
            }
            *survey.is_read.entry(request.file).or_default() |= request.access == Access::Read;
            let new = || Surveyed { class: request.class, files: BTreeSet::new() };
            let client = survey.clients.entry(request.client).or_insert_with(new);
            client.files.insert(request.file);
            if survey.clients.len() > CLIENTS_MAX {
                return Err(failed(format!(
                    "more than {CLIENTS_MAX} clients, which is the most in real time: replay in virtual time"
                )));
            }
        }
        if survey.clients.is_empty() {
            return Err(failed(format!("{}: no requests in it", path.display())));
        }
        survey.catalog.clone_from(steps.catalog());
        (survey.damages, survey.lost_events) = (steps.damages().to_vec(), steps.lost_events());
        Ok(survey)
    }

    /// The recorded clients; `job` names the job of a class.
    fn players(&self, job: impl Fn(ClassId) -> String) -> Vec<Player> {
        let clients = self.clients.values().enumerate();
        let player = |(number, surveyed): (usize, &Surveyed)| {
            let Surveyed { class, files } = surveyed;
            Player { number, files: files.clone(), job: job(*class) }
        };
        clients.map(player).collect()
    }
}

/// Replays once for each policy, or once against a forwarder that runs already.
pub(super) fn replay(
    survey: &Survey,
    reader: &Reader<'_>,
    told: &Told<'_>,
) -> Result<Finished, Failure> {
    if told.against.starts_with("unix:") || told.against.starts_with("tcp:") {
        if told.policies.is_some() || told.device.is_some() {
            return Err(usage(
                "--policy and --device are the running forwarder's own; change them with forebay set, or name a directory",
            ));
        }
        if told.recording.has_shares() {
            say(format_args!(
                "forebay: recorded weights and limits are not replayed against a forwarder that runs: it has its own"
            ));
        }
        let endpoint: Endpoint = told.against.parse().map_err(usage)?;
        let folder = told.files.or(told.export).unwrap_or(Path::new("."));
        let files = Files::make(survey, folder)?;
        let players = survey.players(|class| {
            // A forwarder puts the user before it.
            let name = survey.catalog.class_name(class);
            name.split_once('/').map_or(name.clone(), |(_, job)| job.to_owned())
        });
        let seen = play(survey, reader, &players, &endpoint, &files, told)?;
        return Ok(Finished { runs: vec![run("as it is".into(), seen, None)], failure: None });
    }
    let folder = Path::new(told.against);
    if !folder.is_dir() {
        return Err(usage(format!(
            "--against {}: neither a directory nor unix:/path nor tcp:address:port",
            told.against
        )));
    }
    let policies = told.policies.unwrap_or(std::slice::from_ref(told.default_policy));
    if policies.iter().any(is_sw) {
        return Err(usage(
            "sw is no policy of a forwarder but a way in which its jobs share: name another --policy, leave out \
             --against, or name a forwarder that runs with sharing.discipline = sw",
        ));
    }
    let players = survey.players(job);
    let shares = Shares::of(told.recording.made(), told.recording.shares_if_shared());
    let replay = |choice: &Choice| {
        let policy = choice.name().to_lowercase();
        let files = Files::make(survey, folder)?;
        let (forwarder, endpoint) = forwarder(&policy, &files, told)?;
        let stopper = forwarder.stopper();
        let (seen, status) = std::thread::scope(|scope| {
            let serving = scope.spawn(move || forwarder.run());
            let (is_over, over) = mpsc::channel::<()>();
            let seen = shares.begin(&endpoint).and_then(|()| {
                let changing = scope.spawn(|| shares.go_on(&endpoint, &{ over }));
                let seen = play(survey, reader, &players, &endpoint, &files, told);
                drop(is_over);
                changing.join().map_err(|_| failed("a bug"))?;
                seen
            });
            stopper.stop();
            (seen, serving.join())
        });
        let status = status.map_err(|_| failed("the forwarder ended by a bug"))?.map_err(failed)?;
        Ok(run(policy, seen?, Some(&status)))
    };
    Ok(policies.iter().map(replay).collect())
}

/// Whether a choice is the policy that no forwarder has: it orders classes.
pub(super) fn is_sw(choice: &Choice) -> bool {
    matches!(choice, Choice::Fixed(PolicyName::Sw))
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
    let depth = told.depth.to_string();
    let sources = || {
        let sources = Sources::new()
            .flag("listen.unix", &socket.display().to_string())
            .flag("export.root", &root)
            .flag("scheduler.policy", policy)
            .flag("scheduler.guard", told.guard.as_str())
            .flag("store.kind", &store);
        if told.device.is_some() { sources.flag("store.depth", &depth) } else { sources }
    };
    let flag = |sources: Sources, (key, value): &(&str, String)| sources.flag(key, value);
    let settings = match recorded(told.recording).iter().fold(sources(), flag).resolve() {
        Ok(settings) => settings,
        Err(error) => {
            let settings = sources().resolve().map_err(usage)?;
            say(format_args!("forebay: the recorded limits are not replayed: {error}"));
            settings
        }
    };
    let forwarder = Forwarder::bind(&settings).map_err(failed)?;
    let endpoint = forwarder.endpoints()[0].clone();
    Ok((forwarder, endpoint))
}

/// What the recorded scheduler was made with, as settings of a forwarder; how its classes shared
/// is told later, with their [`Shares`].
fn recorded(recording: &Recording) -> Vec<(&'static str, String)> {
    let Some(setup) = &recording.setup else { return Vec::new() };
    let limits = &setup.limits;
    let mut settings = vec![
        ("scheduler.run_bytes_max", limits.run_bytes_max.0.to_string()),
        ("scheduler.run_requests_max", limits.run_requests_max.to_string()),
        ("scheduler.batch_bytes_max", limits.batch_bytes_max.0.to_string()),
        ("scheduler.large_bytes", setup.options.large_bytes.unwrap_or(Bytes::ZERO).0.to_string()),
    ];
    let wait = recording.wait_max().map(|wait| format!("{}ns", wait.0));
    settings.extend(wait.map(|wait| ("scheduler.wait_max", wait)));
    if setup.classes.is_none() {
        settings.push(("sharing.level", "none".into()));
    }
    settings
}

/// Lets all clients play at the same time.
fn play(
    survey: &Survey,
    reader: &Reader<'_>,
    players: &[Player],
    endpoint: &Endpoint,
    files: &Files,
    told: &Told<'_>,
) -> Result<Vec<Seen>, Failure> {
    let ready = Barrier::new(players.len());
    let feed = Feed::new(players.len());
    let export = told.export.map(|path| path.canonicalize().unwrap_or(path.to_owned()));
    let stage = Stage {
        endpoint,
        feed: &feed,
        files: &files.paths,
        export: export.as_deref(),
        pace: told.pace,
        ready: &ready,
    };
    let numbers: HashMap<ClientId, usize> = survey.clients.keys().copied().zip(0..).collect();
    let seen: Result<Vec<Seen>, String> = std::thread::scope(|scope| {
        scope.spawn(|| {
            for step in Steps::new(reader.clone(), LOOK_AHEAD) {
                let client = match &step {
                    Step::Ask(recorded) => recorded.request.client,
                    Step::Forget(client, _) => *client,
                };
                if !feed.put(numbers[&client], step) {
                    break;
                }
            }
            feed.end();
        });
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
    let mut latencies = Histogram::new();
    seen.iter().for_each(|seen| latencies.merge(&seen.latencies));
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
        requests: latencies.count(),
        failed: seen.iter().map(|seen| seen.failed).sum(),
        bytes,
        bytes_per_second: per_second(bytes, makespan_ns),
        merge_ratio,
        latency: latency(&latencies),
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
    fn make(survey: &Survey, beneath: &Path) -> Result<Self, Failure> {
        let wrong = |path: &Path, error: &dyn std::fmt::Display| {
            failed(format!("{}: {error}", path.display()))
        };
        let beneath = beneath.canonicalize().map_err(|error| wrong(beneath, &error))?;
        let is_read = &survey.is_read;
        let size_of = |file: &FileIndex| survey.catalog.files[file.0 as usize].size;
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
        for (file, is_read) in is_read {
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
