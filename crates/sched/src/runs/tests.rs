//! Tests of `runs`.

use super::*;
use crate::policy::Kept;
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

/// Runs, and the requests in them.
struct Bed {
    runs: Runs<()>,
    kept: Kept,
}

impl Bed {
    fn new() -> Self {
        Self { runs: Runs::new(&limits()), kept: Kept::default() }
    }

    fn join(&mut self, request: &Accepted) -> Joined<()> {
        self.kept.keep(request);
        self.runs.join(&self.kept.requests(), request)
    }

    fn remove(&mut self, request: &Accepted) -> Option<Removed> {
        self.runs.remove(&self.kept.requests(), request)
    }

    fn run(&self, run: RunIndex) -> Run<()> {
        self.runs.run(&self.kept.requests(), run)
    }

    fn runs_of(&mut self, of: &Accepted) -> Vec<Run<()>> {
        let queue = self.runs.queue_of(&of.request).expect("it was added");
        self.runs.iter_from(queue, Offset(0)).map(|run| self.run(run)).collect()
    }
}

fn covered(runs: &[Run<()>]) -> Vec<(u64, u64, u32)> {
    runs.iter().map(|run| (run.range.start.0, run.range.end.0, run.count)).collect()
}

fn joined(requests: &[(u64, u64)]) -> Vec<(u64, u64, u32)> {
    let mut bed = Bed::new();
    let all = requests.iter().enumerate();
    let all: Vec<_> =
        all.map(|(seq, (at, n))| request(seq as u64, Access::Read, 0, *at, *n)).collect();
    all.iter().for_each(|request| _ = bed.join(request));
    covered(&bed.runs_of(&all[0]))
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
    let mut bed = Bed::new();
    let (a, b) = (request(0, Access::Read, 0, 0, 4), request(1, Access::Write, 0, 4, 4));
    bed.join(&a);
    bed.join(&b);
    assert_eq!(
        (covered(&bed.runs_of(&a)), covered(&bed.runs_of(&b))),
        (vec![(0, 4, 1)], vec![(4, 8, 1)])
    );
}

#[test]
fn runs_that_start_together_go_by_arrival() {
    let mut bed = Bed::new();
    let all = [7, 3, 5].map(|seq| request(seq, Access::Read, 0, 0, 4));
    all.iter().for_each(|request| _ = bed.join(request));
    let seqs: Vec<u64> = bed.runs_of(&all[0]).iter().map(|run| run.min_seq).collect();
    assert_eq!(seqs, [3, 5, 7]);
}

#[test]
fn taking_a_request_out_of_the_middle_splits_the_run() {
    let mut bed = Bed::new();
    let all =
        [(2, 0), (0, 4), (1, 8), (3, 12)].map(|(seq, at)| request(seq, Access::Read, 0, at, 4));
    all.iter().for_each(|request| _ = bed.join(request));
    let removed = bed.remove(&all[1]).expect("it is queued");
    let parts = removed.parts().map(|run| bed.run(run));
    let parts: Vec<_> = parts.map(|run| (run.range.start.0, run.min_seq)).collect();
    assert_eq!(parts, [(0, 2), (8, 1)]);
    assert_eq!(bed.remove(&all[1]), None);
}

