//! What holds for any bytes that the reader may meet; shared with the fuzz target.

use std::collections::BTreeSet;

use forebay_trace::{Event, Header, Laws, Lives, Reader, Step, Steps, Summary, Workload, csv_line};

/// Reading ends, in order and within the bytes, whatever they are.
pub(crate) fn read_any(bytes: &[u8]) {
    let Ok(mut reader) = Reader::new(bytes) else { return };
    let (mut last, mut count) = (0, 0_usize);
    for found in &mut reader {
        let position = match found {
            Ok(record) => {
                assert!(
                    !matches!(record.event, Event::Dispatch { members, .. } if members.iter().count() != members.count())
                );
                record.position
            }
            Err(damage) => {
                assert!(damage.position + damage.skipped <= bytes.len());
                damage.position
            }
        };
        assert!(last <= position && position <= bytes.len(), "{last} {position}");
        last = position;
        count += 1;
    }
    // Whatever is told takes a byte at least, except what is missing at the end.
    assert!(count <= bytes.len() + 1);
    for guard in ["", "none", "overlap", "client", "file"] {
        let settings = vec![("recorded.guard".into(), guard.into())];
        hold_laws(bytes, &Header { settings, ..Header::default() });
    }
    let mut lives = Lives::default();
    let mut refused = 0;
    for found in Reader::new(bytes).expect("it was read before") {
        match found {
            Ok(record) => {
                lives.take(&record, |catalog, life| {
                    assert!(csv_line(catalog, life).len() > 17);
                    refused += u64::from(life.end.as_str() == "refused");
                });
            }
            Err(_) => lives.catalog.forget_indices(),
        }
    }
    let workload = Workload::read(Reader::new(bytes).expect("it was read before"));
    assert!(workload.requests.len() <= bytes.len());
    for look_ahead in [0, 3, usize::MAX] {
        let steps = Steps::new(Reader::new(bytes).expect("it was read before"), look_ahead);
        let mut forgotten = BTreeSet::new();
        let mut requests = workload.requests.iter();
        for step in steps {
            match step {
                Step::Forget(_, place) => assert!(forgotten.insert(place), "{place} is told twice"),
                Step::Ask(asked) => {
                    let recorded = requests.next().expect("no more than all at once");
                    assert_eq!((asked.at, asked.after), (recorded.at, recorded.after));
                    assert!(look_ahead < usize::MAX || asked.request == recorded.request);
                    assert!(asked.after.is_none_or(|after| !forgotten.contains(&after)));
                }
            }
        }
        assert!(requests.next().is_none());
    }
    let summary = Summary::read(Reader::new(bytes).expect("it was read before"), 3);
    assert_eq!(summary.lost_events, workload.lost_events);
    assert_eq!(summary.requests.refused, refused);
}

/// The laws are held to the first breach, if there is one.
fn hold_laws(bytes: &[u8], header: &Header) {
    let mut laws = Laws::of(header);
    for found in Reader::new(bytes).expect("it was read before") {
        match found {
            Ok(record) => {
                if laws.take(&record).is_err() {
                    return;
                }
            }
            Err(_) => laws.forget(),
        }
    }
    assert!(laws.open_count() <= laws.requests_count());
    _ = laws.finish(None);
}

/// Any bytes, and the same bytes as a block of events with a checksum that fits.
pub(crate) fn read_any_and_sealed(bytes: &[u8]) {
    read_any(bytes);
    read_any(&sealed(bytes));
}

/// A trace with one block, whose head and events are these bytes.
pub(crate) fn sealed(bytes: &[u8]) -> Vec<u8> {
    let mut trace = forebay_trace::Header::default().to_bytes();
    let mut sum_input = vec![2, 0, 0, 0];
    sum_input.extend((bytes.len() as u32).to_le_bytes());
    sum_input.extend(bytes);
    trace.extend([0xf0, b'F', b'b', b't', 2, 0, 0, 0]);
    trace.extend((bytes.len() as u32).to_le_bytes());
    trace.extend(crc32c(&sum_input).to_le_bytes());
    trace.extend(bytes);
    trace
}

/// Bit by bit, so that it is not the code that it tests.
fn crc32c(bytes: &[u8]) -> u32 {
    let mut sum = !0_u32;
    for byte in bytes {
        sum ^= u32::from(*byte);
        for _ in 0..8 {
            sum = (sum >> 1) ^ if sum & 1 == 1 { 0x82f6_3b78 } else { 0 };
        }
    }
    !sum
}
