//! What a program says in structs: what a controller is made with, and what a class is to have.

use std::collections::BTreeMap;

use forebay_controller::{Options, Storage};
use forebay_sched::sharing::{AtLimit, ClassShare, GroupId, Rate, Share, SharingSettings};
use forebay_sched::{Bypass, ClassOptions, GuardMode, Limits, PolicySettings, SchedulerOptions};
use forebay_stats::LedgerOptions;
use forebay_units::{Bytes, Nanos};

use crate::abi::*;
use crate::failure::Failure;
use crate::settings::{Choice, Settings, class_of, number};
use crate::sharing::{Sharing, Turns, Windows};

/// A choice by number, or what is wrong with it.
pub(crate) fn choose<T: Copy>(key: &str, value: u32, all: &[T]) -> Result<T, Failure> {
    all.get(value as usize).copied().ok_or_else(|| {
        Failure::invalid(format_args!("{key} = {value}: not from 0 to {}", all.len() - 1))
    })
}

pub(crate) fn within(key: &str, value: u64, least: u64, most: u64) -> Result<u64, Failure> {
    if (least..=most).contains(&value) {
        return Ok(value);
    }
    Err(Failure::invalid(format_args!("{key} = {value}: not from {least} to {most}")))
}

pub(crate) const REQUESTS_MAX: u64 = 1 << 24;
pub(crate) const SECOND: u64 = 1_000_000_000;

/// What a controller is made with.
pub(crate) struct Made {
    pub(crate) settings: Settings,
    pub(crate) within: Options,
    pub(crate) classes: Option<ClassOptions>,
    /// Keys and values that concern one class; for after it is made.
    pub(crate) of_classes: Vec<(String, String)>,
}

impl Made {
    /// As `options` want it, and then `settings`, their text.
    pub(crate) fn read(
        options: &forebay_options,
        policy: &str,
        text: &str,
    ) -> Result<Self, Failure> {
        let mut settings = read_settings(options, policy)?;
        let mut within = read_options(options)?;
        let mut of_classes = Vec::new();
        for pair in text.split_ascii_whitespace() {
            let (key, value) = pair.split_once('=').ok_or_else(|| {
                Failure::invalid(format_args!("settings: {pair}: not KEY=VALUE, as wait_ns=1000"))
            })?;
            match key {
                "depth" => within.depth = number(key, value, 1, REQUESTS_MAX)? as usize,
                _ if class_of(key)?.is_some() => {
                    of_classes.push((key.to_owned(), value.to_owned()))
                }
                _ => _ = settings.set(key, value)?,
            }
        }
        settings.check()?;
        settings.sharing.map_or(Ok(()), |sharing| check_twins(options, &sharing))?;
        let classes =
            settings.sharing().map(|sharing| read_classes(options, sharing)).transpose()?;
        Ok(Self { settings, within, classes, of_classes })
    }
}

fn read_settings(options: &forebay_options, policy: &str) -> Result<Settings, Failure> {
    let limits = Limits {
        run_bytes_max: Bytes(within("run_bytes_max", options.run_bytes_max, 4 << 10, 1 << 30)?),
        run_requests_max: within("run_requests_max", options.run_requests_max.into(), 1, 65_536)?
            as u32,
        batch_bytes_max: Bytes(within(
            "batch_bytes_max",
            options.batch_bytes_max,
            4 << 10,
            4 << 30,
        )?),
        wait_max: Nanos(within("wait_ns", options.wait_ns, 0, SECOND)?),
    };
    Ok(Settings {
        choice: Choice::read(policy)?,
        device: Storage::Disk,
        parameters: PolicySettings::from(limits),
        sharing: read_sharing(options)?,
        classes: BTreeMap::new(),
    })
}

fn read_options(options: &forebay_options) -> Result<Options, Failure> {
    let guards = [GuardMode::Overlap, GuardMode::Client, GuardMode::File, GuardMode::None];
    let queue = within("queue_requests_max", options.queue_requests_max, 1, REQUESTS_MAX)?;
    let rows = within("account_rows", options.account_rows.into(), 0, 65_536)? as usize;
    Ok(Options {
        scheduler: SchedulerOptions {
            guard: choose("guard", options.guard, &guards)?,
            large_bytes: (options.large_bytes > 0).then_some(Bytes(options.large_bytes)),
            bypass: choose("no_bypass", options.no_bypass, &[Bypass::WhenIdle, Bypass::Never])?,
            queue_requests_max: queue as usize,
        },
        depth: within("depth", options.depth, 1, REQUESTS_MAX)? as usize,
        idle_files_max: within("idle_files_max", options.idle_files_max, 0, REQUESTS_MAX)? as usize,
        ledger: (rows > 0).then_some(LedgerOptions { classes_max: rows, files_max: rows }),
    })
}

fn read_sharing(options: &forebay_options) -> Result<Option<Sharing>, Failure> {
    let (turns, windows) = match options.sharing {
        FOREBAY_SHARE_NONE => return Ok(None),
        FOREBAY_SHARE_SFQ => (Turns::Sfq, Windows::WorkConserving),
        FOREBAY_SHARE_DRR => (Turns::Drr, Windows::WorkConserving),
        FOREBAY_SHARE_TWINS_STRICT => (Turns::Twins, Windows::Strict),
        FOREBAY_SHARE_TWINS => (Turns::Twins, Windows::WorkConserving),
        other => return Err(Failure::invalid(format_args!("sharing = {other}: not from 0 to 4"))),
    };
    let mut sharing = Sharing::new(turns, windows);
    // The discipline may become TWINS, by the text or later; what is not possible is no obstacle
    // until then.
    if let Ok(window) = twins_window(options) {
        sharing.twins_window = window;
    }
    if let Ok(targets) = twins_targets(options) {
        sharing.twins_targets = targets;
    }
    if let Ok(idle) = twins_idle(options) {
        sharing.twins_idle = idle;
    }
    Ok(Some(sharing))
}

