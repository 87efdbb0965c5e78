//! Tests of `runs`.

use super::*;
use crate::request::Access;
use alloc::vec;
use forebay_units::ClientId;
use proptest::prelude::*;

fn request(seq: u64, access: Access, file: u32, start: u64, length: u64) -> Accepted {
    Accepted {
        id: RequestId(seq),
        seq,
        arrived: Timestamp(seq),
        request: Request {
            tag: 0,
            file: FileIndex(file),
            access,
            range: ByteRange::new(Offset(start), Bytes(length)),
            client: ClientId(0),
            class: ClassId(0),
        },
    }
}

fn limits() -> Limits {
    Limits { run_bytes_max: Bytes(32), run_requests_max: 6, ..Limits::default() }
}

fn runs_of(runs: &mut Runs<()>, of: &Accepted) -> Vec<(u64, u64, u32)> {
    let queue = runs.queue_of(&of.request).expect("it was added");
    let entry = |run| {
        let run: &Run<()> = runs.run(run);
        (run.range.start.0, run.range.end.0, run.count)
    };
    runs.iter_from(queue, Offset(0)).map(entry).collect()
}

fn joined(requests: &[(u64, u64)]) -> Vec<(u64, u64, u32)> {
    let mut runs = Runs::new(&limits());
    let all = requests.iter().enumerate();
    let all: Vec<_> =
        all.map(|(seq, (at, n))| request(seq as u64, Access::Read, 0, *at, *n)).collect();
    all.iter().for_each(|request| assert!(runs.join(request).run.0 < NIL));
    runs_of(&mut runs, &all[0])
}

#[test]
fn requests_join_behind_in_front_and_between() {
    assert_eq!(joined(&[(8, 4), (12, 4)]), [(8, 16, 2)]);
    assert_eq!(joined(&[(8, 4), (4, 4)]), [(4, 12, 2)]);
    assert_eq!(joined(&[(0, 4), (8, 4), (4, 4)]), [(0, 12, 3)]);
}

#[test]
fn a_gap_an_overlap_and_a_repetition_each_end_a_run() {
    assert_eq!(joined(&[(0, 4), (5, 4)]), [(0, 4, 1), (5, 9, 1)]);
    assert_eq!(joined(&[(0, 4), (3, 4)]), [(0, 4, 1), (3, 7, 1)]);
    assert_eq!(joined(&[(0, 4), (0, 4), (4, 4)]), [(0, 4, 1), (0, 8, 2)]);
}

#[test]
fn runs_end_at_the_caps() {
    assert_eq!(joined(&[(0, 30), (30, 3)]), [(0, 30, 1), (30, 33, 1)]);
    assert_eq!(joined(&[(0, 16), (20, 16), (16, 4)]), [(0, 20, 2), (20, 36, 1)]);
    let seven: Vec<_> = (0..7).map(|i| (i, 1)).collect();
    assert_eq!(joined(&seven), [(0, 6, 6), (6, 7, 1)]);
    assert_eq!(joined(&[(0, 99), (99, 1)]), [(0, 99, 1), (99, 100, 1)]);
}

#[test]
fn reads_and_writes_of_adjacent_ranges_stay_apart() {
    let mut runs: Runs<()> = Runs::new(&limits());
    let (a, b) = (request(0, Access::Read, 0, 0, 4), request(1, Access::Write, 0, 4, 4));
    runs.join(&a);
    runs.join(&b);
    assert_eq!(
        (runs_of(&mut runs, &a), runs_of(&mut runs, &b)),
        (vec![(0, 4, 1)], vec![(4, 8, 1)])
    );
}

#[test]
fn runs_that_start_together_go_by_arrival() {
    let mut runs: Runs<()> = Runs::new(&limits());
    let all = [7, 3, 5].map(|seq| request(seq, Access::Read, 0, 0, 4));
    all.iter().for_each(|request| assert!(runs.join(request).run.0 < NIL));
    let queue = runs.queue_of(&all[0].request).expect("it was added");
    let seqs: Vec<u64> =
        runs.iter_from(queue, Offset(0)).map(|run| runs.run(run).min_seq).collect();
    assert_eq!(seqs, [3, 5, 7]);
}

#[test]
fn taking_a_request_out_of_the_middle_splits_the_run() {
    let mut runs: Runs<()> = Runs::new(&limits());
    let all =
        [(2, 0), (0, 4), (1, 8), (3, 12)].map(|(seq, at)| request(seq, Access::Read, 0, at, 4));
    all.iter().for_each(|request| assert!(runs.join(request).run.0 < NIL));
    let removed = runs.remove(&all[1]).expect("it is queued");
    let parts: Vec<_> =
        removed.parts().map(|run| (runs.run(run).range.start.0, runs.run(run).min_seq)).collect();
    assert_eq!(parts, [(0, 2), (8, 1)]);
    assert_eq!(runs.remove(&all[1]), None);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn what_joins_leaves_exactly_once_in_well_formed_runs(
        steps in proptest::collection::vec((0..4u8, 0..2u32, 0..40u64, 1..6u64), 1..200)
    ) {
        let mut runs: Runs<()> = Runs::new(&limits());
        let mut queued: Vec<Accepted> = Vec::new();
        for (seq, (what, file, start, length)) in steps.into_iter().enumerate() {
            match what {
                0 | 1 => {
                    let request = request(seq as u64, Access::Read, file, start, length);
                    runs.join(&request);
                    queued.push(request);
                }
                2 if !queued.is_empty() => {
                    let gone = queued.swap_remove(start as usize % queued.len());
                    prop_assert!(runs.remove(&gone).is_some());
                }
                _ => {
                    let Some(found) = queued.get(start as usize).and_then(|some| runs.find(some.id)) else { continue };
                    let (mut ids, run) = (Vec::new(), *runs.run(found));
                    runs.take(found, &mut ids);
                    let known = |id: &RequestId| *queued.iter().find(|one| one.id == *id).expect("it is queued");
                    let batch: Vec<Accepted> = ids.iter().map(known).collect();
                    prop_assert!(batch.is_sorted_by(|a, b| a.request.range.end == b.request.range.start));
                    prop_assert_eq!(batch[0].request.range.start, run.range.start);
                    prop_assert_eq!(batch[batch.len() - 1].request.range.end, run.range.end);
                    prop_assert_eq!(batch.len(), run.count as usize);
                    prop_assert_eq!(batch.iter().map(|request| request.seq).min(), Some(run.min_seq));
                    prop_assert!(run.bytes() <= Bytes(32) && run.count <= 6);
                    queued.retain(|request| !batch.contains(request));
                }
            }
            prop_assert_eq!(runs.queued_count(), queued.len());
            for file in 0..2 {
                let of_file = queued.iter().filter(|request| request.request.file == FileIndex(file));
                let bytes: u64 = of_file.clone().map(|request| request.request.range.length().0).sum();
                if let Some(queue) = of_file.clone().next().and_then(|any| runs.queue_of(&any.request)) {
                    prop_assert_eq!(runs.queue(queue).bytes, Bytes(bytes));
                    prop_assert_eq!(runs.queue(queue).run_count as usize, runs.iter_from(queue, Offset(0)).count());
                }
            }
        }
        let mut rest = Vec::new();
        runs.drain(&mut rest);
        queued.sort_unstable_by_key(|request| request.seq);
        prop_assert_eq!(rest, queued.iter().map(|request| request.id).collect::<Vec<_>>());
    }
}
