//! From settings to a working engine: which store, which policy, how much memory.

use std::path::Path;

use forebay_device::Profile;
use forebay_engine::store::Store;
use forebay_engine::{Engine, Options};
use forebay_pool::{Pool, PoolOptions};
use forebay_probe::Identity;
use forebay_sched::ClassOptions;
use forebay_sched::policies::PolicyName;
use forebay_sched::policies::hbrr::{HbrrQuantum, HbrrSettings};
use forebay_sched::policy::Limits;
use forebay_sched::scheduler::{Bypass, GuardMode, Scheduler, SchedulerOptions};
use forebay_sched::sharing::{
    CostModel, Discipline, SharingSettings, SwSettings, Tariff, TwinsSettings, WindowIdle,
};
use forebay_stats::LedgerOptions;
use forebay_store::{
    Faults, Faulty, MemoryOptions, MemoryStore, Modelled, PosixEngine, PosixOptions, PosixStore,
    TimeScale,
};
use forebay_trace::Setup;
use forebay_units::{Bytes, Direction, Nanos, Timestamp};

use crate::Error;
use crate::selection::Selection;
use crate::settings::class::{CLASS_PLACES, Ceiling};
use crate::settings::definition::AUTO;
use crate::settings::{self, Cost, Level, Settings, Sharing, StoreEngine, StoreKind, Windows};

/// The request size at which order matters most, and at which devices are asked whether it does.
const SMALL_REQUEST: Bytes = Bytes::kib(8);

/// What a forwarder works with.
pub(crate) struct Assembled {
    pub(crate) engine: Engine,
    pub(crate) pool: Pool,
    /// What its selector was made of, under policy `auto`.
    pub(crate) selection: Option<Selection>,
    /// Whether the device below its store rotates, as far as the kernel knows; asked once.
    pub(crate) is_rotating: Option<bool>,
}

/// The engine that the settings ask for, with all that belongs to it, and what its scheduler was
/// made with.
pub(crate) fn assemble(settings: &Settings) -> Result<(Assembled, Setup), Error> {
    let pool = pool(&settings.pool, &settings.session)?;
    let store = store(settings)?;
    let depth = match settings.store.depth {
        0 => store.depth_default(),
        depth => depth as usize,
    };
    let options =
        Options { depth, chunk_bytes: settings.session.chunk_bytes_max, ..Options::default() };
    let is_rotating = is_rotating(settings);
    let mut setup = setup(settings, is_rotating)?;
    let selection = settings.is_auto().then(|| Selection::new(settings)).transpose()?;
    let auto = selection.as_ref().map(|selection| selection.auto(settings, setup.limits.wait_max));
    if let Some(auto) = &auto {
        setup.policy = auto.start();
    }
    let scheduler = scheduler(settings, &setup);
    let mut engine = Engine::new(options, scheduler, store, pool.clone());
    if let (Some(auto), Some(selection)) = (auto, &selection) {
        selection.begin(&mut engine, auto, setup.choice());
    }
    Ok((Assembled { engine, pool, selection, is_rotating }, setup))
}

fn pool(settings: &settings::Pool, session: &settings::Session) -> Result<Pool, Error> {
    let reserve = settings.reserve();
    // Blocks are powers of two: a chunk of 260 KiB takes 512.
    let block = |bytes: Bytes| Bytes(bytes.0.next_power_of_two());
    let chunk = block(session.chunk_bytes_max);
    let payload = chunk.max(block(session.eager_bytes_max));
    if reserve < chunk || settings.bytes - reserve < payload {
        let text = format!(
            "{} with pool.reserve_percent = {}: the reserve must hold a chunk ({} for \
             session.chunk_bytes_max = {}), and the rest a chunk and an eager payload ({})",
            settings.bytes.0,
            settings.reserve_percent,
            chunk.0,
            session.chunk_bytes_max.0,
            payload.0
        );
        return Err(Error::Setting { key: "pool.bytes", text });
    }
    let options = PoolOptions {
        reserve: Some(reserve),
        huge_pages: true,
        ..PoolOptions::new(settings.bytes)
    };
    Pool::with_options(options).map_err(|errno| Error::Setting {
        key: "pool.bytes",
        text: format!("{}: {errno}", settings.bytes.0),
    })
}

