//! Taking keys out of a group, with everything that there is to say about them.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use super::algorithm::Algorithm;
use super::libconfig::{Setting, Value};
use super::path_from;

/// A file being read: one of its groups at a time, and the messages so far.
pub(super) struct Group<'s> {
    file: &'s Path,
    top: &'s [Setting],
    /// Names of top-level groups that were entered.
    entered: Vec<&'static str>,
    settings: &'s [Setting],
    /// Keys of the group that somebody asked for.
    known: Vec<&'static str>,
    /// Keys that were left out and matter, with their defaults.
    defaults: Vec<String>,
    complaints: Vec<String>,
    remarks: Vec<String>,
}

impl<'s> Group<'s> {
    pub(super) fn new(file: &'s Path, top: &'s [Setting]) -> Self {
        Self {
            file,
            top,
            entered: Vec::new(),
            settings: &[],
            known: Vec::new(),
            defaults: Vec::new(),
            complaints: Vec::new(),
            remarks: Vec::new(),
        }
    }

    /// Reads from this group on; `None`, and a complaint, if the file has no such group.
    pub(super) fn enter(&mut self, name: &'static str) -> Option<()> {
        if !self.top.iter().any(|setting| setting.name == name) {
            let file = self.file.display();
            self.complain(format!("{file}: has no group {name}; write {name}: {{ … }}"));
            return None;
        }
        self.enter_optional(name);
        Some(())
    }

    /// Reads from this group on; without it every key of it is left out.
    pub(super) fn enter_optional(&mut self, name: &'static str) {
        self.entered.push(name);
        self.known.clear();
        self.settings = &[];
        let Some(setting) = self.top.iter().find(|setting| setting.name == name) else { return };
        match &setting.value {
            Value::Group(settings) => self.settings = settings,
            other => self.complain_at(setting, format!("is {}; write a group", other.kind())),
        }
    }

    /// Tells which keys of the group nobody reads.
    pub(super) fn leave(&mut self) {
        let unread = self.settings.iter().filter(|s| !self.known.contains(&s.name.as_str()));
        let place = self.file.display();
        let remarks = unread.map(|s| {
            format!("{place}:{}: {} = {}: is no key, nobody reads it", s.line, s.name, s.value)
        });
        self.remarks.extend(remarks);
    }

    /// Whether the key is set; it counts as read.
    pub(super) fn is_set(&mut self, key: &'static str) -> bool {
        self.find(key).is_some()
    }

    /// An integer within `range`, or `default`, which is told if it `matters`. A value that cannot
    /// be used is complained about, whether it matters or not.
    pub(super) fn integer(
        &mut self,
        key: &'static str,
        default: i64,
        range: RangeInclusive<i64>,
        unit: &str,
        matters: bool,
    ) -> i64 {
        let unit = if unit.is_empty() { String::new() } else { format!(" {unit}") };
        let Some(setting) = self.find(key) else {
            if matters {
                self.defaults.push(format!("{key} (default {default}{unit})"));
            }
            return default;
        };
        match setting.value {
            Value::Integer(number) if range.contains(&number) => number,
            _ => {
                let (low, high) = range.into_inner();
                self.complain_at(setting, format!("write an integer from {low} to {high}{unit}"));
                default
            }
        }
    }

    /// A truth, or `default`.
    pub(super) fn boolean(&mut self, key: &'static str, default: bool) -> bool {
        let Some(setting) = self.find(key) else { return default };
        match setting.value {
            Value::Bool(value) => value,
            _ => {
                self.complain_at(setting, "write true or false".to_owned());
                default
            }
        }
    }

    /// An algorithm's name, which must be there.
    pub(super) fn algorithm(&mut self, key: &'static str) -> Option<Algorithm> {
        let Some(setting) = self.find(key) else {
            let names = Algorithm::ALL.map(Algorithm::name).join(", ");
            self.complain_missing(key, &format!("name one of {names}"));
            return None;
        };
        let parsed = match &setting.value {
            Value::Text(name) => Algorithm::parse(name),
            other => Err(format!("is {}; write a name between quotes", other.kind())),
        };
        parsed.map_err(|what| self.complain_at(setting, what)).ok()
    }

    /// A path, which must be there because of `reason`.
    pub(super) fn path(&mut self, key: &'static str, reason: &str) -> Option<PathBuf> {
        let Some(setting) = self.find(key) else {
            self.complain_missing(key, &format!("write a path, because {reason}"));
            return None;
        };
        match &setting.value {
            Value::Text(text) if !text.is_empty() && !text.contains(&0) => Some(path_from(text)),
            _ => {
                self.complain_at(setting, "write a path between quotes".to_owned());
                None
            }
        }
    }

    pub(super) fn complain(&mut self, complaint: String) {
        self.complaints.push(complaint);
    }

    /// What must be corrected, and what should be known.
    pub(super) fn into_messages(mut self) -> (Vec<String>, Vec<String>) {
        let file = self.file.display();
        let unread = self.top.iter().filter(|s| !self.entered.contains(&s.name.as_str()));
        self.remarks.extend(unread.map(|s| format!("{file}:{}: nobody reads {}", s.line, s.name)));
        if !self.defaults.is_empty() {
            self.remarks.push(format!("{file}: does not set {}", self.defaults.join(", ")));
        }
        (self.complaints, self.remarks)
    }

    fn find(&mut self, key: &'static str) -> Option<&'s Setting> {
        self.known.push(key);
        self.settings.iter().find(|setting| setting.name == key)
    }

    fn complain_at(&mut self, setting: &Setting, what: String) {
        let Setting { name, line, value } = setting;
        let file = self.file.display();
        self.complaints.push(format!("{file}:{line}: {name} = {value}: {what}"));
    }

    fn complain_missing(&mut self, key: &str, what: &str) {
        let group = self.entered.last().copied().unwrap_or_default();
        let complaint = format!("{}: {group} lacks {key}; {what}", self.file.display());
        self.complaints.push(complaint);
    }
}
