//! The table of settings: key, default, allowed values, meaning.

use forebay_sched::CLASSES_MAX;
use forebay_sched::sharing::SwSettings;
use forebay_store::TimeScale;
use forebay_units::{Bytes, Nanos};

use super::Settings;
use super::class::{CLASS_PLACES, RATE_MAX};
use super::value::{Field, Kind, Value};

/// Names of the policies, as in `scheduler.policy`. SW is not among them: it orders classes, which
/// have a policy each here, so it is a discipline.
pub const POLICIES: &[&str] =
    &[AUTO, "to", "to-agg", "sjf", "mlf", "aioli", "hbrr", "noop", "hbrr-bytes"];

/// The policy that is another one, as fits what is seen.
pub const AUTO: &str = "auto";

/// That no policy is pinned, and for a class, that none is said.
pub const NO_PIN: &str = "none";

/// What `policy` of a class takes.
pub(super) const CLASS_POLICIES: &[&str] =
    &[NO_PIN, AUTO, "to", "to-agg", "sjf", "mlf", "aioli", "hbrr", "noop", "hbrr-bytes"];

/// What `select.pin` takes.
const PINS: &[&str] =
    &[NO_PIN, "to", "to-agg", "sjf", "mlf", "aioli", "hbrr", "noop", "hbrr-bytes"];

/// The policy of whoever says nothing.
pub const DEFAULT_POLICY: &str = "aioli";

/// Names of the guard modes, as in `scheduler.guard`.
pub const GUARDS: &[&str] = &["none", "overlap", "client", "file"];

/// One setting.
#[derive(Debug)]
pub struct Definition {
    /// Its name in a file, `section.name`; the flag is `--section-name`, the variable `FOREBAY_SECTION_NAME`.
    pub key: &'static str,
    /// Which values it takes.
    pub kind: Kind,
    /// Its value when nobody says anything, spelled as a user would.
    pub default: &'static str,
    /// What it means, in one or two sentences.
    pub about: &'static str,
    /// Puts a value of the right kind into its field.
    pub(super) write: fn(&mut Settings, Value),
    /// Takes the value out again.
    pub(super) read: fn(&Settings) -> Value,
}

impl Definition {
    /// The flag's name without the dashes: `pool-bytes`.
    pub fn flag(&self) -> String {
        self.key.replace(['.', '_'], "-")
    }

    /// The environment variable's name: `FOREBAY_POOL_BYTES`.
    pub fn variable(&self) -> String {
        format!("{}{}", super::source::PREFIX, self.key.replace('.', "_").to_uppercase())
    }

    /// The definition of a key.
    pub fn find(key: &str) -> Option<&'static Self> {
        DEFINITIONS.iter().find(|d| d.key == key)
    }
}

/// A row of the table; the key is the path of the field, so the two cannot drift apart.
macro_rules! row {
    ($section:ident . $name:ident, $kind:expr, $default:expr, $about:literal) => {
        Definition {
            key: concat!(stringify!($section), ".", stringify!($name)),
            kind: $kind,
            default: $default,
            about: $about,
            write: |settings, value| settings.$section.$name = Field::from_value(value),
            read: |settings| Field::to_value(&settings.$section.$name),
        }
    };
}

/// Most data servers; each is a class.
const TARGETS_MAX: u32 = 1024;
const WINDOW_MIN: Nanos = SwSettings::WINDOW_MIN;
const WINDOW_MAX: Nanos = SwSettings::WINDOW_MAX;
const KIB_4: Bytes = Bytes::kib(4);
const GIB: u64 = 1 << 10;
/// The scheduler has places for so many jobs, and for one class of each of as many users.
const CLASS_COUNT_MAX: u32 = CLASSES_MAX as u32 / CLASS_PLACES as u32;

