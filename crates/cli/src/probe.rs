//! `forebay probe`: measures a device, shows what was found, and keeps it.

mod plot;
mod show;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use forebay_device::Profile;
use forebay_forwarder::settings::{Kind, StoreKind, Value};
use forebay_probe::{
    BUDGET_MIN, Cache, ErrorKind, PIECE, ProbeOptions, Progress, Record, SPAN_MIN, load_record,
    operation,
};
use forebay_units::{Bytes, Nanos};

use self::plot::Picture;
use crate::console::{print, say};
use crate::failure::{FAILED, Failure, USAGE};
use crate::size::{Length, Size};

const HELP: &str = "\
Times sequential and random reads and writes of several sizes, one request at a time, in a test file
in the directory PATH. The file has no name: nothing is left behind, even by kill -9, and nothing
that exists is written to. If PATH is a file, it is read and only the writes go to a test file.
It takes seconds; a busy device, or a machine whose cores are, gives wide bounds.

What is found is kept for the device under $XDG_CACHE_HOME/forebay/devices, ~/.cache/forebay/devices
or, for root, /var/cache/forebay/devices, and shown again the next time. The policy `auto` uses it:
where sequential is not faster than random, order is not worth waiting for.

Examples:
  forebay probe /scratch
  forebay probe /scratch --force --budget 60s --size 8GiB     again, longer, further apart
  forebay probe /data/big.bin --no-write                      only read a file that is there
  forebay probe . --store modelled:hdd-57 --output disk.svg   a device model, with a plot
  forebay probe /scratch --json | jq '.ratios[] | select(.bytes == 8192)'

Exit code: 0 when there is a profile; 1 when the device could not be measured; 2 when PATH or a flag
is wrong, or there is no space.";

/// The sizes for which the ratio is shown.
const RATIO_LENGTHS: [Bytes; 4] = [Bytes::kib(8), Bytes::kib(64), Bytes::mib(1), Bytes::mib(8)];

/// Between two lines of progress.
const PROGRESS_EVERY: Duration = Duration::from_secs(2);

/// What `forebay probe` is told.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct ProbeArgs {
    /// A directory on the device, or a file there that may be read
    #[arg(value_name = "PATH")]
    path: PathBuf,
    /// Print everything as JSON
    #[arg(long)]
    json: bool,
    /// Draw rates by request size to a file, .svg or .png
    #[arg(long, value_name = "FILE")]
    output: Option<Picture>,
    /// Size of the test file, of which two fifths of the budget write what they can [default: 4GiB, at
    /// most a tenth of what is free; 1GiB of it are written]
    #[arg(long, value_parser = size)]
    size: Option<Bytes>,
    /// Time to spend; a steady device takes less, a very slow one more
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = budget)]
    budget: Nanos,
    /// What to measure: posix, or modelled:PROFILE for a device model (which is not kept)
    #[arg(long, value_name = "STORE", default_value = "posix", value_parser = store)]
    store: Store,
    /// Measure reads only, of the file PATH; writes are taken to be like them, with doubt
    #[arg(long)]
    no_write: bool,
    /// Measure again although there is a profile
    #[arg(long)]
    force: bool,
}

/// The device, or a model.
#[derive(Clone, Copy, Debug)]
struct Store(Option<Profile>);

/// Where a record came from.
enum Origin {
    Measured(Duration),
    Kept,
}

