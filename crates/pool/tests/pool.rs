//! What the pool promises, seen from outside: disjoint buffers, a bound, a reserve, nothing lost.

use forebay_pool::{BLOCK_BYTES_MAX, BLOCK_BYTES_MIN, Buffer, Pool, PoolOptions, Share};
use forebay_units::Bytes;
use proptest::prelude::*;

fn pool_with_reserve(capacity: Bytes, reserve: Bytes) -> Pool {
    Pool::with_options(PoolOptions { reserve: Some(reserve), ..PoolOptions::new(capacity) })
        .unwrap()
}

fn take_all(pool: &Pool, length: Bytes, share: Share) -> Vec<Buffer> {
    std::iter::from_fn(|| pool.try_take(length, share)).collect()
}

#[test]
fn a_buffer_has_the_length_asked_for_and_room_up_to_its_block() {
    let pool = Pool::new(Bytes::mib(8)).unwrap();
    let mut buffer = pool.try_take(Bytes(5000), Share::Arrival).unwrap();
    assert_eq!((buffer.len(), buffer.capacity()), (5000, 8192));
    assert_eq!(buffer.as_ptr().addr() % 4096, 0);
    assert!(buffer.iter().all(|&byte| byte == 0), "fresh memory is zero");
    buffer.set_len(8192);
    buffer[8191] = 7;
    buffer.set_len(1);
    assert_eq!(buffer.as_slice(), [0]);
}

#[test]
#[should_panic(expected = "over the capacity")]
fn a_length_over_the_capacity_is_a_bug() {
    let pool = Pool::new(Bytes::mib(8)).unwrap();
    pool.try_take(Bytes(1), Share::Arrival).unwrap().set_len(4097);
}

#[test]
fn more_than_the_largest_block_is_always_refused() {
    let pool = Pool::new(Bytes::mib(8)).unwrap();
    assert!(pool.try_take(Bytes(BLOCK_BYTES_MAX), Share::Arrival).is_some());
    assert!(pool.try_take(Bytes(BLOCK_BYTES_MAX + 1), Share::Dispatch).is_none());
}

#[test]
fn arrivals_leave_the_reserve_whole() {
    let pool = Pool::new(Bytes::mib(8)).unwrap();
    let arrivals = take_all(&pool, Bytes(BLOCK_BYTES_MIN), Share::Arrival);
    assert_eq!(pool.used_bytes(), Bytes::mib(6), "all but a quarter");
    assert_eq!(pool.arrival_free_bytes(), Bytes::ZERO);
    let dispatches = take_all(&pool, Bytes(BLOCK_BYTES_MAX), Share::Dispatch);
    assert_eq!(dispatches.len(), 2, "4 KiB arrivals have not fragmented it");
    drop((arrivals, dispatches));
    assert_eq!(pool.arrival_free_bytes(), Bytes::mib(6));
    assert_eq!(take_all(&pool, Bytes(BLOCK_BYTES_MAX), Share::Dispatch).len(), 8);
}

#[test]
fn giving_back_is_counted_and_lowers_use_but_not_the_peak() {
    let pool = Pool::new(Bytes::mib(2)).unwrap();
    let before = pool.given_back();
    drop(pool.try_take(Bytes(100), Share::Arrival).unwrap());
    assert_eq!(pool.given_back(), before + 1);
    assert_eq!((pool.used_bytes(), pool.peak_bytes()), (Bytes(0), Bytes(4096)));
}

#[test]
fn a_buffer_outlives_its_pool() {
    let pool = Pool::new(Bytes::mib(2)).unwrap();
    let mut buffer = pool.try_take(Bytes(100), Share::Arrival).unwrap();
    drop(pool);
    buffer.fill(9);
    assert!(buffer.iter().all(|&byte| byte == 9));
}

#[test]
fn a_pool_that_leaves_arrivals_no_page_is_refused() {
    let refused = |capacity, reserve| {
        Pool::with_options(PoolOptions { reserve, ..PoolOptions::new(capacity) }).is_err()
    };
    assert!(refused(Bytes(4095), None));
    assert!(refused(Bytes(u64::MAX), None));
    assert!(refused(Bytes::mib(1), Some(Bytes::mib(1))));
    assert!(!refused(Bytes(4096), None));
    assert!(!refused(Bytes(8192), Some(Bytes(1))));
}

#[test]
fn a_prefaulted_pool_with_huge_pages_works_like_any_other() {
    let options =
        PoolOptions { prefault: true, huge_pages: true, ..PoolOptions::new(Bytes::mib(8)) };
    let pool = Pool::with_options(options).unwrap();
    assert_eq!(take_all(&pool, Bytes(BLOCK_BYTES_MAX), Share::Dispatch).len(), 8);
}

