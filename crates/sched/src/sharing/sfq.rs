//! SFQ(D): start-time fair queueing at any depth.
//!
//! Source:      Jin, Chase, Kaur 2004, "Interposed Proportional Sharing for a Storage Service
//!              Utility", section 4 (SFQ(D)); Goyal, Vin, Cheng 1996 for SFQ itself.
//! Idea:        every class has a start tag: where it stands in virtual time. The lowest goes next,
//!              and moves on by cost / weight. Virtual time is the lowest tag among those that want
//!              to go; who comes back after a pause starts there, not where it left.
//! Units:       tags in cost / weight times 2^32, rounded up; weights are plain numbers.
//! Cost:        O(log n) a decision for n siblings; 32 bytes of tags a class.
//! Deviations:  1. The depth D is the caller's: it asks while the store has room.
//!              2. Cost is charged at dispatch, when the batch is known, not at arrival.
//!              3. A class whose policy waits for a better batch keeps its tag, up to one quantum
//!                 behind virtual time, as BFQ does for a process it idles for.
//!              4. When nothing is queued or in flight, all debts are forgotten.
//! Loses when:  one batch of a class is much larger than what others want in the meantime: it is not
//!              divided. Tags know cost, not urgency: latency follows weight.
//!
//! Bound, in the order of dispatch, for two siblings that both always want:
//! `|W_f/φ_f − W_g/φ_g| ≤ c_f/φ_f + c_g/φ_g` with `c` the largest batch; completed work within
//! `D + 1` times that (Jin et al.).

use super::node::Turn;

/// Fixed-point places of a tag.
const PLACES: u32 = 32;

/// How far `cost` moves a tag.
fn distance(cost: u64, weight: u32) -> u128 {
    // A division of 128 bits takes several times as long, and hardly any batch costs that much.
    match u32::try_from(cost) {
        Ok(cost) => u128::from((u64::from(cost) << PLACES).div_ceil(u64::from(weight))),
        Err(_) => (u128::from(cost) << PLACES).div_ceil(u128::from(weight)),
    }
}

/// A class comes back; `kept` is how far behind virtual time it may stand.
pub(super) fn enter(turn: &mut Turn, virtual_time: u128, kept: u64) {
    turn.tag = turn.tag.max(virtual_time.saturating_sub(distance(kept, 1)));
}

/// A class has had `cost`.
pub(super) fn spend(turn: &mut Turn, cost: u64, weight: u32) {
    turn.tag = turn.tag.saturating_add(distance(cost, weight));
}

/// A class was charged `cost` too much; what lies before virtual time is lost.
pub(super) fn give_back(turn: &mut Turn, virtual_time: u128, cost: u64, weight: u32) {
    let floor = turn.tag.min(virtual_time);
    turn.tag = turn.tag.saturating_sub(distance(cost, weight)).max(floor);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distance_is_the_same_however_it_is_divided() {
        let least = u64::from(u32::MAX);
        for cost in [1, 4096, 8191, least - 1, least, least + 1, u64::MAX] {
            for weight in [1, 3, 7, 1_000_000, u32::MAX] {
                let exact = (u128::from(cost) << PLACES).div_ceil(u128::from(weight));
                assert_eq!(distance(cost, weight), exact, "{cost} / {weight}");
            }
        }
    }
}
