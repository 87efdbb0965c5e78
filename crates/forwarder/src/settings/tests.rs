//! Settings: every row of the table, every source, every kind of mistake.

use std::ffi::OsString;
use std::path::Path;

use super::definition::DEFINITIONS;
use super::*;

fn from_toml(text: &str) -> Result<Settings, Error> {
    Sources::new().toml(text, Path::new("forebay.toml")).resolve()
}

fn variables(pairs: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
    pairs.iter().map(|(name, value)| (OsString::from(name), OsString::from(value))).collect()
}

#[test]
fn the_defaults_resolve_and_print_as_the_table_spells_them() {
    let settings = Settings::default();
    for (definition, (key, value)) in DEFINITIONS.iter().zip(settings.entries()) {
        assert_eq!(definition.key, key);
        assert_eq!(definition.default, value, "{key}");
    }
}

#[test]
fn every_setting_comes_back_from_its_own_text() {
    let mut sources = Sources::new();
    let settings = Settings::default();
    for (key, value) in settings.entries() {
        sources = sources.flag(key, &value);
    }
    assert_eq!(sources.resolve().unwrap(), settings);
}

#[test]
fn a_file_sets_nested_keys_numbers_and_lists() {
    let settings = from_toml(
        "pool.bytes = \"64MiB\"\n[listen]\ntcp = \"127.0.0.1:0\"\ntcp_allow = [\"10.0.0.0/8\", \"::1\"]\n\
         [store]\nkind = \"modelled:hdd-57\"\ndepth = 4\ntime_scale = 0.1\n[scheduler]\nwait_max = \"5ms\"\n",
    )
    .unwrap();
    assert_eq!(settings.pool.bytes, Bytes::mib(64));
    assert_eq!(settings.listen.tcp_allow.len(), 2);
    assert_eq!(settings.store.kind, StoreKind::Modelled("hdd-57".to_owned()));
    assert_eq!((settings.store.depth, settings.store.time_scale), (4, 0.1));
    assert_eq!(settings.scheduler.wait_max, Nanos::millis(5));
}

#[test]
fn flags_override_the_environment_which_overrides_the_file() {
    let sources = Sources::new()
        .flag("store.depth", "3")
        .environment(variables(&[("FOREBAY_STORE_DEPTH", "2"), ("FOREBAY_POOL_BYTES", "8m")]))
        .toml("store.depth = 1\npool.bytes = \"16m\"\nscheduler.policy = \"sjf\"", Path::new("f"));
    let settings = sources.resolve().unwrap();
    assert_eq!(settings.store.depth, 3);
    assert_eq!(settings.pool.bytes, Bytes::mib(8));
    assert_eq!(settings.scheduler.policy, "sjf");
}

#[test]
fn an_unknown_key_is_an_error_that_names_the_known_ones() {
    for (text, key) in [
        ("pool.byte = 1", "pool.byte"),
        ("[pool.bytes]\nx = 1", "pool.bytes"),
        ("[speed]\nfast = true", "speed"),
        ("pool = 3", "pool"),
    ] {
        let error = from_toml(text).unwrap_err();
        assert_eq!(error.faults[0].key, key, "{error}");
    }
    let message = from_toml("scheduler.polcy = \"to\"").unwrap_err().to_string();
    assert!(
        message.contains("scheduler.polcy = ") && message.contains("scheduler.policy,"),
        "{message}"
    );
}

#[test]
fn an_unknown_variable_is_an_error_and_a_client_variable_is_not() {
    let of = |pairs| Sources::new().environment(variables(pairs)).resolve();
    assert!(of(&[("FOREBAY_ENDPOINT", "x"), ("HOME", "/")]).is_ok());
    let message = of(&[("FOREBAY_POOL_SIZE", "1")]).unwrap_err().to_string();
    assert!(message.contains("FOREBAY_POOL_SIZE") && message.contains("\"1\""), "{message}");
}

#[test]
fn a_bad_value_names_key_value_place_and_allowed_range() {
    let message = Sources::new().flag("pool.bytes", "5MB").resolve().unwrap_err().to_string();
    for part in ["pool.bytes", "\"5MB\"", "--pool-bytes", "4MiB to 64GiB"] {
        assert!(message.contains(part), "{part}: {message}");
    }
    let message = from_toml("scheduler.policy = \"lifo\"").unwrap_err().to_string();
    for part in ["scheduler.policy", "\"lifo\"", "forebay.toml", "aioli"] {
        assert!(message.contains(part), "{part}: {message}");
    }
}

#[test]
fn values_outside_their_range_or_without_their_unit_are_refused() {
    for (key, value) in [
        ("pool.bytes", "3MiB"),
        ("pool.bytes", "4194305"),
        ("pool.bytes", "18446744073709551616"),
        ("pool.bytes", "17179869185g"),
        ("pool.reserve_percent", "91"),
        ("session.requests_max", "0"),
        ("session.idle_timeout", "30"),
        ("session.idle_timeout", "99ms"),
        ("store.kind", "modelled:"),
        ("store.kind", "disk"),
        ("store.kind", "modelled:no-such-disk"),
        ("store.faults", "write:EVERYTHING"),
        ("store.time_scale", "NaN"),
        ("store.depth", "-1"),
        ("listen.tcp", "localhost"),
        ("listen.tcp_allow", "10.0.0.0/33"),
    ] {
        let error = Sources::new().flag(key, value).resolve().unwrap_err();
        assert_eq!(error.faults.len(), 1, "{key} = {value}");
        assert_eq!(error.faults[0].key, key);
    }
}

