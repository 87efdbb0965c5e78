//! Every setting of the forwarder as a flag, made from the forwarder's own table.

use std::path::PathBuf;

use clap::{Arg, ArgMatches, Command};
use forebay_forwarder::settings::definition::{DEFINITIONS, Definition};
use forebay_forwarder::settings::{Kind, Settings, Sources};

use crate::failure::{Failure, USAGE};

/// Shorter names for the flags that are used most.
const ALIASES: &[(&str, &str)] = &[("scheduler.policy", "policy"), ("store.kind", "store")];

const CONFIG: &str = "config";

/// What the user said about settings. `LISTEN` tells whether there are flags for `listen.*` and
/// `export.*`: `forebay run` decides these itself.
#[derive(Debug)]
pub(crate) struct SettingFlags<const LISTEN: bool> {
    config: Option<PathBuf>,
    given: Vec<(&'static str, String)>,
}

impl<const LISTEN: bool> SettingFlags<LISTEN> {
    fn definitions() -> impl Iterator<Item = &'static Definition> {
        DEFINITIONS
            .iter()
            .filter(|d| LISTEN || !(d.key.starts_with("listen.") || d.key.starts_with("export.")))
    }

    /// Adds what a command decides, as if its flag were given last.
    pub(crate) fn set(&mut self, key: &'static str, value: &str) {
        self.given.push((key, value.to_owned()));
    }

    /// Settles the settings: the file, over it the environment, over it the flags, over all of
    /// it `decided`, which is what the command itself decides.
    pub(crate) fn resolve(&self, decided: &[(&str, String)]) -> Result<Settings, Failure> {
        let mut sources = Sources::new().environment(std::env::vars_os());
        if let Some(path) = &self.config {
            sources = sources.file(path);
        }
        for (key, value) in &self.given {
            sources = sources.flag(key, value);
        }
        for (key, value) in decided {
            sources = sources.flag(key, value);
        }
        sources.resolve().map_err(|error| Failure::new(USAGE, error.to_string()))
    }
}

fn argument(definition: &'static Definition) -> Arg {
    let default = match definition.default {
        "" => "none",
        default => default,
    };
    let alias = ALIASES.iter().find(|(key, _)| *key == definition.key).map(|(_, alias)| *alias);
    let long = alias.map_or_else(|| definition.flag(), str::to_owned);
    let arg = Arg::new(definition.key)
        .long(long)
        .value_name(value_name(&definition.kind))
        .help(format!("{} [{}; default: {default}]", definition.about, definition.kind))
        .help_heading("Settings (all of them: --help)")
        .hide_short_help(alias.is_none());
    match alias {
        Some(_) => arg.alias(definition.flag()),
        None => arg,
    }
}

fn value_name(kind: &Kind) -> &'static str {
    match kind {
        Kind::Bytes { .. } => "SIZE",
        Kind::Count { .. } | Kind::Factor { .. } => "NUMBER",
        Kind::ByteRate { .. } | Kind::OperationRate { .. } => "RATE",
        Kind::Duration { .. } => "TIME",
        Kind::Choice(_) => "NAME",
        Kind::Path => "PATH",
        Kind::Address => "ADDRESS",
        Kind::Networks => "NETWORKS",
        Kind::Store => "STORE",
        Kind::Faults => "RULES",
    }
}

impl<const LISTEN: bool> clap::Args for SettingFlags<LISTEN> {
    fn augment_args(command: Command) -> Command {
        let config = Arg::new(CONFIG)
            .long(CONFIG)
            .value_name("FILE")
            .value_parser(clap::value_parser!(PathBuf))
            .help("TOML file of settings; FOREBAY_SECTION_NAME variables and flags override it");
        command.arg(config).args(Self::definitions().map(argument))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<const LISTEN: bool> clap::FromArgMatches for SettingFlags<LISTEN> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = Self::definitions()
            .filter_map(|d| matches.get_one::<String>(d.key).map(|value| (d.key, value.clone())))
            .collect();
        Ok(Self { config: matches.get_one(CONFIG).cloned(), given })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
