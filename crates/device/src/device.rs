//! A device at work: requests striped over members that each serve one thing after the other.
//!
//! Source: the lab page ("keep service in virtual time: `done = max(arrival, busy_until) +
//! service`"). A single disk is one member; a RAID-0 is some disks; an SSD is some flash channels.
//!
//! Units: nanoseconds of virtual time, bytes; positions count from the start of the device.

use alloc::vec;
use alloc::vec::Vec;

use forebay_units::{Bytes, Direction, Timestamp};

use crate::head::Head;
use crate::profile::{Medium, Profile};

/// What a device has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Requests served.
    pub requests: u64,
    /// Bytes they moved.
    pub bytes: u64,
    /// Requests for which a member had to position anew.
    pub seeks: u64,
    /// Requests that continued the one before on every member.
    pub sequential: u64,
    /// Time in which at least one member was at work.
    pub busy_ns: u64,
}

/// A device and where its members are.
#[derive(Clone, Debug)]
pub struct Device {
    profile: Profile,
    members: Vec<Member>,
    busy_until: Timestamp,
    statistics: Statistics,
}

#[derive(Clone, Copy, Debug, Default)]
struct Member {
    head: Head,
    busy_until: Timestamp,
}

impl Device {
    /// An idle device that has not served anything.
    ///
    /// # Panics
    /// If the profile has no member, or members of nothing, or stripes of nothing.
    pub fn new(profile: Profile) -> Self {
        assert!(profile.members > 0, "a device has a member");
        assert!(profile.stripe > Bytes::ZERO, "a stripe holds something");
        assert!(profile.capacity() > Bytes::ZERO, "a member holds something");
        let members = vec![Member::default(); profile.members as usize];
        Self { profile, members, busy_until: Timestamp(0), statistics: Statistics::default() }
    }

    /// Serves a request after all that came before it; when it is finished.
    ///
    /// Requests come in the order of their arrival. A `position` beyond the capacity wraps; a
    /// request of no bytes costs nothing.
    pub fn serve(
        &mut self,
        arrival: Timestamp,
        direction: Direction,
        position: u64,
        length: Bytes,
    ) -> Timestamp {
        if length == Bytes::ZERO {
            return arrival;
        }
        let start = position % self.profile.capacity().0;
        let end = start.saturating_add(length.0);
        let (mut done, mut is_sequential) = (arrival, true);
        for idx in 0..self.members.len() {
            let member_start = self.profile.bytes_of_member_before(idx, start);
            let member_length = Bytes(self.profile.bytes_of_member_before(idx, end) - member_start);
            if member_length == Bytes::ZERO {
                continue;
            }
            let served = self.members[idx].serve(
                &self.profile.medium,
                arrival,
                direction,
                member_start,
                member_length,
            );
            done = done.max(served.0);
            is_sequential &= served.1;
        }
        self.count(arrival, done, length, is_sequential);
        done
    }

    /// When it would begin to work on a request: when the first member with a part of it is free.
    pub fn begins(&self, arrival: Timestamp, position: u64, length: Bytes) -> Timestamp {
        let start = position % self.profile.capacity().0;
        let end = start.saturating_add(length.0);
        let before = |idx: usize, at: u64| self.profile.bytes_of_member_before(idx, at);
        let has_part = |(idx, _): &(usize, &Member)| before(*idx, start) < before(*idx, end);
        let parts = self.members.iter().enumerate().filter(has_part);
        parts.map(|(_, member)| member.busy_until.max(arrival)).min().unwrap_or(arrival)
    }

    /// When the last of what was accepted so far is finished.
    pub fn busy_until(&self) -> Timestamp {
        self.busy_until
    }

    /// What it has done so far.
    pub fn statistics(&self) -> Statistics {
        self.statistics
    }

    /// What it is.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    fn count(&mut self, arrival: Timestamp, done: Timestamp, length: Bytes, is_sequential: bool) {
        let statistics = &mut self.statistics;
        statistics.requests += 1;
        statistics.bytes = statistics.bytes.saturating_add(length.0);
        statistics.sequential += u64::from(is_sequential);
        statistics.seeks += u64::from(!is_sequential);
        // A member is at work all the time from a request's arrival to its end: if not on this
        // request, then on one before it. So what counts is what lies beyond the latest end.
        statistics.busy_ns += (done - arrival.max(self.busy_until)).0;
        self.busy_until = self.busy_until.max(done);
    }
}

