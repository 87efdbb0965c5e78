//! Which sweep asks the kernel for its next piece, of all sweeps over the files of one device.
//!
//! Source: multilevel feedback (F. J. Corbató, M. Merwin-Daggett, R. C. Daley, "An Experimental
//! Time-Sharing System", AFIPS SJCC 1962), with two levels, and files in the place of programs; on the
//! lower one start-time fair queueing (P. Goyal, H. M. Vin, H. Cheng, SIGCOMM 1996).
//!
//! Idea: an arm that goes back and forth between two files brings neither. So pieces are asked for
//! one after the other, and those of one sweep for a whole turn, as long as it wants some. A sweep
//! that was asked little for so far goes before the others, also in the middle of their turns: a
//! short file is through in one go, and costs the long ones hardly more than its own bytes. Of all
//! others the one that had least goes next, so that who could not use a turn to its end gets the
//! rest of it later. Whoever was passed over by [`PASSED_MAX`] gets a turn that nobody interrupts.
//! Where a file that others wait beside comes to its end, turns become shorter: what began together
//! and is of one size also ends together.
//!
//! Units: bytes. Cost: a look at all sweeps that want a piece, twice for each piece.
//!
//! Bound: with n sweeps that want pieces, one of them gets a turn at the latest after
//! [`PASSED_MAX`] and n turns of the others.
//!
//! Loses when: a class's share matters. Whose sweep it is, is not asked here.

use std::collections::HashMap;

/// The most that a sweep is asked for in one turn: on a disk of 57 MB/s some 220 ms, to which the way
/// to another file adds 4 to 14.
const TURN_MAX: u64 = 12 << 20;

/// A turn is no shorter, while there is that much left to ask for.
const TURN_MIN: u64 = 4 << 20;

/// In how many turns the rest of a file is to be through, where it has come so near to its end.
const TURNS_LEFT: u64 = 4;

/// A sweep that was asked for less is short.
const SHORT_MAX: u64 = 32 << 20;

/// What others may be asked for while a sweep waits.
const PASSED_MAX: u64 = 64 << 20;

/// What a sweep that did not want any meanwhile may have more of than the others, later.
const CLAIM_MAX: u64 = 32 << 20;

/// The sweeps that want pieces, and the one whose turn it is.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// Of all sweeps that ever wanted a piece, or whose files were read elsewhere.
    accounts: HashMap<u32, Account>,
    waiting: Vec<Waiting>,
    turn: Option<Turn>,
    /// Whether the kernel is being asked for a piece.
    is_asking: bool,
    /// What all sweeps together were asked for.
    asked: u64,
    /// What the sweep of the furthest turn so far had when it began.
    now: u64,
}

/// What a sweep has had, with what was read of its file elsewhere.
#[derive(Clone, Copy, Debug)]
struct Account {
    /// All that it was asked for.
    asked: u64,
    /// What it was asked for since it is short no more, and what it has missed.
    had: u64,
    /// What lies between its last piece and the end of its file.
    left: u64,
}

impl Account {
    fn is_short(&self) -> bool {
        self.asked < SHORT_MAX
    }

    fn charge(&mut self, bytes: u64) {
        if !self.is_short() {
            self.had = self.had.saturating_add(bytes);
        }
        self.asked = self.asked.saturating_add(bytes);
    }
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    sweep: u32,
    /// The turns' `asked` when it began to wait, or was last asked for something.
    since: u64,
}

#[derive(Clone, Copy, Debug)]
struct Turn {
    sweep: u32,
    left: u64,
    /// What its sweep had when it began.
    began: u64,
    /// It was passed over for so long that this turn is not to be interrupted.
    is_overdue: bool,
}

impl Turns {
    /// `sweep` wants a piece.
    pub(super) fn want(&mut self, sweep: u32) {
        if !self.waiting.iter().any(|waiting| waiting.sweep == sweep) {
            let claims_from = self.now.saturating_sub(CLAIM_MAX);
            let account = self.account(sweep);
            account.had = account.had.max(claims_from);
            self.waiting.push(Waiting { sweep, since: self.asked });
        }
    }

