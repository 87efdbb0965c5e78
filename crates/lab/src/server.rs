//! The daemon's loop: one thread between the kernel's requests and the drive.
//!
//! ```text
//!   /dev/fuse ──► the disk's file ──► Drive ──done──► answer, with the data as it is then
//!   control   ──► commands, statistics ──► answered at once
//!   alarm: the absolute time at which the request at work is done
//! ```
//!
//! A write's data is taken over when it arrives and acknowledged when the drive is done with it.
//! The block layer never has two requests for the same bytes at the device at once, so nobody can
//! tell the difference.
//!
//! One thread, because several would reorder the pieces of one large request (12 % slower).

use std::io::IoSlice;

use forebay_units::{Bytes, Direction, Timestamp};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use crate::clock::{Alarm, Clock};
use crate::contents::Contents;
use crate::control::{Command, Control};
use crate::drive::{Drive, Operation};
use crate::error::Error;
use crate::fuse::connection::{Connection, Message};
use crate::fuse::reply::{self, Attributes};
use crate::fuse::request::{Body, Request};
use crate::fuse::{ROOT, TRANSFER_BYTES_MAX};
use crate::settings::Settings;
use crate::statistics::Statistics;

/// The file that is the disk.
pub(crate) const DISK_FILE: &str = "disk";
const DISK: u64 = 2;

const ENTRIES: &[(u64, &str)] = &[(ROOT, "."), (ROOT, ".."), (DISK, DISK_FILE)];

/// How a request of the drive is answered.
#[derive(Clone, Copy, Debug)]
enum Ticket {
    Read { unique: u64, offset: u64, length: u32 },
    Written { unique: u64, length: u32 },
    Synced { unique: u64 },
}

/// A disk and the kernel's connection to it.
pub(crate) struct Server {
    connection: Connection,
    control: Control,
    clock: Clock,
    disk: Disk,
}

/// What there is behind the connection.
struct Disk {
    contents: Contents,
    drive: Drive<Ticket>,
    is_charged: bool,
    answers: u64,
    oversleep: Oversleep,
    free: u64,
}

/// Real nanoseconds by which answers were late.
#[derive(Default)]
struct Oversleep {
    sum: u64,
    max: u64,
}

/// What is done with a request.
enum Answer {
    Now(Vec<u8>),
    Bytes { unique: u64, offset: u64, length: u32 },
    Later,
    None,
}

impl Server {
    /// A disk of zeros whose file system is mounted already. It is free until told otherwise.
    pub(crate) fn new(
        settings: &Settings,
        connection: Connection,
        control: Control,
    ) -> Result<Self, Error> {
        let disk = Disk {
            contents: Contents::new(settings.bytes),
            drive: Drive::new(settings.device()?, settings.reorder),
            is_charged: false,
            answers: 0,
            oversleep: Oversleep::default(),
            free: 0,
        };
        Ok(Self { connection, control, clock: Clock::start(settings.scale()?), disk })
    }

