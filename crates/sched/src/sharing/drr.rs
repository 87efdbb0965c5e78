//! DRR: deficit round robin with the SURPLUS rule.
//!
//! Source:      Shreedhar and Varghese 1996, "Efficient Fair Queuing using Deficit Round Robin";
//!              the SURPLUS rule is Adiseshu, Parulkar and Varghese 1996, surplus round robin.
//! Idea:        classes take turns in rounds. A turn is a budget of quantum · weight, and lasts as
//!              long as any of it is left; the last batch may overdraw it, and the next turns pay.
//! Units:       quantum and deficit in cost; rounds are counted.
//! Cost:        O(log n) a decision for n siblings, however small the quantum; 32 bytes a class.
//! Deviations:  1. A class that has overdrawn several turns is put straight into the round in which
//!                 it has something again, instead of being visited in every round before it.
//!              2. Such a debt is also paid by rounds that pass while the class is idle.
//!              3. A class that comes back joins the round that is on, at its end; if it has had its turn
//!                 in it, it keeps its place in the next.
//!              4. Only the SURPLUS rule: STRICT would have to know a batch before it is formed.
//! Loses when:  many classes have a little: a round is long, and latency is the whole round. SFQ(D) is
//!              fairer over short times at the same cost.
//!
//! Bound, for two siblings that both always want, with `Q` the quantum and `Max` the largest batch:
//! `|S_i/w_i − S_j/w_j| ≤ Q + Max/w_i + Max/w_j`; after a turn `−Max < deficit ≤ 0`.
//! Between two turns of a class the others get at most their quanta and one batch each.

use super::node::Turn;

/// Budget of a turn.
fn budget(quantum: u64, weight: u32) -> i128 {
    i128::from(quantum) * i128::from(weight)
}

/// A class comes back; a turn of a round that has passed is a whole one in this.
pub(super) fn enter(turn: &mut Turn, round: u128, quantum: u64, weight: u32) {
    let budget = budget(quantum, weight);
    if turn.tag < round || turn.deficit <= 0 {
        turn.deficit = budget;
    }
    turn.tag = turn.tag.max(round);
    turn.deficit = turn.deficit.min(budget);
}

/// A class has nothing left: a turn that it has begun is over.
pub(super) fn leave(turn: &mut Turn, round: u128, quantum: u64, weight: u32) {
    if turn.tag <= round && !is_whole(turn, quantum, weight) {
        turn.tag = round.saturating_add(1);
        turn.deficit = budget(quantum, weight);
    }
}

/// A class has had `cost`; an overdrawn turn ends, and the next is in the first round that leaves it something.
pub(super) fn spend(turn: &mut Turn, cost: u64, quantum: u64, weight: u32) {
    turn.deficit -= i128::from(cost);
    if turn.deficit <= 0 {
        let budget = budget(quantum, weight);
        let rounds = -turn.deficit / budget + 1;
        turn.tag = turn.tag.saturating_add(rounds as u128);
        turn.deficit += rounds * budget;
    }
}

/// A class was charged `cost` too much; it never has more than one turn's budget.
pub(super) fn give_back(turn: &mut Turn, round: u128, cost: u64, quantum: u64, weight: u32) {
    let budget = budget(quantum, weight);
    turn.deficit += i128::from(cost);
    if turn.deficit > budget {
        let rounds = ((turn.deficit - 1) / budget) as u128;
        let rounds = rounds.min(turn.tag.saturating_sub(round));
        turn.tag -= rounds;
        turn.deficit = (turn.deficit - rounds as i128 * budget).min(budget);
    }
}

/// The weight changes: a whole turn stays whole, and one that is begun is not made longer.
pub(super) fn reweigh(turn: &mut Turn, quantum: u64, old: u32, new: u32) {
    let was_whole = is_whole(turn, quantum, old);
    let budget = budget(quantum, new);
    turn.deficit = if was_whole { budget } else { turn.deficit.min(budget) };
}

/// Whether nothing of the turn is used up.
pub(super) fn is_whole(turn: &Turn, quantum: u64, weight: u32) -> bool {
    turn.deficit >= budget(quantum, weight)
}
