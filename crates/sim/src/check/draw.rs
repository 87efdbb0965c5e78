//! What a run draws from its seed: settings that are tight, and requests that meet each other.

use forebay_device::SplitMix64;
use forebay_sched::policies::aioli::{AioliSettings, SynchronousWait};
use forebay_sched::policies::hbrr::{HbrrQuantum, HbrrSettings};
use forebay_sched::policies::mlf::{MlfGrowth, MlfSettings};
use forebay_sched::policies::sjf::SjfSettings;
use forebay_sched::sharing::{
    AtLimit, ClassShare, Discipline, Rate, Share, SharingSettings, SwSettings, TwinsSettings,
    WindowIdle,
};
use forebay_sched::{
    Access, Bypass, ClassOptions, GuardMode, Limits, PolicySettings, Request, SchedulerOptions,
};
use forebay_units::{ByteRange, Bytes, ClassId, ClientId, FileIndex, Nanos, Offset, Timestamp};

/// Bytes that are modelled as one: every range is a multiple of it.
pub(super) const GRAIN: Bytes = Bytes(512);
/// Grains of a file.
pub(super) const FILE_GRAINS: usize = 256;
pub(super) const FILES: usize = 3;
pub(super) const CLASSES: usize = 3;

/// How classes share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sharing {
    pub(super) discipline: Discipline,
    /// In bytes.
    pub(super) quantum: u64,
    pub(super) weights: [u32; CLASSES],
    /// Of class 0.
    pub(super) limit: Option<AtLimit>,
}

impl Sharing {
    fn draw(random: &mut SplitMix64) -> Self {
        let twins = TwinsSettings {
            window: Nanos::micros(one_of(random, &[50, 1_000])),
            targets: 1 + random.below(CLASSES as u64) as u32,
            shift: random.below(CLASSES as u64) as u32,
            start: Timestamp(0),
            idle: one_of(random, &[WindowIdle::Strict, WindowIdle::LendAfter(Nanos::micros(30))]),
        };
        let sw = SwSettings {
            window: Nanos::micros(one_of(random, &[20, 300])),
            start: Timestamp(one_of(random, &[0, 7_000])),
            is_strict: random.below(2) == 0,
        };
        let windows = [Discipline::Twins(twins), Discipline::Sw(sw)];
        let disciplines = [Discipline::Sfq, Discipline::Drr, windows[0], windows[1]];
        Self {
            discipline: one_of(random, &disciplines),
            quantum: one_of(random, &[1 << 10, 16 << 10]),
            weights: core::array::from_fn(|_| one_of(random, &[1, 1, 2, 10])),
            limit: one_of(random, &[None, None, Some(AtLimit::Wait), Some(AtLimit::Borrow)]),
        }
    }

    /// The longest that something waits for a window, where there are windows.
    pub(super) fn window_wait_max(&self) -> Option<Nanos> {
        match self.discipline {
            Discipline::Sfq | Discipline::Drr => None,
            Discipline::Twins(twins) => Some(Nanos(twins.window.0 * u64::from(twins.targets))),
            // The first one is longer by what comes before the start.
            Discipline::Sw(sw) => Some(sw.window + Nanos(sw.start.0)),
        }
    }

    pub(super) fn options(&self) -> ClassOptions {
        let Self { discipline, quantum, .. } = *self;
        let sharing = SharingSettings { discipline, quantum, ..SharingSettings::default() };
        ClassOptions { sharing, classes_max: CLASSES, ..ClassOptions::default() }
    }

    pub(super) fn share(&self, class: usize) -> ClassShare {
        let mut share = Share { weight: self.weights[class], ..Share::default() };
        if let Some(at_limit) = self.limit.filter(|_| class == 0) {
            // About what the run's store carries in all.
            let limit = Rate { per_second: 16 << 20, burst: 16 << 10 };
            (share.bytes, share.at_limit) = (Some(limit), at_limit);
        }
        ClassShare { share, ..ClassShare::default() }
    }
}

/// What the whole run has in common.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    pub(super) options: SchedulerOptions,
    pub(super) settings: PolicySettings,
    /// Batches that may be in flight.
    pub(super) depth: usize,
    pub(super) files: u64,
    pub(super) clients: u64,
    pub(super) classes: u64,
    /// Classes do not share if `None`.
    pub(super) sharing: Option<Sharing>,
    /// Nothing that would hide whether sharing is fair: no failures, waits, limits, or conflicts.
    pub(super) is_plain: bool,
    /// Requests that are submitted.
    pub(super) requests: usize,
    /// Of 16 steps, how many submit: more fill the queue, fewer leave it nearly empty.
    pub(super) submits: u64,
    /// Writes of 16 requests.
    writes: u64,
    /// Grains among which most requests fall.
    hot_grains: u64,
    pub(super) has_cancels: bool,
    pub(super) has_failures: bool,
    pub(super) has_switches: bool,
}

/// One of some things.
pub(super) fn one_of<T: Copy>(random: &mut SplitMix64, things: &[T]) -> T {
    things[random.below(things.len() as u64) as usize]
}