    /// Serves until the file system is unmounted.
    ///
    /// # Errors
    /// What the kernel says to reading or answering requests, or to waiting.
    pub(crate) fn run(mut self) -> Result<(), Errno> {
        let mut alarm = Alarm::new()?;
        loop {
            if !self.receive()? {
                return Ok(());
            }
            self.answer_what_is_done()?;
            let (clock, disk) = (&self.clock, &mut self.disk);
            self.control.answer(|command| disk.carry_out(clock.now(), command));
            alarm.set(&self.clock, self.disk.drive.next_done())?;
            let mut watched = [
                PollFd::new(&self.connection, PollFlags::IN),
                PollFd::new(&self.control, PollFlags::IN),
                PollFd::new(&alarm, PollFlags::IN),
            ];
            match poll(&mut watched, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
    }

    /// Takes the requests that are there, but answers what is due in between. Whether there will be more.
    fn receive(&mut self) -> Result<bool, Errno> {
        loop {
            let message = match self.connection.receive()? {
                Message::Request(message) => message,
                Message::Nothing => return Ok(true),
                Message::Unmounted => return Ok(false),
            };
            let now = self.clock.now();
            let answer = match Request::decode(message) {
                Ok(request) => self.disk.take(now, &request),
                // Without a whole header there is nobody to answer.
                Err(_) => Answer::None,
            };
            self.send(&answer)?;
            if self.disk.drive.next_done().is_some_and(|due| due <= now) {
                self.answer_what_is_done()?;
            }
        }
    }

    fn send(&self, answer: &Answer) -> Result<(), Errno> {
        match answer {
            Answer::Now(bytes) => self.connection.send(&[IoSlice::new(bytes)]),
            Answer::Bytes { unique, offset, length } => {
                let pieces = self.disk.contents.read(*offset, *length as usize);
                let header = reply::header(*unique, pieces.iter().map(|piece| piece.len()).sum());
                let mut parts = vec![IoSlice::new(&header)];
                parts.extend(pieces);
                self.connection.send(&parts)
            }
            Answer::Later | Answer::None => Ok(()),
        }
    }

    fn answer_what_is_done(&mut self) -> Result<(), Errno> {
        loop {
            let now = self.clock.now();
            let Some((due, ticket)) = self.disk.drive.take_done(now) else { return Ok(()) };
            self.disk.answers += 1;
            self.disk.oversleep.count(self.clock.real_between(due, now));
            self.send(&ticket.answer())?;
        }
    }
}

impl Ticket {
    fn answer(self) -> Answer {
        match self {
            Self::Read { unique, offset, length } => Answer::Bytes { unique, offset, length },
            Self::Written { unique, length } => Answer::Now(reply::written(unique, length)),
            Self::Synced { unique } => Answer::Now(reply::done(unique)),
        }
    }
}

impl Oversleep {
    fn count(&mut self, ns: u64) {
        self.sum += ns;
        self.max = self.max.max(ns);
    }
}

impl Disk {
    /// Takes a request: to the drive if it is for the disk, else it is answered at once.
    fn take(&mut self, now: Timestamp, request: &Request<'_>) -> Answer {
        let Request { unique, node, body } = *request;
        let failed = |errno| Answer::Now(reply::error(unique, errno));
        match body {
            Body::Init { major, minor, read_ahead_bytes, features } => match major {
                7 => Answer::Now(reply::init(unique, minor, read_ahead_bytes, features)),
                _ => failed(Errno::PROTO),
            },
            Body::Lookup { name } => {
                let named = |entry: &&(u64, &str)| entry.1.as_bytes() == name;
                match ENTRIES.iter().find(named) {
                    Some((found, _)) => Answer::Now(reply::entry(unique, self.attributes(*found))),
                    None => failed(Errno::NOENT),
                }
            }
            Body::Attributes | Body::SetAttributes => {
                Answer::Now(reply::attributes(unique, self.attributes(node)))
            }
            Body::Open => Answer::Now(reply::opened(unique)),
            Body::OpenDirectory => Answer::Now(reply::opened_directory(unique)),
            Body::ReadDirectory { offset } => {
                Answer::Now(reply::directory(unique, offset, ENTRIES))
            }
            Body::Usage => Answer::Now(reply::usage(unique, self.contents.bytes())),
            Body::Close | Body::Destroy => Answer::Now(reply::done(unique)),
            Body::Unanswered => Answer::None,
            Body::Unsupported => failed(Errno::NOSYS),
            Body::Sync if node != DISK => Answer::Now(reply::done(unique)),
            Body::Sync => self.work(now, Operation::Sync, Ticket::Synced { unique }),
            Body::Read { offset, length } if node == DISK => {
                self.transfer(now, Direction::Read, offset, u64::from(length), |length| {
                    Ticket::Read { unique, offset, length }
                })
            }
            Body::Read { .. } => Answer::Now(reply::bytes(unique, b"")),
            Body::Write { offset, data } if node == DISK => {
                let length = self.contents.write(offset, data) as u64;
                self.transfer(now, Direction::Write, offset, length, |length| Ticket::Written {
                    unique,
                    length,
                })
            }
            Body::Write { .. } => failed(Errno::ACCESS),
        }
    }

    /// A transfer of the bytes that exist.
    fn transfer(
        &mut self,
        now: Timestamp,
        direction: Direction,
        position: u64,
        length: u64,
        ticket: impl FnOnce(u32) -> Ticket,
    ) -> Answer {
        let left = self.contents.bytes().saturating_sub(position);
        let length = length.min(left).min(TRANSFER_BYTES_MAX as u64);
        let ticket = ticket(length as u32);
        if length == 0 {
            return ticket.answer();
        }
        let operation = Operation::Transfer { direction, position, length: Bytes(length) };
        self.work(now, operation, ticket)
    }

    fn work(&mut self, now: Timestamp, operation: Operation, ticket: Ticket) -> Answer {
        // What has reached the drive before is finished at its pace; a sync waits for that.
        if !self.is_charged && (self.drive.is_idle() || operation != Operation::Sync) {
            self.free += 1;
            return ticket.answer();
        }
        self.drive.submit(now, operation, ticket);
        Answer::Later
    }

    /// What it has done so far, as JSON.
    fn carry_out(&mut self, now: Timestamp, command: Command) -> Vec<u8> {
        match command {
            Command::Charge => self.is_charged = true,
            Command::Free => self.is_charged = false,
            Command::ForgetMaxima => {
                self.drive.forget_depth_max();
                self.oversleep.max = 0;
            }
            Command::Statistics => {}
        }
        let statistics = Statistics {
            answers: self.answers,
            oversleep_real_ns: self.oversleep.sum,
            oversleep_max_real_ns: self.oversleep.max,
            free: self.free,
            resident_bytes: self.contents.resident_bytes(),
            ..self.drive.statistics(now)
        };
        serde_json::to_vec(&statistics).expect("statistics are numbers")
    }

    fn attributes(&self, node: u64) -> Attributes {
        let bytes = if node == DISK { self.contents.bytes() } else { 0 };
        Attributes { node, is_directory: node == ROOT, bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Reorder;
    use forebay_device::Profile;

    fn disk() -> Disk {
        Disk {
            contents: Contents::new(64 << 20),
            drive: Drive::new(Profile::by_name("hdd-57").unwrap(), Reorder::Fifo),
            is_charged: true,
            answers: 0,
            oversleep: Oversleep::default(),
            free: 0,
        }
    }

    #[test]
    fn a_disk_that_takes_no_time_does_not_wait_for_what_it_has_begun_with() {
        let mut disk = disk();
        let now = Timestamp(0);
        let write =
            |unique| Request { unique, node: DISK, body: Body::Write { offset: 0, data: b"x" } };
        let sync = |unique| Request { unique, node: DISK, body: Body::Sync };
        assert!(matches!(disk.take(now, &write(1)), Answer::Later));
        disk.carry_out(now, Command::Free);
        assert!(matches!(disk.take(now, &write(2)), Answer::Now(_)));
        // What was promised before is kept first.
        assert!(matches!(disk.take(now, &sync(3)), Answer::Later));
        let due = disk.drive.next_done().unwrap();
        while disk.drive.take_done(due).is_some() {}
        assert!(matches!(disk.take(due, &sync(4)), Answer::Now(_)));
        disk.carry_out(due, Command::Charge);
        assert!(matches!(disk.take(due, &write(5)), Answer::Later));
        let said = disk.carry_out(due, Command::Statistics);
        let statistics: Statistics = serde_json::from_slice(&said).unwrap();
        assert_eq!((statistics.free, statistics.writes, statistics.syncs), (2, 2, 1));
    }
}
