//! Where a report goes: a JSON file, a folder for people, an archive with everything to judge it by.
//!
//! ```text
//! bench/runs/2026-01-31-host-strided-read/
//!   README.md    command, versions, machine, settings, table
//!   report.json  rows and ratios
//!   raw.jsonl    one line for each run: what it moved, how long it took, the forwarder's counters
//!   plot.png, plot.svg; plot-WORD.* where there are several
//! ```

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::chart::Chart;
use crate::error::Error;
use crate::report::Report;
use crate::{Options, figures, machine, strided, table};

/// Writes the report wherever the options ask for; where that was.
pub(crate) fn write(report: &Report, options: &Options) -> Result<Vec<PathBuf>, Error> {
    let mut written = Vec::new();
    if let Some(path) = &options.json {
        put(path, report.to_json())?;
        written.push(path.clone());
    }
    if let Some(folder) = &options.output {
        let path = |extension: &str| folder.join(format!("{}.{extension}", report.suite));
        make(folder)?;
        put(&path("json"), report.to_json())?;
        put(&path("txt"), table::table(report))?;
        for (word, chart) in charts(report) {
            let name = if word.is_empty() {
                report.suite.clone()
            } else {
                format!("{}-{word}", report.suite)
            };
            plot(&chart, |extension| folder.join(format!("{name}.{extension}")))?;
        }
        written.push(folder.clone());
    }
    if let Some(runs) = &options.archive {
        let folder = fresh(runs, report)?;
        archive(report, &folder)?;
        written.push(folder);
    }
    Ok(written)
}

fn archive(report: &Report, folder: &Path) -> Result<(), Error> {
    make(folder)?;
    let lines = report.raw.iter().map(|run| format!("{run}\n"));
    put(&folder.join("raw.jsonl"), lines.collect::<String>())?;
    put(&folder.join("report.json"), report.to_json())?;
    put(&folder.join("README.md"), readme(report))?;
    for (word, chart) in charts(report) {
        let name = if word.is_empty() { "plot".to_owned() } else { format!("plot-{word}") };
        plot(&chart, |extension| folder.join(format!("{name}.{extension}")))?;
    }
    Ok(())
}

/// The charts of a report, each with a word for its file's name, if there is more than one.
fn charts(report: &Report) -> Vec<(&'static str, Chart)> {
    let of_suite = strided::chart(report).map(|chart| ("", chart));
    of_suite.into_iter().chain(figures::charts(report)).collect()
}

fn plot(chart: &Chart, path: impl Fn(&str) -> PathBuf) -> Result<(), Error> {
    put(&path("svg"), chart.to_svg())?;
    put(&path("png"), chart.to_png())
}

/// A folder of today's that does not exist yet: an archived run is never overwritten.
fn fresh(runs: &Path, report: &Report) -> Result<PathBuf, Error> {
    let name = format!("{}-{}-{}", machine::today(), machine::host(), report.suite);
    let names =
        std::iter::once(name.clone()).chain((2..1000).map(|count| format!("{name}-{count}")));
    let mut free = names.map(|name| runs.join(name)).filter(|path| !path.exists());
    free.next().ok_or_else(|| Error::fix(format!("{}: too many runs of one day", runs.display())))
}

/// What a reader needs to judge the figures, and to get them again.
fn readme(report: &Report) -> String {
    let command: Vec<String> = std::env::args().collect();
    let mut text = format!("# {}\n\n```\n{}\n```\n\n", report.suite, command.join(" "));
    for (name, value) in &report.settings {
        match value {
            Value::Object(parts) => {
                text.push_str(&format!("- {name}:\n"));
                parts.iter().for_each(|(part, value)| {
                    text.push_str(&format!("  - {part}: {}\n", plain(value)))
                });
            }
            value => text.push_str(&format!("- {name}: {}\n", plain(value))),
        }
    }
    text + &format!("\n```\n{}```\n", table::table(report))
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn make(folder: &Path) -> Result<(), Error> {
    fs::create_dir_all(folder).map_err(Error::file(folder))
}

fn put(path: &Path, content: impl AsRef<[u8]>) -> Result<(), Error> {
    fs::write(path, content).map_err(Error::file(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let mut report = Report::new("core");
        report.set("machine", serde_json::json!({"processors": 2}));
        report.raw.push(serde_json::json!({"ns": 1}));
        report.ratio("a_over_b", Some(2.0));
        report
    }

    #[test]
    fn an_archived_run_is_never_overwritten() {
        let runs = tempfile::tempdir().unwrap();
        let options = Options { archive: Some(runs.path().into()), ..Options::default() };
        write(&report(), &options).unwrap();
        write(&report(), &options).unwrap();
        let mut names: Vec<String> = fs::read_dir(runs.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names.len(), 2);
        assert!(names[0].ends_with("-core") && names[1].ends_with("-core-2"), "{names:?}");
        let readme = fs::read_to_string(runs.path().join(&names[0]).join("README.md")).unwrap();
        assert!(
            readme.contains("  - processors: 2\n") && readme.contains("a_over_b  2\n"),
            "{readme}"
        );
        let raw = fs::read_to_string(runs.path().join(&names[0]).join("raw.jsonl")).unwrap();
        assert_eq!(raw, "{\"ns\":1}\n");
    }

    #[test]
    fn a_folder_for_people_has_table_and_json() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("new/demo");
        let options = Options { output: Some(output.clone()), ..Options::default() };
        assert_eq!(write(&report(), &options).unwrap(), std::slice::from_ref(&output));
        assert!(output.join("core.json").exists() && output.join("core.txt").exists());
    }
}
