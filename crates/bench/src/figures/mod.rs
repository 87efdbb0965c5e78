//! The papers' figures, run again: a file for each, and this list.
//!
//! A figure is a [`Figure`]: the paper's values, a run that makes a report, charts of that report,
//! and one sentence that says what differs from the paper's experiment. To add one: a file that
//! defines it, and a line in [`FIGURES`]. [`cases`] runs workloads through peers in random order.

mod agios;
mod aioli;
mod aioli05;
mod aioli05_fig1;
mod aioli05_fig4;
mod aioli06_fig1;
mod aioli06_fig5;
mod aioli06_fig6;
mod aioli06_fig7;
mod aioli06_table1;
mod aioli06_table2;
mod cases;
mod iofsl;

use serde_json::{Value, json};

use crate::chart::Chart;
use crate::error::Error;
use crate::programs::Programs;
use crate::progress::Track;
use crate::report::{Report, Row};
use crate::{Options, table};

/// A figure of a paper.
#[derive(Clone, Copy)]
pub(crate) struct Figure {
    /// What it is called: paper, year, figure.
    pub(crate) name: &'static str,
    /// What it shows, in a line.
    pub(crate) summary: &'static str,
    /// Authors, year, title, figure.
    pub(crate) paper: &'static str,
    /// What the paper has, in the order in which it is shown.
    pub(crate) values: &'static [PaperValue],
    /// The sizes that are not the paper's, for a run with these options; nothing if there are none.
    pub(crate) sizes: fn(&Options) -> String,
    /// What else is not as in the paper, and what the emulation cannot speak for, in a sentence.
    pub(crate) differs: &'static str,
    /// What the paper has for ratios, by their keys.
    pub(crate) ratios: &'static [(&'static str, f64)],
    /// What the paper has for a row, in the row's unit.
    pub(crate) beside: fn(&Row) -> Option<f64>,
    /// Runs it. Its report has the figure's name.
    pub(crate) run: fn(&Programs, &Options, &mut Track<'_>) -> Result<Report, Error>,
    /// Its charts, each with a word for the file's name.
    pub(crate) charts: fn(&Report) -> Vec<(&'static str, Chart)>,
}

/// What a row calls the paper's value beside its own.
pub(crate) const PAPER: &str = "paper";

/// A parameter of a row, as text; empty if it has none of this name.
pub(crate) fn parameter<'r>(row: &'r Row, name: &str) -> &'r str {
    let found = row.parameters.iter().find(|(own, _)| *own == name);
    found.and_then(|(_, value)| value.as_str()).unwrap_or_default()
}

/// A parameter of a row that is a number.
pub(crate) fn number(row: &Row, name: &str) -> Option<u64> {
    row.parameters.iter().find(|(own, _)| *own == name)?.1.as_u64()
}

/// Something that the paper says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PaperValue {
    /// Of what.
    pub(crate) what: &'static str,
    /// The number with its unit, or the paper's words where its figure has no numbers to read.
    pub(crate) value: &'static str,
}

/// All figures.
pub(crate) const FIGURES: &[Figure] = &[
    agios::TABLE3,
    agios::TABLE4,
    agios::TABLE7,
    aioli05_fig1::FIGURE,
    aioli05_fig4::FIGURE,
    aioli06_fig1::FIGURE,
    aioli06_fig5::FIGURE,
    aioli06_fig6::FIGURE,
    aioli06_fig7::FIGURE,
    aioli06_table1::FIGURE,
    aioli06_table2::FIGURE,
    iofsl::SMALL,
    iofsl::LARGE,
];

/// The figure called `name`.
pub(crate) fn find(name: &str) -> Result<&'static Figure, Error> {
    FIGURES.iter().find(|figure| figure.name == name).ok_or_else(|| {
        let known: Vec<&str> = FIGURES.iter().map(|figure| figure.name).collect();
        Error::fix(format!("no figure is called \"{name}\"; known: {}", known.join(", ")))
    })
}

impl Figure {
    /// Runs it, and sets the paper's values and what differs beside the findings.
    pub(crate) fn report(
        &self,
        programs: &Programs,
        options: &Options,
        track: &mut Track<'_>,
    ) -> Result<Report, Error> {
        let mut report = (self.run)(programs, options, track)?;
        let differs = self.stand_beside(&mut report, options);
        let paper =
            self.values.iter().map(|value| format!("paper: {}: {}", value.what, value.value));
        let notes = std::mem::take(&mut report.notes);
        report.notes = std::iter::once(format!("paper: {}", self.paper))
            .chain(paper)
            .chain([format!("differs: {differs}")])
            .chain(notes)
            .collect();
        if let Some(seed) = report.settings.get("order_seed") {
            report.notes.push(format!("the order of the runs is that of --seed {seed}"));
        }
        Ok(report)
    }

    /// Sets the paper's values beside those found; what differs.
    fn stand_beside(&self, report: &mut Report, options: &Options) -> String {
        for row in &mut report.rows {
            let value = (self.beside)(row);
            row.beside.extend(value.map(|value| (PAPER, Value::from(value))));
        }
        let known = self.ratios.iter().filter(|(name, _)| report.ratios.contains_key(*name));
        report.ratios_beside = known.map(|(name, value)| ((*name).to_owned(), *value)).collect();
        let values = self.values.iter().map(|value| (value.what.to_owned(), value.value.into()));
        report.set(
            "paper",
            json!({
                "source": self.paper,
                "values": values.collect::<serde_json::Map<String, Value>>(),
                "ratios": report.ratios_beside,
            }),
        );
        let sizes = Some((self.sizes)(options)).filter(|sizes| !sizes.is_empty());
        let differs: Vec<String> = sizes.into_iter().chain([self.differs.to_owned()]).collect();
        let differs = differs.join("; ");
        report.set("differs", differs.clone());
        differs
    }
}

/// The charts of a figure's report; none for a report that is no figure's.
pub(crate) fn charts(report: &Report) -> Vec<(&'static str, Chart)> {
    let figure = FIGURES.iter().find(|figure| figure.name == report.suite);
    figure.map(|figure| (figure.charts)(report)).unwrap_or_default()
}

/// `8k`, `4m`: how keys of ratios say a size.
pub(crate) fn size_key(bytes: u64) -> String {
    table::bytes(bytes as f64).replace(" KiB", "k").replace(" MiB", "m")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_says_what_it_is_and_what_differs() {
        for figure in FIGURES {
            for text in [figure.summary, figure.paper, figure.differs] {
                assert!(text.len() > 20, "{}: {text}", figure.name);
            }
            assert!(!figure.values.is_empty(), "{}", figure.name);
            assert_eq!(find(figure.name).unwrap().name, figure.name);
        }
        assert!(find("x").is_err_and(|error| error.to_string().contains("aioli06-fig5")));
    }

    #[test]
    fn a_size_in_a_key_is_short() {
        assert_eq!([8 << 10, 4 << 20].map(size_key), ["8k", "4m"]);
    }
}