impl Setup {
    pub(super) fn draw(random: &mut SplitMix64, guard: GuardMode) -> Self {
        let kib = |random: &mut SplitMix64, sizes: &[u64]| Bytes::kib(one_of(random, sizes));
        let run_bytes_max = kib(random, &[4, 8, 16]);
        let limits = Limits {
            run_bytes_max,
            run_requests_max: one_of(random, &[2, 4, 16]),
            batch_bytes_max: Bytes(run_bytes_max.0 * one_of(random, &[1, 2, 4])),
            wait_max: one_of(random, &[Nanos::ZERO, Nanos::micros(900)]),
        };
        let passes_max = one_of(random, &[1, 2, 4, 16]);
        let mut settings = PolicySettings::from(limits);
        settings.sjf = SjfSettings { age_max: Nanos::millis(1 + random.below(20)) };
        settings.mlf = MlfSettings {
            growth: match random.below(2) {
                0 => MlfGrowth::Add(Bytes::kib(4)),
                _ => MlfGrowth::Double(Bytes::kib(4)),
            },
            passes_max,
        };
        settings.aioli = AioliSettings {
            quantum_bytes: Bytes::kib(4),
            quantum_bytes_min: kib(random, &[1, 4]),
            passes_max,
            hold_max: one_of(random, &[Nanos::ZERO, Nanos::millis(2)]),
            synchronous_wait: SynchronousWait::Off,
        };
        let quantum = match random.below(2) {
            0 => HbrrQuantum::Ranges(1 + random.below(8) as u32),
            _ => HbrrQuantum::Bytes(kib(random, &[4, 16])),
        };
        settings.hbrr = HbrrSettings { quantum, passes_max };
        settings.sw = SwSettings {
            window: Nanos::micros(one_of(random, &[50, 1_000])),
            start: Timestamp(0),
            is_strict: random.below(2) == 0,
        };
        let options = SchedulerOptions {
            guard,
            large_bytes: one_of(random, &[None, Some(Bytes::kib(6))]),
            bypass: one_of(random, &[Bypass::Never, Bypass::WhenIdle]),
            queue_requests_max: one_of(random, &[24, 1 << 20]),
        };
        let sharing = (random.below(2) == 0).then(|| Sharing::draw(random));
        let is_plain = sharing.is_some() && random.below(2) == 0;
        let setup = Self {
            options,
            settings,
            sharing,
            is_plain,
            depth: one_of(random, &[1, 2, 8]),
            files: 1 + random.below(FILES as u64),
            clients: 1 + random.below(6),
            classes: 1 + random.below(CLASSES as u64),
            requests: one_of(random, &[60, 120, 240]),
            submits: one_of(random, &[4, 6, 9]),
            writes: one_of(random, &[0, 4, 8, 16]),
            hot_grains: one_of(random, &[32, FILE_GRAINS as u64]),
            has_cancels: random.below(2) == 0,
            has_failures: random.below(2) == 0,
            has_switches: random.below(4) == 0,
        };
        if is_plain { setup.plain() } else { setup }
    }

    /// The longest that a policy waits with nothing in flight.
    pub(super) fn lone_wait_max(&self) -> Nanos {
        let window = if self.settings.sw.is_strict { self.settings.sw.window } else { Nanos::ZERO };
        self.settings.limits.wait_max.max(window)
    }

    /// The longest that a policy waits.
    pub(super) fn policy_wait_max(&self) -> Nanos {
        self.lone_wait_max() + self.settings.aioli.hold_max
    }

    /// So that classes share exactly by weight: nothing waits, and nothing steps around.
    fn plain(mut self) -> Self {
        self.options.bypass = Bypass::Never;
        self.settings.limits.wait_max = Nanos::ZERO;
        self.settings.sw.is_strict = false;
        self.sharing = self.sharing.map(|sharing| Sharing { limit: None, ..sharing });
        self.classes = CLASSES as u64;
        (self.writes, self.submits, self.has_failures) = (0, 9, false);
        self
    }

    /// The next request. `last_end` is where the one before ended: half of them go on there.
    pub(super) fn request(&self, random: &mut SplitMix64, tag: u64, last_end: Offset) -> Request {
        let access = match random.below(24) {
            0 if self.writes > 0 => Access::Alone,
            1 => Access::Sync,
            _ if random.below(16) < self.writes => Access::Write,
            _ => Access::Read,
        };
        let start = match random.below(2) {
            0 => last_end.0 / GRAIN.0 % FILE_GRAINS as u64,
            _ => random.below(self.hot_grains),
        };
        let length = one_of(random, &[1, 1, 2, 4, 8, 16]).min(FILE_GRAINS as u64 - start).max(1);
        let range = match access {
            Access::Alone => ByteRange::from_start(Offset(start * GRAIN.0)),
            Access::Sync => ByteRange::default(),
            _ => ByteRange::new(Offset(start * GRAIN.0), Bytes(length * GRAIN.0)),
        };
        Request {
            tag,
            file: FileIndex(random.below(self.files) as u32),
            access,
            range,
            client: ClientId(random.below(self.clients) as u32),
            class: ClassId(random.below(self.classes) as u32),
        }
    }
}
