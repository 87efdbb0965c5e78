//! A profile as text and as JSON, and what it comes to in words.

use std::fmt::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

use forebay_device::Profile;
use forebay_probe::{Access, LENGTHS, Record, operation};
use forebay_select::profile::Ratio;
use forebay_select::{DeviceProfile, Order};
use forebay_units::{Bytes, Direction};
use serde_json::{Value, json};

use crate::columns::Columns;
use crate::size::{Length, Size};

/// A gain of a tenth is worth arranging requests for.
const WORTH: f64 = 1.1;

const DIRECTIONS: [Direction; 2] = [Direction::Read, Direction::Write];

/// All of it, for people.
pub(super) fn text(record: &Record, lengths: &[Bytes], model: Option<&Profile>) -> String {
    let device = &record.device;
    let kind = match device.is_rotating {
        Some(true) => ", which rotates, says the kernel",
        Some(false) => ", which does not rotate, says the kernel",
        None => "",
    };
    let access = match record.access {
        Access::Direct => "around the page cache",
        Access::Buffered => "through the page cache, emptied before each run: O_DIRECT is refused",
        Access::Modelled => "as the model says",
    };
    let mut text = format!(
        "{}{kind}\none request at a time, {access}; random within {}\n\n",
        device.name,
        Size(record.span.0)
    );
    let _ = write!(text, "{}\n{}\n", points(record), lines(record));
    let _ = writeln!(text, "{}", ratios(record, lengths, model));
    for direction in DIRECTIONS {
        let _ = writeln!(text, "{}", verdict(record, direction));
    }
    text
}

/// All of it, for programs: the record as it is kept, and what follows from it.
pub(super) fn json(record: &Record, lengths: &[Bytes]) -> String {
    let mut all: Value = serde_json::from_str(&record.encode()).expect("a record is JSON");
    let profile = record.profile();
    let parts = DeviceProfile::PARTS.into_iter();
    let lines: Vec<Value> = parts
        .map(|(direction, order)| {
            let curve = profile.curve(direction, order);
            let line = curve.fitted();
            json!({
                "operation": operation(direction), "order": order.as_str(),
                "fixed_ns": line.fixed_ns, "byte_ns": line.byte_ns, "misfit": curve.misfit(),
            })
        })
        .collect();
    let pairs =
        DIRECTIONS.into_iter().flat_map(|direction| lengths.iter().map(move |it| (direction, it)));
    let ratios: Vec<Value> = pairs
        .map(|(direction, length)| {
            let Ratio { value, low, high } = profile.ratio_with_bounds(direction, *length);
            json!({
                "operation": operation(direction), "bytes": length.0,
                "ratio": value, "low": low, "high": high, "measured": record.has(direction),
            })
        })
        .collect();
    all["lines"] = lines.into();
    all["ratios"] = ratios.into();
    all["verdicts"] = DIRECTIONS.map(|direction| verdict(record, direction)).to_vec().into();
    format!("{all:#}\n")
}

/// What was measured.
fn points(record: &Record) -> Columns {
    let mut table = Columns::new(&["request", "sequential", "MB/s", "random", "MB/s", "to", ""]);
    for direction in DIRECTIONS.into_iter().filter(|it| record.has(*it)) {
        for length in LENGTHS {
            let find = |order| {
                let its = |point: &&forebay_probe::Point| {
                    (point.direction, point.order, point.knot.length) == (direction, order, length)
                };
                record.points.iter().find(its)
            };
            let (Some(sequential), Some(random)) = (find(Order::Sequential), find(Order::Random))
            else {
                continue;
            };
            let rate = |time_ns: f64| format!("{:.1}", length.0 as f64 * 1e3 / time_ns);
            let error = sequential.knot.error.max(random.knot.error);
            table.push([
                format!("{} {}", operation(direction), Size(length.0)),
                Length(sequential.knot.time_ns as u64).to_string(),
                rate(sequential.knot.time_ns),
                Length(random.knot.time_ns as u64).to_string(),
                rate(random.knot.time_ns),
                format!("{:.1} %", error * 100.0),
                format!("of {} and {} runs", sequential.runs, random.runs),
            ]);
        }
    }
    table
}

/// What one line makes of it.
fn lines(record: &Record) -> Columns {
    let mut table = Columns::new(&["a + b len", "a", "b", "misses by up to"]);
    for (direction, order) in DeviceProfile::PARTS {
        if !record.has(direction) {
            continue;
        }
        let curve = record.profile().curve(direction, order);
        let line = curve.fitted();
        table.push([
            format!("{order} {}", operation(direction)),
            Length(line.fixed_ns as u64).to_string(),
            format!("{:.3} ns/B", line.byte_ns),
            format!("{:.0} %", curve.misfit() * 100.0),
        ]);
    }
    table
}

/// How much faster sequential is.
fn ratios(record: &Record, lengths: &[Bytes], model: Option<&Profile>) -> Columns {
    let last = if model.is_some() { "the model says" } else { "" };
    let mut table = Columns::new(&["sequential over random", "ratio", "from", "to (95 %)", last]);
    for direction in DIRECTIONS {
        for length in lengths {
            let Ratio { value, low, high } = record.profile().ratio_with_bounds(direction, *length);
            let said = match model {
                Some(model) => model.ratio_permille(direction, *length) as f64 / 1e3,
                None => f64::NAN,
            };
            table.push([
                format!("{} {}", operation(direction), Size(length.0)),
                format!("{value:.2}"),
                format!("{low:.2}"),
                format!("{high:.2}"),
                if model.is_some() { format!("{said:.2}") } else { String::new() },
            ]);
        }
    }
    table
}