fn store(settings: &Settings) -> Result<Box<dyn Store>, Error> {
    let posix = || {
        let depth = match settings.store.depth {
            0 => PosixOptions::default().depth,
            depth => depth as usize,
        };
        let options = PosixOptions {
            export: settings.export.root.clone(),
            engine: match settings.store.engine {
                StoreEngine::Auto => PosixEngine::Auto,
                StoreEngine::IoUring => PosixEngine::IoUring,
                StoreEngine::Threads => PosixEngine::Threads,
            },
            depth,
            read_ahead: settings.store.read_ahead_bytes,
        };
        PosixStore::new(options).map_err(|errno| {
            let root = settings.export.root.as_deref().unwrap_or(Path::new("-")).display();
            let text = format!("posix with export.root = {root}: {errno}");
            Error::Setting { key: "store.kind", text }
        })
    };
    let store: Box<dyn Store> = match &settings.store.kind {
        StoreKind::Posix => Box::new(posix()?),
        StoreKind::Memory => Box::new(MemoryStore::new(MemoryOptions::default())),
        StoreKind::Modelled(name) => {
            let profile = profile(name)?;
            let scale = TimeScale::new(settings.store.time_scale).map_err(|error| {
                Error::Setting { key: "store.time_scale", text: error.to_string() }
            })?;
            Box::new(Modelled::new(posix()?, profile, scale))
        }
    };
    let Some(faults) = &settings.store.faults else { return Ok(store) };
    let faults: Faults = faults.parse().map_err(|error: forebay_store::FaultsError| {
        Error::Setting { key: "store.faults", text: error.to_string() }
    })?;
    Ok(Box::new(Faulty::new(store, faults)))
}

pub(crate) fn profile(name: &str) -> Result<Profile, Error> {
    Profile::by_name(name)
        .map_err(|error| Error::Setting { key: "store.kind", text: error.to_string() })
}

/// The scheduler, which keeps accounts of classes and files.
fn scheduler(settings: &Settings, setup: &Setup) -> Scheduler {
    let Sharing { class_count_max, file_count_max, .. } = settings.sharing;
    let mut scheduler = setup.scheduler();
    scheduler.keep_ledger(LedgerOptions {
        classes_max: class_count_max as usize,
        files_max: file_count_max as usize,
    });
    scheduler
}

/// Classes with a policy of their own each, unless nothing is shared.
fn classes(
    settings: &Settings,
    is_rotating: Option<bool>,
    queue_requests_max: usize,
) -> Result<Option<ClassOptions>, Error> {
    if settings.sharing.level == Level::None {
        return Ok(None);
    }
    Ok(Some(ClassOptions {
        sharing: sharing(settings, is_rotating, 0)?,
        classes_max: settings.sharing.class_count_max as usize * CLASS_PLACES,
        // What a class may have of the queue depends on what is free; the engine sees to it.
        class_requests_max: queue_requests_max,
        ..ClassOptions::default()
    }))
}

/// How classes share: whose turn it is, and what a batch costs. `wall_base_ns` is the wall clock at
/// time 0, by which windows are aligned with those of other forwarders.
pub(crate) fn sharing(
    settings: &Settings,
    is_rotating: Option<bool>,
    wall_base_ns: u64,
) -> Result<SharingSettings, Error> {
    let Sharing { cost, quantum_bytes, lend_below, capacity, .. } = settings.sharing;
    let (cost, quantum) = match (cost, &settings.store.kind) {
        (Cost::Requests, _) => (CostModel::OPS, u64::from(settings.scheduler.run_requests_max)),
        (Cost::Time, StoreKind::Modelled(name)) => {
            let profile = profile(name)?;
            let time = profile.sequential_time(Direction::Read, quantum_bytes);
            (device_time(&profile), time.0.max(1))
        }
        (Cost::Time, _) => (position_and_bytes(is_rotating), quantum_bytes.0),
        (Cost::Bytes, _) => (CostModel::BYTES, quantum_bytes.0),
    };
    let capacity = match capacity {
        Ceiling::None => None,
        Ceiling::PerSecond(bytes) => Some(bytes),
    };
    let discipline = discipline(settings, wall_base_ns);
    Ok(SharingSettings { discipline, cost, quantum, lend_below, capacity })
}