    /// `bytes` of the file of `sweep` are read without having been asked for: they are the device's
    /// time too.
    pub(super) fn charge(&mut self, sweep: u32, bytes: u64) {
        self.account(sweep).charge(bytes);
    }

    fn account(&mut self, sweep: u32) -> &mut Account {
        let new = Account { asked: 0, had: self.now, left: u64::MAX };
        self.accounts.entry(sweep).or_insert(new)
    }

    /// `sweep` wants nothing more for now.
    pub(super) fn leave(&mut self, sweep: u32) {
        self.waiting.retain(|waiting| waiting.sweep != sweep);
    }

    /// There is no such sweep any more, and its number may be another one's.
    pub(super) fn forget(&mut self, sweep: u32) {
        self.leave(sweep);
        self.accounts.remove(&sweep);
        self.turn = self.turn.filter(|turn| turn.sweep != sweep);
    }

    /// The sweep that is to be asked for a piece now; none while one is being asked for. Until it is,
    /// whose turn it was may still go on with it.
    pub(super) fn next(&self) -> Option<u32> {
        let turn = if self.is_asking { None } else { self.due() };
        turn.map(|turn| turn.sweep)
    }

    /// The turn that goes on or begins.
    fn due(&self) -> Option<Turn> {
        let longest = self.waiting.iter().min_by_key(|waiting| waiting.since)?;
        let is_overdue = self.asked - longest.since >= PASSED_MAX;
        let is_short_there = self.waiting.iter().any(|waiting| self.is_short(waiting));
        let current = self.turn.filter(|turn| turn.left > 0);
        let current = current.and_then(|turn| {
            Some((turn, self.waiting.iter().find(|waiting| waiting.sweep == turn.sweep)?))
        });
        let goes_on = current.filter(|(turn, waiting)| {
            turn.is_overdue || !is_overdue && (self.is_short(waiting) || !is_short_there)
        });
        if let Some((turn, _)) = goes_on {
            return Some(turn);
        }
        let least = |waiting: &&Waiting| {
            let account = self.accounts[&waiting.sweep];
            (!account.is_short(), account.had, waiting.since)
        };
        let next = if is_overdue { longest } else { self.waiting.iter().min_by_key(least)? };
        let began = self.accounts[&next.sweep].had;
        Some(Turn { sweep: next.sweep, left: self.length(next), began, is_overdue })
    }

    /// How long a turn of this one is. A short one is through sooner for every change that is not made.
    fn length(&self, of: &Waiting) -> u64 {
        if self.is_short(of) {
            return TURN_MAX;
        }
        let long = self.waiting.iter().filter(|waiting| !self.is_short(waiting));
        let left = long.map(|waiting| self.accounts[&waiting.sweep].left).min();
        (left.unwrap_or(u64::MAX) / TURNS_LEFT).clamp(TURN_MIN, TURN_MAX)
    }

    fn is_short(&self, waiting: &Waiting) -> bool {
        self.accounts[&waiting.sweep].is_short()
    }

    /// The kernel is being asked for a piece of `bytes` of the sweep that [`next`](Self::next) has
    /// named; behind it are `left` bytes of its file.
    pub(super) fn asks(&mut self, bytes: u64, left: u64) {
        let mut turn = self.due().expect("somebody wants a piece");
        self.is_asking = true;
        self.asked += bytes;
        self.now = self.now.max(turn.began);
        turn.left = turn.left.saturating_sub(bytes);
        self.turn = Some(turn);
        let account = self.accounts.get_mut(&turn.sweep).expect("who wants a piece has one");
        account.charge(bytes);
        account.left = left;
        let waiting = self.waiting.iter_mut().find(|waiting| waiting.sweep == turn.sweep);
        waiting.expect("it wants a piece").since = self.asked;
    }

    /// The kernel was asked.
    pub(super) fn asked(&mut self) {
        self.is_asking = false;
    }

