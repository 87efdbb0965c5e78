//! `library`: the scheduler as a C program has it, through `forebay.h`, beside what AGIOS v2 did.
//!
//! 10^6 requests of 8 KiB, whose call-backs complete at once, so that what is measured is the
//! library. Columns say who submits what (`cell.rs`), rows what orders it, and `programs/work.h` has
//! the work itself. Each cell is a process of its own, several times, and the cells of one round come
//! one after the other, so that what disturbs the machine disturbs all alike.
//!
//! The guard is always on; AGIOS has none. With call-backs that complete at once there is seldom
//! anything to wait for, so most requests step around the queue: cells with `bypass` "never" send
//! each through its policy.

mod agios;
mod beside;
mod cell;
mod driver;

use serde_json::{Value, json};

use crate::Options;
use crate::error::Error;
use crate::programs::Programs;
use crate::progress::Track;
use crate::report::{Report, Row, median};
use cell::{Cell, KINDS, Library, PIECE_BYTES};
use driver::{Drivers, Printed};

/// How much the suite does.
#[derive(Clone, Copy, Debug)]
struct Extent {
    requests: u64,
    /// Of the drop-in, which calls back from a thread of its own.
    requests_agios: u64,
    repetitions: usize,
    /// How many processes say what accounts and a trace add.
    processes: usize,
    /// Rounds of plain, with accounts, and with a trace, in turns in one of them.
    rounds: usize,
    /// Requests of a slice; a round has two of each.
    slice: u64,
    /// Requests whose instructions are counted, which is some fifty times slower.
    requests_counted: u64,
}

/// The setting that says what counts instructions.
const COUNTER: &str = "instructions";

const WHOLE: Extent = Extent {
    requests: 1_000_000,
    requests_agios: 200_000,
    repetitions: 3,
    processes: 15,
    rounds: 11,
    slice: 20_000,
    requests_counted: 20_000,
};
const QUICK: Extent = Extent {
    requests: 100_000,
    requests_agios: 20_000,
    repetitions: 1,
    processes: 3,
    rounds: 5,
    slice: 5_000,
    requests_counted: 2_000,
};

/// Runs the suite.
pub(crate) fn run(
    programs: &Programs,
    options: &Options,
    track: &mut Track<'_>,
) -> Result<Report, Error> {
    let mut extent = if options.quick { QUICK } else { WHOLE };
    extent.repetitions =
        options.repetitions.map_or(extent.repetitions, |repetitions| repetitions.max(1));
    // The drop-in is left out of a quick look.
    let libraries = if options.quick { &Library::ALL[..1] } else { &Library::ALL };
    let drivers = Drivers::compile(programs, libraries)?;
    let mut report = Report::new("library");
    report.set("requests", extent.requests);
    report.set("requests_of_libagios", extent.requests_agios);
    report.set("repetitions", extent.repetitions);
    report.set("request_bytes", PIECE_BYTES);
    report.set("guard", "on in every cell; AGIOS has none");
    report.set("overhead_processes", extent.processes);
    report.set("overhead_rounds", extent.rounds);
    report.set("overhead_slice_requests", extent.slice);
    let counter = Drivers::counter();
    if counter.is_none() {
        report.notes.push("instructions are not available: valgrind is not installed".to_owned());
    }
    report.set(COUNTER, counter);
    report.set("time", "wall clock, from the start of the producers until all has completed");

    let cells = Cell::all(libraries);
    let beside = beside::cases();
    track.expect(
        cells.len() * extent.repetitions + beside.len(),
        (cells.len() * extent.repetitions + beside.len()) as f64,
    );
    let mut printed: Vec<Vec<Option<Printed>>> = vec![Vec::new(); cells.len()];
    for _ in 0..extent.repetitions {
        for (cell, printed) in cells.iter().zip(&mut printed) {
            let run = drivers.cell(cell, extent.requests(cell))?;
            track.case(1.0, line(cell, run.as_ref(), &extent));
            report.raw.push(raw(cell, run.as_ref(), &extent));
            printed.push(run);
        }
    }
    for (cell, printed) in cells.iter().zip(&printed) {
        report.rows.extend(row(cell, printed, &extent));
    }
    ratios(&mut report, &cells, &printed, &extent);
    beside::run(&drivers, &beside, &extent, &mut report, track)?;
    Ok(report)
}

impl Extent {
    fn requests(&self, cell: &Cell) -> u64 {
        match cell.linked {
            Library::Forebay => self.requests,
            Library::Agios => self.requests_agios,
        }
    }

