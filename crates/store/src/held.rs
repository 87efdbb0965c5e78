//! Calls that a wrapping store keeps until their time has come and the wrapped store is done with them.
//!
//! The wrapper puts its own number in place of a call's token on the way in and the token back on
//! the way out, so that it recognises a call whatever its owner's tokens are.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use forebay_engine::store::Io;
use forebay_units::Timestamp;

use crate::slab::Slab;

/// Calls in progress or waiting, each with a `K` that the wrapper keeps for it.
#[derive(Debug)]
pub(crate) struct Held<K> {
    calls: Slab<Call<K>>,
    /// Calls that are back from the wrapped store, the earliest due first.
    waiting: BinaryHeap<Reverse<(Timestamp, u32)>>,
}

#[derive(Debug)]
struct Call<K> {
    token: u64,
    due: Timestamp,
    kept: K,
    /// Present once it is back.
    io: Option<Io>,
}

/// A call whose time has come.
#[derive(Debug)]
pub(crate) struct Released<K> {
    /// With its owner's token.
    pub(crate) io: Io,
    pub(crate) kept: K,
    /// When it was to be released; never before it was back.
    pub(crate) due: Timestamp,
}

impl<K> Default for Held<K> {
    fn default() -> Self {
        Self { calls: Slab::default(), waiting: BinaryHeap::new() }
    }
}

impl<K> Held<K> {
    /// Marks a call that is about to go to the wrapped store, to be released at `due` at the earliest.
    pub(crate) fn mark(&mut self, io: &mut Io, due: Timestamp, kept: K) {
        let number = self.calls.insert(Call { token: io.token, due, kept, io: None });
        io.token = u64::from(number);
    }

    /// Takes a marked call that is finished at `now`.
    ///
    /// # Panics
    /// If the wrapped store changed the token.
    pub(crate) fn put_back(&mut self, now: Timestamp, io: Io) {
        let number = io.token as u32;
        let call = self.calls.get_mut(number).expect("a store hands back the tokens it was given");
        call.due = call.due.max(now);
        call.io = Some(io);
        self.waiting.push(Reverse((call.due, number)));
    }

    /// Releases the next call that is due.
    pub(crate) fn release(&mut self, now: Timestamp) -> Option<Released<K>> {
        let &Reverse((due, number)) = self.waiting.peek()?;
        if due > now {
            return None;
        }
        self.waiting.pop();
        let call = self.calls.remove(number).expect("what waits is in the table");
        let mut io = call.io.expect("only what is back waits");
        io.token = call.token;
        Some(Released { io, kept: call.kept, due })
    }

    /// When the next call that is back may be released.
    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        self.waiting.peek().map(|&Reverse((due, _))| due)
    }
}

/// The earlier of two deadlines, where there are any.
pub(crate) fn earlier(a: Option<Timestamp>, b: Option<Timestamp>) -> Option<Timestamp> {
    a.into_iter().chain(b).min()
}
