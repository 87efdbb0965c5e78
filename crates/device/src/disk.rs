//! A rotating disk: seek, half a turn, transfer, and a drive cache that works while the disk is idle.
//!
//! Source: the lab page's model of a 7,200 rpm disk, and the calibration of `scheduling.md` 5.6:
//! what positioning costs follows from the ratio of sequential to random throughput.
//!
//! ```text
//!   sequential:  transfer of the gap and the request − credit, but no faster than the interface
//!   otherwise:   (overhead + seek(distance) + half a turn) × share + transfer
//! ```
//!
//! *Sequential* means: the same direction as before and at most `gap_max` further on. The *credit*
//! is transfer that the drive did ahead of being asked: after a read it reads on into its cache
//! while nobody asks, after a write it empties its cache. Both are bounded by the cache, and lost
//! by moving elsewhere. The *share* is 1 for reads; for writes it is what remains after the drive
//! has sorted what its cache holds, which is why a disk's write ratio is the smaller one.
//!
//! Not modelled: where in the turn a sector is (half a turn is its mean), zones of different
//! speed, several streams in the drive's cache, reordering in the drive (it has one request).
//!
//! Units: nanoseconds, bytes.

use forebay_units::{Bytes, Direction, Nanos};

use crate::head::{Head, Service};
use crate::rate::Rate;
use crate::seek::SeekCurve;

/// What a disk is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disk {
    /// Between platter and head, and so for all that is larger than the cache.
    pub transfer: Rate,
    /// Between drive and computer: the bound for what the cache holds.
    pub interface: Rate,
    /// The arm's times.
    pub seek: SeekCurve,
    /// Of the platter; more than 0.
    pub turns_per_minute: u64,
    /// To accept and start a request that is not sequential.
    pub overhead: Nanos,
    /// The largest step forward that still counts as sequential: passing over it costs its
    /// transfer, so it has to be well below what positioning costs.
    pub gap_max: Bytes,
    /// The drive's cache: the most that it reads ahead, or takes on while writing.
    pub cache: Bytes,
    /// What a write pays of the positioning cost, in thousandths.
    pub write_share_permille: u64,
}

impl Disk {
    /// Serves a request that starts after the disk was idle for `idle`.
    pub(crate) fn serve(
        &self,
        head: &mut Head,
        idle: Nanos,
        direction: Direction,
        position: u64,
        length: Bytes,
    ) -> Service {
        let gap = head.gap_before(direction, position, self.gap_max);
        let time = match gap {
            Some(gap) => self.continued(head, idle, gap, length),
            None => {
                head.credit = Nanos::ZERO;
                let distance = Bytes(position.abs_diff(head.end));
                self.positioning(direction, self.seek.time(distance))
                    + self.transfer.time_for(length)
            }
        };
        head.pass(direction, position, length);
        Service { time, is_sequential: gap.is_some() }
    }

    fn continued(&self, head: &mut Head, idle: Nanos, gap: Bytes, length: Bytes) -> Nanos {
        let credit = (head.credit + idle).min(self.transfer.time_for(self.cache));
        let transfer = self.transfer.time_for(gap + length);
        let spent = credit.min(transfer - self.interface.time_for(length));
        head.credit = credit - spent;
        transfer - spent
    }

    /// The cost of being elsewhere, for a seek of the given time.
    fn positioning(&self, direction: Direction, seek: Nanos) -> Nanos {
        let whole = self.overhead + seek + self.half_turn();
        match direction {
            Direction::Read => whole,
            Direction::Write => Nanos(whole.0 * self.write_share_permille / 1000),
        }
    }

    fn half_turn(&self) -> Nanos {
        Nanos(30_000_000_000 / self.turns_per_minute)
    }