impl Member {
    /// When it has served the request, and whether that was sequential.
    fn serve(
        &mut self,
        medium: &Medium,
        arrival: Timestamp,
        direction: Direction,
        position: u64,
        length: Bytes,
    ) -> (Timestamp, bool) {
        let start = arrival.max(self.busy_until);
        let idle = start - self.busy_until;
        let service = match medium {
            Medium::Disk(disk) => disk.serve(&mut self.head, idle, direction, position, length),
            Medium::Flash(flash) => flash.serve(&mut self.head, direction, position, length),
        };
        self.busy_until = start + service.time;
        (self.busy_until, service.is_sequential)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flash::{Flash, FlashCost};
    use crate::rate::Rate;
    use forebay_units::Nanos;

    /// Two channels, 10 bytes a stripe, a byte a nanosecond; a random operation costs 100 ns.
    const PAIR: Profile = Profile {
        name: "pair",
        summary: "",
        medium: Medium::Flash(Flash { read: COST, write: COST, capacity: Bytes(500) }),
        members: 2,
        stripe: Bytes(10),
    };
    const COST: FlashCost = FlashCost {
        sequential: Nanos(0),
        random: Nanos(100),
        transfer: Rate::bytes_per_second(1_000_000_000),
    };

    fn serve(device: &mut Device, arrival: u64, position: u64, length: u64) -> u64 {
        device.serve(Timestamp(arrival), Direction::Read, position, Bytes(length)).0
    }

    #[test]
    fn one_member_serves_one_request_after_the_other() {
        let mut device = Device::new(PAIR);
        assert_eq!(serve(&mut device, 0, 0, 10), 110);
        assert_eq!(serve(&mut device, 50, 40, 10), 220);
        assert_eq!(serve(&mut device, 1000, 80, 10), 1110);
        assert_eq!(device.statistics().busy_ns, 330);
    }

    #[test]
    fn members_work_side_by_side() {
        let mut device = Device::new(PAIR);
        assert_eq!(serve(&mut device, 0, 0, 10), 110);
        assert_eq!(serve(&mut device, 5, 10, 10), 115);
        assert_eq!(device.statistics().busy_ns, 115);
        // A request over three stripes takes as long as the member with two of them.
        assert_eq!(serve(&mut device, 200, 40, 30), 320);
        assert_eq!(device.busy_until(), Timestamp(320));
    }

    #[test]
    fn a_request_begins_when_a_member_with_a_part_of_it_is_free() {
        let mut device = Device::new(PAIR);
        let begins = |device: &Device, arrival, position, length| {
            device.begins(Timestamp(arrival), position, Bytes(length)).0
        };
        assert_eq!(begins(&device, 7, 0, 10), 7);
        assert_eq!(serve(&mut device, 0, 0, 10), 110);
        assert_eq!(begins(&device, 50, 20, 10), 110, "the first channel is at work");
        assert_eq!(begins(&device, 50, 10, 10), 50, "the second one is not");
        assert_eq!(begins(&device, 50, 0, 20), 50, "one of both is not");
        assert_eq!(begins(&device, 200, 0, 10), 200);
        assert_eq!(begins(&device, 50, 0, 0), 50);
    }

    #[test]
    fn a_sequential_stream_is_sequential_on_every_member() {
        let mut device = Device::new(PAIR);
        for request in 0..20 {
            serve(&mut device, 0, request * 7, 7);
        }
        let statistics = device.statistics();
        // The first touch of each member is a seek: the second request covers both.
        assert_eq!((statistics.seeks, statistics.sequential), (2, 18));
        assert_eq!((statistics.requests, statistics.bytes), (20, 140));
    }

    #[test]
    fn a_position_beyond_the_end_wraps_and_nothing_costs_nothing() {
        let mut device = Device::new(PAIR);
        assert_eq!(serve(&mut device, 0, 0, 10), 110);
        assert_eq!(serve(&mut device, 110, 1000, 10), 220);
        assert_eq!(serve(&mut device, 220, u64::MAX, 0), 220);
        assert_eq!(device.statistics().requests, 2);
        serve(&mut device, 300, u64::MAX - 5, u64::MAX);
    }
}
