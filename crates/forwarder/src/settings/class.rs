//! What can be said about a class by name: `[classes.NAME]` in a file, `class NAME key=value` live.
//!
//! A name is one of
//!
//! ```text
//! default          every class, as far as nobody says otherwise
//! climate          the job `climate`, of whatever user
//! 1000/climate     the job `climate` of user 1000; `1000/-` is what that user does outside of jobs
//! user:1000        user 1000: all jobs of that user together
//! other            everybody for whom there was no place
//! ```
//!
//! Jobs name themselves, users do not. So a job whose own name looks like one of the others (it has
//! a slash, or it is `default`, `other` or begins with `user:`) is known by `USER/JOB` only.
//!
//! What is not said under the more exact name is looked for under the less exact one:
//! `1000/climate`, then `climate`, then `default`; for a user, `user:1000` and no other.

use std::collections::BTreeMap;
use std::fmt;

use super::definition::{CLASS_POLICIES, NO_PIN};
use super::value::{Kind, Value};

/// The name whose settings hold for every class.
pub const DEFAULT: &str = "default";

/// The name whose settings hold for those for whom there was no place.
pub const OTHER: &str = "other";

/// Places of the scheduler for one of `sharing.class_count_max`: a job's, and one for a user's jobs
/// that have none of their own.
pub const CLASS_PLACES: usize = 2;

/// What the name of a user begins with.
pub const USER: &str = "user:";

/// Most names that can have settings.
pub const NAMES_MAX: usize = 4096;

/// Longest name: a user, a slash and a job.
const NAME_BYTES_MAX: usize = 96;

/// A limit, or that there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ceiling {
    /// No limit.
    None,
    /// At most so many units a second; at least 1.
    PerSecond(u64),
}

/// What happens to a class at its limit while nobody else wants the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtLimit {
    /// It goes on: a limit never idles the device.
    Borrow,
    /// It waits: the limit is kept whoever else is there.
    Wait,
}

/// What was said under one name; `None` where nothing was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClassSettings {
    /// Part in proportion to the others'.
    pub weight: Option<u32>,
    /// Most bytes a second.
    pub limit_bytes_per_second: Option<Ceiling>,
    /// Most requests a second.
    pub limit_operations_per_second: Option<Ceiling>,
    /// Bytes a second that it gets before weights are looked at.
    pub reservation: Option<Ceiling>,
    /// What happens at a limit.
    pub at_limit: Option<AtLimit>,
    /// The order within the class, one of [`POLICIES`](super::definition::POLICIES); else
    /// `scheduler.policy`.
    pub policy: Option<String>,
}

/// One key of a class.
struct ClassKey {
    key: &'static str,
    kind: Kind,
    about: &'static str,
    write: fn(&mut ClassSettings, Value),
    read: fn(&ClassSettings) -> Option<Value>,
}

/// How long a client waits for a sign of life unless told otherwise (`FOREBAY_TIMEOUT_MS`).
const CLIENT_PATIENCE_S: u64 = 30;
/// What a busy process has under way: 32 threads with 2 MiB each.
const PATIENT_OPERATIONS: u64 = 64;
const PATIENT_BYTES: u64 = 64 << 20;

/// The largest weight.
const WEIGHT_MAX: u32 = 1_000_000;
/// The largest rate.
/// Most units a second that can be said.
pub(super) const RATE_MAX: u64 = 1_000_000_000_000_000;
const BYTE_RATE: Kind = Kind::ByteRate { max: RATE_MAX };
const OPERATION_RATE: Kind = Kind::OperationRate { max: RATE_MAX };
const WAIT: &str = "wait";
const BORROW: &str = "borrow";

fn ceiling(value: Value) -> Option<Ceiling> {
    match value {
        Value::ByteRate(ceiling) | Value::OperationRate(ceiling) => Some(ceiling),
        other => panic!("bug: a limit holds {other:?}"),
    }
}

fn word(value: Value) -> String {
    match value {
        Value::Text(text) => text,
        other => panic!("bug: a word holds {other:?}"),
    }
}

