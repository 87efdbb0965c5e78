//! Which sweep asks the kernel for its next piece, of all sweeps over the files of one device.
//!
//! Source: multilevel feedback (F. J. Corbató, M. Merwin-Daggett, R. C. Daley, "An Experimental
//! Time-Sharing System", AFIPS SJCC 1962), with two levels, and files in the place of programs.
//!
//! Idea: an arm that goes back and forth between two files brings neither. So pieces are asked for
//! one after the other, and those of one sweep for a whole turn, as long as it wants some. A sweep
//! that was asked little for so far goes before the others, also in the middle of their turns: a
//! short file is through in one go, and costs the long ones hardly more than its own bytes. All
//! others take turns. Whoever was passed over by [`PASSED_MAX`] gets a turn that nobody interrupts.
//!
//! Units: bytes. Cost: a look at all sweeps that want a piece, for each piece.
//!
//! Bound: with n sweeps that want pieces, one of them gets a turn at the latest after
//! [`PASSED_MAX`] and n turns of the others.
//!
//! Loses when: a class's share matters. Whose sweep it is, is not asked here.

/// What a sweep is asked for in one turn: on a disk of 57 MB/s some 180 ms, to which the way to another
/// file adds 4 to 14.
const TURN: u64 = 10 << 20;

/// A sweep that was asked for less is short.
const SHORT_MAX: u64 = 32 << 20;

/// What others may be asked for while a sweep waits.
const PASSED_MAX: u64 = 64 << 20;

/// The sweeps that want pieces, and the one whose turn it is.
#[derive(Debug, Default)]
pub(super) struct Turns {
    waiting: Vec<Waiting>,
    turn: Option<Turn>,
    /// Whether the kernel is being asked for a piece.
    is_asking: bool,
    /// What all sweeps together were asked for.
    asked: u64,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    sweep: u32,
    is_short: bool,
    /// `asked` when it began to wait, or was last asked for something.
    since: u64,
}

#[derive(Clone, Copy, Debug)]
struct Turn {
    sweep: u32,
    left: u64,
    /// It was passed over for so long that this turn is not to be interrupted.
    is_overdue: bool,
}

impl Turns {
    /// `sweep`, which was asked for `so_far` bytes, wants a piece.
    pub(super) fn want(&mut self, sweep: u32, so_far: u64) {
        if !self.waiting.iter().any(|waiting| waiting.sweep == sweep) {
            let is_short = so_far < SHORT_MAX;
            self.waiting.push(Waiting { sweep, is_short, since: self.asked });
        }
    }

    /// `sweep` wants nothing more.
    pub(super) fn leave(&mut self, sweep: u32) {
        self.waiting.retain(|waiting| waiting.sweep != sweep);
    }

    /// The sweep that is to be asked for a piece now; none while one is being asked for.
    pub(super) fn next(&mut self) -> Option<u32> {
        if self.is_asking {
            return None;
        }
        let longest = self.waiting.iter().min_by_key(|waiting| waiting.since)?;
        let current = self.turn.filter(|turn| turn.left > 0);
        let current = current.and_then(|turn| {
            Some((turn, self.waiting.iter().find(|waiting| waiting.sweep == turn.sweep)?))
        });
        let is_overdue = self.asked - longest.since >= PASSED_MAX;
        let is_short_there = self.waiting.iter().any(|waiting| waiting.is_short);
        let goes_on = current.filter(|(turn, waiting)| {
            turn.is_overdue || !is_overdue && (waiting.is_short || !is_short_there)
        });
        if let Some((turn, _)) = goes_on {
            return Some(turn.sweep);
        }
        let next = match is_overdue {
            true => longest,
            false => {
                self.waiting.iter().min_by_key(|waiting| (!waiting.is_short, waiting.since))?
            }
        };
        self.turn = Some(Turn { sweep: next.sweep, left: TURN, is_overdue });
        Some(next.sweep)
    }

