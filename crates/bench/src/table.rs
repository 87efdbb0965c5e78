//! A report as a table for people: a line for each set of parameters, a column for each value.

use serde_json::Value;

use crate::figures::PAPER;
use crate::report::{Report, Row};

/// What stands where nothing was measured.
const NOTHING: &str = "–";

/// The report as text: the table, the ratios, the notes.
pub fn table(report: &Report) -> String {
    let parameters = parameter_names(report).len();
    let mut text = grid(&lines(report), parameters);
    let width = report.ratios.keys().map(String::len).max().unwrap_or_default();
    if !report.ratios.is_empty() {
        text.push('\n');
    }
    let values = report.ratios.values().map(|value| number(*value).chars().count()).max();
    let width_value = values.unwrap_or_default();
    for (name, value) in &report.ratios {
        let value = number(*value);
        match report.ratios_beside.get(name) {
            Some(paper) => {
                let paper = number(*paper);
                text.push_str(&format!("{name:width$}  {value:width_value$}  paper {paper}\n"));
            }
            None => text.push_str(&format!("{name:width$}  {value}\n")),
        }
    }
    if !report.notes.is_empty() {
        text.push('\n');
    }
    for note in &report.notes {
        text.push_str(&format!("{note}\n"));
    }
    text
}

/// A size in the unit that people use: `8 KiB`, `1.5 MiB`.
pub(crate) fn bytes(count: f64) -> String {
    let units = ["B", "KiB", "MiB", "GiB"];
    let power = units.len() - 1;
    let power = (0..power).find(|power| count < 1024_f64.powi(*power as i32 + 1)).unwrap_or(power);
    let value = count / 1024_f64.powi(power as i32);
    if value.fract() == 0.0 {
        format!("{value} {}", units[power])
    } else {
        format!("{value:.1} {}", units[power])
    }
}

/// Several sizes, one after the other.
pub(crate) fn bytes_all(sizes: &[u64]) -> String {
    let sizes: Vec<String> = sizes.iter().map(|size| bytes(*size as f64)).collect();
    sizes.join(", ")
}

/// Head and body, cell by cell.
fn lines(report: &Report) -> Vec<Vec<String>> {
    let parameters = parameter_names(report);
    let columns = columns(report);
    let beside = report.rows.iter().flat_map(|row| row.beside.iter().map(|(name, _)| *name));
    let beside = distinct(beside.filter(|name| *name != PAPER));
    let mut head: Vec<String> = parameters.iter().map(|name| heading(name)).collect();
    head.extend(columns.iter().map(|column| match column.is_papers {
        true => PAPER.to_owned(),
        false => heading(column.name),
    }));
    head.extend(beside.iter().map(|name| heading(name)));
    let mut units = vec![String::new(); parameters.len()];
    let unit = |column: &Column| if column.unit == "B" { "" } else { column.unit }.to_owned();
    units.extend(columns.iter().map(unit));
    units.extend(beside.iter().map(|_| String::new()));
    let mut lines = vec![head, units];
    for circumstances in distinct(report.rows.iter().map(|row| &row.parameters)) {
        let cell = |name: &&str| {
            circumstances.iter().find(|(own, _)| own == name).map_or(NOTHING.into(), parameter)
        };
        let mut line: Vec<String> = parameters.iter().map(cell).collect();
        line.extend(columns.iter().map(|column| {
            let is_it = |row: &&Row| {
                row.name == column.name
                    && row.unit == column.unit
                    && row.parameters == *circumstances
            };
            let papers = |row: &Row| row.beside.iter().find(|(name, _)| *name == PAPER).map(figure);
            match (report.rows.iter().find(is_it), column.is_papers) {
                (Some(row), false) => value(row),
                (Some(row), true) => papers(row).unwrap_or(NOTHING.into()),
                (None, _) => NOTHING.into(),
            }
        }));
        let rows = || report.rows.iter().filter(|row| row.parameters == *circumstances);
        line.extend(beside.iter().map(|name| {
            let mut found = rows().flat_map(|row| &row.beside).filter(|(own, _)| own == name);
            found.next().map_or(NOTHING.into(), figure)
        }));
        lines.push(line);
    }
    lines
}

/// What was measured, or what a paper has for it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Column {
    name: &'static str,
    unit: &'static str,
    is_papers: bool,
}

/// A column for each value; the paper's right of its own, where it has any.
fn columns(report: &Report) -> Vec<Column> {
    let has_paper = |row: &Row| row.beside.iter().any(|(name, _)| *name == PAPER);
    let mut columns = Vec::new();
    for (name, unit) in distinct(report.rows.iter().map(|row| (row.name, row.unit))) {
        columns.push(Column { name, unit, is_papers: false });
        let mut rows = report.rows.iter().filter(|row| row.name == name && row.unit == unit);
        if rows.any(has_paper) {
            columns.push(Column { name, unit, is_papers: true });
        }
    }
    columns
}

fn parameter_names(report: &Report) -> Vec<&'static str> {
    distinct(report.rows.iter().flat_map(|row| row.parameters.iter().map(|(name, _)| *name)))
}

/// In order of first appearance.
fn distinct<T: PartialEq>(items: impl Iterator<Item = T>) -> Vec<T> {
    let mut distinct = Vec::new();
    for item in items {
        if !distinct.contains(&item) {
            distinct.push(item);
        }
    }
    distinct
}

fn heading(name: &str) -> String {
    name.trim_end_matches("_bytes").replace('_', " ")
}

