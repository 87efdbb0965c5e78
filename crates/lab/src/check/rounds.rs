//! How many rounds it takes until it is known whether a disk is its model.

use super::{Checked, Fault};

/// Rounds until a disk that is never found to be its model is held not to be.
const ROUNDS_MAX: u32 = 10;

/// Rounds that have to agree on a fault that may be the machine's, for it to be the disk's.
const WITNESSES: usize = 3;

/// A round in which something waited for a processor for less than this part of the time is a
/// witness: what is beyond the tolerance then is not for the machine.
const SHORT_MAX: f64 = 0.03;

/// What the rounds have come to so far.
#[derive(Default)]
pub(super) struct Rounds {
    begun: u32,
    fastest: Option<Checked>,
    /// What was found while the machine was not in the way.
    witnessed: Vec<Fault>,
}

impl Rounds {
    /// The number of the next round, from 1; none if there were enough.
    pub(super) fn next(&mut self) -> Option<u32> {
        self.begun += 1;
        (self.begun <= ROUNDS_MAX).then_some(self.begun)
    }

    /// Whether a round has settled it, one way or the other.
    pub(super) fn settle(&mut self, checked: &Checked, time_scale: f64) -> bool {
        let fault = match checked.verdict(time_scale) {
            Err(fault) if fault.may_be_the_machines() => fault,
            _ => return true,
        };
        if (checked.waited_ns as f64) < checked.real_ns as f64 * SHORT_MAX {
            self.witnessed.push(fault);
        }
        if self.fastest.is_none_or(|fastest| checked.real_ns < fastest.real_ns) {
            self.fastest = Some(*checked);
        }
        self.witnessed.iter().filter(|witnessed| **witnessed == fault).count() >= WITNESSES
    }

    /// Of those that settled nothing, with how many there were.
    pub(super) fn fastest(&self) -> Option<Checked> {
        let rounds = self.begun.min(ROUNDS_MAX);
        self.fastest.map(|fastest| Checked { rounds, ..fastest })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::tests::checked;

    /// In which round it was settled, none after all of them; the last one is repeated.
    fn settled(all: &[Checked]) -> Option<u32> {
        let mut rounds = Rounds::default();
        let mut last = None;
        while let Some(round) = rounds.next() {
            last = all.get(round as usize - 1).or(last);
            if rounds.settle(last.expect("there is a first one"), 2.0) {
                return Some(round);
            }
        }
        let fastest = rounds.fastest().expect("there was one");
        assert_eq!(fastest.real_ns, all.iter().map(|checked| checked.real_ns).min().unwrap());
        None
    }

    fn seeks(found: u64) -> Checked {
        Checked { seeks: [3, found], ..checked() }
    }

    #[test]
    fn three_rounds_that_agree_settle_it_if_the_machine_was_not_in_the_way() {
        let slow = Checked { device_ns: 1_060_000, ..checked() };
        assert_eq!(settled(&[seeks(4)]), Some(3));
        assert_eq!(settled(&[slow]), Some(3));
        assert_eq!(settled(&[seeks(4), seeks(5), slow, seeks(4), seeks(6), seeks(4)]), Some(6));
        let numbers: Vec<Checked> = (4..14).map(seeks).collect();
        assert_eq!(settled(&numbers), None, "each round has another number");
    }

    #[test]
    fn a_round_in_which_processors_were_short_is_no_witness() {
        // 3 % of the 2 ms that it takes.
        let busy = Checked { waited_ns: 60_000, ..seeks(4) };
        assert_eq!(settled(&[busy]), None);
        assert_eq!(settled(&[Checked { waited_ns: 59_000, ..seeks(4) }]), Some(3));
        assert_eq!(settled(&[seeks(4), busy, seeks(4), busy, seeks(4)]), Some(5));
    }

    #[test]
    fn a_round_that_is_right_or_that_no_machine_explains_settles_it_at_once() {
        assert_eq!(settled(&[checked()]), Some(1));
        assert_eq!(settled(&[seeks(4), seeks(4), checked()]), Some(3));
        assert_eq!(settled(&[Checked { busy_ns: 1_060_000, ..checked() }]), Some(1));
    }
}