    /// The kernel is being asked for a piece of `bytes` of `sweep`, which `next` has named and which was
    /// asked for `so_far` bytes with it.
    pub(super) fn asks(&mut self, sweep: u32, bytes: u64, so_far: u64) {
        self.is_asking = true;
        self.asked += bytes;
        if let Some(turn) = self.turn.as_mut().filter(|turn| turn.sweep == sweep) {
            turn.left = turn.left.saturating_sub(bytes);
        }
        if let Some(waiting) = self.waiting.iter_mut().find(|waiting| waiting.sweep == sweep) {
            (waiting.since, waiting.is_short) = (self.asked, so_far < SHORT_MAX);
        }
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

    /// Sweeps that always want a piece, and what each was asked for.
    #[derive(Default)]
    struct Always {
        turns: Turns,
        asked: Vec<u64>,
    }

    impl Always {
        fn of(so_far: &[u64]) -> Self {
            let mut always = Self { asked: so_far.to_vec(), ..Self::default() };
            for (number, so_far) in (0..).zip(so_far) {
                always.turns.want(number, *so_far);
            }
            always
        }

        fn add(&mut self) -> u32 {
            let number = self.asked.len() as u32;
            self.turns.want(number, 0);
            self.asked.push(0);
            number
        }

        fn step(&mut self) -> u32 {
            let number = self.turns.next().unwrap();
            let so_far = &mut self.asked[number as usize];
            *so_far += PIECE;
            self.turns.asks(number, PIECE, *so_far);
            assert_eq!(self.turns.next(), None, "one piece at a time");
            self.turns.asked();
            number
        }

        fn order(&mut self, bytes: u64) -> Vec<u32> {
            (0..bytes / PIECE).map(|_| self.step()).collect()
        }
    }

    #[test]
    fn long_sweeps_take_whole_turns_and_get_the_same() {
        let mut always = Always::of(&[SHORT_MAX; 3]);
        let order = always.order(9 * TURN);
        let changes = order.windows(2).filter(|two| two[0] != two[1]).count();
        assert_eq!((changes, always.asked), (8, vec![SHORT_MAX + 3 * TURN; 3]));
    }

    #[test]
    fn a_short_sweep_goes_first_until_it_is_short_no_more() {
        let mut always = Always::of(&[SHORT_MAX]);
        always.order(TURN / 2);
        let short = always.add();
        let order = always.order(SHORT_MAX);
        assert!(order.iter().all(|number| *number == short), "{order:?}");
        let order = always.order(4 * TURN);
        let of_short = order.iter().filter(|number| **number == short).count() as u64;
        assert!((TURN..=3 * TURN).contains(&(of_short * PIECE)), "{order:?}");
    }

    #[test]
    fn one_that_pauses_in_its_turn_goes_on_with_it_unless_another_came() {
        let mut turns = Turns::default();
        turns.want(1, SHORT_MAX);
        assert_eq!(turns.next(), Some(1));
        turns.leave(1);
        assert_eq!(turns.next(), None);
        turns.want(1, SHORT_MAX);
        turns.want(2, SHORT_MAX);
        assert_eq!(turns.next(), Some(1));
        turns.leave(1);
        assert_eq!(turns.next(), Some(2));
        turns.want(1, SHORT_MAX);
        assert_eq!(turns.next(), Some(2));
    }

    #[test]
    fn however_many_short_ones_come_a_long_one_gets_its_turns() {
        let mut always = Always::of(&[SHORT_MAX]);
        let mut short = always.add();
        let mut waited = 0;
        let mut of_long = 0;
        for _ in 0..4096 {
            if always.asked[short as usize] + PIECE > SHORT_MAX / 2 {
                always.turns.leave(short);
                short = always.add();
            }
            waited += PIECE;
            if always.step() == 0 {
                (waited, of_long) = (0, of_long + PIECE);
            }
            assert!(waited <= PASSED_MAX + TURN, "{waited}");
        }
        let share = 4096 * PIECE / of_long;
        assert!((2..=1 + PASSED_MAX / TURN + 1).contains(&share), "one in {share}");
    }

    #[test]
    fn whatever_sweeps_do_nobody_waits_for_longer_than_it_says() {
        proptest::proptest!(|(steps in proptest::collection::vec((0..6_u32, 0..8_u8), 1..4000))| {
            let mut turns = Turns::default();
            let mut waiting = [None; 6];
            let mut so_far = [0; 6];
            for (sweep, action) in steps {
                let idx = sweep as usize;
                match action {
                    0 => {
                        turns.leave(sweep);
                        waiting[idx] = None;
                    }
                    1 => so_far[idx] = 0,
                    2..4 => {
                        turns.want(sweep, so_far[idx]);
                        waiting[idx].get_or_insert(0);
                    }
                    _ => {}
                }
                let Some(next) = turns.next() else {
                    proptest::prop_assert!(waiting.iter().all(Option::is_none));
                    continue;
                };
                proptest::prop_assert!(waiting[next as usize].is_some(), "it wants nothing");
                so_far[next as usize] += PIECE;
                turns.asks(next, PIECE, so_far[next as usize]);
                turns.asked();
                waiting.iter_mut().flatten().for_each(|waited| *waited += PIECE);
                waiting[next as usize] = Some(0);
                let bound = PASSED_MAX + 6 * TURN;
                proptest::prop_assert!(waiting.iter().flatten().all(|waited| *waited <= bound));
            }
        });
    }
}