/// Every key of a class, in the order of the reference text.
const KEYS: &[ClassKey] = &[
    ClassKey {
        key: "weight",
        kind: Kind::Count { min: 1, max: WEIGHT_MAX },
        about: "Its part of the device, in proportion to the weights of the others that want it.",
        write: |class, value| {
            class.weight = match value {
                Value::Count(weight) => Some(weight),
                other => panic!("bug: a weight holds {other:?}"),
            }
        },
        read: |class| class.weight.map(Value::Count),
    },
    ClassKey {
        key: "limit_bytes_per_second",
        kind: BYTE_RATE,
        about: "Most bytes a second.",
        write: |class, value| class.limit_bytes_per_second = ceiling(value),
        read: |class| class.limit_bytes_per_second.map(Value::ByteRate),
    },
    ClassKey {
        key: "limit_operations_per_second",
        kind: OPERATION_RATE,
        about: "Most requests a second.",
        write: |class, value| class.limit_operations_per_second = ceiling(value),
        read: |class| class.limit_operations_per_second.map(Value::OperationRate),
    },
    ClassKey {
        key: "reservation",
        kind: BYTE_RATE,
        about: "Bytes a second that it gets before weights are looked at. Not for users.",
        write: |class, value| class.reservation = ceiling(value),
        read: |class| class.reservation.map(Value::ByteRate),
    },
    ClassKey {
        key: "at_limit",
        kind: Kind::Choice(&[BORROW, WAIT]),
        about: "At a limit while nobody else wants the device: borrow goes on, wait lets the device idle.",
        write: |class, value| {
            let is_hard = word(value) == WAIT;
            class.at_limit = Some(if is_hard { AtLimit::Wait } else { AtLimit::Borrow });
        },
        read: |class| {
            let word = |at_limit| if at_limit == AtLimit::Wait { WAIT } else { BORROW };
            class.at_limit.map(|at_limit| Value::Text(word(at_limit).to_owned()))
        },
    },
    ClassKey {
        key: "policy",
        kind: Kind::Choice(CLASS_POLICIES),
        about: "The order in which its requests leave; scheduler.policy if not said, and none takes back what was. Where that is auto: any other policy is pinned for the class, and auto has it chosen whatever less exact names say. Not for users.",
        write: |class, value| class.policy = Some(word(value)).filter(|policy| policy != NO_PIN),
        read: |class| class.policy.clone().map(Value::Text),
    },
];

/// What is wrong with a name, a key or a value: the words themselves and what is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassFault {
    /// What would have been right.
    pub allowed: String,
}

impl ClassFault {
    fn new(allowed: impl Into<String>) -> Self {
        Self { allowed: allowed.into() }
    }
}

impl fmt::Display for ClassFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.allowed)
    }
}

impl ClassSettings {
    /// Sets one key from its text. `limit` is short for either limit: `100MiB/s` or `500op/s`.
    ///
    /// # Errors
    /// What is allowed instead.
    pub fn set(&mut self, key: &str, text: &str) -> Result<(), ClassFault> {
        let (key, text) = match key {
            "limit" => short_limit(text)
                .ok_or_else(|| ClassFault::new("a limit such as 100MiB/s or 500op/s"))?,
            key => (key, text),
        };
        let Some(known) = KEYS.iter().find(|known| known.key == key) else {
            let keys: Vec<&str> = KEYS.iter().map(|known| known.key).collect();
            return Err(ClassFault::new(format!("no such key; known are {}", keys.join(", "))));
        };
        let value =
            known.kind.parse(text).ok_or_else(|| ClassFault::new(known.kind.allowed(text)))?;
        (known.write)(self, value);
        Ok(())
    }