/// Whose turn it is. Windows begin at multiples of their length since 1970.
fn discipline(settings: &Settings, wall_base_ns: u64) -> Discipline {
    let Sharing { windows, twins_window, twins_idle, twins_shift, sw_window, .. } =
        settings.sharing;
    let is_strict = windows == Windows::Strict;
    let start = |window: Nanos| Timestamp(wall_base_ns.next_multiple_of(window.0) - wall_base_ns);
    match settings.sharing.discipline {
        settings::Discipline::Sfq => Discipline::Sfq,
        settings::Discipline::Drr => Discipline::Drr,
        settings::Discipline::Twins => {
            let targets = settings.store.targets;
            // So many windows have begun between 1970 and `start`.
            let begun = wall_base_ns.div_ceil(twins_window.0) % u64::from(targets);
            let shift = u64::from(twins_shift % targets) + begun;
            Discipline::Twins(TwinsSettings {
                window: twins_window,
                targets,
                shift: (shift % u64::from(targets)) as u32,
                start: start(twins_window),
                idle: match is_strict {
                    true => WindowIdle::Strict,
                    false => WindowIdle::LendAfter(twins_idle),
                },
            })
        }
        settings::Discipline::Sw => {
            Discipline::Sw(SwSettings { window: sw_window, start: start(sw_window), is_strict })
        }
    }
}

/// What a batch takes of a device that nobody has described, in the bytes that it could have moved
/// meanwhile: a disk that turns moves about half a MiB in the time of a seek, others far less.
fn position_and_bytes(is_rotating: Option<bool>) -> CostModel {
    let per_batch = if is_rotating == Some(true) { Bytes::kib(512) } else { Bytes::kib(64) };
    CostModel::both(Tariff { per_batch: per_batch.0, per_request: 0, per_mib: 1 << 20 })
}

/// What a batch takes of a device, in nanoseconds: getting there, and moving the data.
fn device_time(profile: &Profile) -> CostModel {
    let tariff = |direction| {
        let random = profile.random_time(direction, SMALL_REQUEST);
        let sequential = profile.sequential_time(direction, SMALL_REQUEST);
        Tariff {
            per_batch: (random - sequential).0,
            per_request: 0,
            per_mib: profile.sequential_time(direction, Bytes::mib(1)).0,
        }
    };
    CostModel { read: tariff(Direction::Read), write: tariff(Direction::Write) }
}

/// What the scheduler is made with. Under policy `auto` the policy is the selector's to say; until
/// it does, it is TO. It is asked for while requests come, so it touches no file.
pub(crate) fn setup(settings: &Settings, is_rotating: Option<bool>) -> Result<Setup, Error> {
    let given = &settings.scheduler;
    let is_by_bytes = given.policy == "hbrr-bytes";
    let policy: PolicyName = match given.policy.as_str() {
        "hbrr-bytes" => PolicyName::Hbrr,
        AUTO => PolicyName::To,
        name => parse("scheduler.policy", name)?,
    };
    let guard: GuardMode = parse("scheduler.guard", &given.guard)?;
    let wait_max = wait_effective(settings, is_rotating)?;
    let limits = Limits {
        run_bytes_max: given.run_bytes_max,
        run_requests_max: given.run_requests_max,
        batch_bytes_max: given.batch_bytes_max,
        wait_max,
    };
    let options = SchedulerOptions {
        guard,
        large_bytes: (given.large_bytes > Bytes::ZERO).then_some(given.large_bytes),
        // Where a policy may wait for a better batch, an idle store is no reason not to ask it.
        bypass: match (given.bypass, wait_max > Nanos::ZERO) {
            (settings::Bypass::WhenIdle, false) => Bypass::WhenIdle,
            _ => Bypass::Never,
        },
        queue_requests_max: given.queue_requests_max as usize,
    };
    let hbrr_quantum = match is_by_bytes {
        true => HbrrQuantum::Bytes(given.run_bytes_max),
        false => HbrrSettings::default().quantum,
    };
    let classes = classes(settings, is_rotating, options.queue_requests_max)?;
    Ok(Setup { policy, options, limits, hbrr_quantum, classes })
}

