//! From a path to a record: what `forebay probe` does.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use forebay_device::Profile;
use forebay_engine::store::Store;
use forebay_store::{Modelled, PosixOptions, PosixStore, TimeScale};
use forebay_units::{Bytes, Nanos};

use crate::clock::{Clock, RealClock};
use crate::error::Error;
use crate::identity::Identity;
use crate::measure::{self, Extent, Progress, Subject};
use crate::one::One;
use crate::record::Record;
use crate::test_file::{self, Access, Filling, Place};

/// Of the budget, what filling the test file may take, in percent.
const FILL_PERCENT: u64 = 40;

/// The shortest budget that says anything.
pub const BUDGET_MIN: Nanos = Nanos::secs(1);

/// What is measured, and how.
#[derive(Clone, Debug)]
pub struct ProbeOptions {
    /// Of the test file, of which pieces are written as far as the time goes; `None`: 4 GiB, at most
    /// a tenth of what is free, and 1 GiB of it written.
    pub size: Option<Bytes>,
    /// Time to spend, filling included; at least [`BUDGET_MIN`].
    pub budget: Nanos,
    /// Whether writes are measured too, in a file that is made for it.
    pub writes: bool,
    /// The device model to measure instead of the device.
    pub model: Option<Profile>,
    /// Of the random places.
    pub seed: u64,
}

impl Default for ProbeOptions {
    /// Reads and writes of the device itself, within 20 seconds.
    fn default() -> Self {
        Self { size: None, budget: Nanos::secs(20), writes: true, model: None, seed: 1 }
    }
}

/// Measures the device that a directory or file is on. Nothing that exists is written to, and
/// nothing stays behind.
///
/// # Errors
/// A path, size or file that will not do, with what would; what the device says.
pub fn probe(
    path: &Path,
    options: &ProbeOptions,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Record, Error> {
    if options.budget < BUDGET_MIN {
        return Err(Error::fix("a budget of less than a second says nothing"));
    }
    let place = Place::of(path)?;
    if let (Place::Directory(directory), false) = (&place, options.writes) {
        let text = "a directory has nothing to read; give a file of it, or let one be made";
        return Err(Error::fix(format!("{}: {text}", directory.display())));
    }
    let posix = PosixOptions { depth: 1, read_ahead: Bytes::ZERO, ..PosixOptions::default() };
    let posix = PosixStore::new(posix)
        .map_err(|errno| Error::failed(format!("cannot make a store: {errno}")))?;
    let mut clock = RealClock::new();
    match options.model {
        None => {
            let access = test_file::access_of(&place)?;
            let identity = Identity::of(place.directory())?;
            let mut store = posix;
            run(&place, options, access, identity, &mut store, &mut clock, progress)
        }
        Some(model) => {
            let mut store = Modelled::new(posix, model, TimeScale::ONE);
            let identity = Identity::of_model(&model);
            run(&place, options, Access::Modelled, identity, &mut store, &mut clock, progress)
        }
    }
}

fn run(
    place: &Place,
    options: &ProbeOptions,
    access: Access,
    device: Identity,
    store: &mut dyn Store,
    clock: &mut dyn Clock,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Record, Error> {
    let began = clock.now();
    let subject = prepare(place, options, access, store, clock, progress)?;
    let budget = options.budget - (clock.now() - began);
    // However long filling took, measuring has its part.
    let budget = budget.max(Nanos(options.budget.0 / 100 * (100 - FILL_PERCENT)));
    let options = measure::Options { budget, seed: options.seed };
    let points = measure::measure(store, clock, &subject, &options, progress)?;
    let measured_at = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.as_secs());
    let extent = subject.read.or(subject.write);
    Record::new(device, measured_at, access, extent.map_or(Bytes::ZERO, |it| it.span()), points)
}

/// Opens and fills what is measured.
fn prepare(
    place: &Place,
    options: &ProbeOptions,
    access: Access,
    store: &mut dyn Store,
    clock: &mut dyn Clock,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Subject, Error> {
    let mut one = One::new(store, clock, options.seed ^ measure::FILL_SEED)?;
    let read = match place {
        Place::Directory(_) => None,
        Place::File(path, _, size) => {
            let file = test_file::open_to_read(path, *size, access)?;
            Some(Extent::whole(test_file::hand_over(&mut one, file)?, *size))
        }
    };
    let is_model = access == Access::Modelled;
    let write = if options.writes {
        let directory = place.directory();
        let size = test_file::size_in(directory, options.size)?;
        let file = test_file::create_in(directory, access)?;
        let file = test_file::hand_over(&mut one, file)?;
        Some(if is_model {
            test_file::stretch(&mut one, file, size)?;
            Extent::whole(file, size)
        } else {
            let time = Nanos(options.budget.0 / 100 * FILL_PERCENT);
            let filling = Filling::new(time, options.size);
            test_file::fill(&mut one, file, size, &filling, progress)?
        })
    } else {
        None
    };
    Ok(Subject { read: read.or(write), write, is_cached: access == Access::Buffered })
}
