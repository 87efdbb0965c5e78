//! What a running forwarder can be told: words of a `Control` frame, checked as settings are.
//!
//! ```text
//! class NAME key=value …     weight and limits of a class
//! key=value …                a setting that can change while requests are queued
//! ```
//!
//! All of one command holds, or nothing of it.

use serde::{Deserialize, Serialize};

use crate::settings::class;
use crate::settings::definition::Definition;
use crate::settings::{Level, Settings};

/// Settings that can change while the forwarder runs, with their short names.
const LIVE: &[(&str, &str)] = &[
    ("policy", "scheduler.policy"),
    ("run_bytes_max", "scheduler.run_bytes_max"),
    ("run_requests_max", "scheduler.run_requests_max"),
    ("batch_bytes_max", "scheduler.batch_bytes_max"),
    ("wait_max", "scheduler.wait_max"),
    ("pin", "select.pin"),
    ("discipline", "sharing.discipline"),
    ("cost", "sharing.cost"),
    ("quantum_bytes", "sharing.quantum_bytes"),
    ("windows", "sharing.windows"),
    ("twins_window", "sharing.twins_window"),
    ("twins_idle", "sharing.twins_idle"),
    ("twins_shift", "sharing.twins_shift"),
    ("sw_window", "sharing.sw_window"),
    ("lend_below", "sharing.lend_below"),
    ("capacity", "sharing.capacity"),
    ("targets", "store.targets"),
    ("stripe_bytes", "store.stripe_bytes"),
];

/// The answer where there are no classes.
const NOT_SHARED: &str =
    "nothing is shared here: start the forwarder with sharing.level = job, user or target";

/// How a command is answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// It holds; what does now, a line each.
    Set(Vec<String>),
    /// Nothing has changed: what is wrong, and what is allowed.
    Wrong(String),
}

/// What can be said, for people.
pub fn reference() -> String {
    let settings = LIVE.iter().filter_map(|(short, key)| {
        let definition = Definition::find(key)?;
        Some(format!("  {short:<28} {} [{}]\n", definition.about, definition.kind))
    });
    let settings: String = settings.collect();
    format!("{settings}\nOf a class:\n{}", class::reference())
}

/// The settings as they would be, and what to answer then.
///
/// # Errors
/// What is wrong, and what is allowed.
pub(crate) fn changed(
    settings: &Settings,
    words: &[&str],
) -> Result<(Settings, Vec<String>), String> {
    let mut changed = settings.clone();
    let mut lines = Vec::new();
    match words {
        [] => return Err("nothing to set; say KEY=VALUE or class NAME KEY=VALUE".to_owned()),
        ["class"] | ["class", _] => {
            return Err(
                "class: say class NAME KEY=VALUE, such as class climate weight=3".to_owned()
            );
        }
        ["class", ..] if settings.sharing.level == Level::None => return Err(NOT_SHARED.to_owned()),
        ["class", name, pairs @ ..] => {
            for pair in pairs {
                let (key, value) = split(pair)?;
                changed.classes.set(name, key, value).map_err(|fault| {
                    format!("class {name}: {key} = {value:?}; allowed: {}", fault.allowed)
                })?;
                lines.push(format!("class {name}: {key} = {value}"));
            }
        }
        pairs => {
            for pair in pairs {
                let (key, value) = split(pair)?;
                let definition = live(key).ok_or_else(|| unknown(key))?;
                if definition.key.starts_with("sharing.") && settings.sharing.level == Level::None {
                    return Err(NOT_SHARED.to_owned());
                }
                changed.set(definition, value).map_err(|allowed| {
                    format!("{} = {value:?}; allowed: {allowed}", definition.key)
                })?;
                lines.push(format!("{} = {value}", definition.key));
            }
        }
    }
    changed.check()?;
    Ok((changed, lines))
}

fn split(pair: &str) -> Result<(&str, &str), String> {
    pair.split_once('=').ok_or_else(|| format!("{pair:?}; allowed: KEY=VALUE, such as weight=3"))
}

fn live(key: &str) -> Option<&'static Definition> {
    let known = LIVE.iter().find(|(short, long)| *short == key || *long == key);
    known.and_then(|(_, key)| Definition::find(key))
}