#[test]
fn classes_have_names_of_their_own() {
    let settings = from_toml(
        "[classes.climate]\nweight = 3\nlimit_bytes_per_second = \"100MiB\"\n\
         [classes.\"user:1000\"]\nlimit_operations_per_second = 500\nat_limit = \"wait\"\n",
    )
    .unwrap();
    let climate = settings.classes.of_job(1, "climate");
    assert_eq!(climate.weight, Some(3));
    assert_eq!(climate.limit_bytes_per_second, Some(class::Ceiling::PerSecond(100 << 20)));
    assert_eq!(settings.classes.of_user(1000).at_limit, Some(class::AtLimit::Wait));
    assert_eq!(from_toml(&settings.to_toml()).unwrap(), settings);
}

#[test]
fn a_mistake_about_a_class_names_key_value_place_and_remedy() {
    for (text, key) in [
        ("[classes.a]\nweight = 0", "classes.a.weight"),
        ("[classes.a]\nspeed = 1", "classes.a.speed"),
        ("[classes]\na = 1", "classes.a."),
        ("[classes.a]\nweight = true", "classes.a.weight"),
        ("[classes.\"user:x\"]\nweight = 1", "classes.user:x.weight"),
    ] {
        let error = from_toml(text).unwrap_err();
        assert_eq!(error.faults.len(), 1, "{error}");
        assert_eq!(error.faults[0].key, key, "{error}");
        assert!(error.to_string().contains("forebay.toml"), "{error}");
    }
}

#[test]
fn every_mistake_is_reported_at_once() {
    let error = from_toml("pool.bytes = 1\nstore.depth = true\nnonsense = 1").unwrap_err();
    assert_eq!(error.faults.len(), 3, "{error}");
}

#[test]
fn settings_that_contradict_each_other_are_refused() {
    for text in [
        "scheduler.run_bytes_max = \"8MiB\"",
        "session.chunk_bytes_max = \"32KiB\"",
        "pool.bytes = \"4MiB\"\npool.reserve_percent = 5",
    ] {
        assert!(from_toml(text).is_err(), "{text}");
    }
}

#[test]
fn a_missing_or_broken_file_is_an_error_and_not_the_defaults() {
    let missing =
        Sources::new().file(Path::new("/nonexistent/forebay.toml")).resolve().unwrap_err();
    assert!(missing.to_string().contains("/nonexistent/forebay.toml"), "{missing}");
    let broken = from_toml("[pool]\nbytes = = 3").unwrap_err();
    assert!(broken.to_string().contains("line 2"), "{broken}");
}

#[test]
fn the_names_are_those_of_the_scheduler() {
    use forebay_sched::{GuardMode, policies::PolicyName, sharing};
    // SW is a discipline here.
    let plain: Vec<String> = PolicyName::ALL
        .iter()
        .filter(|name| **name != PolicyName::Sw)
        .map(|name| name.as_str().to_lowercase())
        .collect();
    let known: Vec<&str> = definition::POLICIES
        .iter()
        .copied()
        .filter(|name| !["hbrr-bytes", definition::AUTO].contains(name))
        .collect();
    assert_eq!(plain, known);
    let disciplines = definition::Definition::find("sharing.discipline").unwrap().kind.to_string();
    assert_eq!(disciplines, sharing::Discipline::ALL.map(|one| one.to_string()).join(", "));
    assert!(GuardMode::ALL.iter().map(|mode| mode.as_str()).eq(definition::GUARDS.iter().copied()));
}

#[test]
fn names_are_read_in_upper_and_lower_case_and_kept_in_lower() {
    let settings = Sources::new().flag("scheduler.policy", "aIOLi").resolve().unwrap();
    assert_eq!(settings.scheduler.policy, "aioli");
}

#[test]
fn the_scheduler_has_a_place_for_every_class_that_may_be_asked_for() {
    let most = u32::try_from(forebay_sched::CLASSES_MAX / class::CLASS_PLACES).unwrap();
    let settings = from_toml(&format!("sharing.class_count_max = {most}")).unwrap();
    let setup = crate::assemble::setup(&settings, None).unwrap();
    // It would panic if there were too many.
    drop(setup.scheduler());
    for beyond in [most + 1, 65_001, 65_536] {
        let error = from_toml(&format!("sharing.class_count_max = {beyond}")).unwrap_err();
        assert!(error.to_string().contains(&most.to_string()), "{error}");
    }
}

