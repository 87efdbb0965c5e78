//! Accounts that a row and the snapshots of it have together, until the row changes.
//!
//! A snapshot of a thousand rows is megabytes. Whoever counts must not wait for them to be copied,
//! so a snapshot takes all accounts as they are, and a row makes itself a copy of its own with the
//! first change after that: a few hundred nanoseconds, once for each row that changes.
//!
//! An account that no snapshot has is in a box, and not behind a counter of references, so that
//! reaching it takes no more than a look at where it is.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::ops::{Deref, DerefMut};

use crate::top::Row;

/// An account as it was when a snapshot was taken. Changing it copies it, if somebody else has it too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(
    clippy::redundant_allocation,
    reason = "the box is the row's, which moves and is not copied"
)]
pub struct Shared<V>(Arc<Box<V>>);

impl<V> Shared<V> {
    pub(crate) fn new(account: V) -> Self {
        Self(Arc::new(Box::new(account)))
    }
}

impl<V> Deref for Shared<V> {
    type Target = V;

    fn deref(&self) -> &V {
        &self.0
    }
}

impl<V: Clone> DerefMut for Shared<V> {
    fn deref_mut(&mut self) -> &mut V {
        Arc::<Box<V>>::make_mut(&mut self.0)
    }
}

/// A row's account, in one of the two places.
#[derive(Clone, Debug)]
pub(crate) struct Kept<V> {
    own: Option<Box<V>>,
    shared: Option<Shared<V>>,
}

impl<V: Default> Default for Kept<V> {
    fn default() -> Self {
        Self { own: Some(Box::default()), shared: None }
    }
}

impl<V: Row> Kept<V> {
    #[inline]
    pub(crate) fn get_mut(&mut self) -> &mut V {
        self.own.get_or_insert_with(|| take_back(&mut self.shared))
    }

    /// The account as it is now, for a snapshot.
    pub(crate) fn lend(&mut self) -> Shared<V> {
        let lend = || Shared(Arc::new(self.own.take().unwrap_or_default()));
        self.shared.get_or_insert_with(lend).clone()
    }

    /// A copy of the account as it is now.
    pub(crate) fn copy(&self) -> V {
        let shared = self.shared.as_deref();
        self.own.as_deref().or(shared).cloned().unwrap_or_default()
    }

    /// Gives all that is counted to another account.
    pub(crate) fn move_to(&mut self, other: &mut V) {
        if let Some(shared) = self.shared.take() {
            other.absorb(&shared);
        }
        if let Some(own) = &mut self.own {
            other.absorb(own);
            own.clear();
        }
    }
}

/// The account out of a row's part of it; copied if a snapshot still has the other.
#[cold]
fn take_back<V: Row>(shared: &mut Option<Shared<V>>) -> Box<V> {
    match shared.take().map(|shared| Arc::try_unwrap(shared.0)) {
        None => Box::default(),
        Some(Ok(own)) => own,
        Some(Err(others)) => others.as_ref().clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::{AtomicU32, Ordering};

    use crate::top::Top;

    static COPIES: AtomicU32 = AtomicU32::new(0);

    /// An account that tells when it is copied.
    #[derive(Debug, Default, PartialEq, Eq)]
    struct Counted(u64);

    impl Clone for Counted {
        fn clone(&self) -> Self {
            COPIES.fetch_add(1, Ordering::Relaxed);
            Self(self.0)
        }
    }

    impl Row for Counted {
        fn absorb(&mut self, other: &Self) {
            self.0 += other.0;
        }

        fn clear(&mut self) {
            self.0 = 0;
        }
    }

    #[test]
    fn a_snapshot_copies_no_row_and_a_row_copies_itself_once_when_it_changes() {
        let copies = || COPIES.load(Ordering::Relaxed);
        let mut top = Top::<Counted>::new(100);
        let add = |top: &mut Top<Counted>, key| top.add(key, 1).0 += 1;
        (0..100).for_each(|key| add(&mut top, key));
        let before = top.share();
        assert_eq!(copies(), 1, "what is counted for others");
        (0..10).for_each(|_| add(&mut top, 7));
        assert_eq!(copies(), 2, "one row has changed");
        let after = top.share();
        let of = |ranking: &crate::Ranking<Shared<Counted>>| {
            ranking.rows.iter().find(|row| row.key == 7).expect("it has a row").account.deref().0
        };
        assert_eq!((of(&before), of(&after)), (1, 11));
        drop((before, after));
        (0..100).for_each(|key| add(&mut top, key));
        assert_eq!(copies(), 3, "nobody else has them any more");
        assert_eq!(top.ranking().rows.iter().map(|row| row.account.0).sum::<u64>(), 210);
    }

    #[test]
    fn what_a_row_gives_away_is_counted_once_and_stays_in_snapshots() {
        let mut top = Top::<u64>::new(1);
        *top.add(1, 1) += 5;
        let before = top.share();
        *top.add(2, 1) += 7;
        let after = top.share();
        top.forget(2);
        let sums = [before, after, top.share()].map(|ranking| {
            let rows: u64 = ranking.rows.iter().map(|row| *row.account).sum();
            (rows, *ranking.other)
        });
        assert_eq!(sums, [(5, 0), (7, 5), (0, 12)]);
    }
}