    /// Requests a second.
    fn rate(&self, cell: &Cell, printed: &Printed) -> f64 {
        self.requests(cell) as f64 * 1e9 / printed.ns as f64
    }

    /// The median; `None` unless every run has finished.
    fn median_rate(&self, cell: &Cell, printed: &[Option<Printed>]) -> Option<f64> {
        self.rates(cell, printed).map(|rates| median(&rates))
    }

    fn rates(&self, cell: &Cell, printed: &[Option<Printed>]) -> Option<Vec<f64>> {
        let rate = |run: &Option<Printed>| run.as_ref().map(|run| self.rate(cell, run));
        printed.iter().map(rate).collect()
    }
}

/// How many times AGIOS's rate.
fn over_agios(cell: &Cell, rate: f64) -> Option<f64> {
    Some(rate / (agios::measured(cell.row, cell.column).rate()? * 1e3))
}

/// Whether a cell that finished is as quick as it should be.
fn is_on_target(cell: &Cell, rate: f64) -> bool {
    let wanted = agios::target(cell.row, cell.column);
    wanted.is_none_or(|wanted| over_agios(cell, rate).is_some_and(|ratio| ratio >= wanted))
}

/// One row of the report, with everything about a cell.
fn row(cell: &Cell, printed: &[Option<Printed>], extent: &Extent) -> Option<Row> {
    let rates = extent.rates(cell, printed)?;
    let middle = |figure: fn(&Printed) -> f64| {
        median(&printed.iter().flatten().map(figure).collect::<Vec<_>>())
    };
    let requests = extent.requests(cell) as f64;
    let mut row = Row::median("rate", "1/s", &cell.parameters(), &rates);
    row.beside.extend([
        ("merge_ratio", json!(requests / middle(|run| run.batches as f64))),
        ("p50_ns", json!(middle(|run| run.p50_ns as f64))),
        ("p99_ns", json!(middle(|run| run.p99_ns as f64))),
        ("processor_ns", json!(middle(|run| run.processor_ns as f64) / requests)),
        ("peak_bytes", json!(middle(|run| run.peak_bytes as f64))),
    ]);
    if cell.is_of_table() {
        let ratio = over_agios(cell, row.value);
        row.beside.extend([
            ("agios_v2_thousand", agios::measured(cell.row, cell.column).shown()),
            ("over_agios", ratio.map_or(Value::Null, |ratio| json!(ratio))),
            ("target", agios::target(cell.row, cell.column).map_or(json!("finishes"), Value::from)),
            ("is_on_target", json!(is_on_target(cell, row.value))),
        ]);
    }
    Some(row)
}

/// What the library is held to.
fn ratios(report: &mut Report, cells: &[Cell], printed: &[Vec<Option<Printed>>], extent: &Extent) {
    let is_held = |cell: &Cell| cell.linked == Library::Forebay && cell.is_of_table();
    let held = cells.iter().zip(printed).filter(|(cell, _)| is_held(cell));
    let rates: Vec<(&Cell, Option<f64>)> =
        held.map(|(cell, printed)| (cell, extent.median_rate(cell, printed))).collect();
    report.ratio("cells", Some(rates.len() as f64));
    let finished = rates.iter().filter(|(_, rate)| rate.is_some()).count();
    report.ratio("cells_finished", Some(finished as f64));
    let is_good =
        |(cell, rate): &&(&Cell, Option<f64>)| rate.is_some_and(|rate| is_on_target(cell, rate));
    report.ratio("cells_on_target", Some(rates.iter().filter(is_good).count() as f64));
    for (kind, columns) in KINDS {
        let of_kind = rates.iter().filter(|(cell, _)| columns.contains(&cell.column));
        let (noop, others): (Vec<_>, Vec<_>) =
            of_kind.partition(|(cell, _)| cell.row == cell::Row::Noop);
        let least = |cells: Vec<&(&Cell, Option<f64>)>| {
            let ratios = cells.iter().filter_map(|(cell, rate)| over_agios(cell, (*rate)?));
            ratios.reduce(f64::min)
        };
        report.ratio(format!("{kind}_noop_over_agios_min"), least(noop));
        report.ratio(format!("{kind}_over_agios_min"), least(others));
    }
    for (cell, rate) in rates.iter().filter(|cell| !is_good(cell)) {
        let [policy, column] = [cell.row.as_str(), &column_text(cell)];
        let wanted = agios::target(cell.row, cell.column).unwrap_or(0.0);
        report.notes.push(match rate.map(|rate| over_agios(cell, rate).unwrap_or(0.0)) {
            Some(ratio) => {
                format!("below its target: {policy}, {column}: {ratio:.2} of {wanted} times AGIOS")
            }
            None => format!("did not finish: {policy}, {column}"),
        });
    }
}

