//! The guard as a list of all pairs: slow, and plainly what the rule says.

use forebay_sched::{Access, GuardMode, Request};

/// Whether two requests may not pass each other, whoever was first.
pub fn conflict(mode: GuardMode, a: &Request, b: &Request) -> bool {
    let is_write = |request: &Request| matches!(request.access, Access::Write | Access::Alone);
    let is_sync = |request: &Request| request.access == Access::Sync;
    let share = mode == GuardMode::File || a.range.intersects(b.range);
    a.file == b.file
        && (is_write(a) || is_write(b))
        && !is_sync(a)
        && !is_sync(b)
        && share
        && mode != GuardMode::None
}

#[derive(Clone, Copy, Debug)]
struct Item {
    seq: u64,
    request: Request,
    /// Place in the order of claims, once it has one.
    claimed: Option<u64>,
    is_tombstone: bool,
}

/// All live requests, in arrival order.
pub struct Oracle {
    mode: GuardMode,
    live: Vec<Item>,
    next_claim: u64,
}

impl Oracle {
    pub fn new(mode: GuardMode) -> Self {
        Self { mode, live: Vec::new(), next_claim: 0 }
    }

    /// Takes in the youngest request; whether it is ready at once.
    pub fn admit(&mut self, seq: u64, request: Request) -> bool {
        self.live.push(Item { seq, request, claimed: None, is_tombstone: false });
        self.settle();
        self.is_ready(seq)
    }

    /// A request has completed, or was cancelled while ready.
    pub fn release(&mut self, seq: u64) {
        self.live.retain(|item| item.seq != seq);
        self.settle();
    }

    /// A request was cancelled while blocked. A sync goes at once; others keep their place.
    pub fn cancel_blocked(&mut self, seq: u64) {
        let item = self.live.iter_mut().find(|item| item.seq == seq).expect("it is alive");
        match item.request.access {
            Access::Sync => self.release(seq),
            _ => item.is_tombstone = true,
        }
    }

    pub fn is_ready(&self, seq: u64) -> bool {
        let item = self.live.iter().find(|item| item.seq == seq).expect("it is alive");
        item.claimed.is_some() && !self.is_blocked(item)
    }

    pub fn live_count(&self) -> usize {
        self.live.iter().filter(|item| item.request.access != Access::Sync).count()
    }

    /// Whether a live request stands before `item`, in the order that its stage is about.
    fn is_blocked(&self, item: &Item) -> bool {
        self.live.iter().any(|other| {
            let is_write = matches!(other.request.access, Access::Write | Access::Alone);
            if item.request.access == Access::Sync {
                return other.request.file == item.request.file && is_write && other.seq < item.seq;
            }
            let is_before = match (item.claimed, other.claimed) {
                (Some(own), Some(others)) => others < own,
                (Some(_), None) => false,
                (None, _) if self.mode == GuardMode::Client => {
                    other.request.client == item.request.client && other.seq < item.seq
                }
                (None, _) => false,
            };
            is_before && conflict(self.mode, &other.request, &item.request)
        })
    }

    /// Gives out claims and ends tombstones, in rounds, each round by age.
    fn settle(&mut self) {
        loop {
            let can_move = |item: &Item| {
                (item.claimed.is_none() || item.is_tombstone) && !self.is_blocked(item)
            };
            let round: Vec<u64> =
                self.live.iter().filter(|item| can_move(item)).map(|item| item.seq).collect();
            if round.is_empty() {
                return;
            }
            for seq in round {
                let index = self.live.iter().position(|item| item.seq == seq).expect("it is alive");
                if self.live[index].is_tombstone {
                    self.live.remove(index);
                } else {
                    self.live[index].claimed = Some(self.next_claim);
                    self.next_claim += 1;
                }
            }
        }
    }
}
