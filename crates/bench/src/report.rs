//! What a suite found: rows of measured values with their parameters, and the ratios that matter.
//!
//! As JSON: `{"suite", "settings", "rows": [{"name", "value", "unit", …parameters}], "ratios": {name: number}}`.
//! A ratio is always taken within one run of a suite: absolute figures of two machines, or of two
//! days, say little beside each other.

use std::collections::BTreeMap;

use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};
use serde_json::Value;

/// What a suite found.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// The suite's name.
    pub suite: String,
    /// What was set, by name: whatever would change the figures.
    pub settings: BTreeMap<String, Value>,
    /// Every measured value.
    pub rows: Vec<Row>,
    /// The figures that the project is held to.
    pub ratios: BTreeMap<String, f64>,
    /// What the rows were made from, one value for each run; archived beside the report.
    #[serde(skip)]
    pub raw: Vec<Value>,
    /// What a paper has for some of the ratios; shown beside them.
    #[serde(skip)]
    pub ratios_beside: BTreeMap<String, f64>,
    /// Sentences that a reader of the table should see, such as who lost where.
    #[serde(skip)]
    pub notes: Vec<String>,
}

/// One measured value.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// What was measured.
    pub name: &'static str,
    /// How much of it.
    pub value: f64,
    /// Of what.
    pub unit: &'static str,
    /// Under which circumstances, in the order in which a table shows them.
    pub parameters: Vec<(&'static str, Value)>,
    /// The single results whose median `value` is, when there were several.
    pub runs: Vec<f64>,
    /// What else was found in the same runs, by name.
    pub beside: Vec<(&'static str, Value)>,
}

impl Report {
    /// A report without rows.
    pub fn new(suite: &str) -> Self {
        Self { suite: suite.to_owned(), ..Self::default() }
    }

    /// Notes what was set.
    pub fn set(&mut self, name: &str, value: impl Into<Value>) {
        self.settings.insert(name.to_owned(), value.into());
    }

    /// Notes a ratio, when it could be computed.
    pub fn ratio(&mut self, name: impl Into<String>, value: Option<f64>) {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            self.ratios.insert(name.into(), value);
        }
    }

    /// The value of the row of this name that has all these parameters.
    pub fn value(&self, name: &str, parameters: &[(&str, Value)]) -> Option<f64> {
        let found = self.rows.iter().find(|row| row.name == name && row.has(parameters));
        found.map(|row| row.value)
    }

    /// The report as JSON text, readable.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("a report has string keys only");
        text.push('\n');
        text
    }
}

impl Row {
    /// A row with the median of several results.
    ///
    /// # Panics
    /// If there is no result.
    pub fn median(
        name: &'static str,
        unit: &'static str,
        parameters: &[(&'static str, Value)],
        runs: &[f64],
    ) -> Self {
        let several = if runs.len() > 1 { runs.to_vec() } else { Vec::new() };
        let parameters = parameters.to_vec();
        Self { name, value: median(runs), unit, parameters, runs: several, beside: Vec::new() }
    }

    /// Whether it was measured under these circumstances, among others.
    fn has(&self, parameters: &[(&str, Value)]) -> bool {
        parameters.iter().all(|wanted| self.parameters.iter().any(|own| own == wanted))
    }
}

impl Serialize for Row {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("name", self.name)?;
        map.serialize_entry("value", &self.value)?;
        map.serialize_entry("unit", self.unit)?;
        for (name, value) in &self.parameters {
            map.serialize_entry(name, value)?;
        }
        if !self.runs.is_empty() {
            map.serialize_entry("runs", &self.runs)?;
        }
        for (name, value) in &self.beside {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

/// The middle one of some results, or the mean of the two in the middle.
///
/// # Panics
/// If there are none.
pub(crate) fn median(results: &[f64]) -> f64 {
    assert!(!results.is_empty(), "a median of nothing");
    let mut sorted = results.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let mut report = Report::new("made-up");
        report.set("processes", 32);
        let parameters = [("granularity", Value::from(8192)), ("policy", Value::from("to"))];
        report.rows.push(Row::median("throughput", "MB/s", &parameters, &[3.0, 1.0, 2.0]));
        report.ratio("a_over_b", Some(1.5));
        report.ratio("nothing_over_nothing", Some(f64::NAN));
        report
    }

    #[test]
    fn parameters_stand_beside_the_value() {
        let json: Value = serde_json::from_str(&report().to_json()).unwrap();
        assert_eq!(
            json,
            serde_json::json!({
                "suite": "made-up",
                "settings": {"processes": 32},
                "rows": [{"name": "throughput", "value": 2.0, "unit": "MB/s", "granularity": 8192,
                          "policy": "to", "runs": [3.0, 1.0, 2.0]}],
                "ratios": {"a_over_b": 1.5},
            })
        );
    }

    #[test]
    fn a_value_is_found_by_its_parameters() {
        let report = report();
        assert_eq!(report.value("throughput", &[("policy", "to".into())]), Some(2.0));
        assert_eq!(report.value("throughput", &[("policy", "sjf".into())]), None);
        assert_eq!(report.value("seeks", &[]), None);
    }

    #[test]
    fn the_median_of_an_even_number_lies_between_the_middle_ones() {
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), 2.5);
        assert_eq!(median(&[7.0]), 7.0);
    }
}