fn column_text(cell: &Cell) -> String {
    let work = cell.work();
    match work.pieces {
        Some(pieces) => format!("strided m={pieces} P={}", work.producers),
        None => format!("F={} P={} W={}", work.files, work.producers, work.window),
    }
}

fn line(cell: &Cell, run: Option<&Printed>, extent: &Extent) -> String {
    let parameters = cell.parameters();
    let words = ["library", "operation"].map(|name| {
        let found = parameters.iter().find(|(own, _)| *own == name);
        found.and_then(|(_, value)| value.as_str()).unwrap_or_default().to_owned()
    });
    let head =
        format!("{}  {:5}  {:6}  {:18}", words[0], words[1], cell.row.as_str(), column_text(cell));
    match run {
        Some(run) => format!("{head}  {:.0} thousand/s", extent.rate(cell, run) / 1e3),
        None => format!("{head}  did not finish"),
    }
}

fn raw(cell: &Cell, run: Option<&Printed>, extent: &Extent) -> Value {
    let mut raw: serde_json::Map<String, Value> =
        cell.parameters().into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    raw.insert("requests".to_owned(), json!(extent.requests(cell)));
    raw.insert("finished".to_owned(), json!(run.is_some()));
    if let Some(run) = run {
        raw.insert("ns".to_owned(), json!(run.ns));
        raw.insert("processor_ns".to_owned(), json!(run.processor_ns));
        raw.insert("batches".to_owned(), json!(run.batches));
        raw.insert("p50_ns".to_owned(), json!(run.p50_ns));
        raw.insert("p99_ns".to_owned(), json!(run.p99_ns));
        raw.insert("peak_bytes".to_owned(), json!(run.peak_bytes));
    }
    Value::Object(raw)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cell::Row as Policy;

    fn printed(requests_a_second: f64) -> Option<Printed> {
        let ns = (1e15 / requests_a_second) as u64;
        let batches = 500_000;
        Some(Printed {
            ns,
            processor_ns: ns,
            batches,
            p50_ns: 200,
            p99_ns: 900,
            peak_bytes: 1 << 20,
        })
    }

    #[test]
    fn a_row_says_everything_about_its_cell() {
        let cell = Cell::of_table(Library::Forebay, Policy::To, 1);
        let runs = [printed(4e6), printed(3.714e6), printed(1e6)];
        let row = row(&cell, &runs, &WHOLE).unwrap();
        let json = serde_json::to_value(&row).unwrap();
        assert_eq!(json["policy"], "TO");
        assert_eq!(
            (&json["files"], &json["producers"], &json["window"]),
            (&json!(1), &json!(1), &json!(1024))
        );
        assert_eq!((&json["merge_ratio"], &json["p99_ns"]), (&json!(2.0), &json!(900.0)));
        assert!((json["over_agios"].as_f64().unwrap() - 3.0).abs() < 0.001, "{json}");
        assert_eq!((&json["target"], &json["is_on_target"]), (&json!(2.0), &json!(true)));
    }

    #[test]
    fn a_cell_that_did_not_finish_once_is_no_figure_and_is_told() {
        let cells = [Policy::Noop, Policy::Mlf].map(|row| Cell::of_table(Library::Forebay, row, 5));
        let runs = [vec![printed(5.9e6)], vec![None]];
        assert_eq!(row(&cells[1], &[printed(1e6), None], &WHOLE), None);
        let mut report = Report::new("library");
        ratios(&mut report, &cells, &runs, &WHOLE);
        assert_eq!(report.ratios["cells_finished"], 1.0);
        assert_eq!(report.ratios["cells_on_target"], 1.0);
        assert!((report.ratios["strided_noop_over_agios_min"] - 2.0).abs() < 0.001);
        assert_eq!(report.notes, ["did not finish: MLF, strided m=2 P=2"]);
    }

    #[test]
    fn a_target_that_is_missed_is_told() {
        let cells = [Cell::of_table(Library::Forebay, Policy::Sw, 1)];
        let mut report = Report::new("library");
        ratios(&mut report, &cells, &[vec![printed(181_000.0)]], &WHOLE);
        assert_eq!(report.ratios["cells_on_target"], 0.0);
        assert_eq!(report.notes, ["below its target: SW, F=1 P=1 W=1024: 1.00 of 5 times AGIOS"]);
    }
}
