//! Records: what is written is read again, and what is not ours is refused and never panics.

use forebay_probe::{Access, ErrorKind, Identity, LENGTHS, Point, RECORD_BYTES_MAX, Record};
use forebay_select::DeviceProfile;
use forebay_select::profile::Knot;
use forebay_units::{Bytes, Direction};
use proptest::prelude::*;

fn identity(key: &str) -> Identity {
    Identity { key: key.into(), name: "sda (a disk)".into(), is_rotating: Some(true) }
}

fn points(times: &[(f64, f64)]) -> Vec<Point> {
    let all = DeviceProfile::PARTS.into_iter().flat_map(|part| LENGTHS.map(|to| (part, to)));
    let point = |(((direction, order), length), (time_ns, error))| {
        let knot = Knot { length, time_ns, error };
        Point { direction, order, knot, runs: 5 }
    };
    all.zip(times.iter().copied().cycle()).map(point).collect()
}

fn record() -> Record {
    let points = points(&[(125_000.5, 0.01), (9e6, 0.03), (77.0, 0.0)]);
    Record::new(identity("block 8:0"), 1_764_000_000, Access::Direct, Bytes::mib(512), points)
        .unwrap()
}

/// What the record's text says when this is put in the place of that.
fn refusal(that: &str, this: &str) -> String {
    let text = record().encode();
    assert!(text.contains(that), "{text}");
    let error = Record::decode(text.replacen(that, this, 1).as_bytes()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Corrupt);
    error.to_string()
}

#[test]
fn what_is_wrong_is_named() {
    assert!(refusal("\"version\": 1", "\"version\": 9").contains("version 9"));
    assert!(refusal("\"direct\"", "\"by hand\"").contains("by hand"));
    assert!(refusal("\"read\"", "\"erase\"").contains("erase"));
    assert!(refusal("\"random\"", "\"sorted\"").contains("sorted"));
    assert!(refusal("125000.5", "-1.0").contains("no device does that"));
    assert!(refusal("\"bytes\": 4096", "\"bytes\": 999999999").contains("no curves"));
    assert!(refusal("\"bytes\": 4096", "\"bytes\": 0").contains("no device does that"));
    assert!(refusal("\"points\"", "\"knots\"").contains("points"));
    let long = vec![b' '; RECORD_BYTES_MAX + 1];
    assert!(Record::decode(&long).unwrap_err().to_string().contains("longer"));
}

#[test]
fn half_an_operation_is_refused_and_none_is_taken_from_the_other() {
    let mut record = record();
    record.points.retain(|point| point.direction == Direction::Read);
    let read = Record::decode(record.encode().as_bytes()).unwrap();
    assert!(read.has(Direction::Read) && !read.has(Direction::Write));
    let ratio = |direction| read.profile().ratio_with_bounds(direction, Bytes::kib(8));
    assert!(ratio(Direction::Write).high > 1.5 * ratio(Direction::Read).high);
    record.points.retain(|point| point.order == forebay_select::Order::Random);
    let error = Record::decode(record.encode().as_bytes()).unwrap_err();
    assert!(error.to_string().contains("two orders"), "{error}");
}

proptest! {
    #[test]
    fn what_was_written_is_read_again(
        times in prop::collection::vec((1.0..1e15, 0.0..1e3), 1..28),
        key in ".{0,300}",
        measured_at in any::<u64>(),
        span in any::<u64>(),
    ) {
        let device = identity(&key);
        let points = points(&times);
        let record =
            Record::new(device, measured_at, Access::Buffered, Bytes(span), points).unwrap();
        let text = record.encode();
        prop_assert!(text.len() <= RECORD_BYTES_MAX, "{}", text.len());
        let read = Record::decode(text.as_bytes()).unwrap();
        prop_assert_eq!((&read.device, read.span), (&record.device, record.span));
        prop_assert_eq!((read.measured_at, read.access), (measured_at, Access::Buffered));
        for (read, written) in read.points.iter().zip(&record.points) {
            prop_assert_eq!(read.knot.length, written.knot.length);
            // Decimal numbers are read to the last digit but one.
            let near = |a: f64, b: f64| (a - b).abs() <= 1e-14 * b;
            prop_assert!(near(read.knot.time_ns, written.knot.time_ns), "{:?}", written);
            prop_assert!(near(read.knot.error, written.knot.error), "{:?}", written);
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..2_000)) {
        prop_assert!(Record::decode(&bytes).is_err());
    }

    #[test]
    fn a_damaged_record_never_panics(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut bytes = record().encode().into_bytes();
        let idx = at.index(bytes.len());
        bytes[idx] = byte;
        if let Ok(read) = Record::decode(&bytes) {
            let ratio = read.profile().ratio_with_bounds(Direction::Read, Bytes::kib(8));
            prop_assert!(ratio.value.is_finite() && ratio.low <= ratio.value);
        }
    }

    #[test]
    fn a_record_cut_short_is_refused(at in any::<prop::sample::Index>()) {
        let text = record().encode();
        let bytes = text.trim_end().as_bytes();
        prop_assert!(Record::decode(&bytes[..at.index(bytes.len())]).is_err());
    }
}