/// Every setting, in the order of the reference text.
pub static DEFINITIONS: &[Definition] = &[
    row!(
        listen.unix,
        Kind::Path,
        "",
        "Unix socket to listen on. Clients on this host pass their own descriptors over it."
    ),
    row!(
        listen.tcp,
        Kind::Address,
        "",
        "TCP address and port to listen on; port 0 picks a free one. Opens by path need export.root."
    ),
    row!(
        listen.tcp_allow,
        Kind::Networks,
        "127.0.0.0/8,::1/128",
        "Networks whose hosts may connect over TCP. There is no other identity check on TCP yet."
    ),
    row!(
        listen.tcp_control,
        Kind::Choice(&["refuse", "allow"]),
        "refuse",
        "Whether a client on TCP may change settings of the running forwarder; who it is, it only says itself."
    ),
    row!(
        export.root,
        Kind::Path,
        "",
        "Directory that TCP clients reach; nothing outside it is opened, by whatever path. None refuses them."
    ),
    row!(
        store.kind,
        Kind::Store,
        "posix",
        "What carries the I/O out: the file system, memory, or the file system behind a device model."
    ),
    row!(
        store.engine,
        Kind::Choice(&["auto", "io_uring", "threads"]),
        "auto",
        "How the posix store calls the kernel; auto takes io_uring where it is allowed."
    ),
    row!(
        store.depth,
        Kind::Count { min: 0, max: 4096 },
        "0",
        "Calls in progress at the store at once; 0 leaves it to the store."
    ),
    row!(
        store.read_ahead_bytes,
        Kind::Bytes { min: Bytes::ZERO, max: Bytes::mib(64), multiple_of: KIB_4 },
        "8MiB",
        "How much of a file the posix store has the kernel read ahead of all its readers together, where they sweep over it; 0 leaves it to the kernel, which sees each descriptor alone."
    ),
    row!(
        store.targets,
        Kind::Count { min: 1, max: TARGETS_MAX },
        "1",
        "Data servers over which the file system behind spreads each file; byte b of a file is on server b / store.stripe_bytes mod store.targets."
    ),
    row!(
        store.stripe_bytes,
        Kind::Bytes { min: KIB_4, max: Bytes::mib(64 * GIB), multiple_of: Bytes(1) },
        "1MiB",
        "Consecutive bytes of a file on one data server before the next one has its turn, where there are several store.targets."
    ),
    row!(
        store.time_scale,
        Kind::Factor { min: TimeScale::MIN, max: TimeScale::MAX },
        "1",
        "Factor on a modelled device's service times. Publish figures at 1 only."
    ),
    row!(
        store.faults,
        Kind::Faults,
        "",
        "Errors, short calls and delays to inject at the store, for tests."
    ),
    row!(
        pool.bytes,
        Kind::Bytes { min: Bytes::mib(4), max: Bytes::mib(64 * GIB), multiple_of: Bytes::mib(1) },
        "128MiB",
        "Memory for data: all of it, whatever clients send."
    ),
    row!(
        pool.reserve_percent,
        Kind::Count { min: 5, max: 90 },
        "25",
        "Part of the pool that only dispatched requests may use, so that what was begun can end."
    ),
    row!(
        session.eager_bytes_max,
        Kind::Bytes { min: Bytes::ZERO, max: Bytes::mib(1), multiple_of: Bytes(1) },
        "64KiB",
        "Largest write whose data comes with the request, without waiting for a grant."
    ),
    row!(
        session.chunk_bytes_max,
        Kind::Bytes { min: KIB_4, max: Bytes::mib(1), multiple_of: KIB_4 },
        "1MiB",
        "Largest piece in which the data of one request travels."
    ),
    row!(
        session.requests_max,
        Kind::Count { min: 1, max: 65_536 },
        "256",
        "Requests that one client may have unanswered."
    ),
    row!(
        session.connections_max,
        Kind::Count { min: 1, max: 1_000_000 },
        "4096",
        "Clients connected at once; one more is refused."
    ),
    row!(
        session.idle_timeout,
        Kind::Duration { min: Nanos::millis(100), max: Nanos::secs(86_400) },
        "30s",
        "How long a client may owe data, or not take data sent to it, before it is dropped."
    ),
    row!(
        scheduler.policy,
        Kind::Choice(POLICIES),
        DEFAULT_POLICY,
        "The order in which requests leave for the store; auto chooses one from what is seen, for each class, and forebay why says which and why."
    ),
    row!(
        scheduler.guard,
        Kind::Choice(GUARDS),
        "overlap",
        "Which conflicting requests keep their arrival order: none; those that overlap; those of one client that overlap; all of one file."
    ),
    row!(
        scheduler.large_bytes,
        Kind::Bytes { min: Bytes::ZERO, max: Bytes::mib(2 * GIB), multiple_of: Bytes(1) },
        "2MiB",
        "Requests longer than this skip the policy, because order gains nothing there; 0 means that none does."
    ),
    row!(
        scheduler.bypass,
        Kind::Choice(&["when-idle", "never"]),
        "when-idle",
        "Whether a request that meets nothing to be ordered against skips the policy."
    ),
    row!(
        scheduler.run_bytes_max,
        Kind::Bytes { min: KIB_4, max: Bytes::mib(64), multiple_of: Bytes(1) },
        "1MiB",
        "Largest run of adjacent requests that leaves as one; a larger single request still goes, alone."
    ),
    row!(
        scheduler.run_requests_max,
        Kind::Count { min: 1, max: 1024 },
        "64",
        "Most requests in a run."
    ),
    row!(
        scheduler.batch_bytes_max,
        Kind::Bytes { min: KIB_4, max: Bytes::mib(256), multiple_of: Bytes(1) },
        "4MiB",
        "Largest batch of several runs; at least scheduler.run_bytes_max."
    ),
    row!(
        scheduler.wait_max,
        Kind::Duration { min: Nanos::ZERO, max: Nanos::secs(1) },
        "900us",
        "Longest wait for a better batch; 0s never waits. A device that gains nothing from order is never waited for."
    ),
    row!(
        scheduler.queue_requests_max,
        Kind::Count { min: 64, max: 16_777_216 },
        "65536",
        "Requests in the scheduler at once, over all clients; more wait in front of it, in the order in which they came."
    ),
    row!(
        select.device,
        Kind::Path,
        "",
        "Profile of the device for policy auto, written by forebay probe. None takes the modelled device's, else the one kept of the export root or the current directory, else what the kernel says of the disk."
    ),
    row!(
        select.tree,
        Kind::Path,
        "",
        "Tree for policy auto, written by forebay train. None takes the one that is compiled in."
    ),
    row!(
        select.state,
        Kind::Path,
        "",
        "File in which policy auto keeps what it has learned, read at the start, written every minute and at the end. None forgets it at the end."
    ),
    row!(
        select.pin,
        Kind::Choice(PINS),
        NO_PIN,
        "Policy that is used while policy auto only watches; none lets it choose."
    ),
    row!(
        sharing.level,
        Kind::Choice(&["none", "user", "job", "target"]),
        "job",
        "What shares the store: users, or jobs below users; data servers behind it, as store.targets and store.stripe_bytes say; none orders all requests together."
    ),
    row!(
        sharing.discipline,
        Kind::Choice(&["sfq", "drr", "twins", "sw"]),
        "sfq",
        "How it is decided whose turn it is: start-time fair queueing or deficit round robin; twins gives data servers windows of time (sharing.level = target); sw serves jobs one after the other in windows of arrival, in the same order at every forwarder."
    ),
    row!(
        sharing.windows,
        Kind::Choice(&["work-conserving", "strict"]),
        "work-conserving",
        "Whether windows may be left: under twins, others go once the server whose window it is has had nothing for sharing.twins_idle; under sw, requests leave at once. strict lets the store idle instead."
    ),
    row!(
        sharing.twins_window,
        Kind::Duration { min: WINDOW_MIN, max: WINDOW_MAX },
        "1ms",
        "Length of a window of twins. Windows begin at multiples of it since 1970, so they are aligned where clocks are."
    ),
    row!(
        sharing.twins_idle,
        Kind::Duration { min: Nanos::ZERO, max: WINDOW_MAX },
        "100us",
        "How long the server whose window of twins it is has to have had nothing before it lends it, unless windows are strict."
    ),
    row!(
        sharing.twins_shift,
        Kind::Count { min: 0, max: TARGETS_MAX },
        "0",
        "By how many servers the windows of twins of this forwarder are ahead of another one's: give each forwarder another number."
    ),
    row!(
        sharing.sw_window,
        Kind::Duration { min: WINDOW_MIN, max: WINDOW_MAX },
        "1s",
        "Length of a window of arrival of sw; longer than what the clocks of the forwarders differ by."
    ),
    row!(
        sharing.lend_below,
        Kind::Count { min: 1, max: 4096 },
        "1",
        "A class beyond a limit that may borrow goes on while fewer requests than this are at the store."
    ),
    row!(
        sharing.capacity,
        Kind::ByteRate { max: RATE_MAX },
        "none",
        "What the store carries, in bytes a second: reservations beyond it are scaled down in proportion; none does not check them."
    ),
    row!(
        sharing.cost,
        Kind::Choice(&["time", "bytes", "requests"]),
        "time",
        "What is shared: the device's time, estimated from batches and bytes, so that small requests cost what they take; bytes; requests."
    ),
    row!(
        sharing.quantum_bytes,
        Kind::Bytes { min: KIB_4, max: Bytes::mib(256), multiple_of: Bytes(1) },
        "1MiB",
        "Bytes that a class of weight 1 may send in one round of drr."
    ),
    row!(
        sharing.class_count_max,
        Kind::Count { min: 2, max: CLASS_COUNT_MAX },
        "1024",
        "Users and jobs told apart at once; of further jobs each user has one class, and further users share one, named other."
    ),
    row!(
        sharing.file_count_max,
        Kind::Count { min: 1, max: 65_536 },
        "1024",
        "Files whose statistics are kept; the lightest make room for new ones and are added up as other."
    ),
    row!(
        trace.file,
        Kind::Path,
        "",
        "File for a trace of all requests, decisions and completions, made anew at the start. None records nothing."
    ),
    row!(
        trace.buffer_bytes,
        Kind::Bytes { min: Bytes::kib(128), max: Bytes::mib(GIB), multiple_of: Bytes(1) },
        "4MiB",
        "Memory for the part of the trace that is not written yet; when it is full, events are lost and counted."
    ),
];