fn parameter((name, value): &(&'static str, Value)) -> String {
    match value {
        Value::Number(count) if name.ends_with("_bytes") => {
            bytes(count.as_f64().unwrap_or_default())
        }
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// A figure that stands beside a value.
fn figure(named: &(&'static str, Value)) -> String {
    let (name, value) = named;
    match value {
        Value::Null => NOTHING.to_owned(),
        Value::Number(count) if !name.ends_with("_bytes") => {
            number(count.as_f64().unwrap_or_default())
        }
        _ => parameter(named),
    }
}

fn value(row: &Row) -> String {
    let shown = if row.unit == "B" { bytes(row.value) } else { number(row.value) };
    match spread(&row.runs) {
        Some(spread) => format!("{shown} ±{spread:.0}%"),
        None => shown,
    }
}

/// Half the distance between the extremes of several results, in percent of their middle.
fn spread(runs: &[f64]) -> Option<f64> {
    let (least, most) =
        (runs.iter().copied().reduce(f64::min)?, runs.iter().copied().reduce(f64::max)?);
    (most > least).then(|| (most - least) / (most + least) * 100.0)
}

/// Three digits that count; whole numbers as they are.
fn number(value: f64) -> String {
    match value.abs() {
        _ if value.fract() == 0.0 => format!("{value}"),
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        1.0.. => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// Columns of equal width, to the right apart from parameters that are names; an empty line where
/// the first cell changes.
fn grid(lines: &[Vec<String>], parameters: usize) -> String {
    let columns = lines.first().map_or(0, Vec::len);
    let width = |column: usize| {
        lines.iter().map(|line| line[column].chars().count()).max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let is_name = |column: usize| {
        let mut cells = lines.iter().skip(2).map(|line| &line[column]);
        column < parameters && cells.any(|cell| cell.starts_with(|c: char| c.is_ascii_lowercase()))
    };
    let mut text = String::new();
    let mut group = "";
    for (idx, line) in lines.iter().enumerate() {
        if idx >= 2 && line[0] != group {
            text.push('\n');
            group = &line[0];
        }
        let cells = line.iter().enumerate().map(|(column, cell)| {
            let width = widths[column];
            if is_name(column) { format!("{cell:width$}") } else { format!("{cell:>width$}") }
        });
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_say_them() {
        let said = [512.0, 8192.0, 1_572_864.0, 1_048_576.0, 3e9].map(bytes);
        assert_eq!(said, ["512 B", "8 KiB", "1.5 MiB", "1 MiB", "2.8 GiB"]);
    }

    #[test]
    fn a_line_holds_all_values_of_its_parameters() {
        let mut report = Report::new("made-up");
        for (size, policy, mbps, seeks) in
            [(8192, "to", 1.17, 512.0), (8192, "aioli", 56.2, 4.0), (65536, "to", 8.2, 90.0)]
        {
            let parameters = [("size_bytes", Value::from(size)), ("policy", Value::from(policy))];
            report.rows.push(Row::median("throughput", "MB/s", &parameters, &[mbps]));
            if policy == "to" {
                report.rows.push(Row::median("seeks", "", &parameters, &[seeks]));
            }
        }
        report.ratio("aioli_over_to_8k", Some(48.0));
        let expected = "
  size  policy  throughput  seeks
                      MB/s

 8 KiB  to            1.17    512
 8 KiB  aioli         56.2      –

64 KiB  to            8.20     90

aioli_over_to_8k  48
";
        assert_eq!(format!("\n{}", table(&report)), expected);
    }

    #[test]
    fn what_else_was_found_stands_to_the_right() {
        let mut report = Report::new("made-up");
        for (policy, beside) in [("to", Value::Null), ("sjf", Value::from(2.345))] {
            let mut row = Row::median("rate", "1/s", &[("policy", Value::from(policy))], &[7.0]);
            row.beside = vec![("peak_bytes", Value::from(8192)), ("ratio", beside)];
            report.rows.push(row);
        }
        let expected = "
policy  rate   peak  ratio
         1/s

to         7  8 KiB      –

sjf        7  8 KiB   2.35
";
        let text = table(&report);
        assert_eq!(format!("\n{text}"), expected);
    }

    #[test]
    fn what_a_paper_has_stands_right_of_what_was_found() {
        let mut report = Report::new("made-up");
        for (policy, paper) in [("to", Some(3.5)), ("sjf", None)] {
            for (name, mbps) in [("rate", 7.0), ("other", 1.0)] {
                let parameters = [("policy", Value::from(policy))];
                let mut row = Row::median(name, "MB/s", &parameters, &[mbps]);
                let paper = paper.filter(|_| name == "rate");
                row.beside.extend(paper.map(|paper| (PAPER, Value::from(paper))));
                report.rows.push(row);
            }
        }
        report.ratio("a_over_b", Some(1.25));
        report.ratio("b", Some(2.0));
        report.ratios_beside.insert("a_over_b".to_owned(), 1.4);
        let expected = "
policy  rate  paper  other
        MB/s   MB/s   MB/s

to         7   3.50      1

sjf        7      –      1

a_over_b  1.25  paper 1.40
b         2
";
        assert_eq!(format!("\n{}", table(&report)), expected);
    }

    #[test]
    fn several_results_show_their_spread() {
        let row = Row::median("x", "s", &[], &[9.0, 10.0, 11.0]);
        assert_eq!(value(&row), "10 ±10%");
    }
}
