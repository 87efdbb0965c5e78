//! The ledger: exact sums however few rows it has, and each figure where it belongs.

use forebay_stats::{
    Account, Ledger, LedgerOptions, Live, Ranked, Reading, Route, Served, Snapshot, Stage,
};
use forebay_units::{Bytes, ClassId, Direction, FileId, FileIndex, Nanos, Timestamp};
use proptest::prelude::*;

fn served(class: u32, file: u32, bytes: u64) -> Served {
    Served {
        class: ClassId(class),
        file: FileIndex(file),
        direction: if file.is_multiple_of(2) { Direction::Read } else { Direction::Write },
        bytes: Bytes(bytes),
        arrived: Timestamp(1_000),
        route: match bytes % 3 {
            0 => Route::Bypassed,
            leads => Route::Batched {
                dispatched: Timestamp(1_000 + bytes * 10),
                leads: 2 * (leads as u32 - 1),
            },
        },
        ended: Timestamp(1_000 + bytes * if bytes.is_multiple_of(3) { 1 } else { 11 }),
    }
}

/// As it is when nothing is alive.
fn read(ledger: &Ledger) -> Snapshot {
    ledger.snapshot(Timestamp(0), std::iter::empty())
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
            ledger.blocked(ClassId(*class), FileIndex(*file), Some(ClassId(1)), Nanos(3));
        }
        let snapshot = read(&ledger);
        let total = snapshot.total();
        let count = all.len() as u64;
        prop_assert_eq!(total.requests(), count);
        prop_assert_eq!(total.bytes(), Bytes(all.iter().map(|(_, _, bytes)| bytes).sum()));
        prop_assert_eq!(total.bypassed, all.iter().filter(|(_, _, b)| b % 3 == 0).count() as u64);
        let leaders = all.iter().filter(|(_, _, bytes)| bytes % 3 == 2).count() as u64;
        prop_assert_eq!((total.batches, total.batched_requests), (leaders, 2 * leaders));
        prop_assert_eq!((total.blocked, total.blocked_time), (count, Nanos(3 * count)));
        prop_assert_eq!(total.queue_time.count(), count);
        prop_assert_eq!(total.device_time.sum(), Nanos(total.bytes().0));
        let queued = all.iter().filter(|(_, _, bytes)| bytes % 3 > 0).map(|(_, _, bytes)| bytes * 10);
        prop_assert_eq!(total.queue_time.sum(), Nanos(queued.sum()));
        let files = snapshot.files.rows.iter().map(|row| row.account.requests()).sum::<u64>();
        prop_assert_eq!(files + snapshot.files.other.requests(), count);
    }

    #[test]
    fn any_class_and_any_file_number_is_counted(class in any::<u32>(), file in 0_u32..100_000) {
        let mut ledger = Ledger::new(LedgerOptions::default());
        ledger.completed(&served(class, file, 5));
        let snapshot = read(&ledger);
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
    let snapshot = read(&ledger);
    let keys: Vec<_> = snapshot.classes.rows.iter().map(|row| row.key).collect();
    assert_eq!(keys, [2, 1]);
    assert_eq!(snapshot.classes.rows[0].account.account.merge_percent(), 100);
}

#[test]
fn many_small_requests_weigh_more_than_their_bytes() {
    let mut ledger = Ledger::new(LedgerOptions::default());
    ledger.completed(&served(1, 1, 100_000));
    (0..100).for_each(|_| ledger.completed(&served(2, 2, 10)));
    assert_eq!(read(&ledger).classes.rows[0].key, 2);
}

#[test]
fn it_is_known_who_was_waited_for() {
    let mut ledger = Ledger::new(LedgerOptions::default());
    for blocker in 0..20 {
        ledger.blocked(ClassId(1), FileIndex(0), Some(ClassId(blocker)), Nanos(1));
    }
    ledger.blocked(ClassId(1), FileIndex(0), Some(ClassId(5)), Nanos(1000));
    let snapshot = read(&ledger);
    let class = &snapshot.classes.rows[0].account;
    let blockers = class.blockers.ranking();
    assert_eq!(blockers.rows[0].key, 5, "the one that cost most");
    assert!(blockers.rows.len() <= 8, "bounded");
    assert_eq!(blockers.rows.iter().map(|row| row.account).sum::<u64>() + blockers.other, 21);
}

#[test]
fn a_name_outlives_the_index_that_it_was_given_to() {
    let mut ledger = Ledger::new(LedgerOptions::default());
    let [first, second] = [0xabc, 0xdef].map(|inode| FileId { inode, ..FileId::default() });
    ledger.name_file(FileIndex(3), first);
    ledger.completed(&served(1, 3, 10));
    ledger.name_file(FileIndex(3), second);
    ledger.completed(&served(1, 3, 10));
    ledger.name_file(FileIndex(5), first);
    ledger.completed(&served(1, 5, 10));
    let snapshot = read(&ledger);
    let row =
        |row: &Ranked<Reading<Account>>| (snapshot.file_ids[&row.key], row.account.requests());
    let rows: Vec<_> = snapshot.files.rows.iter().map(row).collect();
    assert_eq!(rows, [(first, 2), (second, 1)]);
}