fn unknown(key: &str) -> String {
    let shorts: Vec<&str> = LIVE.iter().map(|(short, _)| *short).collect();
    let is_setting = Definition::find(key).is_some();
    let why = if is_setting { "cannot change while the forwarder runs" } else { "no such key" };
    format!("{key}: {why}; allowed: {}, or class NAME …", shorts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_live_setting_is_a_setting() {
        for (short, key) in LIVE {
            assert!(Definition::find(key).is_some(), "{key}");
            assert!(reference().contains(short), "{short}");
        }
    }

    #[test]
    fn words_change_a_copy_of_the_settings() {
        let settings = Settings::default();
        let (changed_settings, lines) =
            changed(&settings, &["policy=SJF", "sharing.discipline=drr"]).unwrap();
        assert_eq!(changed_settings.scheduler.policy, "sjf");
        assert_eq!(lines.len(), 2);
        let (changed_settings, _) =
            changed(&settings, &["class", "a b", "weight=3", "limit=1MiB/s"]).unwrap();
        assert_eq!(changed_settings.classes.of_job(1, "a b").weight, Some(3));
        assert_eq!(changed_settings.scheduler, settings.scheduler);
    }

    #[test]
    fn a_mistake_is_answered_with_key_value_and_remedy() {
        for (words, parts) in [
            (&[][..], &["KEY=VALUE"][..]),
            (&["class"], &["class NAME"]),
            (&["class", "a"], &["class NAME"]),
            (&["class", "a", "weight"], &["weight", "KEY=VALUE"]),
            (&["class", "a", "weight=0"], &["class a", "weight", "\"0\"", "1 to 1000000"]),
            (&["class", "a", "weight=1", "speed=2"], &["speed", "no such key", "at_limit"]),
            (&["policy=lifo"], &["scheduler.policy", "\"lifo\"", "aioli"]),
            (&["pool.bytes=1"], &["pool.bytes", "cannot change", "policy"]),
            (&["nonsense=1"], &["nonsense", "no such key"]),
            (&["run_bytes_max=64MiB"], &["scheduler.batch_bytes_max", "at least"]),
            (&["class", "a", "reservation=1MiB/s", "weight=x"], &["weight"]),
        ] {
            let error = changed(&Settings::default(), words).unwrap_err();
            for part in parts {
                assert!(error.contains(part), "{words:?}: {error}");
            }
        }
    }

    #[test]
    fn a_pin_of_a_class_that_is_released_is_not_in_the_way_of_another_policy() {
        let (settings, _) = changed(&Settings::default(), &["policy=auto"]).unwrap();
        let (pinned, _) = changed(&settings, &["class", "a", "policy=sjf"]).unwrap();
        let (released, _) = changed(&pinned, &["class", "a", "policy=none"]).unwrap();
        assert_eq!(released.classes, settings.classes);
        assert!(changed(&released, &["policy=sjf"]).is_ok());
        // Who has a class chosen where nothing else is, is told the way out.
        let (chosen, _) = changed(&settings, &["class", "a", "policy=auto"]).unwrap();
        let error = changed(&chosen, &["policy=sjf"]).unwrap_err();
        assert!(error.contains("classes.a.policy") && error.contains("none, "), "{error}");
    }

    #[test]
    fn windows_are_for_what_has_them() {
        let settings = Settings::default();
        let refused = |settings: &Settings, words: &[&str], parts: &[&str]| {
            let error = changed(settings, words).unwrap_err();
            parts.iter().for_each(|part| assert!(error.contains(part), "{words:?}: {error}"));
        };
        refused(
            &settings,
            &["discipline=twins"],
            &["sharing.discipline", "twins", "sharing.level = target"],
        );
        refused(&settings, &["discipline=fifo"], &["sharing.discipline", "fifo", "twins, sw"]);
        refused(&settings, &["sw_window=0s"], &["sharing.sw_window", "0s", "60s"]);
        refused(&settings, &["windows=loose"], &["sharing.windows", "loose", "strict"]);
        let sw = ["discipline=sw", "sw_window=20ms", "windows=strict"];
        let (by_sw, lines) = changed(&settings, &sw).unwrap();
        assert_eq!((lines.len(), by_sw.sharing.sw_window), (3, forebay_units::Nanos::millis(20)));

        let mut by_target = settings;
        by_target.sharing.level = Level::Target;
        refused(
            &by_target,
            &["discipline=drr"],
            &["store.targets", "at least 2", "store.stripe_bytes"],
        );
        refused(
            &by_target,
            &["targets=4", "discipline=sw"],
            &["sharing.discipline", "sw", "sharing.level = job"],
        );
        refused(
            &by_target,
            &["targets=4", "twins_window=90s"],
            &["sharing.twins_window", "90s", "60s"],
        );
        refused(&by_target, &["targets=4", "class", "a"], &["class"]);
        let twins = [
            "targets=4",
            "stripe_bytes=64KiB",
            "discipline=twins",
            "twins_shift=3",
            "twins_idle=0s",
        ];
        assert_eq!(changed(&by_target, &twins).unwrap().0.sharing.twins_shift, 3);
    }

    #[test]
    fn what_orders_jobs_is_no_policy_within_one() {
        for words in [&["policy=sw"][..], &["class", "a", "policy=SW"], &["pin=sw"]] {
            let error = changed(&Settings::default(), words).unwrap_err();
            assert!(error.contains("set sharing.discipline = sw"), "{words:?}: {error}");
        }
    }

    #[test]
    fn what_windows_do_not_look_at_is_said() {
        let (settings, _) = changed(&Settings::default(), &["class", "a", "weight=3"]).unwrap();
        assert!(settings.warnings().is_empty());
        let (settings, _) = changed(&settings, &["class", "user:7", "limit=1GiB/s"]).unwrap();
        let (settings, _) = changed(&settings, &["discipline=sw"]).unwrap();
        let texts = settings.warnings();
        assert_eq!(texts.len(), 2, "{texts:?}");
        assert!(texts[0].contains("classes.a.weight is not looked at"), "{texts:?}");
        assert!(texts[1].contains("classes.user:7.limit_bytes_per_second"), "{texts:?}");
    }

    #[test]
    fn without_classes_nothing_is_set_about_them() {
        let mut settings = Settings::default();
        settings.sharing.level = Level::None;
        for words in [&["class", "a", "weight=3"][..], &["discipline=drr"]] {
            assert!(changed(&settings, words).unwrap_err().contains("sharing.level"));
        }
        assert!(changed(&settings, &["policy=sjf"]).is_ok());
    }

    #[test]
    fn what_is_said_about_a_class_fits_what_is_shared() {
        let reservation = ["class", "a", "reservation=1MiB/s"];
        let error = changed(&Settings::default(), &reservation).unwrap_err();
        assert!(error.contains("sharing.cost = bytes"), "{error}");
        let (by_bytes, _) = changed(&Settings::default(), &["cost=bytes"]).unwrap();
        let (reserved, _) = changed(&by_bytes, &reservation).unwrap();
        assert!(changed(&reserved, &["cost=requests"]).is_err());
    }
}
