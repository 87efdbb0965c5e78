//! Traces that earlier versions recorded: a version reads all that came before it.

use forebay_trace::{Checker, Laws, Reader, Setup, Summary, Workload};

struct Old {
    bytes: &'static [u8],
    source: &'static str,
    /// All, and of these reads, writes, appends and the like, syncs, and those taken back.
    requests: [u64; 6],
    read: u64,
    written: u64,
    events: u64,
    decisions: u64,
}

const FORWARDER: Old = Old {
    bytes: include_bytes!("old/forwarder-0.1.0.trace"),
    source: "forebay 0.1.0",
    requests: [188, 85, 100, 2, 1, 0],
    read: 450_560,
    written: 573_451,
    events: 1_050,
    decisions: 823,
};

const LIBRARY: Old = Old {
    bytes: include_bytes!("old/libforebay-0.1.0.trace"),
    source: "libforebay 0.1.0",
    requests: [300, 176, 85, 0, 39, 32],
    read: 1_302_528,
    written: 614_400,
    events: 888,
    decisions: 565,
};

#[test]
fn an_old_trace_is_read_as_it_was_and_is_lawful() {
    for old in [FORWARDER, LIBRARY] {
        let summary = Summary::read(Reader::new(old.bytes).unwrap(), 3);
        let found = &summary.requests;
        assert_eq!(summary.source, old.source);
        let kinds =
            [found.all, found.reads, found.writes, found.alone, found.syncs, found.cancelled];
        assert_eq!((kinds, summary.events), (old.requests, old.events));
        assert_eq!((summary.bytes.read, summary.bytes.written), (old.read, old.written));
        assert_eq!((found.refused, summary.hints, summary.lost_events), (0, 0, 0));
        assert!(summary.damages.is_empty(), "{:?}", summary.damages);
        let workload = Workload::read(Reader::new(old.bytes).unwrap());
        assert_eq!(workload.requests.len() as u64, old.requests[0]);

        let mut reader = Reader::new(old.bytes).unwrap();
        let mut laws = Laws::of(reader.header());
        assert!(laws.has_decisions());
        for record in &mut reader {
            laws.take(&record.unwrap()).unwrap();
        }
        laws.finish(reader.totals()).unwrap();
    }
}

/// Where a policy is meant to decide otherwise than before, another trace takes the place of these.
#[test]
fn what_an_earlier_version_decided_is_decided_again() {
    for old in [FORWARDER, LIBRARY] {
        let reader = Reader::new(old.bytes).unwrap();
        let setup = Setup::of(reader.header()).unwrap();
        let mut checker = Checker::new(setup.scheduler(), setup.policy_settings());
        for record in reader {
            checker.check(&record.unwrap()).unwrap();
        }
        assert_eq!(checker.decisions_count(), old.decisions, "{}", old.source);
    }
}