    /// The mean cost of positioning between random places of a `span`.
    pub(crate) fn mean_positioning(&self, direction: Direction, span: Bytes) -> Nanos {
        self.positioning(direction, self.seek.mean_time(span))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISK: Disk = Disk {
        transfer: Rate::megabytes_per_second(50),
        interface: Rate::megabytes_per_second(500),
        seek: SeekCurve::fitted(
            Nanos::millis(1),
            Nanos::millis(8),
            Nanos::millis(17),
            Bytes(80_000_000_000),
        ),
        turns_per_minute: 6_000,
        overhead: Nanos::micros(100),
        gap_max: Bytes(10_000),
        cache: Bytes(100_000),
        write_share_permille: 500,
    };
    /// 1 ms of transfer, 0.1 ms at the interface.
    const LENGTH: Bytes = Bytes(50_000);
    const NEAR_SEEK_NS: u64 = 1_000_000;

    fn read(head: &mut Head, idle: Nanos, position: u64) -> Service {
        DISK.serve(head, idle, Direction::Read, position, LENGTH)
    }

    fn after_a_read() -> Head {
        let mut head = Head::default();
        read(&mut head, Nanos::ZERO, 0);
        head
    }

    #[test]
    fn the_first_request_pays_for_positioning() {
        let service = read(&mut Head::default(), Nanos::secs(1), 0);
        assert_eq!(service.time, Nanos(100_000 + NEAR_SEEK_NS + 5_000_000 + 1_000_000));
        assert!(!service.is_sequential);
    }

    #[test]
    fn a_continuation_pays_transfer_only() {
        let service = read(&mut after_a_read(), Nanos::ZERO, LENGTH.0);
        assert_eq!(service, Service { time: Nanos::millis(1), is_sequential: true });
    }

    #[test]
    fn a_small_gap_costs_its_transfer_and_a_larger_one_a_seek() {
        let near = read(&mut after_a_read(), Nanos::ZERO, LENGTH.0 + 10_000);
        assert_eq!(near, Service { time: Nanos::micros(1_200), is_sequential: true });
        assert!(!read(&mut after_a_read(), Nanos::ZERO, LENGTH.0 + 10_001).is_sequential);
        assert!(!read(&mut after_a_read(), Nanos::ZERO, LENGTH.0 - 1).is_sequential);
    }

    #[test]
    fn a_change_of_direction_is_not_sequential() {
        let write =
            DISK.serve(&mut after_a_read(), Nanos::ZERO, Direction::Write, LENGTH.0, LENGTH);
        assert!(!write.is_sequential);
        assert_eq!(write.time, Nanos((100_000 + NEAR_SEEK_NS + 5_000_000) / 2 + 1_000_000));
    }

    #[test]
    fn idle_time_is_credit_until_the_interface_is_the_limit() {
        let mut head = after_a_read();
        assert_eq!(read(&mut head, Nanos::micros(400), LENGTH.0).time, Nanos::micros(600));
        assert_eq!(read(&mut head, Nanos::micros(950), 2 * LENGTH.0).time, Nanos::micros(100));
        // 50 us were left over.
        assert_eq!(read(&mut head, Nanos::ZERO, 3 * LENGTH.0).time, Nanos::micros(950));
    }

    #[test]
    fn credit_is_bounded_by_the_cache_and_lost_by_moving() {
        let mut head = after_a_read();
        assert_eq!(read(&mut head, Nanos::secs(9), LENGTH.0).time, Nanos::micros(100));
        // The cache holds 2 ms of transfer, 0.9 ms of it are gone.
        assert_eq!(read(&mut head, Nanos::ZERO, 2 * LENGTH.0).time, Nanos::micros(100));
        assert_eq!(read(&mut head, Nanos::ZERO, 3 * LENGTH.0).time, Nanos::micros(800));

        let mut head = after_a_read();
        assert!(!read(&mut head, Nanos::secs(9), 40 * LENGTH.0).is_sequential);
        assert_eq!(read(&mut head, Nanos::ZERO, 41 * LENGTH.0).time, Nanos::millis(1));
    }
}
