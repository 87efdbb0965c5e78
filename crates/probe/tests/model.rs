//! A device model measured as a device is: the same code, on a store behind the model, in virtual
//! time and, for one of them, in real time.

use std::os::fd::OwnedFd;

use forebay_device::measure::{Order as ModelOrder, mean_time};
use forebay_device::{PROFILES, Profile, RANDOM_SPAN};
use forebay_engine::store::{Attributes, Io, OpenHow, Opened, Store, StoreFile, Wake};
use forebay_probe::{
    Clock, Extent, Options, Point, Progress, RealClock, Subject, measure, of_model, profile,
};
use forebay_select::{DeviceProfile, Order};
use forebay_store::{Modelled, PosixOptions, PosixStore, TimeScale};
use forebay_units::{Bytes, Direction, FileId, Nanos, Timestamp};
use rustix::io::Errno;

const LENGTHS: [Bytes; 2] = [Bytes::kib(8), Bytes::mib(8)];
const DIRECTIONS: [Direction; 2] = [Direction::Read, Direction::Write];

/// A file of a size and nothing in it, at no cost.
struct Blank {
    size: Bytes,
    finished: Vec<Io>,
}

impl Store for Blank {
    fn name(&self) -> String {
        "blank".into()
    }
    fn open(&mut self, _: OpenHow) -> Result<Opened, Errno> {
        Ok(Opened { file: StoreFile(0), id: FileId::default() })
    }
    fn close(&mut self, _: StoreFile) {}
    fn attributes(&mut self, _: StoreFile) -> Result<Attributes, Errno> {
        Ok(Attributes { size: self.size, ..Attributes::default() })
    }
    fn start(&mut self, _: Timestamp, mut io: Io) {
        io.outcome = Ok(Bytes(io.buffers.iter().map(|buffer| buffer.len() as u64).sum()));
        self.finished.push(io);
    }
    fn take_finished(&mut self, _: Timestamp, finished: &mut Vec<Io>) {
        finished.append(&mut self.finished);
    }
    fn wake(&self) -> Wake<'_> {
        let deadline = (!self.finished.is_empty()).then_some(Timestamp(0));
        Wake { descriptor: None, deadline }
    }
    fn depth_default(&self) -> usize {
        1
    }
}

/// Time that passes only while somebody waits.
struct Virtual {
    now: Timestamp,
}

impl Clock for Virtual {
    fn now(&self) -> Timestamp {
        self.now
    }
    fn wait(&mut self, wake: Wake<'_>) -> Result<(), Errno> {
        self.now = self.now.max(wake.deadline.expect("something is in progress"));
        Ok(())
    }
}

fn subject(file: StoreFile, span: Bytes) -> Subject {
    let extent = Some(Extent::whole(file, span));
    Subject { read: extent, write: extent, is_cached: false }
}

/// Measures a model in virtual time; what was found and how long that took.
fn measured(model: &Profile, budget: Nanos) -> (Vec<Point>, Nanos) {
    let blank = Blank { size: RANDOM_SPAN, finished: Vec::new() };
    let mut store = Modelled::new(blank, *model, TimeScale::ONE);
    let how = OpenHow::Beneath { path: "file".into(), flags: 2 };
    let file = store.open(how).unwrap().file;
    let mut clock = Virtual { now: Timestamp(0) };
    let options = Options { budget, seed: 3 };
    let subject = subject(file, RANDOM_SPAN);
    let points = measure(&mut store, &mut clock, &subject, &options, &mut |_| {}).unwrap();
    (points, clock.now - Timestamp(0))
}

fn model_time(model: &Profile, direction: Direction, order: Order, length: Bytes) -> f64 {
    let order = match order {
        Order::Sequential => ModelOrder::Sequential,
        Order::Random => ModelOrder::Random(11),
    };
    mean_time(model, order, direction, length, 4000).0 as f64
}

#[test]
fn every_model_is_measured_as_it_is_run_within_a_tenth() {
    for model in &PROFILES {
        let (points, _) = measured(model, Nanos::secs(12));
        let found = profile(&points).unwrap();
        for (direction, length) in DIRECTIONS.into_iter().flat_map(|it| LENGTHS.map(|to| (it, to)))
        {
            for order in [Order::Sequential, Order::Random] {
                let expected = model_time(model, direction, order, length);
                let time = found.curve(direction, order).at(length).time_ns;
                let what = format!("{} {direction:?} {order} {length:?}", model.name);
                assert!((time / expected - 1.0).abs() < 0.1, "{what}: {time} for {expected}");
            }
            let expected = model_time(model, direction, Order::Random, length)
                / model_time(model, direction, Order::Sequential, length);
            let ratio = found.ratio_with_bounds(direction, length);
            let what = format!("{} {direction:?} {length:?}: {ratio:?}", model.name);
            assert!((ratio.value / expected - 1.0).abs() < 0.1, "{what} for {expected}");
        }
    }
}