fn twins_window(options: &forebay_options) -> Result<Nanos, Failure> {
    within("twins_window_ns", options.twins_window_ns, 1_000, 60 * SECOND).map(Nanos)
}

fn twins_targets(options: &forebay_options) -> Result<u32, Failure> {
    within("twins_targets", options.twins_targets.into(), 1, 65_000).map(|targets| targets as u32)
}

fn twins_idle(options: &forebay_options) -> Result<Nanos, Failure> {
    within("twins_idle_ns", options.twins_idle_ns, 0, 60 * SECOND).map(Nanos)
}

/// Whether the fields for TWINS are possible, as far as what is in charge at the start looks at them.
fn check_twins(options: &forebay_options, sharing: &Sharing) -> Result<(), Failure> {
    if sharing.turns == Turns::Twins {
        twins_window(options)?;
        twins_targets(options)?;
        if sharing.windows == Windows::WorkConserving {
            twins_idle(options)?;
        }
    }
    Ok(())
}

fn read_classes(
    options: &forebay_options,
    sharing: SharingSettings,
) -> Result<ClassOptions, Failure> {
    let places = within("classes_max", options.classes_max.into(), 1, 65_000)?;
    let waiting = within("class_requests_max", options.class_requests_max, 1, REQUESTS_MAX)?;
    Ok(ClassOptions {
        sharing,
        classes_max: places as usize,
        class_requests_max: waiting as usize,
        ..ClassOptions::default()
    })
}

/// What a class is to have.
pub(crate) fn class_share(share: &forebay_share) -> Result<ClassShare, Failure> {
    let rate = |per_second, burst| (per_second > 0).then_some(Rate { per_second, burst });
    let in_group = choose("has_group", share.has_group, &[false, true])?;
    Ok(ClassShare {
        share: Share {
            weight: share.weight,
            ops: rate(share.requests_per_second, share.requests_burst),
            bytes: rate(share.bytes_per_second, share.bytes_burst),
            cost: rate(share.cost_per_second, share.cost_burst),
            at_limit: choose("at_limit", share.at_limit, &[AtLimit::Borrow, AtLimit::Wait])?,
        },
        reservation: share.reserved_per_second,
        group: in_group.then_some(GroupId(share.group)),
    })
}

#[cfg(test)]
mod tests {
    use forebay_sched::sharing::{Discipline, TwinsSettings, WindowIdle};
    use forebay_units::Timestamp;

    use super::*;
    use crate::defaults::default_options;

    fn read(options: &forebay_options, text: &str) -> Result<Made, String> {
        Made::read(options, "TO", text).map_err(|failure| format!("{failure:?}"))
    }

    #[test]
    fn the_fields_for_twins_hold_when_the_text_asks_for_it() {
        let options = forebay_options {
            sharing: FOREBAY_SHARE_SFQ,
            twins_window_ns: 7_000_000,
            twins_targets: 3,
            twins_idle_ns: 5,
            ..default_options()
        };
        let made = read(&options, "sharing.discipline=twins").unwrap();
        let expected = TwinsSettings {
            window: Nanos(7_000_000),
            targets: 3,
            shift: 0,
            start: Timestamp(0),
            idle: WindowIdle::LendAfter(Nanos(5)),
        };
        assert_eq!(made.classes.unwrap().sharing.discipline, Discipline::Twins(expected));
        let strict = forebay_options { sharing: FOREBAY_SHARE_TWINS_STRICT, ..options };
        let made = read(&strict, "sharing.windows=work-conserving").unwrap();
        assert_eq!(made.classes.unwrap().sharing.discipline, Discipline::Twins(expected));
    }

    #[test]
    fn a_field_that_nobody_looks_at_at_the_start_may_be_anything() {
        let sfq = forebay_options { sharing: FOREBAY_SHARE_SFQ, ..default_options() };
        let strict = forebay_options { sharing: FOREBAY_SHARE_TWINS_STRICT, ..default_options() };
        for (options, text, name) in [
            (
                forebay_options { twins_window_ns: 0, ..sfq },
                "sharing.discipline=twins",
                "window_ns",
            ),
            (forebay_options { twins_targets: 0, ..sfq }, "sharing.discipline=twins", "targets"),
            (
                forebay_options { twins_idle_ns: u64::MAX, ..strict },
                "sharing.windows=work-conserving",
                "idle_ns",
            ),
        ] {
            assert!(read(&options, "").is_ok(), "{name}");
            let refused = read(&options, text).err().unwrap();
            assert!(refused.contains(&format!("twins_{name} = ")), "{refused}");
        }
        let twins = forebay_options { sharing: FOREBAY_SHARE_TWINS, twins_targets: 0, ..sfq };
        assert!(read(&twins, "").is_err() && read(&twins, "sharing.discipline=drr").is_ok());
    }

    #[test]
    fn a_run_may_be_as_short_by_key_as_by_field() {
        let options = forebay_options { run_bytes_max: 4_096, ..default_options() };
        let by_field = read(&options, "").unwrap().settings.parameters;
        let by_key = read(&default_options(), "run_bytes_max=4096").unwrap().settings.parameters;
        assert_eq!(by_field, by_key);
    }
}
