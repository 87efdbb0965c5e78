//! Where settings come from, which one wins, and what is said when they are wrong.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use forebay_units::Bytes;

use super::class::{Ceiling, ClassSettings};
use super::definition::{AUTO, DEFINITIONS, Definition, NO_PIN};
use super::{Classes, Cost, Discipline, Level, Settings};

/// What every environment variable of Forebay begins with.
pub(super) const PREFIX: &str = "FOREBAY_";

/// Variables that mean something to a program under the preload library, or to `forebay run`,
/// and are no settings of the forwarder; every other `FOREBAY_…` must be a setting.
pub const CLIENT_VARIABLES: &[&str] = &[
    "FOREBAY_ENDPOINT",
    "FOREBAY_PATHS",
    "FOREBAY_EXPORT",
    "FOREBAY_ON_FAILURE",
    "FOREBAY_JOB",
    "FOREBAY_REPORT",
    "FOREBAY_PRELOAD",
    "FOREBAY_START",
    "FOREBAY_TIMEOUT_MS",
    "FOREBAY_DEMO_QUICK",
];

/// The section whose keys are names.
const CLASSES: &str = "classes";

/// Where a value was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// In the table of settings.
    Default,
    /// In a file.
    File(PathBuf),
    /// In a variable of the environment.
    Environment(String),
    /// On the command line.
    Flag(String),
}

/// One thing wrong with what was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The key as given.
    pub key: String,
    /// The value as given.
    pub value: String,
    /// Where.
    pub origin: Origin,
    /// What would have been right.
    pub allowed: String,
}

/// Everything wrong with what was given, so that it can be put right in one go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// At least one.
    pub faults: Vec<Fault>,
}

/// What was said so far; a later source overrides an earlier one of the same rank, and
/// flags override the environment, which overrides the file, in whatever order they are added.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    file: BTreeMap<&'static str, (String, Origin)>,
    environment: BTreeMap<&'static str, (String, Origin)>,
    flags: BTreeMap<&'static str, (String, Origin)>,
    classes: Classes,
    faults: Vec<Fault>,
}

impl Sources {
    /// Nothing said: the defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a TOML file. One that cannot be read or parsed is an error, never the defaults.
    pub fn file(mut self, path: &Path) -> Self {
        match std::fs::read_to_string(path) {
            Ok(text) => self.toml(&text, path),
            Err(error) => {
                self.unusable_file(path, error.to_string(), "a readable file".to_owned());
                self
            }
        }
    }

    /// Adds TOML text; `path` is named in errors.
    pub fn toml(mut self, text: &str, path: &Path) -> Self {
        match text.parse::<toml::Table>() {
            Ok(table) => self.table("", &table, path),
            Err(error) => {
                self.unusable_file(path, error.message().to_owned(), located(&error, text))
            }
        }
        self
    }