#[test]
fn whose_a_row_is_stays_known_however_many_files_come_and_go() {
    let mut ledger = Ledger::new(LedgerOptions { classes_max: 1, files_max: 4 });
    let id = |inode| FileId { device: 1, inode, generation: 0 };
    ledger.name_file(FileIndex(1), id(0));
    // So heavy that it keeps its row, though its index goes to others.
    ledger.completed(&served(1, 1, 1 << 40));
    for inode in 1..1000 {
        ledger.name_file(FileIndex(inode as u32 % 3), id(inode));
        ledger.completed(&served(1, inode as u32 % 3, 1));
    }
    let snapshot = read(&ledger);
    assert_eq!(snapshot.files.rows.len(), 4);
    for row in &snapshot.files.rows {
        assert_eq!(snapshot.file_ids.get(&row.key).map(|id| id.mixed()), Some(row.key));
    }
    assert_eq!(snapshot.file_ids[&snapshot.files.rows[0].key], id(0));
    assert_eq!(snapshot.file_ids.len(), 4, "no others are handed out");
}

fn live(class: u32, file: u32, arrived: u64, stage: Stage) -> Live {
    Live { class: ClassId(class), file: FileIndex(file), arrived: Timestamp(arrived), stage }
}

#[test]
fn what_is_alive_is_counted_with_the_oldest_and_by_whom_it_is_blocked() {
    let mut ledger = Ledger::new(LedgerOptions { classes_max: 1, files_max: 1 });
    ledger.completed(&served(1, 1, 10));
    let blocked = |by: u32| Stage::Blocked { by: Some(ClassId(by)) };
    let alive = [
        live(1, 1, 50, Stage::Queued),
        live(1, 2, 20, blocked(7)),
        live(1, 1, 40, blocked(8)),
        live(2, 1, 30, Stage::Blocked { by: None }),
        live(3, 3, 10, Stage::InFlight),
    ];
    let snapshot = ledger.snapshot(Timestamp(100), alive.into_iter());
    let now = &snapshot.classes.rows[0].account.now;
    assert_eq!((now.waiting, now.oldest_waiting), (3, Some(Timestamp(20))));
    assert_eq!((now.blocked, now.blocked_time, now.in_flight), (2, Nanos(140), 0));
    let by: Vec<_> = now.blockers.ranking().rows.iter().map(|row| (row.key, row.weight)).collect();
    assert_eq!(by, [(7, 80), (8, 60)]);
    let other = &snapshot.classes.other.now;
    assert_eq!((other.waiting, other.oldest_waiting, other.in_flight), (1, Some(Timestamp(30)), 1));
    let [file, other] = [&snapshot.files.rows[0].account.now, &snapshot.files.other.now];
    assert_eq!((file.waiting, file.oldest_waiting), (3, Some(Timestamp(30))));
    assert_eq!((other.waiting, other.oldest_waiting, other.in_flight), (1, Some(Timestamp(20)), 1));
    assert_eq!((other.blocked, other.blocked_time), (1, Nanos(80)));
}

#[test]
fn whoever_has_something_alive_has_a_row_while_there_are_some_and_takes_nobodys() {
    let mut ledger = Ledger::new(LedgerOptions { classes_max: 2, files_max: 1 });
    ledger.completed(&served(1, 1, 10));
    let alive = [live(5, 1, 1, Stage::Queued), live(6, 2, 1, Stage::Queued)];
    let snapshot = ledger.snapshot(Timestamp(9), alive.into_iter());
    assert_eq!(snapshot.classes.keys().collect::<Vec<_>>(), [1, 5]);
    assert_eq!(snapshot.files.keys().collect::<Vec<_>>(), [1]);
    assert_eq!(snapshot.total().requests(), 1);
}

#[test]
fn throttling_and_waits_are_noted_for_the_class() {
    let mut ledger = Ledger::new(LedgerOptions::default());
    ledger.throttled(ClassId(4), Nanos(70));
    ledger.waited(ClassId(4), Nanos(9));
    let snapshot = read(&ledger);
    let account = &snapshot.classes.rows[0].account.account;
    assert_eq!((account.throttled, account.throttled_time), (1, Nanos(70)));
    assert_eq!((account.waits, account.waited), (1, Nanos(9)));
    ledger.forget_class(ClassId(4));
    let snapshot = read(&ledger);
    assert_eq!(snapshot.classes.rows[0].account.account.throttled, 0);
    assert_eq!(snapshot.total().throttled, 1);
}