/// Whether order matters, in words.
fn verdict(record: &Record, direction: Direction) -> String {
    let name = operation(direction);
    if !record.has(direction) {
        return format!("{name}s: not measured; taken to be like the others, give or take half");
    }
    let ratio = |length| record.profile().ratio_with_bounds(direction, length);
    let small = ratio(Bytes::kib(8));
    if small.low > WORTH {
        let worth = (13..=23).map(|shift| Bytes(1 << shift));
        let last = worth.take_while(|length| ratio(*length).low > WORTH).last();
        let last =
            last.map_or(String::new(), |it| format!(", and gains a tenth up to {}", Size(it.0)));
        return format!(
            "{name}s: order matters: at 8 KiB sequential is {:.1} times as fast as random{last}",
            small.value
        );
    }
    if small.high < 1.0 / WORTH {
        return format!(
            "{name}s: order hurts: at 8 KiB random is {:.1} times as fast as sequential",
            1.0 / small.value
        );
    }
    let (low, high) = (small.low, small.high);
    if high < WORTH {
        return format!(
            "{name}s: order gains nothing: the ratio at 8 KiB is between {low:.2} and {high:.2}"
        );
    }
    format!(
        "{name}s: not sure: the ratio at 8 KiB is between {low:.2} and {high:.2}; a larger --budget, or a quieter machine, tells"
    )
}

/// Whether a ratio may as well be twice what another measurement would say.
pub(super) fn is_vague(record: &Record, lengths: &[Bytes]) -> bool {
    let vague = |direction, length: &Bytes| {
        let Ratio { low, high, .. } = record.profile().ratio_with_bounds(direction, *length);
        record.has(direction) && high > 2.0 * low
    };
    DIRECTIONS.iter().any(|direction| lengths.iter().any(|length| vague(*direction, length)))
}

/// How long ago something was, in seconds since 1970.
pub(super) fn age(since: u64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.as_secs());
    let seconds = now.saturating_sub(since);
    match [(86_400, "days"), (3_600, "hours"), (60, "minutes")]
        .iter()
        .find(|it| seconds >= 2 * it.0)
    {
        Some((unit, name)) => format!("{} {name} ago", seconds / unit),
        None => format!("{seconds} seconds ago"),
    }
}

#[cfg(test)]
mod tests {
    use forebay_probe::{Identity, Point, of_model};

    use super::*;

    fn record(model: &str, error: f64) -> Record {
        let model = Profile::by_name(model).unwrap();
        let profile = of_model(&model).with_error(error);
        let all = DeviceProfile::PARTS.into_iter().flat_map(|part| LENGTHS.map(|to| (part, to)));
        let points = all.map(|((direction, order), length)| Point {
            direction,
            order,
            knot: profile.curve(direction, order).at(length),
            runs: 5,
        });
        let device = Identity::of_model(&model);
        Record::new(device, 5, Access::Modelled, Bytes::mib(4096), points.collect()).unwrap()
    }

    #[test]
    fn the_verdict_is_what_the_bounds_allow() {
        let words = |model, error| verdict(&record(model, error), Direction::Write);
        let disk = words("hdd-57", 0.01);
        assert!(disk.contains("order matters") && disk.contains("47."), "{disk}");
        assert!(disk.contains("up to 2.0 MiB") || disk.contains("up to 4.0 MiB"), "{disk}");
        assert!(words("ssd", 0.01).contains("gains nothing"), "{}", words("ssd", 0.01));
        assert!(words("edel", 0.01).contains("1.5 times as fast"), "{}", words("edel", 0.01));
        assert!(words("ssd", 0.5).contains("not sure"), "{}", words("ssd", 0.5));
        let vague = |error| is_vague(&record("hdd-57", error), &[Bytes::kib(8)]);
        assert!(vague(0.5) && !vague(0.01));
    }

    #[test]
    fn the_text_has_every_length_and_what_the_model_says() {
        let record = record("pastel", 0.01);
        let model = Profile::by_name("pastel").unwrap();
        let text = text(&record, &[Bytes::kib(8)], Some(&model));
        for part in ["read 4.0 KiB", "write 8.0 MiB", "38.9", "21.2", "the model says", "ns/B"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn the_json_has_the_record_and_what_follows_from_it() {
        let record = record("hdd-57", 0.0);
        let json: Value = serde_json::from_str(&json(&record, &[Bytes::kib(8)])).unwrap();
        assert_eq!(json["points"].as_array().unwrap().len(), 28);
        let ratio = json["ratios"][0]["ratio"].as_f64().unwrap();
        assert!((ratio - 47.6).abs() < 1.0, "{ratio}");
        assert_eq!(json["lines"].as_array().unwrap().len(), 4);
    }

    #[test]
    fn ages_have_a_unit_that_fits() {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        assert_eq!(age(now - 7_300), "2 hours ago");
        assert!(age(now).contains("seconds"));
    }
}
