//! How sharing is spelled in a trace: what classes share by, what one has, and policies.

use alloc::string::String;

use forebay_sched::policies::hbrr::HbrrQuantum;
use forebay_sched::sharing::{
    AtLimit, ClassShare, CostModel, Discipline, GroupId, Share, SharingSettings, SwSettings,
    TwinsSettings, WindowIdle,
};
use forebay_sched::{ClassOptions, Limits};
use forebay_units::{Bytes, Nanos, Timestamp};

use crate::adjust::PolicyChoice;
use crate::words::{RateText, Speller, TariffText, Words};

/// More places than a scheduler has are not possible.
const CLASSES_MAX: usize = 65_000;

/// Windows begin at most so long after a recording does, and a round of them takes no longer: 2^56
/// ns, some two years, the longest time of simulations. What came before would wait for ever.
const WINDOW_TIME_MAX: u64 = 1 << 56;

pub(crate) fn sharing(settings: &SharingSettings) -> String {
    let mut speller = Speller::default();
    put_sharing(&mut speller, settings);
    speller.finish()
}

pub(crate) fn read_sharing(text: &str) -> Option<SharingSettings> {
    let mut words = Words::of(text)?;
    let settings = take_sharing(&mut words)?;
    words.end()?;
    Some(settings)
}

pub(crate) fn classes(options: &ClassOptions) -> String {
    let ClassOptions { sharing, classes_max, idle_max, class_requests_max } = options;
    let mut speller = Speller::default();
    put_sharing(&mut speller, sharing);
    speller.word("classes_max", classes_max);
    speller.word("idle_max_ns", idle_max.0);
    speller.word("class_requests_max", class_requests_max);
    speller.finish()
}

pub(crate) fn read_classes(text: &str) -> Option<ClassOptions> {
    let mut words = Words::of(text)?;
    let options = ClassOptions {
        sharing: take_sharing(&mut words)?,
        classes_max: words.take("classes_max").filter(|max| (1..=CLASSES_MAX).contains(max))?,
        idle_max: Nanos(words.take("idle_max_ns")?),
        class_requests_max: words.take_positive("class_requests_max")?.try_into().ok()?,
    };
    words.end()?;
    Some(options)
}

fn put_sharing(speller: &mut Speller, settings: &SharingSettings) {
    let SharingSettings { discipline, cost, quantum, lend_below, capacity } = *settings;
    match discipline {
        Discipline::Sfq => speller.word("discipline", "sfq"),
        Discipline::Drr => speller.word("discipline", "drr"),
        Discipline::Twins(TwinsSettings { window, targets, shift, start, idle }) => {
            speller.word("discipline", "twins");
            speller.word("window_ns", window.0);
            speller.word("targets", targets);
            speller.word("shift", shift);
            speller.word("start_ns", start.0);
            let lend_after = match idle {
                WindowIdle::Strict => None,
                WindowIdle::LendAfter(after) => Some(after.0),
            };
            speller.word_if("lend_after_ns", lend_after);
        }
        Discipline::Sw(SwSettings { window, start, is_strict }) => {
            speller.word("discipline", "sw");
            speller.word("window_ns", window.0);
            speller.word("start_ns", start.0);
            speller.word("strict", is_strict);
        }
    }
    speller.word("cost_read", TariffText(cost.read));
    speller.word("cost_write", TariffText(cost.write));
    speller.word("quantum", quantum);
    speller.word("lend_below", lend_below);
    speller.word_if("capacity", capacity);
}

fn take_sharing(words: &mut Words<'_>) -> Option<SharingSettings> {
    let discipline: String = words.take("discipline")?;
    Some(SharingSettings {
        discipline: match discipline.as_str() {
            "sfq" => Discipline::Sfq,
            "drr" => Discipline::Drr,
            "twins" => {
                let window = words.take_positive("window_ns")?;
                let targets = words.take_positive("targets")?;
                window.checked_mul(targets).filter(|round| *round <= WINDOW_TIME_MAX)?;
                Discipline::Twins(TwinsSettings {
                    window: Nanos(window),
                    targets: targets.try_into().ok()?,
                    shift: words.take("shift")?,
                    start: take_start(words)?,
                    idle: match words.take_if("lend_after_ns")? {
                        Some(after) => WindowIdle::LendAfter(Nanos(after)),
                        None => WindowIdle::Strict,
                    },
                })
            }
            "sw" => Discipline::Sw(SwSettings {
                window: words.take("window_ns").map(Nanos).filter(|window| {
                    (SwSettings::WINDOW_MIN..=SwSettings::WINDOW_MAX).contains(window)
                })?,
                start: take_start(words)?,
                is_strict: words.take("strict")?,
            }),
            _ => return None,
        },
        cost: CostModel {
            read: words.take::<TariffText>("cost_read")?.0,
            write: words.take::<TariffText>("cost_write")?.0,
        },
        quantum: words.take_positive("quantum")?,
        lend_below: words.take_positive("lend_below")?.try_into().ok()?,
        capacity: words.take_if("capacity")?,
    })
}

