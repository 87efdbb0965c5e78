//! What the players of a replay in real time do next, read from the trace a bounded way ahead.
//!
//! One thread reads the trace; each player takes what is its own. A player that is further behind
//! the others than the look-ahead makes them wait, which shows as lateness.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use forebay_trace::Step;

/// Steps that are read ahead, of all players together.
pub(super) const LOOK_AHEAD: usize = 1 << 16;

/// Most steps that a player takes at a time.
const TAKEN_MAX: usize = 64;

/// See the module's head.
pub(super) struct Feed {
    state: Mutex<State>,
    room: Condvar,
    more: Vec<Condvar>,
}

#[derive(Default)]
struct State {
    /// By player; `None` once it has gone.
    queues: Vec<Option<VecDeque<Step>>>,
    held: usize,
    is_over: bool,
}

/// What a player got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// Steps.
    Steps,
    /// Nothing yet.
    Nothing,
    /// Nothing, and there will be nothing.
    Over,
}

/// A player's place; given up when it is dropped.
pub(super) struct Seat<'a> {
    feed: &'a Feed,
    number: usize,
}

impl Feed {
    /// For so many players.
    pub(super) fn new(players: usize) -> Self {
        let queues = (0..players).map(|_| Some(VecDeque::new())).collect();
        let state = Mutex::new(State { queues, ..State::default() });
        let more = (0..players).map(|_| Condvar::new()).collect();
        Self { state, room: Condvar::new(), more }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a player's place.
    pub(super) fn seat(&self, number: usize) -> Seat<'_> {
        Seat { feed: self, number }
    }

    /// Lays down a step for a player, once there is room for it; whether any player is left.
    pub(super) fn put(&self, number: usize, step: Step) -> bool {
        let mut state = self.lock();
        while state.held >= LOOK_AHEAD {
            state = self.room.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let Some(queue) = &mut state.queues[number] else {
            return state.queues.iter().any(Option::is_some);
        };
        queue.push_back(step);
        state.held += 1;
        self.more[number].notify_one();
        true
    }

    /// Says that there is no more.
    pub(super) fn end(&self) {
        self.lock().is_over = true;
        self.more.iter().for_each(Condvar::notify_one);
    }
}

impl Seat<'_> {
    /// Takes some steps, oldest first; with `patiently`, waits until there are some.
    pub(super) fn take(&self, into: &mut VecDeque<Step>, patiently: bool) -> Taken {
        let mut state = self.feed.lock();
        loop {
            let is_over = state.is_over;
            let Some(queue) = &mut state.queues[self.number] else { return Taken::Over };
            let count = queue.len().min(TAKEN_MAX);
            if count > 0 {
                into.extend(queue.drain(..count));
                let was_full = state.held >= LOOK_AHEAD;
                state.held -= count;
                if was_full {
                    self.feed.room.notify_one();
                }
                return Taken::Steps;
            }
            if is_over || !patiently {
                return if is_over { Taken::Over } else { Taken::Nothing };
            }
            let more = &self.feed.more[self.number];
            state = more.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        let mut state = self.feed.lock();
        let left = state.queues[self.number].take();
        state.held -= left.map_or(0, |queue| queue.len());
        self.feed.room.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use forebay_units::ClientId;

    use super::*;

    const PLAYERS: usize = 3;

    fn step(number: usize) -> Step {
        Step::Forget(ClientId(0), u32::try_from(number).unwrap())
    }

    #[test]
    fn each_gets_its_own_in_order_and_no_more_is_read_ahead_than_there_is_room_for() {
        let feed = Feed::new(PLAYERS);
        let total = 5 * LOOK_AHEAD;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                assert!((0..total).all(|number| feed.put(number % PLAYERS, step(number))));
                feed.end();
            });
            for player in 0..PLAYERS {
                let feed = &feed;
                scope.spawn(move || {
                    let (seat, mut taken, mut next) = (feed.seat(player), VecDeque::new(), player);
                    while seat.take(&mut taken, true) != Taken::Over {
                        assert!(feed.lock().held <= LOOK_AHEAD);
                        for found in taken.drain(..) {
                            assert_eq!(found, step(next));
                            next += PLAYERS;
                        }
                    }
                    assert!(next >= total);
                });
            }
        });
        assert_eq!(feed.lock().held, 0);
    }

    #[test]
    fn who_goes_holds_up_nobody() {
        let feed = Feed::new(2);
        drop(feed.seat(0));
        let seat = feed.seat(1);
        let mut taken = VecDeque::new();
        assert_eq!(seat.take(&mut taken, false), Taken::Nothing);
        // More than there is room for, were it kept.
        assert!((0..2 * LOOK_AHEAD).all(|number| feed.put(0, step(number))));
        assert!(feed.put(1, step(7)));
        assert_eq!(seat.take(&mut taken, false), Taken::Steps);
        assert_eq!(taken, [step(7)]);
        drop(seat);
        assert!(!feed.put(1, step(8)), "nobody is left");
    }
}
