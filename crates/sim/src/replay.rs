//! Recorded requests instead of made-up ones: what another policy would have done with them.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use forebay_trace::Recorded;
use forebay_units::{ClassId, ClientId, Nanos, Timestamp};

use crate::workload::Asked;

/// When recorded requests are made again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pace {
    /// At the recorded times, whether or not earlier ones are answered: the load stays as it was.
    Open,
    /// So long after the answer to the request that it followed as its client thought when it was
    /// recorded: a quicker store is asked sooner.
    #[default]
    Closed,
}

/// What stands for "no request".
const NONE: u32 = u32::MAX;

/// A recorded request, with clients numbered from 0 without gaps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line {
    pub(crate) client: u32,
    pub(crate) asked: Asked,
    pub(crate) at: Timestamp,
    pub(crate) think: Nanos,
    is_first: bool,
    /// The first of those that follow it, and the next of those that follow the same one.
    first_follower: u32,
    next_follower: u32,
}

/// Who makes recorded requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Player {
    /// Of its first request: by this it is reported.
    pub(crate) class: ClassId,
    pub(crate) requests: u32,
    pub(crate) started: Timestamp,
}

/// All recorded requests in the order of their times.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    pub(crate) pace: Pace,
    pub(crate) lines: Vec<Line>,
    /// By number; those of one class stand together.
    pub(crate) players: Vec<Player>,
}

impl Script {
    pub(crate) fn new(record: &[Recorded], pace: Pace) -> Self {
        let mut by_client: BTreeMap<ClientId, Player> = BTreeMap::new();
        for recorded in record {
            let first = Player { class: recorded.request.class, requests: 0, started: recorded.at };
            by_client.entry(recorded.request.client).or_insert(first).requests += 1;
        }
        let mut order: Vec<(ClassId, ClientId)> =
            by_client.iter().map(|(client, player)| (player.class, *client)).collect();
        order.sort_unstable();
        let players = order.iter().map(|(_, client)| by_client[client]).collect();
        let numbers: BTreeMap<ClientId, u32> =
            (0..).zip(&order).map(|(number, (_, client))| (*client, number)).collect();
        let mut lines: Vec<Line> = record
            .iter()
            .map(|recorded| Line {
                client: numbers[&recorded.request.client],
                asked: Asked {
                    file: recorded.request.file,
                    access: recorded.request.access,
                    range: recorded.request.range,
                    class: recorded.request.class,
                },
                at: recorded.at,
                think: recorded.think,
                is_first: recorded.after.is_none(),
                first_follower: NONE,
                next_follower: NONE,
            })
            .collect();
        // From the last to the first, so that followers stand in the order of the record.
        for (number, recorded) in record.iter().enumerate().rev() {
            if let Some(after) = recorded.after {
                lines[number].next_follower = lines[after as usize].first_follower;
                lines[after as usize].first_follower = number as u32;
            }
        }
        Self { pace, lines, players }
    }

    /// What is made at a time of its own: at first, and in an open loop after the line `before`.
    pub(crate) fn beginnings(&self) -> impl Iterator<Item = (Timestamp, u32)> + '_ {
        let is_open = self.pace == Pace::Open;
        let numbered = (0..).zip(&self.lines);
        numbered
            .filter(move |(number, line)| if is_open { *number == 0 } else { line.is_first })
            .map(|(number, line)| (line.at, number))
    }

    /// In an open loop, what is made next by time.
    pub(crate) fn next(&self, number: u32) -> Option<(Timestamp, u32)> {
        let next = self.lines.get(number as usize + 1).filter(|_| self.pace == Pace::Open)?;
        Some((next.at, number + 1))
    }

    /// In a closed loop, what is made because a request was answered, and how long after that.
    pub(crate) fn followers(&self, number: u32) -> impl Iterator<Item = (Nanos, u32)> + '_ {
        let first = match self.pace {
            Pace::Open => NONE,
            Pace::Closed => self.lines[number as usize].first_follower,
        };
        let line = |number: u32| self.lines.get(number as usize).map(|line| (line.think, number));
        core::iter::successors(line(first), move |(_, number)| {
            line(self.lines[*number as usize].next_follower)
        })
    }
}
