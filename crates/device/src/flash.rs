//! A flash channel: a fixed cost for each operation, by direction and order, and a transfer.
//!
//! Source: `scheduling.md` 5.6, item 1 ("SSD with channels and op-dependent penalties, ratio below
//! 1 for random-friendly writes"). There is nothing to move, so distance does not matter; what a
//! sequential and a random operation cost is given for each direction, and either may be the
//! cheaper one: AGIOS Table I has an SSD (Edel) whose random writes are faster than sequential.
//!
//! Channels run side by side: [`Device`](crate::Device) stripes requests over them.
//!
//! Not modelled: garbage collection, wear, a write cache with a cliff behind it.
//!
//! Units: nanoseconds, bytes.

use forebay_units::{Bytes, Direction, Nanos};

use crate::head::{Head, Service};
use crate::rate::Rate;

/// What one direction of a channel costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlashCost {
    /// For each operation that begins where the last one of the same direction ended.
    pub sequential: Nanos,
    /// For each other operation.
    pub random: Nanos,
    /// Of one channel.
    pub transfer: Rate,
}

/// What a channel is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flash {
    /// Cost of reads.
    pub read: FlashCost,
    /// Cost of writes.
    pub write: FlashCost,
    /// Bytes of one channel.
    pub capacity: Bytes,
}

impl Flash {
    /// Serves a request.
    pub(crate) fn serve(
        &self,
        head: &mut Head,
        direction: Direction,
        position: u64,
        length: Bytes,
    ) -> Service {
        let is_sequential = head.gap_before(direction, position, Bytes::ZERO).is_some();
        head.pass(direction, position, length);
        let cost = self.cost(direction);
        let operation = if is_sequential { cost.sequential } else { cost.random };
        Service { time: operation + cost.transfer.time_for(length), is_sequential }
    }

    pub(crate) fn cost(&self, direction: Direction) -> &FlashCost {
        match direction {
            Direction::Read => &self.read,
            Direction::Write => &self.write,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_and_direction_choose_the_cost() {
        let rate = Rate::megabytes_per_second(1000);
        let flash = Flash {
            read: FlashCost { sequential: Nanos(10), random: Nanos(50), transfer: rate },
            write: FlashCost { sequential: Nanos(90), random: Nanos(20), transfer: rate },
            capacity: Bytes::mib(1),
        };
        let head = &mut Head::default();
        let mut time = |direction, position| flash.serve(head, direction, position, Bytes(5)).time;
        assert_eq!(time(Direction::Write, 0), Nanos(25));
        assert_eq!(time(Direction::Write, 5), Nanos(95));
        assert_eq!(time(Direction::Read, 10), Nanos(55));
        assert_eq!(time(Direction::Read, 15), Nanos(15));
        assert_eq!(time(Direction::Read, 15), Nanos(55));
    }
}