/// How long a policy may wait for a better batch: nothing where the device gains nothing from order.
fn wait_effective(settings: &Settings, is_rotating: Option<bool>) -> Result<Nanos, Error> {
    let limit = settings.scheduler.wait_max;
    Ok(match &settings.store.kind {
        StoreKind::Memory => Nanos::ZERO,
        StoreKind::Modelled(name) => {
            let wait = profile(name)?.wait_effective(Direction::Read, SMALL_REQUEST, limit);
            #[expect(
                clippy::cast_sign_loss,
                clippy::cast_possible_truncation,
                reason = "a scale of 0.1 to 10"
            )]
            Nanos((wait.0 as f64 * settings.store.time_scale) as u64)
        }
        StoreKind::Posix if is_rotating == Some(false) => Nanos::ZERO,
        StoreKind::Posix => limit,
    })
}

/// Whether the device below the store rotates; `None` where the kernel does not know (network file
/// systems, overlays, memory) or no device is below it.
fn is_rotating(settings: &Settings) -> Option<bool> {
    if settings.store.kind != StoreKind::Posix {
        return None;
    }
    let folder = settings.export.root.as_deref().unwrap_or(Path::new("."));
    Identity::of(folder).ok()?.is_rotating
}

fn parse<T>(key: &'static str, text: &str) -> Result<T, Error>
where
    T: std::str::FromStr<Err: std::fmt::Display>,
{
    text.parse().map_err(|error: T::Err| Error::Setting { key, text: format!("'{text}': {error}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_was_looked_at_is_not_looked_at_again() {
        // Nothing could be found out about this folder.
        let mut settings = Settings::default();
        settings.store.kind = StoreKind::Posix;
        settings.export.root = Some("/nonexistent".into());
        let of = |is_rotating| setup(&settings, is_rotating).unwrap();
        assert_eq!(of(Some(false)).limits.wait_max, Nanos::ZERO);
        assert_eq!(of(Some(true)).limits.wait_max, settings.scheduler.wait_max);
        let cost = |is_rotating| sharing(&settings, is_rotating, 0).unwrap().cost;
        assert_ne!(cost(Some(true)), cost(None));
    }

    #[test]
    fn windows_are_those_of_the_wall_clock_whenever_a_forwarder_starts() {
        let mut settings = Settings::default();
        (settings.sharing.discipline, settings.store.targets) = (settings::Discipline::Twins, 3);
        settings.sharing.twins_shift = 1;
        let window = settings.sharing.twins_window.0;
        let base = 1_790_000_000_000_000_000;
        for started in [base, base + 1, base + window - 1, base + 7 * window + 333] {
            let Discipline::Twins(twins) = discipline(&settings, started) else { unreachable!() };
            for wall in (started + window..).step_by(777_777).take(50) {
                let target = twins.target_at(Timestamp(wall - started));
                assert_eq!(u64::from(target), (wall / window + 1) % 3, "at {wall}");
            }
        }
        settings.sharing.discipline = settings::Discipline::Sw;
        let window = settings.sharing.sw_window.0;
        for started in [base, base + 12_345] {
            let Discipline::Sw(sw) = discipline(&settings, started) else { unreachable!() };
            let end = sw.end_of(sw.window_of(Timestamp(3 * window)));
            assert_eq!((started + end.0) % window, 0);
        }
    }
}