/// Steps of the comparison with the naive pool.
#[derive(Clone, Debug)]
enum Step {
    Take(u64, Share),
    Drop(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let length = prop_oneof![1u64..=8 * 4096, 1u64..=BLOCK_BYTES_MAX];
    let share = prop_oneof![Just(Share::Arrival), Just(Share::Dispatch)];
    prop_oneof![
        3 => (length, share).prop_map(|(length, share)| Step::Take(length, share)),
        2 => any::<usize>().prop_map(Step::Drop),
    ]
}

/// The naive pool: which pages are out. A block fits where an aligned run of pages is free.
struct Pages {
    out: Vec<bool>,
    shared: usize,
}

impl Pages {
    fn fits(&self, pages: usize, share: Share) -> bool {
        let (shared, reserve) = self.out.split_at(self.shared);
        let fits_in = |zone: &[bool]| zone.chunks_exact(pages).any(|run| !run.contains(&true));
        fits_in(shared) || (share == Share::Dispatch && fits_in(reserve))
    }

    /// Marks a buffer's pages; panics if they were marked so already.
    fn mark(&mut self, base: usize, buffer: &Buffer, out: bool) {
        let first = (buffer.as_ptr().addr() - base) / 4096;
        for page in first..first + buffer.capacity() / 4096 {
            assert_ne!(std::mem::replace(&mut self.out[page], out), out, "page {page} twice");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_pool_agrees_with_a_naive_one(
        steps in proptest::collection::vec(step(), 1..200),
        capacity_pages in 300u64..1200,
        reserve_pages in 0u64..280,
    ) {
        let page = BLOCK_BYTES_MIN;
        let pool = pool_with_reserve(Bytes(capacity_pages * page), Bytes(reserve_pages * page));
        let shared = (capacity_pages - reserve_pages) as usize;
        let mut pages = Pages { out: vec![false; capacity_pages as usize], shared };
        let base = take_all(&pool, Bytes(page), Share::Dispatch).iter().map(|b| b.as_ptr().addr()).min().unwrap();
        let mut live: Vec<Buffer> = Vec::new();
        for step in steps {
            match step {
                Step::Take(length, share) => {
                    let block_pages = length.div_ceil(page).next_power_of_two() as usize;
                    let taken = pool.try_take(Bytes(length), share);
                    prop_assert_eq!(taken.is_some(), pages.fits(block_pages, share), "{} bytes", length);
                    if let Some(buffer) = taken {
                        prop_assert_eq!(buffer.len() as u64, length);
                        pages.mark(base, &buffer, true);
                        live.push(buffer);
                    }
                }
                Step::Drop(which) if !live.is_empty() => {
                    let buffer = live.swap_remove(which % live.len());
                    pages.mark(base, &buffer, false);
                }
                Step::Drop(_) => {}
            }
            let used: usize = live.iter().map(Buffer::capacity).sum();
            prop_assert_eq!(pool.used_bytes(), Bytes(used as u64));
        }
        live.clear();
        prop_assert_eq!(pool.used_bytes(), Bytes(0));
        let whole = Pages { out: vec![false; capacity_pages as usize], shared };
        prop_assert_eq!(pool.try_take(Bytes(BLOCK_BYTES_MAX), Share::Dispatch).is_some(), whole.fits(256, Share::Dispatch));
    }
}

#[test]
fn threads_never_see_each_others_bytes_and_everything_merges_back() {
    let pool = pool_with_reserve(Bytes::mib(4), Bytes::mib(1));
    std::thread::scope(|scope| {
        for thread in 0..4u8 {
            let pool = pool.clone();
            scope.spawn(move || {
                let mut live = std::collections::VecDeque::new();
                for round in 0..2000u64 {
                    let length = 1 + (round * 7919 + u64::from(thread) * 104_729) % 100_000;
                    let share = if round % 3 == 0 { Share::Dispatch } else { Share::Arrival };
                    if let Some(mut buffer) = pool.try_take(Bytes(length), share) {
                        let mark = thread ^ (round as u8) << 2;
                        buffer.fill(mark);
                        live.push_back((buffer, mark));
                    }
                    let crowded = live.len() > 8 || round % 5 == 0;
                    if let Some((buffer, mark)) = crowded.then(|| live.pop_front()).flatten() {
                        assert!(buffer.iter().all(|&byte| byte == mark));
                    }
                }
            });
        }
    });
    assert_eq!(pool.used_bytes(), Bytes(0));
    assert!(pool.peak_bytes() <= pool.capacity_bytes());
    assert_eq!(take_all(&pool, Bytes(BLOCK_BYTES_MAX), Share::Dispatch).len(), 4);
}
