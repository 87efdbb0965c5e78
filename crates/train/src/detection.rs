//! How well the detector knows access patterns: simulated cases whose truth is known.
//!
//! Cases are drawn from a seed: processes, strides, think times, noise, devices, servers, sizes,
//! operations, orders. The detector was made with the training values; the held-out ones decide.
//! A detector is asked three times a case: after one and two thirds of the requests that reach it,
//! and at the end.

mod case;
mod matrix;

use std::fmt;

use forebay_device::SplitMix64;
use forebay_sched::Request;
use forebay_select::detector::{Detector, DetectorOptions};
use forebay_select::{Pattern, SizeClass, Spatiality};
use forebay_sim::{Arrival, Simulation};
use forebay_units::{ByteRange, Bytes, ClientId, Offset};

pub use self::case::{Case, Place, Values};
pub use self::matrix::Matrix;

/// Cases of each place with training values, and with held-out ones.
const CASES_TRAINING: usize = 300;
const CASES_HELD_OUT: usize = 1000;
/// Times that a case's detector is asked.
const TIMES: usize = 3;
/// Events that are simulated between two looks at the arrivals.
const EVENTS: u64 = 1 << 16;

/// What the detector said of the cases of one kind.
#[derive(Clone, Debug)]
pub struct Group {
    /// The values that its cases have.
    pub values: Values,
    /// Where the detector stood.
    pub place: Place,
    /// Cases.
    pub cases: u64,
    /// Contiguous, strided, random.
    pub spatiality: Matrix<3>,
    /// Small, large.
    pub size_class: Matrix<2>,
    /// Both together.
    pub both: Matrix<6>,
    /// Times that a detector was asked.
    pub asked: u64,
    /// And named the number of files that the job has. Where a policy serves one file for long,
    /// clients of the others wait and ask for nothing, and their files are not in use.
    pub files_right: u64,
    /// Cases in which the application does something else than the node can see.
    pub relabelled: u64,
    /// Requests that had arrived when something was said first, of each case.
    pub first_after: Vec<u64>,
    /// Cases of which something wrong was said, in words.
    pub mistakes: Vec<String>,
}

/// What the detector said of all cases.
#[derive(Clone, Debug)]
pub struct DetectionReport {
    /// Of what cases were drawn from.
    pub seed: u64,
    /// By values and place.
    pub groups: Vec<Group>,
}

impl fmt::Display for DetectionReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.groups.iter().try_for_each(|group| write!(f, "{group}"))?;
        let percent = self.accuracy_held_out() * 100.0;
        writeln!(f, "held out, clients known: {percent:.2} % right (seed {})", self.seed)
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values = match self.values {
            Values::Training => "training",
            Values::HeldOut => "held out",
        };
        let percent = |part: f64| part * 100.0;
        let mut first: Vec<u64> = self.first_after.clone();
        first.sort_unstable();
        let first = first.get(first.len() / 2).copied().unwrap_or_default();
        writeln!(f, "{}, {values}: {} cases", self.place.as_str(), self.cases)?;
        write!(f, "{}{}", self.spatiality, self.size_class)?;
        for (name, rate) in BOTH.iter().zip(self.both.rates()) {
            write!(f, "{name} {:.2} %, ", percent(rate))?;
        }
        writeln!(f)?;
        writeln!(
            f,
            "both right {:.2} %, files right {:.2} %; first said after {first} requests; \
             {} cases are something else at the node than in the application\n",
            percent(self.both.accuracy()),
            percent(self.files_right as f64 / self.asked.max(1) as f64),
            self.relabelled,
        )
    }
}

impl DetectionReport {
    /// The part of the held-out cases at servers and forwarders, as Forebay meets them, in which
    /// spatiality and size class are both right.
    pub fn accuracy_held_out(&self) -> f64 {
        let mut all = Matrix::new(BOTH);
        let counted = self.groups.iter().filter(|group| {
            group.values == Values::HeldOut && group.place != Place::ServerOneClient
        });
        for group in counted {
            for row in 0..BOTH.len() {
                all.silent[row] += group.both.silent[row];
                (0..BOTH.len()).for_each(|n| all.counts[row][n] += group.both.counts[row][n]);
            }
        }
        all.accuracy()
    }
}

const SPATIALITY: [&str; 3] = ["contiguous", "strided", "random"];
const SIZE_CLASS: [&str; 2] = ["small", "large"];
const BOTH: [&str; 6] = [
    "contiguous small",
    "contiguous large",
    "strided small",
    "strided large",
    "random small",
    "random large",
];

impl Group {
    fn new(values: Values, place: Place) -> Self {
        Self {
            values,
            place,
            cases: 0,
            spatiality: Matrix::new(SPATIALITY),
            size_class: Matrix::new(SIZE_CLASS),
            both: Matrix::new(BOTH),
            files_right: 0,
            asked: 0,
            relabelled: 0,
            first_after: Vec::new(),
            mistakes: Vec::new(),
        }
    }