    /// Whether the kernel is being asked for a piece.
    pub(super) fn is_asking(&self) -> bool {
        self.is_asking
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIECE: u64 = 256 << 10;

    /// A file whose end is far.
    const ENDLESS: u64 = 1 << 50;

    /// Sweeps that always want a piece, until their files end.
    #[derive(Default)]
    struct Always {
        turns: Turns,
        /// What each was asked for.
        asked: Vec<u64>,
        sizes: Vec<u64>,
    }

    impl Always {
        /// Sweeps over files of these sizes, all of which were asked for `so_far`.
        fn of(so_far: u64, sizes: &[u64]) -> Self {
            let mut always = Self::default();
            for size in sizes {
                let number = always.add(*size);
                always.asked[number as usize] = so_far;
                always.turns.accounts.get_mut(&number).unwrap().asked = so_far;
            }
            always
        }

        fn add(&mut self, size: u64) -> u32 {
            let number = self.asked.len() as u32;
            self.turns.want(number);
            self.asked.push(0);
            self.sizes.push(size);
            number
        }

        fn step(&mut self) -> u32 {
            let number = self.turns.next().unwrap();
            let asked = &mut self.asked[number as usize];
            *asked += PIECE;
            let left = self.sizes[number as usize].saturating_sub(*asked);
            self.turns.asks(PIECE, left);
            assert_eq!(self.turns.next(), None, "one piece at a time");
            self.turns.asked();
            if left == 0 {
                self.turns.leave(number);
            }
            number
        }

        fn order(&mut self, bytes: u64) -> Vec<u32> {
            (0..bytes / PIECE).map(|_| self.step()).collect()
        }

        /// Until all files have ended.
        fn until_the_end(&mut self) -> Vec<u32> {
            let left =
                |always: &Self| always.sizes.iter().sum::<u64>() - always.asked.iter().sum::<u64>();
            let bytes = left(self);
            self.order(bytes)
        }
    }

    fn changes(order: &[u32]) -> usize {
        order.windows(2).filter(|two| two[0] != two[1]).count()
    }

    #[test]
    fn long_sweeps_take_whole_turns_and_get_the_same() {
        let mut always = Always::of(SHORT_MAX, &[ENDLESS; 3]);
        let order = always.order(9 * TURN_MAX);
        assert_eq!((changes(&order), always.asked), (8, vec![SHORT_MAX + 3 * TURN_MAX; 3]));
    }

    #[test]
    fn a_short_sweep_goes_first_until_it_is_short_no_more() {
        let mut always = Always::of(SHORT_MAX, &[ENDLESS]);
        always.order(TURN_MAX / 2);
        let short = always.add(ENDLESS);
        let order = always.order(SHORT_MAX);
        assert!(order.iter().all(|number| *number == short), "{order:?}");
        let order = always.order(4 * TURN_MAX);
        let of_short = order.iter().filter(|number| **number == short).count() as u64;
        assert!((TURN_MAX..=3 * TURN_MAX).contains(&(of_short * PIECE)), "{order:?}");
    }

    #[test]
    fn one_that_pauses_in_its_turn_goes_on_with_it_until_another_was_asked() {
        let mut always = Always::of(SHORT_MAX, &[ENDLESS; 2]);
        assert_eq!(always.step(), 0);
        always.turns.leave(0);
        assert_eq!(always.turns.next(), Some(1));
        always.turns.want(0);
        assert_eq!(always.step(), 0, "the other one had nothing yet");
        always.turns.leave(0);
        assert_eq!(always.step(), 1);
        always.turns.want(0);
        assert_eq!(always.step(), 1);
    }

    #[test]
    fn what_a_sweep_could_not_use_of_its_turns_it_gets_later() {
        let mut always = Always::of(SHORT_MAX, &[ENDLESS; 2]);
        for _ in 0..4 {
            // The first one pauses early in its turn, and the other one has a whole turn.
            while always.step() != 0 {}
            always.turns.leave(0);
            always.step();
            always.turns.want(0);
        }
        let behind = always.asked[1] - always.asked[0];
        assert!(behind > 2 * TURN_MAX, "{behind}");
        always.order(6 * TURN_MAX);
        let [first, second] = always.asked[..] else { unreachable!() };
        assert!(first.abs_diff(second) <= TURN_MAX, "{first} {second}");
    }

    #[test]
    fn what_is_read_of_a_file_elsewhere_counts_as_had() {
        let mut always = Always::of(SHORT_MAX, &[ENDLESS; 2]);
        always.turns.charge(0, 2 * TURN_MAX);
        let order = always.order(4 * TURN_MAX);
        let of_first = order.iter().filter(|number| **number == 0).count() as u64;
        assert_eq!(of_first * PIECE, TURN_MAX, "{order:?}");
        let short = always.add(ENDLESS);
        always.turns.charge(short, SHORT_MAX);
        assert!(!always.turns.accounts[&short].is_short());
    }

    #[test]
    fn two_files_of_one_size_end_together_after_few_changes() {
        let size = 256 << 20;
        let mut always = Always::of(SHORT_MAX, &[size; 2]);
        let order = always.until_the_end();
        let last = order.iter().rposition(|number| *number != order[order.len() - 1]).unwrap();
        let gap = (order.len() - 1 - last) as u64 * PIECE;
        assert!(gap <= 2 * TURN_MIN, "{gap}");
        assert!(changes(&order) <= 52, "{}", changes(&order));
        // A file alone has no turns to be kept short.
        assert_eq!(changes(&Always::of(SHORT_MAX, &[size]).until_the_end()), 0);
    }

    #[test]
    fn a_number_that_is_used_again_inherits_nothing() {
        let mut always = Always::of(SHORT_MAX, &[ENDLESS; 2]);
        assert_eq!(always.step(), 0);
        always.turns.forget(0);
        always.turns.want(0);
        assert!(always.turns.accounts[&0].is_short());
        always.turns.accounts.get_mut(&0).unwrap().asked = SHORT_MAX;
        assert_eq!(always.step(), 1, "it is not its turn");
    }

    #[test]
    fn however_many_short_ones_come_a_long_one_gets_its_turns() {
        let mut always = Always::of(SHORT_MAX, &[ENDLESS]);
        let mut short = always.add(ENDLESS);
        let mut waited = 0;
        let mut of_long = 0;
        for _ in 0..4096 {
            if always.asked[short as usize] + PIECE > SHORT_MAX / 2 {
                always.turns.leave(short);
                short = always.add(ENDLESS);
            }
            waited += PIECE;
            if always.step() == 0 {
                (waited, of_long) = (0, of_long + PIECE);
            }
            assert!(waited <= PASSED_MAX + TURN_MAX, "{waited}");
        }
        let share = 4096 * PIECE / of_long;
        assert!((2..=1 + PASSED_MAX / TURN_MIN + 1).contains(&share), "one in {share}");
    }

    #[test]
    fn whatever_sweeps_do_nobody_waits_for_longer_than_it_says() {
        proptest::proptest!(|(steps in proptest::collection::vec((0..6_u32, 0..8_u8, 0..64_u64), 1..4000))| {
            let mut turns = Turns::default();
            let mut waiting = [None; 6];
            for (sweep, action, left) in steps {
                let idx = sweep as usize;
                match action {
                    0 => {
                        turns.leave(sweep);
                        waiting[idx] = None;
                    }
                    1 => {
                        turns.forget(sweep);
                        waiting[idx] = None;
                    }
                    2..4 => {
                        turns.want(sweep);
                        waiting[idx].get_or_insert(0);
                    }
                    _ => {}
                }
                let Some(next) = turns.next() else {
                    proptest::prop_assert!(waiting.iter().all(Option::is_none));
                    continue;
                };
                proptest::prop_assert!(waiting[next as usize].is_some(), "it wants nothing");
                turns.asks(PIECE, left << 20);
                turns.asked();
                waiting.iter_mut().flatten().for_each(|waited| *waited += PIECE);
                waiting[next as usize] = Some(0);
                let bound = PASSED_MAX + 6 * TURN_MAX;
                proptest::prop_assert!(waiting.iter().flatten().all(|waited| *waited <= bound));
            }
        });
    }
}