#[test]
fn only_policy_auto_can_be_pinned_or_chosen_for_a_class() {
    let (auto, fixed) = ("scheduler.policy = \"auto\"\n", "scheduler.policy = \"mlf\"\n");
    for text in ["select.pin = \"sjf\"", "[classes.a]\npolicy = \"auto\""] {
        let error = from_toml(&format!("{fixed}{text}")).unwrap_err().to_string();
        assert!(error.contains("scheduler.policy = auto"), "{error}");
        assert!(from_toml(&format!("{auto}{text}")).is_ok(), "{text}");
    }
    assert!(from_toml(&format!("{auto}select.pin = \"auto\"")).is_err());
    let text = "select.pin = \"none\"\n[classes.a]\npolicy = \"sjf\"";
    assert!(from_toml(&format!("{fixed}{text}")).is_ok());
}

#[test]
fn what_can_be_pinned_are_the_policies() {
    let Kind::Choice(pins) = definition::Definition::find("select.pin").unwrap().kind else {
        panic!("a choice")
    };
    assert_eq!(pins[0], definition::NO_PIN);
    assert_eq!(pins[1..], definition::POLICIES[1..]);
    assert_eq!(definition::POLICIES[0], definition::AUTO);
    assert_eq!(definition::CLASS_POLICIES[0], definition::NO_PIN);
    assert_eq!(&definition::CLASS_POLICIES[1..], definition::POLICIES);
}

/// The keys of which it is said that they are not looked at, and under what.
fn ignored(text: &str) -> Vec<String> {
    from_toml(text).unwrap_or_else(|error| panic!("{text}: {error}")).warnings()
}

#[test]
fn what_a_level_does_not_look_at_is_said_key_by_key() {
    let named = "[classes.\"1000/climate\"]\nlimit_bytes_per_second = \"1GiB\"\nweight = 3\n\
                 [classes.\"user:7\"]\nlimit_operations_per_second = 9000\n\
                 [classes.other]\nweight = 2\n[classes.default]\nweight = 2\n";
    let by_target = "sharing.level = \"target\"\nstore.targets = 3\n";
    for discipline in ["sfq", "drr"] {
        let texts = ignored(&format!("{by_target}sharing.discipline = {discipline:?}\n{named}"));
        let keys = [
            "1000/climate.weight",
            "1000/climate.limit_bytes_per_second",
            "other.weight",
            "user:7.limit_operations_per_second",
        ];
        let expected =
            keys.map(|key| format!("classes.{key} is not looked at under sharing.level = target"));
        assert_eq!(texts, expected);
    }
    // One line a key, also where the discipline would not look at it either.
    let texts = ignored(&format!("{by_target}sharing.discipline = \"twins\"\n{named}"));
    assert_eq!(texts.len(), 5, "{texts:?}");
    assert!(
        texts.iter().any(|text| text
            .contains("classes.default.weight is not looked at under sharing.discipline = twins")),
        "{texts:?}"
    );
    let texts = ignored(&format!("sharing.level = \"user\"\n{named}"));
    assert!(
        texts.len() == 2 && texts.iter().all(|text| text.contains("1000/climate")),
        "{texts:?}"
    );
    assert_eq!(ignored(named), Vec::<String>::new());
    assert_eq!(ignored(&format!("sharing.level = \"none\"\n{named}")).len(), 5);
}

#[test]
fn capacity_and_lending_that_windows_do_not_look_at_are_said() {
    let set = "sharing.capacity = \"1GiB\"\nsharing.lend_below = 4\n";
    let twins = "sharing.level = \"target\"\nstore.targets = 3\nsharing.discipline = \"twins\"\n";
    let sw = "sharing.discipline = \"sw\"\n";
    let strict = "sharing.windows = \"strict\"\n";
    let of_twins = ["capacity", "lend_below"]
        .map(|key| format!("sharing.{key} is not looked at under sharing.discipline = twins"));
    assert_eq!(ignored(&format!("{twins}{set}")), of_twins);
    let capacity = "sharing.capacity is not looked at under sharing.discipline = sw";
    assert_eq!(ignored(&format!("{sw}{set}")), [capacity]);
    let lending = "sharing.lend_below is not looked at under sharing.windows = strict";
    assert_eq!(ignored(&format!("{sw}{strict}{set}")), [capacity, lending]);
    assert_eq!(ignored(&format!("{strict}{set}")), Vec::<String>::new());
    for nothing_said in [twins.to_owned(), format!("{twins}{strict}"), format!("{sw}{strict}")] {
        assert_eq!(ignored(&nothing_said), Vec::<String>::new());
    }
}

#[test]
fn each_data_server_that_shares_has_a_place() {
    let of = |level: &str, targets: u32| {
        from_toml(&format!(
            "sharing.level = {level:?}\nsharing.class_count_max = 4\nstore.targets = {targets}"
        ))
    };
    let error = of("target", 5).unwrap_err();
    assert_eq!(error.faults.len(), 1, "{error}");
    assert_eq!(error.faults[0].key, "store.targets");
    let allowed = &error.faults[0].allowed;
    assert!(allowed.contains("at most sharing.class_count_max (4)"), "{allowed}");
    assert!(of("target", 4).is_ok() && of("job", 5).is_ok());
}
