//! What sharing states: while two classes both always have something ready, their work in
//! proportion to their weights stays within a bound.
//!
//! | discipline | `|W_f/φ_f − W_g/φ_g|` at most | `c`: the class's largest batch |
//! |---|---|---|
//! | SFQ(D) | `c_f/φ_f + c_g/φ_g` | in the order of dispatch (Jin, Chase, Kaur 2004) |
//! | DRR | `2 quantum + c_f/φ_f + c_g/φ_g` | (Shreedhar and Varghese 1996) |
//!
//! (One of DRR's two quanta is for intervals that begin with a class that comes back: if it has had
//! its turn in the round that is on, the other one may have two turns before it has its next.)
//!
//! What leaves out of turn (bypassed or boosted) is debt, and moves the interval in which the bound
//! holds to where the debt is paid; so it is checked in runs that have neither.

use alloc::format;
use alloc::string::String;

use forebay_sched::sharing::Discipline;

use super::draw::{CLASSES, Sharing};

/// Work of each class, and since when two of them have been ready together.
pub(super) struct Fairness {
    sharing: Sharing,
    work: [u64; CLASSES],
    largest: [u64; CLASSES],
    /// The work of both when the interval began.
    since: [[Option<(u64, u64)>; CLASSES]; CLASSES],
}

impl Fairness {
    pub(super) fn new(sharing: Sharing) -> Self {
        Self {
            sharing,
            work: [0; CLASSES],
            largest: [0; CLASSES],
            since: [[None; CLASSES]; CLASSES],
        }
    }

    /// Which classes have something ready now: intervals begin and end.
    pub(super) fn ready(&mut self, is_ready: [bool; CLASSES]) {
        for f in 0..CLASSES {
            for g in 0..f {
                let since = &mut self.since[f][g];
                *since = match is_ready[f] && is_ready[g] {
                    true => since.or(Some((self.work[f], self.work[g]))),
                    false => None,
                };
            }
        }
    }

    /// A batch of a class has left; what is wrong with that.
    pub(super) fn left(&mut self, class: usize, cost: u64) -> Option<String> {
        self.work[class] += cost;
        self.largest[class] = self.largest[class].max(cost);
        let pairs = (0..CLASSES).flat_map(|f| (0..f).map(move |g| (f, g)));
        let unfair = pairs.filter(|(f, g)| *f == class || *g == class).find_map(|(f, g)| {
            let (work_f, work_g) = self.since[f][g]?;
            let weight = |class: usize| u128::from(self.sharing.weights[class]);
            // Everything times both weights.
            let had_f = u128::from(self.work[f] - work_f) * weight(g);
            let had_g = u128::from(self.work[g] - work_g) * weight(f);
            let batches =
                u128::from(self.largest[f]) * weight(g) + u128::from(self.largest[g]) * weight(f);
            let quantum = match self.sharing.discipline {
                Discipline::Drr => 2 * u128::from(self.sharing.quantum),
                // Tags are rounded to 2^-32.
                _ => 1,
            };
            let most = batches + quantum * weight(f) * weight(g);
            (had_f.abs_diff(had_g) > most).then_some((f, g))
        });
        unfair.map(|(f, g)| {
            let since = self.since[f][g].unwrap_or_default();
            format!(
                "classes {f} and {g} of weights {} and {} have had {} and {}, in batches up to {} and {}",
                self.sharing.weights[f],
                self.sharing.weights[g],
                self.work[f] - since.0,
                self.work[g] - since.1,
                self.largest[f],
                self.largest[g],
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fairness(discipline: Discipline) -> Fairness {
        let mut fairness =
            Fairness::new(Sharing { discipline, quantum: 40, weights: [1, 2, 1], limit: None });
        fairness.ready([true, true, false]);
        fairness
    }

    #[test]
    fn work_in_proportion_is_fair_and_more_is_not() {
        let mut sfq = fairness(Discipline::Sfq);
        for _ in 0..100 {
            assert_eq!(sfq.left(0, 10), None);
            assert_eq!(sfq.left(1, 20), None);
        }
        assert_eq!(sfq.left(1, 20), None, "one batch ahead");
        assert!((0..5).any(|_| sfq.left(1, 20).is_some()));
    }

    #[test]
    fn a_quantum_more_is_fair_under_drr() {
        let ahead = |discipline| {
            let mut fairness = fairness(discipline);
            _ = fairness.left(1, 20);
            (0..100).take_while(|_| fairness.left(0, 10).is_none()).count()
        };
        assert!(ahead(Discipline::Drr) > ahead(Discipline::Sfq));
        assert!(ahead(Discipline::Drr) < 20);
    }

    #[test]
    fn a_class_with_nothing_ready_has_nothing_coming() {
        let mut sfq = fairness(Discipline::Sfq);
        sfq.ready([true, false, false]);
        assert!((0..100).all(|_| sfq.left(0, 10).is_none()));
    }
}