#[test]
fn what_never_merges_takes_a_seat_and_a_place_in_the_index_and_no_more() {
    let mut bed = Bed::new();
    for seq in 0..40_000 {
        bed.join(&request(seq, Access::Read, (seq % 32) as u32, seq / 32 * 8, 4));
    }
    assert_eq!((bed.runs.records.len(), size_of::<Seat>()), (0, 8));
    let per_run = bed.runs.index.bytes_in_use() as f64 / 40_000.0;
    assert!(per_run < 23.0, "{per_run} bytes of index a run");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn what_joins_leaves_exactly_once_in_well_formed_runs(
        steps in proptest::collection::vec((0..4u8, 0..2u32, 0..40u64, 1..6u64), 1..200)
    ) {
        let mut bed = Bed::new();
        let mut queued: Vec<Accepted> = Vec::new();
        for (seq, (what, file, start, length)) in steps.into_iter().enumerate() {
            match what {
                0 | 1 => {
                    let request = request(seq as u64, Access::Read, file, start, length);
                    bed.join(&request);
                    queued.push(request);
                }
                2 if !queued.is_empty() => {
                    let gone = queued.swap_remove(start as usize % queued.len());
                    prop_assert!(bed.remove(&gone).is_some());
                }
                _ => {
                    let Some(found) = queued.get(start as usize).and_then(|some| bed.runs.find(&bed.kept.requests(), some.id)) else { continue };
                    let (mut ids, run) = (Vec::new(), bed.run(found));
                    bed.runs.take(&bed.kept.requests(), found, &mut ids);
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
            prop_assert_eq!(bed.runs.queued_count(), queued.len());
            for file in 0..2 {
                let of_file = queued.iter().filter(|request| request.request.file == FileIndex(file));
                let bytes: u64 = of_file.clone().map(|request| request.request.range.length().0).sum();
                if let Some(queue) = of_file.clone().next().and_then(|any| bed.runs.queue_of(&any.request)) {
                    prop_assert_eq!(bed.runs.queue(queue).bytes, Bytes(bytes));
                    prop_assert_eq!(bed.runs.queue(queue).run_count as usize, bed.runs.iter_from(queue, Offset(0)).count());
                }
            }
        }
        let mut rest = Vec::new();
        bed.runs.drain(&bed.kept.requests(), &mut rest);
        queued.sort_unstable_by_key(|request| request.seq);
        prop_assert_eq!(rest, queued.iter().map(|request| request.id).collect::<Vec<_>>());
    }
}

/// A run set and its runs, beside which the runs of the bed are the naive list.
struct Filed {
    bed: Bed,
    set: RunSet,
    is_whole: bool,
    queued: Vec<Accepted>,
}

impl Filed {
    fn new(is_whole: bool) -> Self {
        let set = if is_whole { RunSet::of_all_queues() } else { RunSet::default() };
        Self { bed: Bed::new(), set, is_whole, queued: Vec::new() }
    }

    fn join(&mut self, request: Accepted) {
        let joined = self.bed.join(&request);
        self.set.refile(&mut self.bed.runs, &self.bed.kept.requests(), &joined);
        self.queued.push(request);
    }

    fn cancel(&mut self, choice: usize) {
        let gone = self.queued.swap_remove(choice % self.queued.len());
        assert!(self.set.cancel(&mut self.bed.runs, &self.bed.kept.requests(), &gone));
        assert!(!self.set.cancel(&mut self.bed.runs, &self.bed.kept.requests(), &gone));
    }

    fn take(&mut self, run: RunIndex) {
        let (held, mut batch) = (self.bed.kept.requests(), Vec::new());
        let taken = self.bed.runs.take(&held, run, &mut batch);
        let age = |runs: &Runs<()>, run| runs.min_seq(&held, run);
        self.set.remove(&mut self.bed.runs, &taken, taken.min_seq, age);
        self.queued.retain(|request| !batch.contains(&request.id));
    }

    /// What the set says of a queue, and what a walk over all of its runs says.
    fn first(&self, queue: QueueIndex) -> [Option<(u64, RunIndex)>; 2] {
        let queues = 0..self.bed.runs.queues.len() as u32;
        let queues = queues.filter(|other| self.is_whole || *other == queue.0);
        let runs = queues
            .flat_map(|other| self.bed.runs.iter_from(QueueIndex(other), Offset(0)))
            .map(|run| (self.bed.run(run).min_seq, run));
        [self.set.first(queue), runs.min()]
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// By arrival, where merging, splitting and taking rename runs and change their keys.
    #[test]
    fn a_run_set_by_arrival_is_a_sorted_list(
        is_whole in any::<bool>(),
        steps in proptest::collection::vec((0..6u8, 0..2u32, 0..40u64, 1..6u64), 1..200)
    ) {
        let mut filed = Filed::new(is_whole);
        let queues = if is_whole { 1 } else { 2 };
        for (seq, (what, file, start, length)) in steps.into_iter().enumerate() {
            let first = filed.set.first(QueueIndex(file % queues));
            match (what, first) {
                (0..3, _) => filed.join(request(seq as u64, Access::Read, file, start, length)),
                (3, _) if !filed.queued.is_empty() => filed.cancel(start as usize),
                (4, Some((_, run))) => filed.take(run),
                (5, _) if !filed.queued.is_empty() => {
                    let any = filed.queued[start as usize % filed.queued.len()].id;
                    let run = filed.bed.runs.find(&filed.bed.kept.requests(), any);
                    filed.take(run.expect("it is queued"));
                }
                _ => {}
            }
            for queue in (0..queues).map(QueueIndex) {
                let [found, expected] = filed.first(queue);
                prop_assert_eq!(found, expected);
            }
        }
        // What is filed wrongly beyond the first shows when those before it are gone.
        for queue in (0..queues).map(QueueIndex) {
            while let [found @ Some((_, run)), expected] = filed.first(queue) {
                prop_assert_eq!(found, expected);
                filed.take(run);
            }
        }
        prop_assert!(filed.queued.is_empty());
    }

    /// By any key, equal ones and falling ones too.
    #[test]
    fn a_run_set_by_any_key_is_a_sorted_list(
        is_whole in any::<bool>(),
        steps in proptest::collection::vec((any::<bool>(), 0..2u32, 0..8u64, any::<usize>()), 1..200)
    ) {
        let mut filed = Filed::new(is_whole);
        let mut expected: Vec<(QueueIndex, u64, RunIndex)> = Vec::new();
        for (seq, (is_new, file, key, choice)) in steps.into_iter().enumerate() {
            if is_new || expected.is_empty() {
                // Gaps, so that each is a run of its own.
                let request = request(seq as u64, Access::Read, file, 10 * seq as u64, 1);
                let run = filed.bed.join(&request).run;
                let queue = filed.bed.run(run).queue;
                filed.set.insert(&mut filed.bed.runs, queue, key, run);
                expected.push((queue, key, run));
            } else {
                let (_, key, run) = expected.swap_remove(choice % expected.len());
                let (held, mut batch) = (filed.bed.kept.requests(), Vec::new());
                let taken = filed.bed.runs.take(&held, run, &mut batch);
                let key_of = |_: &Runs<()>, run| {
                    let filed = expected.iter().find(|(.., other)| *other == run);
                    filed.expect("only what is filed is asked for").1
                };
                filed.set.remove(&mut filed.bed.runs, &taken, key, key_of);
            }
            for queue in (0..if is_whole { 1 } else { 2 }).map(QueueIndex) {
                let of_queue = expected.iter().filter(|(other, ..)| is_whole || *other == queue);
                let least = of_queue.clone().map(|(_, key, _)| *key).min();
                let found = filed.set.first(queue);
                prop_assert_eq!(found.map(|(key, _)| key), least);
                if let Some((key, run)) = found {
                    prop_assert!(of_queue.clone().any(|(_, k, r)| (*k, *r) == (key, run)));
                }
            }
        }
    }
}