    /// What was said, as key and text.
    pub fn entries(&self) -> impl Iterator<Item = (&'static str, String)> + '_ {
        KEYS.iter().filter_map(|known| Some((known.key, (known.read)(self)?.to_string())))
    }

    /// What is said here, and where nothing is, what `less_exact` says.
    #[must_use]
    pub fn or(mut self, less_exact: &Self) -> Self {
        for known in KEYS {
            if let (None, Some(value)) = ((known.read)(&self), (known.read)(less_exact)) {
                (known.write)(&mut self, value);
            }
        }
        self
    }
}

/// `100MiB/s` and `500op/s` say themselves which limit they are.
fn short_limit(text: &str) -> Option<(&'static str, &str)> {
    let number = text.trim().trim_end_matches("/s");
    match number.strip_suffix("ops").or_else(|| number.strip_suffix("op")) {
        Some(operations) => Some(("limit_operations_per_second", operations.trim_end())),
        None if text.trim().ends_with("/s") || number == "none" => {
            Some(("limit_bytes_per_second", text))
        }
        None => None,
    }
}

/// What was said about classes, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Classes(BTreeMap<String, ClassSettings>);

impl Classes {
    /// Sets one key of one name.
    ///
    /// # Errors
    /// What is allowed instead; nothing has changed then.
    pub fn set(&mut self, name: &str, key: &str, text: &str) -> Result<(), ClassFault> {
        check_name(name)?;
        let is_new = !self.0.contains_key(name);
        if is_new && self.0.len() >= NAMES_MAX {
            return Err(ClassFault::new(format!("settings for at most {NAMES_MAX} names")));
        }
        let mut changed = self.0.get(name).cloned().unwrap_or_default();
        changed.set(key, text)?;
        if name.starts_with(USER) && (changed.policy.is_some() || changed.reservation.is_some()) {
            return Err(ClassFault::new("for a user: weight, limits and at_limit only"));
        }
        match changed == ClassSettings::default() {
            true => drop(self.0.remove(name)),
            false => drop(self.0.insert(name.to_owned(), changed)),
        }
        Ok(())
    }

    /// Every name with what was said about it.
    pub fn entries(&self) -> impl Iterator<Item = (&str, &ClassSettings)> {
        self.0.iter().map(|(name, class)| (name.as_str(), class))
    }

    /// What holds for a job of a user; `-` is what the user does outside of jobs.
    pub fn of_job(&self, user: u32, job: &str) -> ClassSettings {
        let exact = format!("{user}/{job}");
        let bare = is_bare(job).then_some(job);
        self.first_of([Some(exact.as_str()), bare, Some(DEFAULT)])
    }

    /// What holds for everybody for whom there was no place.
    pub fn of_other(&self) -> ClassSettings {
        self.first_of([Some(OTHER), Some(DEFAULT)])
    }

    /// What is said under the first name, and where nothing is, under the next.
    fn first_of<'n>(&self, names: impl IntoIterator<Item = Option<&'n str>>) -> ClassSettings {
        let said = names.into_iter().flatten().filter_map(|name| self.0.get(name));
        said.fold(ClassSettings::default(), ClassSettings::or)
    }

    /// The users about whom something was said.
    pub fn users(&self) -> impl Iterator<Item = (u32, &ClassSettings)> {
        self.0
            .iter()
            .filter_map(|(name, settings)| Some((name.strip_prefix(USER)?.parse().ok()?, settings)))
    }

    /// What holds for a class that nothing was said about.
    pub fn of_default(&self) -> ClassSettings {
        self.0.get(DEFAULT).cloned().unwrap_or_default()
    }

    /// What is likely to go otherwise than whoever said it thinks: limits so low that a client takes
    /// its forwarder for lost.
    pub fn warnings(&self) -> Vec<String> {
        let warn = |(name, said): (&String, &ClassSettings)| {
            let is_user = name.starts_with(USER);
            let holds = if is_user { said.clone() } else { said.clone().or(&self.of_default()) };
            let below = |ceiling, least: u64| matches!(ceiling, Some(Ceiling::PerSecond(rate)) if rate < least);
            let is_slow = below(holds.limit_bytes_per_second, PATIENT_BYTES / CLIENT_PATIENCE_S)
                || below(holds.limit_operations_per_second, PATIENT_OPERATIONS / CLIENT_PATIENCE_S);
            (holds.at_limit == Some(AtLimit::Wait) && is_slow).then(|| {
                format!(
                    "class {name}: a client with many requests under way may wait longer than its \
                     time-out ({CLIENT_PATIENCE_S} s) at this limit, and take the forwarder for \
                     lost; raise FOREBAY_TIMEOUT_MS for its programs"
                )
            })
        };
        self.0.iter().filter_map(warn).collect()
    }

