//! Scenario files: what is in them, and on which line is what is wrong with them.

use std::ops::Range;
use std::path::{Path, PathBuf};

use forebay_sim::{Invalid, Scenario};
use toml::de::{DeTable, DeValue};

use crate::failure::{Failure, USAGE};

/// A scenario and the text that it was read from.
pub(super) struct ScenarioFile {
    path: PathBuf,
    text: String,
    pub(super) scenario: Scenario,
}

impl ScenarioFile {
    /// Reads a file; what is in it may still be impossible.
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        let wrong =
            |text: &str| Failure::new(USAGE, format!("{}: {}", path.display(), text.trim_end()));
        let text = std::fs::read_to_string(path).map_err(|error| wrong(&error.to_string()))?;
        let scenario = toml::from_str(&text).map_err(|error| wrong(&error.to_string()))?;
        Ok(Self { path: path.to_owned(), text, scenario })
    }

    /// What is impossible about it, with the line on which it is said.
    pub(super) fn refused(&self, invalid: &Invalid) -> Failure {
        let place = match line_of(&self.text, &invalid.key) {
            Some(line) => format!("{}: line {line}", self.path.display()),
            None => self.path.display().to_string(),
        };
        Failure::new(USAGE, format!("{place}: {invalid}"))
    }
}

/// The line of a key as [`Invalid`] spells it: `servers.count`, or `job "name": window`. `None` if
/// it is not in the file, or is several times and nobody knows which is meant.
fn line_of(text: &str, key: &str) -> Option<usize> {
    let root = DeTable::parse(text).ok()?;
    let root = root.get_ref();
    let span = match key.strip_prefix("job \"") {
        None => {
            let (section, name) = key.split_once('.')?;
            key_in(table(root, section)?, name)?
        }
        Some(job) => {
            let (job, name) = job.rsplit_once("\": ")?;
            let is_it = |it: &&DeTable<'_>| text_of(it, "name") == Some(job);
            let job = only(tables(root, "job")?.into_iter().filter(is_it))?;
            match name.split_once('.') {
                None => key_in(job, name)?,
                Some((phase, name)) => {
                    let phases = tables(job, phase)?.into_iter();
                    only(phases.filter_map(|phase| key_in(phase, name)))?
                }
            }
        }
    };
    Some(text[..span.start].matches('\n').count() + 1)
}

/// The only one of some, if it is the only one.
fn only<T>(mut some: impl Iterator<Item = T>) -> Option<T> {
    some.next().filter(|_| some.next().is_none())
}

fn value<'t, 'a>(table: &'t DeTable<'a>, name: &str) -> Option<&'t DeValue<'a>> {
    let (_, value) = table.iter().find(|(key, _)| key.get_ref() == name)?;
    Some(value.get_ref())
}

fn table<'t, 'a>(parent: &'t DeTable<'a>, name: &str) -> Option<&'t DeTable<'a>> {
    value(parent, name)?.as_table()
}

fn tables<'t, 'a>(parent: &'t DeTable<'a>, name: &str) -> Option<Vec<&'t DeTable<'a>>> {
    let array = value(parent, name)?.as_array()?;
    Some(array.iter().filter_map(|it| it.get_ref().as_table()).collect())
}

fn text_of<'t>(table: &'t DeTable<'_>, name: &str) -> Option<&'t str> {
    value(table, name)?.as_str()
}

fn key_in(table: &DeTable<'_>, name: &str) -> Option<Range<usize>> {
    let (key, _) = table.iter().find(|(key, _)| key.get_ref() == name)?;
    Some(key.span())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"name = "x"
[servers]
count = 4

[[job]]
name = "a"
window = 3
[[job.phase]]
requests = 1

[[job]]
name = "b: \"c\""
"window" = 9
[[job.phase]]
requests = 1
[[job.phase]]
requests = 2
"#;

    #[test]
    fn keys_are_found_where_they_are_written() {
        for (key, line) in [
            ("servers.count", Some(3)),
            ("servers.depth", None),
            ("forwarder.memory", None),
            ("job \"a\": window", Some(7)),
            ("job \"a\": phase.requests", Some(9)),
            ("job \"a\": phase.think", None),
            ("job \"b: \"c\"\": window", Some(13)),
            ("job \"b: \"c\"\": phase.requests", None),
            ("job \"d\": window", None),
            ("job", None),
            ("", None),
        ] {
            assert_eq!(line_of(TEXT, key), line, "{key}");
        }
    }
}
