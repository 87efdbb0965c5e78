//! What holds for any bytes that the reader may meet; shared with the fuzz target.

use forebay_trace::{Event, Reader, Summary, Workload};

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
    let workload = Workload::read(Reader::new(bytes).expect("it was read before"));
    assert!(workload.requests.len() <= bytes.len());
    let summary = Summary::read(Reader::new(bytes).expect("it was read before"), 3);
    assert_eq!(summary.lost_events, workload.lost_events);
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