fn take_start(words: &mut Words<'_>) -> Option<Timestamp> {
    words.take("start_ns").filter(|start| *start <= WINDOW_TIME_MAX).map(Timestamp)
}

pub(crate) fn share(share: &Share) -> String {
    let mut speller = Speller::default();
    put_share(&mut speller, share);
    speller.finish()
}

pub(crate) fn read_share(text: &str) -> Option<Share> {
    let mut words = Words::of(text)?;
    let share = take_share(&mut words)?;
    words.end()?;
    Some(share)
}

pub(crate) fn class_share(share: &ClassShare) -> String {
    let ClassShare { share, reservation, group } = *share;
    let mut speller = Speller::default();
    put_share(&mut speller, &share);
    speller.word_if("reservation", (reservation > 0).then_some(reservation));
    speller.word_if("group", group.map(|group| group.0));
    speller.finish()
}

pub(crate) fn read_class_share(text: &str) -> Option<ClassShare> {
    let mut words = Words::of(text)?;
    let share = ClassShare {
        share: take_share(&mut words)?,
        reservation: words.take_if("reservation")?.unwrap_or(0),
        group: words.take_if("group")?.map(GroupId),
    };
    words.end()?;
    Some(share)
}

fn put_share(speller: &mut Speller, share: &Share) {
    let Share { weight, ops, bytes, cost, at_limit } = *share;
    speller.word("weight", weight);
    speller.word_if("ops", ops.map(RateText));
    speller.word_if("bytes", bytes.map(RateText));
    speller.word_if("cost", cost.map(RateText));
    speller.word_if("at_limit", (at_limit == AtLimit::Wait).then_some("wait"));
}

fn take_share(words: &mut Words<'_>) -> Option<Share> {
    let mut rate = |name| Some(words.take_if::<RateText>(name)?.map(|text| text.0));
    let (ops, bytes, cost) = (rate("ops")?, rate("bytes")?, rate("cost")?);
    Some(Share {
        weight: words.take("weight")?,
        ops,
        bytes,
        cost,
        at_limit: match words.take_if::<String>("at_limit")?.as_deref() {
            None => AtLimit::Borrow,
            Some("wait") => AtLimit::Wait,
            Some(_) => return None,
        },
    })
}

pub(crate) fn policy(choice: &PolicyChoice) -> String {
    let PolicyChoice { policy, limits, hbrr_quantum } = choice;
    let mut speller = Speller::default();
    speller.word("policy", policy);
    speller.word("run_bytes_max", limits.run_bytes_max.0);
    speller.word("run_requests_max", limits.run_requests_max);
    speller.word("batch_bytes_max", limits.batch_bytes_max.0);
    speller.word("wait_max_ns", limits.wait_max.0);
    match hbrr_quantum {
        HbrrQuantum::Ranges(count) => speller.word("hbrr_ranges", count),
        HbrrQuantum::Bytes(bytes) => speller.word("hbrr_bytes", bytes.0),
    }
    speller.finish()
}

pub(crate) fn read_policy(text: &str) -> Option<PolicyChoice> {
    let mut words = Words::of(text)?;
    let choice = PolicyChoice {
        policy: words.take("policy")?,
        limits: Limits {
            run_bytes_max: Bytes(words.take("run_bytes_max")?),
            run_requests_max: words.take("run_requests_max")?,
            batch_bytes_max: Bytes(words.take("batch_bytes_max")?),
            wait_max: Nanos(words.take("wait_max_ns")?),
        },
        hbrr_quantum: match words.take_if("hbrr_bytes")? {
            Some(bytes) => HbrrQuantum::Bytes(Bytes(bytes)),
            None => HbrrQuantum::Ranges(words.take("hbrr_ranges")?),
        },
    };
    words.end()?;
    choice.is_possible().then_some(choice)
}