    /// Adds the `FOREBAY_…` variables of an environment such as [`std::env::vars_os`].
    pub fn environment(
        mut self,
        variables: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Self {
        for (name, value) in variables {
            let Some(name) = name.to_str().filter(|name| name.starts_with(PREFIX)) else {
                continue;
            };
            if CLIENT_VARIABLES.contains(&name) {
                continue;
            }
            let value = value.to_string_lossy().into_owned();
            let origin = Origin::Environment(name.to_owned());
            match DEFINITIONS.iter().find(|d| d.variable() == name) {
                Some(definition) => drop(self.environment.insert(definition.key, (value, origin))),
                None => self.faults.push(Fault {
                    key: name.to_owned(),
                    value,
                    origin,
                    allowed: "no such variable; a setting section.name is FOREBAY_SECTION_NAME"
                        .to_owned(),
                }),
            }
        }
        self
    }

    /// Adds what a flag said; `key` is the setting's key, such as `pool.bytes`.
    pub fn flag(mut self, key: &str, value: &str) -> Self {
        match Definition::find(key) {
            Some(definition) => {
                let origin = Origin::Flag(definition.flag());
                self.flags.insert(definition.key, (value.to_owned(), origin));
            }
            None => self.unknown_key(key, value, Origin::Flag(key.to_owned())),
        }
        self
    }

    /// Settles every setting, or says everything that is wrong.
    pub fn resolve(mut self) -> Result<Settings, Error> {
        let mut settings = Settings { classes: self.classes, ..Settings::blank() };
        for definition in DEFINITIONS {
            let key = definition.key;
            let (text, origin) = [&mut self.flags, &mut self.environment, &mut self.file]
                .into_iter()
                .find_map(|source| source.remove(key))
                .unwrap_or_else(|| (definition.default.to_owned(), Origin::Default));
            match definition.kind.parse(&text) {
                Some(value) => (definition.write)(&mut settings, value),
                None => self.faults.push(Fault {
                    key: key.to_owned(),
                    allowed: definition.kind.allowed(&text),
                    value: text,
                    origin,
                }),
            }
        }
        if self.faults.is_empty() {
            self.faults = faults_together(&settings);
        }
        if self.faults.is_empty() { Ok(settings) } else { Err(Error { faults: self.faults }) }
    }

    fn table(&mut self, prefix: &str, table: &toml::Table, path: &Path) {
        for (name, value) in table {
            let key = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
            let origin = Origin::File(path.to_owned());
            match (Definition::find(&key), value, spelled(value)) {
                (Some(definition), _, Some(text)) => {
                    drop(self.file.insert(definition.key, (text, origin)))
                }
                (Some(definition), value, None) => self.faults.push(Fault {
                    key,
                    value: value.to_string(),
                    origin,
                    allowed: definition.kind.to_string(),
                }),
                (None, toml::Value::Table(names), _) if key == CLASSES => {
                    self.class_tables(names, path);
                }
                (None, toml::Value::Table(inner), _) if prefix.is_empty() && is_section(&key) => {
                    self.table(&key, inner, path);
                }
                (None, value, _) => self.unknown_key(&key, &value.to_string(), origin),
            }
        }
    }

    /// `[classes.NAME]`: any name, the keys of a class.
    fn class_tables(&mut self, names: &toml::Table, path: &Path) {
        for (name, keys) in names {
            let single = toml::Table::from_iter([(String::new(), keys.clone())]);
            for (key, value) in keys.as_table().unwrap_or(&single) {
                let text = spelled(value).unwrap_or_else(|| value.to_string());
                if let Err(fault) = self.classes.set(name, key, &text) {
                    self.faults.push(Fault {
                        key: format!("{CLASSES}.{name}.{key}"),
                        value: text,
                        origin: Origin::File(path.to_owned()),
                        allowed: fault.allowed,
                    });
                }
            }
        }
    }

    fn unknown_key(&mut self, key: &str, value: &str, origin: Origin) {
        let section = key.split('.').next().unwrap_or(key);
        let known: Vec<&str> = match is_section(section) {
            true => {
                DEFINITIONS.iter().map(|d| d.key).filter(|k| section_of(k) == section).collect()
            }
            false => {
                let mut sections: Vec<&str> =
                    DEFINITIONS.iter().map(|d| section_of(d.key)).collect();
                sections.dedup();
                sections.push(CLASSES);
                sections
            }
        };
        self.faults.push(Fault {
            key: key.to_owned(),
            value: value.to_owned(),
            origin,
            allowed: format!("no such key; known are {}", known.join(", ")),
        });
    }

    fn unusable_file(&mut self, path: &Path, problem: String, allowed: String) {
        self.faults.push(Fault {
            key: path.display().to_string(),
            value: problem,
            origin: Origin::File(path.to_owned()),
            allowed,
        });
    }
}

/// A TOML value as a user would spell it in a variable or a flag; `None` for what no setting can be.
fn spelled(value: &toml::Value) -> Option<String> {
    match value {
        toml::Value::String(text) => Some(text.clone()),
        toml::Value::Integer(number) => Some(number.to_string()),
        toml::Value::Float(number) => Some(number.to_string()),
        toml::Value::Array(items) => {
            let texts: Option<Vec<&str>> = items.iter().map(toml::Value::as_str).collect();
            texts.map(|texts| texts.join(","))
        }
        toml::Value::Boolean(_) | toml::Value::Datetime(_) | toml::Value::Table(_) => None,
    }
}

fn section_of(key: &str) -> &str {
    key.split('.').next().unwrap_or(key)
}

fn is_section(name: &str) -> bool {
    DEFINITIONS.iter().any(|d| section_of(d.key) == name)
}

/// Where a TOML error is, for the person who has to mend it.
fn located(error: &toml::de::Error, text: &str) -> String {
    let at = error.span().map_or(0, |span| span.start.min(text.len()));
    let line = text.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count() + 1;
    format!("TOML; the mistake is at line {line}")
}

/// What breaks rules that concern two settings at once.
pub(super) fn faults_together(settings: &Settings) -> Vec<Fault> {
    let Settings { pool, session, scheduler, select, sharing, classes, store, .. } = settings;
    let mut faults = Vec::new();
    let mut fault = |key: String, value: String, allowed: String| {
        faults.push(Fault { key, value, origin: Origin::Default, allowed });
    };
    let reserved = classes
        .entries()
        .filter(|(_, class)| matches!(class.reservation, Some(Ceiling::PerSecond(_))));
    for (name, _) in reserved.filter(|_| sharing.cost != Cost::Bytes) {
        let allowed = "none, or sharing.cost = bytes: reservations are bytes a second".to_owned();
        fault(format!("{CLASSES}.{name}.reservation"), "set".to_owned(), allowed);
    }
    let is_by_target = sharing.level == Level::Target;
    if is_by_target && store.targets < 2 {
        let allowed = "at least 2 where sharing.level = target: one data server shares with none; set store.targets and store.stripe_bytes as the file system has them, or sharing.level = job".to_owned();
        fault("store.targets".to_owned(), store.targets.to_string(), allowed);
    }
    if is_by_target && store.targets > sharing.class_count_max {
        let allowed = format!(
            "at most sharing.class_count_max ({}) where sharing.level = target: each data server is a class; start the forwarder with a larger sharing.class_count_max",
            sharing.class_count_max
        );
        fault("store.targets".to_owned(), store.targets.to_string(), allowed);
    }
    let mut refuse_discipline = |value: &str, allowed: &str| {
        fault("sharing.discipline".to_owned(), value.to_owned(), allowed.to_owned());
    };
    match sharing.discipline {
        Discipline::Twins if !is_by_target => refuse_discipline(
            "twins",
            "sfq, drr, sw, or twins where the forwarder is started with sharing.level = target: it gives data servers windows, and jobs are none",
        ),
        Discipline::Sw if is_by_target => refuse_discipline(
            "sw",
            "sfq, drr, twins, or sw where the forwarder is started with sharing.level = job or user: it orders programs, and data servers are none",
        ),
        Discipline::Sfq | Discipline::Drr | Discipline::Twins | Discipline::Sw => {}
    }
    if !settings.is_auto() {
        const REMEDY: &str =
            "or scheduler.policy = auto: with any other there is nothing to choose";
        if select.pin != NO_PIN {
            let allowed = format!("{NO_PIN}, {REMEDY}; to use one policy, set scheduler.policy");
            fault("select.pin".to_owned(), select.pin.clone(), allowed);
        }
        let choosing = |class: &ClassSettings| class.policy.as_deref() == Some(AUTO);
        for (name, _) in classes.entries().filter(|(_, class)| choosing(class)) {
            let allowed = format!("{NO_PIN}, one of the other policies, {REMEDY}");
            fault(format!("{CLASSES}.{name}.policy"), AUTO.to_owned(), allowed);
        }
    }
    let mut require = |holds: bool, key: &str, value: Bytes, allowed: String| {
        if !holds {
            fault(key.to_owned(), super::Value::Bytes(value).to_string(), allowed);
        }
    };
    require(
        scheduler.batch_bytes_max >= scheduler.run_bytes_max,
        "scheduler.batch_bytes_max",
        scheduler.batch_bytes_max,
        format!(
            "at least scheduler.run_bytes_max ({})",
            super::Value::Bytes(scheduler.run_bytes_max)
        ),
    );
    require(
        session.eager_bytes_max <= session.chunk_bytes_max,
        "session.eager_bytes_max",
        session.eager_bytes_max,
        format!(
            "at most session.chunk_bytes_max ({})",
            super::Value::Bytes(session.chunk_bytes_max)
        ),
    );
    let reserve = pool.reserve();
    require(
        reserve >= session.chunk_bytes_max && pool.bytes - reserve >= session.chunk_bytes_max,
        "pool.bytes",
        pool.bytes,
        format!(
            "large enough that the reserve of {} % and the rest each hold a chunk ({})",
            pool.reserve_percent,
            super::Value::Bytes(session.chunk_bytes_max)
        ),
    );
    faults
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => write!(f, "together with the other settings"),
            Self::File(path) => write!(f, "in {}", path.display()),
            Self::Environment(name) => write!(f, "in the environment as {name}"),
            Self::Flag(name) => write!(f, "as --{name}"),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {:?} ({}); allowed: {}", self.key, self.value, self.origin, self.allowed)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<String> = self.faults.iter().map(Fault::to_string).collect();
        write!(f, "bad setting: {}", texts.join("\nbad setting: "))
    }
}

impl std::error::Error for Error {}
