//! What was added and is not in the queue yet: adding a request costs no more than this takes.

use std::time::Instant;

use forebay_units::ClassId;

use crate::arrangement::Queues;
use crate::door::Failure;
use crate::name::Name;
use crate::sys::OwnCallBack;

/// A request as it was added.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub(crate) name: Name,
    pub(crate) identifier: i64,
    pub(crate) own: Option<OwnCallBack>,
    pub(crate) class: ClassId,
    pub(crate) when: Instant,
}

/// Closed, and empty, while no library runs.
#[derive(Debug)]
pub(crate) struct Intake {
    arrivals: Vec<Arrival>,
    /// How many were ever added.
    added: u64,
    /// How many of them had left the queue when that was last asked.
    left: u64,
    rules: Option<Rules>,
}

/// What is taken in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) queues: Queues,
    pub(crate) queue_requests_max: u64,
    /// Whether there is a call-back for requests without one of their own.
    pub(crate) has_call_back: bool,
}

/// Up to how many arrivals their memory is kept for the next ones.
const KEPT_MAX: usize = 1 << 14;

impl Intake {
    pub(crate) const fn new() -> Self {
        Self { arrivals: Vec::new(), added: 0, left: 0, rules: None }
    }

    /// Takes requests in from now on.
    pub(crate) fn open(&mut self, rules: Rules) {
        *self = Self { rules: Some(rules), ..Self::new() };
    }

    /// Takes nothing in any more.
    pub(crate) fn close(&mut self) {
        self.rules = None;
    }

    /// Takes a request in, of the class that its queue id means; how many were ever added. `left` says
    /// how many have left the queue, and is asked only if the queue may be full.
    pub(crate) fn add(
        &mut self,
        queue_id: i32,
        has_own: bool,
        left: impl FnOnce() -> u64,
        arrival: impl FnOnce(ClassId) -> Arrival,
    ) -> Result<u64, Failure> {
        let rules = self.rules.ok_or(Failure::NotRunning)?;
        if !has_own && !rules.has_call_back {
            return Err(Failure::NoCallBack);
        }
        let class = rules.queues.class(queue_id).ok_or(Failure::Invalid)?;
        if self.added - self.left >= rules.queue_requests_max {
            self.left = left();
            if self.added - self.left >= rules.queue_requests_max {
                return Err(Failure::QueueFull);
            }
        }
        self.arrivals.push(arrival(class));
        self.added += 1;
        Ok(self.added)
    }

    /// Has everything that came in change places with what is in `room`, which is empty.
    pub(crate) fn swap(&mut self, room: &mut Vec<Arrival>) {
        if room.capacity() > KEPT_MAX {
            *room = Vec::new();
        }
        core::mem::swap(&mut self.arrivals, room);
    }
}

#[cfg(test)]
mod tests {
    use forebay_units::{Bytes, Direction, Offset};

    use super::*;
    use crate::name::file_key;

    fn arrival(number: u64) -> impl FnOnce(ClassId) -> Arrival {
        let name = Name::new(file_key(b"f"), Direction::Read, Offset(number), Bytes(1));
        move |class| Arrival { name, identifier: 0, own: None, class, when: Instant::now() }
    }

    #[test]
    fn as_many_are_taken_in_as_the_queue_takes() {
        let mut intake = Intake::new();
        assert_eq!(intake.add(0, false, || 0, arrival(0)), Err(Failure::NotRunning));
        let rules = Rules { queues: Queues::Below(2), queue_requests_max: 3, has_call_back: true };
        intake.open(Rules { has_call_back: false, ..rules });
        assert_eq!(intake.add(0, false, || 0, arrival(0)), Err(Failure::NoCallBack));
        assert_eq!(intake.add(0, true, || 0, arrival(0)), Ok(1));
        intake.open(rules);
        assert_eq!(intake.add(2, false, || 0, arrival(0)), Err(Failure::Invalid));
        for number in 0..3 {
            let is_asked = || panic!("the queue is not full");
            assert_eq!(intake.add(1, false, is_asked, arrival(number)), Ok(number + 1));
        }
        assert_eq!(intake.add(1, false, || 0, arrival(3)), Err(Failure::QueueFull));
        assert_eq!(intake.add(1, false, || 2, arrival(3)), Ok(4));
        assert_eq!(intake.add(1, false, || panic!("one more has left"), arrival(4)), Ok(5));
        assert_eq!(intake.add(1, false, || 2, arrival(5)), Err(Failure::QueueFull));
        let mut room = Vec::new();
        intake.swap(&mut room);
        let offsets: Vec<u64> = room.iter().map(|arrival| arrival.name.offset.0).collect();
        assert_eq!(offsets, [0, 1, 2, 3, 4]);
        intake.close();
        assert_eq!(intake.add(0, false, || 5, arrival(0)), Err(Failure::NotRunning));
    }
}