    /// What holds for a user, all jobs together.
    pub fn of_user(&self, user: u32) -> ClassSettings {
        self.0.get(&format!("{USER}{user}")).cloned().unwrap_or_default()
    }
}

/// Whether a job of this name can be meant where no user is named.
fn is_bare(job: &str) -> bool {
    !job.contains('/') && !job.starts_with(USER) && job != DEFAULT && job != OTHER
}

fn is_user(text: &str) -> bool {
    text.parse::<u32>().is_ok_and(|number| number.to_string() == text)
}

fn check_name(name: &str) -> Result<(), ClassFault> {
    let is_plain = !name.is_empty() && !name.chars().any(char::is_control);
    if !is_plain || name.len() > NAME_BYTES_MAX {
        return Err(ClassFault::new(format!(
            "a name of 1 to {NAME_BYTES_MAX} bytes without control characters: default, other, JOB, USER/JOB or user:USER"
        )));
    }
    if let Some(user) = name.strip_prefix(USER)
        && !is_user(user)
    {
        return Err(ClassFault::new("user: and a user's number, such as user:1000"));
    }
    if let Some((user, _)) = name.split_once('/')
        && !is_user(user)
    {
        return Err(ClassFault::new("a user's number before the slash, such as 1000/climate"));
    }
    Ok(())
}