    fn add(&mut self, case: &Case, verdicts: &Verdicts) {
        let truth = (case.spatiality(), case.size_class());
        self.relabelled += u64::from(truth != case.of_the_application());
        self.cases += 1;
        self.first_after.extend(verdicts.first_after);
        for said in &verdicts.said {
            let said = said.map(|pattern| (pattern.spatiality, pattern.size_class));
            self.spatiality.add(truth.0 as usize, said.map(|said| said.0 as usize));
            self.size_class.add(truth.1 as usize, said.map(|said| said.1 as usize));
            self.both.add(both(truth), said.map(both));
            self.asked += 1;
        }
        let files = case.files();
        self.files_right +=
            verdicts.said.iter().flatten().filter(|said| said.files == files).count() as u64;
        if verdicts.said.iter().any(|said| {
            said.is_none_or(|pattern| (pattern.spatiality, pattern.size_class) != truth)
        }) {
            let said = verdicts.said.map(|said| {
                said.map_or("nothing", |said| BOTH[both((said.spatiality, said.size_class))])
            });
            self.mistakes.push(format!("{} is {}: {said:?}", case.describe(), BOTH[both(truth)]));
        }
    }
}

fn both((spatiality, size_class): (Spatiality, SizeClass)) -> usize {
    spatiality as usize * 2 + size_class as usize
}

/// What a detector said of a case.
#[derive(Clone, Debug)]
pub struct Verdicts {
    /// After each third.
    pub said: [Option<Pattern>; TIMES],
    /// After so many requests it said something for the first time.
    pub first_after: Option<u64>,
    /// Requests that it saw.
    pub arrivals: u64,
}

/// Runs a case and asks a detector.
///
/// # Panics
/// If the case cannot be simulated, which [`Case::draw`] does not make.
pub fn examine(case: &Case) -> Verdicts {
    let mut simulation =
        Simulation::new(&case.scenario, case.policy, case.seed).expect("a drawn case is valid");
    simulation.watch_arrivals();
    let mut arrivals: Vec<Arrival> = Vec::new();
    loop {
        let goes_on = simulation.advance(EVENTS);
        let there = simulation.take_arrivals().into_iter().filter(|one| one.node == case.node);
        arrivals.extend(there.flat_map(|arrival| seen(case, arrival)));
        if !goes_on {
            break;
        }
    }
    let options =
        DetectorOptions { stripe: case.scenario.servers.stripe, offsets: case.place.offsets() };
    let mut detector = Detector::new(options);
    let (mut said, mut first_after) = ([None; TIMES], None);
    for (number, arrival) in (1..).zip(&arrivals) {
        detector.arrived(arrival.at, &arrival.request);
        if first_after.is_none() && number % 16 == 0 && detector.pattern(arrival.at).is_some() {
            first_after = Some(number as u64);
        }
        for (third, said) in (1..).zip(&mut said) {
            if number == arrivals.len() * third / TIMES {
                *said = detector.pattern(arrival.at);
            }
        }
    }
    Verdicts { said, first_after, arrivals: arrivals.len() as u64 }
}

/// An arrival as the detector of a case is told of it.
fn seen(case: &Case, arrival: Arrival) -> Vec<Arrival> {
    match case.place {
        Place::Server | Place::Forwarder => vec![arrival],
        Place::ServerOneClient => {
            let request = Request { client: ClientId(0), ..arrival.request };
            vec![Arrival { request, ..arrival }]
        }
        Place::ServerFileOffsets => {
            let servers = &case.scenario.servers;
            let stripe = servers.stripe.0;
            let ByteRange { mut start, end } = arrival.request.range;
            let mut parts = Vec::new();
            while start < end {
                let row = start.0 / stripe;
                let part_end = end.0.min((row + 1) * stripe);
                let stripe_number = row * u64::from(servers.count) + case.node as u64;
                let there = Offset(stripe_number * stripe + start.0 % stripe);
                let range = ByteRange::new(there, Bytes(part_end - start.0));
                let request = Request { range, ..arrival.request };
                parts.push(Arrival { request, ..arrival });
                start = Offset(part_end);
            }
            parts
        }
    }
}

/// Runs all cases; `progress` is told how many are done, and of how many.
pub fn evaluate(seed: u64, progress: &mut dyn FnMut(usize, usize)) -> DetectionReport {
    let kinds = Place::ALL.into_iter().flat_map(|place| {
        [(Values::Training, place, CASES_TRAINING), (Values::HeldOut, place, CASES_HELD_OUT)]
    });
    let all = Place::ALL.len() * (CASES_TRAINING + CASES_HELD_OUT);
    let mut done = 0;
    let groups = kinds.map(|(values, place, cases)| {
        group(values, place, cases, seed, &mut || {
            done += 1;
            progress(done, all);
        })
    });
    DetectionReport { seed, groups: groups.collect() }
}

/// Runs some cases of one kind.
pub fn group(
    values: Values,
    place: Place,
    cases: usize,
    seed: u64,
    step: &mut dyn FnMut(),
) -> Group {
    // Each kind has numbers of its own, so that more of one do not change another.
    let mut random = SplitMix64::new(seed ^ (values as u64) << 32 ^ (place as u64) << 40);
    let mut group = Group::new(values, place);
    for _ in 0..cases {
        let case = Case::draw(values, place, &mut random);
        group.add(&case, &examine(&case));
        step();
    }
    group
}