#[test]
fn between_the_measured_lengths_a_curve_is_near_where_one_line_is_not() {
    let mut worst_line = 0.0_f64;
    for model in &PROFILES {
        let found = profile(&measured(model, Nanos::secs(12)).0).unwrap();
        let mut worst_curve = 0.0_f64;
        for ((direction, order), shift) in
            DeviceProfile::PARTS.into_iter().flat_map(|part| (12..=23).map(move |it| (part, it)))
        {
            let length = Bytes(1 << shift);
            let expected = of_model(model).curve(direction, order).at(length).time_ns;
            let curve = found.curve(direction, order);
            let off = |time_ns: f64| (time_ns / expected - 1.0).abs();
            worst_curve = worst_curve.max(off(curve.at(length).time_ns));
            worst_line = worst_line.max(off(curve.fitted().time_ns(length)));
        }
        assert!(worst_curve < 0.06, "{}: {worst_curve}", model.name);
    }
    assert!(worst_line > 0.3, "{worst_line}");
}

#[test]
fn the_closed_forms_are_kept_at_every_power_of_two() {
    for model in &PROFILES {
        let known = of_model(model);
        for length in (12..=23).map(|shift| Bytes(1 << shift)) {
            for direction in DIRECTIONS {
                let exact = model.ratio_permille(direction, length) as f64 / 1000.0;
                let ratio = known.ratio_with_bounds(direction, length);
                let what =
                    format!("{} {direction:?} {length:?}: {ratio:?} for {exact}", model.name);
                assert!((ratio.value / exact - 1.0).abs() < 0.002, "{what}");
                assert_eq!((ratio.low, ratio.high), (ratio.value, ratio.value));
            }
        }
    }
}

#[test]
fn a_random_ratio_below_one_is_found_below_one() {
    let edel = Profile::by_name("edel").unwrap();
    let ratio = profile(&measured(&edel, Nanos::secs(12)).0).unwrap();
    let ratio = ratio.ratio_with_bounds(Direction::Write, Bytes::kib(8));
    assert!((0.6..0.72).contains(&ratio.value) && ratio.high < 1.0, "{ratio:?}");
}

#[test]
fn a_disk_takes_its_budget_and_little_more_and_what_is_steady_stops_early() {
    let spent = |name, budget| measured(&Profile::by_name(name).unwrap(), Nanos::secs(budget)).1;
    let disk = spent("hdd-57", 20);
    assert!(disk > Nanos::secs(10) && disk < Nanos::secs(21), "{disk:?}");
    let flash = spent("ssd", 20);
    assert!(flash < Nanos::secs(15), "{flash:?}");
    // Three runs of each are made all the same.
    let short = spent("hdd-57", 1);
    assert!(short < Nanos::secs(8), "{short:?}");
}

#[test]
fn what_is_not_measured_is_like_the_other_operation_with_doubt() {
    let (points, _) = measured(&Profile::by_name("hdd-57").unwrap(), Nanos::secs(5));
    let reads: Vec<Point> =
        points.iter().copied().filter(|point| point.direction == Direction::Read).collect();
    let found = profile(&reads).unwrap();
    let ratio = |direction| found.ratio_with_bounds(direction, Bytes::kib(8));
    let (read, write) = (ratio(Direction::Read), ratio(Direction::Write));
    assert_eq!(read.value, write.value);
    assert!(write.high > 1.5 * read.high && write.low < read.low / 1.5, "{read:?} {write:?}");
    assert!(profile(&[]).is_none());
}

#[test]
fn a_file_that_is_too_small_is_refused() {
    let mut store = Blank { size: Bytes::mib(1), finished: Vec::new() };
    let mut clock = Virtual { now: Timestamp(0) };
    let options = Options { budget: Nanos::secs(1), seed: 1 };
    let subject = subject(StoreFile(0), Bytes::mib(1));
    let error = measure(&mut store, &mut clock, &subject, &options, &mut |_| {}).unwrap_err();
    assert!(error.to_string().contains("too small"), "{error}");
}

/// In real time, on a real file, at a tenth of the disk's time. The machine may be busy, and a
/// drive reads ahead while its reader is late: what is held to is that the model was measured and
/// not the file below it, whose ratio is 1.
#[test]
fn in_real_time_a_modelled_disk_has_the_ratio_of_a_disk() {
    let inner = PosixStore::new(PosixOptions::default()).unwrap();
    let model = Profile::by_name("hdd-57").unwrap();
    let mut store = Modelled::new(inner, model, TimeScale::new(0.1).unwrap());
    let file = tempfile::tempfile_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let span = Bytes::mib(1024);
    file.set_len(span.0).unwrap();
    let how = OpenHow::Descriptor(OwnedFd::from(file));
    let file = store.open(how).unwrap().file;
    let subject = Subject { read: Some(Extent::whole(file, span)), write: None, is_cached: false };
    let options = Options { budget: Nanos::millis(500), seed: 5 };
    let mut runs = 0;
    let mut progress = |progress: &Progress| {
        runs += usize::from(matches!(progress, Progress::Measuring { .. }));
    };
    let points =
        measure(&mut store, &mut RealClock::new(), &subject, &options, &mut progress).unwrap();
    assert!(runs >= 42, "{runs}");
    let found = profile(&points).unwrap();
    let ratio = found.ratio(Direction::Read, Bytes::kib(8));
    assert!(ratio > 4.0, "{ratio}");
    let counters = store.counters();
    let seeks = counters.iter().find(|(name, _)| *name == "seeks").unwrap().1;
    assert!(seeks >= 42, "every random run and every way to a sequential one: {seeks}");
}