/// The reference text: each key with its meaning and what it takes.
pub fn reference() -> String {
    let line = |known: &ClassKey| format!("  {:<28} {} [{}]\n", known.key, known.about, known.kind);
    KEYS.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn classes(entries: &[(&str, &str, &str)]) -> Classes {
        let mut classes = Classes::default();
        for (name, key, text) in entries {
            classes.set(name, key, text).unwrap_or_else(|fault| panic!("{name} {key}: {fault}"));
        }
        classes
    }

    #[test]
    fn the_more_exact_name_wins_and_leaves_the_rest_to_the_less_exact() {
        let classes = classes(&[
            ("default", "weight", "2"),
            ("default", "at_limit", "wait"),
            ("climate", "weight", "3"),
            ("climate", "limit", "100MiB/s"),
            ("1000/climate", "limit", "none"),
        ]);
        let climate = classes.of_job(7, "climate");
        assert_eq!(climate.weight, Some(3));
        assert_eq!(climate.limit_bytes_per_second, Some(Ceiling::PerSecond(100 << 20)));
        assert_eq!(climate.at_limit, Some(AtLimit::Wait));
        let exact = classes.of_job(1000, "climate");
        assert_eq!((exact.weight, exact.limit_bytes_per_second), (Some(3), Some(Ceiling::None)));
        assert_eq!(classes.of_job(1000, "-").weight, Some(2));
        assert_eq!(classes.of_user(1000), ClassSettings::default());
    }

    #[test]
    fn a_job_cannot_take_what_is_said_about_others_by_its_name() {
        let classes = classes(&[
            ("1000/climate", "weight", "9"),
            ("user:1000", "weight", "8"),
            ("other", "weight", "7"),
            ("default", "limit", "1MiB/s"),
            ("default", "weight", "2"),
            ("7/1000/climate", "weight", "5"),
        ]);
        for job in ["1000/climate", "user:1000", "other", "default"] {
            assert_eq!(classes.of_job(8, job).weight, Some(2), "{job}");
        }
        assert_eq!(classes.of_job(7, "1000/climate").weight, Some(5), "a user and any job's name");
        assert_eq!(classes.of_job(1000, "climate").weight, Some(9));
        let other = classes.of_other();
        assert_eq!(other.weight, Some(7));
        assert_eq!(other.limit_bytes_per_second, Some(Ceiling::PerSecond(1 << 20)));
    }

    #[test]
    fn a_limit_that_outlasts_a_clients_patience_is_warned_of() {
        let classes = classes(&[
            ("default", "at_limit", "wait"),
            ("slow", "limit", "1MiB/s"),
            ("few", "limit", "1op/s"),
            ("fast", "limit", "100MiB/s"),
            ("soft", "limit", "1MiB/s"),
            ("soft", "at_limit", "borrow"),
            ("user:5", "limit", "1MiB/s"),
        ]);
        let warnings = classes.warnings();
        assert_eq!(warnings.len(), 2, "{warnings:?}");
        assert!(warnings[0].starts_with("class few") && warnings[1].starts_with("class slow"));
        assert!(warnings[1].contains("FOREBAY_TIMEOUT_MS"), "{warnings:?}");
    }

    #[test]
    fn a_limit_says_itself_which_it_is() {
        let mut class = ClassSettings::default();
        class.set("limit", "100MiB/s").unwrap();
        class.set("limit", "500op/s").unwrap();
        assert_eq!(class.limit_bytes_per_second, Some(Ceiling::PerSecond(100 << 20)));
        assert_eq!(class.limit_operations_per_second, Some(Ceiling::PerSecond(500)));
        class.set("limit_operations_per_second", "none").unwrap();
        assert_eq!(class.limit_operations_per_second, Some(Ceiling::None));
        for wrong in ["100", "fast", "5op/h", "0op/s", "-1MiB/s", "100MB/s"] {
            assert!(class.set("limit", wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_was_said_can_be_said_again() {
        let said = classes(&[
            ("user:5", "weight", "9"),
            ("a b", "limit", "1KiB/s"),
            ("a b", "policy", "SJF"),
            ("a b", "reservation", "7"),
        ]);
        let mut again = Classes::default();
        for (name, class) in said.entries() {
            for (key, text) in class.entries() {
                again.set(name, key, &text).unwrap();
            }
        }
        assert_eq!(again, said);
        assert_eq!(again.of_job(1, "a b").policy.as_deref(), Some("sjf"));
    }

    #[test]
    fn a_policy_that_is_taken_back_leaves_what_less_exact_names_say() {
        let mut classes = classes(&[
            ("default", "policy", "mlf"),
            ("a", "policy", "sjf"),
            ("b", "policy", "sjf"),
            ("b", "weight", "2"),
        ]);
        for name in ["a", "b"] {
            classes.set(name, "policy", "none").unwrap();
            assert_eq!(classes.of_job(1, name).policy.as_deref(), Some("mlf"), "{name}");
        }
        classes.set("default", "policy", "None").unwrap();
        assert_eq!(classes.of_job(1, "a").policy, None);
        let names: Vec<&str> = classes.entries().map(|(name, _)| name).collect();
        assert_eq!(names, ["b"], "a name without settings takes no place");
    }

    #[test]
    fn a_mistake_says_what_is_allowed_and_changes_nothing() {
        let mut classes = classes(&[("a", "weight", "2")]);
        let before = classes.clone();
        for (name, key, text, allowed) in [
            ("a", "weight", "0", "1 to 1000000"),
            ("a", "wieght", "1", "weight, limit_bytes_per_second"),
            ("a", "policy", "lifo", "aioli"),
            ("", "weight", "1", "1 to 96 bytes"),
            ("a\nb", "weight", "1", "control characters"),
            ("user:me", "weight", "1", "user:1000"),
            ("me/climate", "weight", "1", "1000/climate"),
            ("07/climate", "weight", "1", "1000/climate"),
            ("user:1", "policy", "to", "for a user"),
        ] {
            let fault = classes.set(name, key, text).unwrap_err();
            assert!(fault.allowed.contains(allowed), "{name} {key}={text}: {fault}");
        }
        assert_eq!(classes, before);
    }

    #[test]
    fn there_is_room_for_so_many_names_and_no_more() {
        let mut classes = Classes::default();
        for n in 0..NAMES_MAX {
            classes.set(&format!("job{n}"), "weight", "1").unwrap();
        }
        assert!(classes.set("one more", "weight", "1").is_err());
        assert!(classes.set("job7", "weight", "5").is_ok());
    }
}