/// Shows the profile of a device, measured now if there is none.
pub(crate) fn probe(args: ProbeArgs) -> Result<ExitCode, Failure> {
    let (record, origin) = match kept(&args)? {
        Some(record) => (record, Origin::Kept),
        None => {
            let began = Instant::now();
            let record = measure(&args)?;
            (record, Origin::Measured(began.elapsed()))
        }
    };
    if let Some(picture) = &args.output {
        picture.write(&record)?;
    }
    let model = args.store.0;
    if args.json {
        print(&show::json(&record, &RATIO_LENGTHS))?;
    } else {
        print(&show::text(&record, &RATIO_LENGTHS, model.as_ref()))?;
    }
    if show::is_vague(&record, &RATIO_LENGTHS) {
        say(format_args!(
            "forebay: the bounds are wide: something else used the device or the processors; when that is over, --force measures again"
        ));
    }
    match origin {
        Origin::Kept => say(format_args!(
            "forebay: measured {}; --force measures again",
            show::age(record.measured_at)
        )),
        Origin::Measured(took) => {
            say(format_args!("forebay: measured in {:.1} s", took.as_secs_f64()));
            if model.is_none() {
                keep(&record)?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// What is known of the device, if that is enough.
fn kept(args: &ProbeArgs) -> Result<Option<Record>, Failure> {
    if args.force || args.store.0.is_some() {
        return Ok(None);
    }
    load_record(&args.path, |error| say(format_args!("forebay: {error}"))).map_err(failure)
}

fn measure(args: &ProbeArgs) -> Result<Record, Failure> {
    let options = ProbeOptions {
        size: args.size,
        budget: args.budget,
        writes: !args.no_write,
        model: args.store.0,
        ..ProbeOptions::default()
    };
    let mut said = Instant::now();
    let mut progress = |progress: &Progress| {
        if said.elapsed() >= PROGRESS_EVERY {
            said = Instant::now();
            tell(progress, args.budget);
        }
    };
    forebay_probe::probe(&args.path, &options, &mut progress).map_err(failure)
}

fn tell(progress: &Progress, budget: Nanos) {
    match progress {
        Progress::Filling { done, size } => {
            say(format_args!("test file: {} of at most {}", Size(done.0), Size(size.0)));
        }
        Progress::Measuring { direction, order, length, time, worst_error, spent } => {
            let sure = if *worst_error < 1.0 {
                format!("least sure to {:.0} %", worst_error * 100.0)
            } else {
                "first runs".to_owned()
            };
            say(format_args!(
                "{:.0} of {:.0} s: {order} {} of {}: {}; {sure}",
                spent.0 as f64 / 1e9,
                budget.0 as f64 / 1e9,
                operation(*direction),
                Size(length.0),
                Length(time.0),
            ));
        }
    }
}

/// A profile that cannot be kept was measured all the same.
fn keep(record: &Record) -> Result<(), Failure> {
    let path = Cache::own().and_then(|cache| cache.save(record)).map_err(failure)?;
    say(format_args!("forebay: kept in {}", path.display()));
    Ok(())
}

fn failure(error: forebay_probe::Error) -> Failure {
    let code = if error.kind == ErrorKind::Fix { USAGE } else { FAILED };
    Failure::new(code, error.to_string())
}

fn size(text: &str) -> Result<Bytes, String> {
    let kind = Kind::Bytes { min: SPAN_MIN, max: Bytes::mib(1 << 20), multiple_of: PIECE };
    match kind.parse(text) {
        Some(Value::Bytes(bytes)) => Ok(bytes),
        _ => Err(format!("not {kind}")),
    }
}

fn budget(text: &str) -> Result<Nanos, String> {
    let kind = Kind::Duration { min: BUDGET_MIN, max: Nanos::secs(3600) };
    match kind.parse(text) {
        Some(Value::Duration(time)) => Ok(time),
        _ => Err(format!("not {kind}")),
    }
}

fn store(text: &str) -> Result<Store, String> {
    match Kind::Store.parse(text) {
        Some(Value::Store(StoreKind::Posix)) => Ok(Store(None)),
        Some(Value::Store(StoreKind::Modelled(name))) => {
            Profile::by_name(&name).map(|model| Store(Some(model))).map_err(|it| it.to_string())
        }
        Some(Value::Store(StoreKind::Memory)) => {
            Err("memory is no device; posix or modelled:PROFILE".to_owned())
        }
        _ => Err(format!("not {}", Kind::Store)),
    }
}

/// The kind of a picture, from its name.
impl std::str::FromStr for Picture {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::at(Path::new(text))
    }
}
