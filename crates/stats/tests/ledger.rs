//! The ledger: exact sums however few rows it has, and each figure where it belongs.

use forebay_stats::{Ledger, LedgerOptions, Route, Served, Waiting};
use forebay_units::{Bytes, ClassId, Direction, FileIndex, Nanos, Timestamp};
use proptest::prelude::*;

fn served(class: u32, file: u32, bytes: u64) -> Served {
    Served {
        class: ClassId(class),
        file: FileIndex(file),
        direction: if file.is_multiple_of(2) { Direction::Read } else { Direction::Write },
        bytes: Bytes(bytes),
        queued: Nanos(bytes * 10),
        device: Nanos(bytes),
        route: if bytes.is_multiple_of(3) { Route::Bypassed } else { Route::Batched },
    }
}

proptest! {
    #[test]
    fn sums_are_exact_however_few_rows_there_are(
        all in prop::collection::vec((0_u32..12, 0_u32..40, 0_u64..100_000), 1..300),
        classes_max in 1_usize..16,
        files_max in 1_usize..48,
    ) {
        let mut ledger = Ledger::new(LedgerOptions { classes_max, files_max });
        for (class, file, bytes) in &all {
            ledger.completed(&served(*class, *file, *bytes));
            ledger.batch(ClassId(*class), FileIndex(*file), 2);
            ledger.blocked(ClassId(*class), FileIndex(*file), ClassId(1), Nanos(3));
        }
        let snapshot = ledger.snapshot(std::iter::empty());
        let total = snapshot.total();
        let count = all.len() as u64;
        prop_assert_eq!(total.requests(), count);
        prop_assert_eq!(total.bytes(), Bytes(all.iter().map(|(_, _, bytes)| bytes).sum()));
        prop_assert_eq!(total.bypassed, all.iter().filter(|(_, _, b)| b % 3 == 0).count() as u64);
        prop_assert_eq!((total.batches, total.batched_requests), (count, 2 * count));
        prop_assert_eq!((total.blocked, total.blocked_time), (count, Nanos(3 * count)));
        prop_assert_eq!(total.queue_time.count(), count);
        prop_assert_eq!(total.device_time.sum(), Nanos(total.bytes().0));
        let files = snapshot.files.rows.iter().map(|row| row.account.requests()).sum::<u64>();
        prop_assert_eq!(files + snapshot.files.other.requests(), count);
    }

    #[test]
    fn any_class_and_any_file_number_is_counted(class in any::<u32>(), file in 0_u32..100_000) {
        let mut ledger = Ledger::new(LedgerOptions::default());
        ledger.completed(&served(class, file, 5));
        let snapshot = ledger.snapshot(std::iter::empty());
        prop_assert_eq!(snapshot.classes.rows[0].key, u64::from(class));
        prop_assert_eq!(snapshot.files.rows[0].key, u64::from(file));
    }
}

#[test]
fn the_heaviest_class_comes_first() {
    let mut ledger = Ledger::new(LedgerOptions::default());
    for _ in 0..10 {
        ledger.completed(&served(1, 1, 100));
        ledger.completed(&served(2, 2, 100_000));
    }
    let snapshot = ledger.snapshot(std::iter::empty());
    let keys: Vec<_> = snapshot.classes.rows.iter().map(|row| row.key).collect();
    assert_eq!(keys, [2, 1]);
    assert_eq!(snapshot.classes.rows[0].account.account.merge_percent(), 100);
}

#[test]
fn many_small_requests_weigh_more_than_their_bytes() {
    let mut ledger = Ledger::new(LedgerOptions::default());
    ledger.completed(&served(1, 1, 100_000));
    (0..100).for_each(|_| ledger.completed(&served(2, 2, 10)));
    assert_eq!(ledger.snapshot(std::iter::empty()).classes.rows[0].key, 2);
}

#[test]
fn it_is_known_who_was_waited_for() {
    let mut ledger = Ledger::new(LedgerOptions::default());
    for blocker in 0..20 {
        ledger.blocked(ClassId(1), FileIndex(0), ClassId(blocker), Nanos(1));
    }
    ledger.blocked(ClassId(1), FileIndex(0), ClassId(5), Nanos(1000));
    let snapshot = ledger.snapshot(std::iter::empty());
    let class = &snapshot.classes.rows[0].account;
    let blockers = class.blockers.ranking();
    assert_eq!(blockers.rows[0].key, 5, "the one that cost most");
    assert!(blockers.rows.len() <= 8, "bounded");
    assert_eq!(blockers.rows.iter().map(|row| row.account).sum::<u64>() + blockers.other, 21);
}

#[test]
fn a_name_outlives_the_index_that_it_was_given_to() {
    let mut ledger = Ledger::new(LedgerOptions::default());
    ledger.name_file(FileIndex(3), 0xabc);
    ledger.completed(&served(1, 3, 10));
    ledger.name_file(FileIndex(3), 0xdef);
    ledger.completed(&served(1, 3, 10));
    ledger.name_file(FileIndex(5), 0xabc);
    ledger.completed(&served(1, 5, 10));
    let snapshot = ledger.snapshot(std::iter::empty());
    let rows: Vec<_> =
        snapshot.files.rows.iter().map(|row| (row.key, row.account.requests())).collect();
    assert_eq!(rows, [(0xabc, 2), (0xdef, 1)]);
}

#[test]
fn waiting_requests_are_counted_with_the_oldest() {
    let mut ledger = Ledger::new(LedgerOptions { classes_max: 1, files_max: 1 });
    ledger.completed(&served(1, 1, 10));
    let waiting = [(1, 50), (1, 20), (2, 30)]
        .map(|(class, arrived)| Waiting { class: ClassId(class), arrived: Timestamp(arrived) });
    let snapshot = ledger.snapshot(waiting.into_iter());
    let class = &snapshot.classes.rows[0].account;
    assert_eq!((class.waiting, class.oldest_waiting), (2, Some(Timestamp(20))));
    let other = &snapshot.classes.other;
    assert_eq!((other.waiting, other.oldest_waiting), (1, Some(Timestamp(30))));
}

#[test]
fn throttling_and_waits_are_noted_for_the_class() {
    let mut ledger = Ledger::new(LedgerOptions::default());
    ledger.throttled(ClassId(4), Nanos(70));
    ledger.waited(ClassId(4), Nanos(9));
    let snapshot = ledger.snapshot(std::iter::empty());
    let account = &snapshot.classes.rows[0].account.account;
    assert_eq!((account.throttled, account.throttled_time), (1, Nanos(70)));
    assert_eq!((account.waits, account.waited), (1, Nanos(9)));
    ledger.forget_class(ClassId(4));
    let snapshot = ledger.snapshot(std::iter::empty());
    assert_eq!(snapshot.classes.rows[0].account.account.throttled, 0);
    assert_eq!(snapshot.total().throttled, 1);
}
