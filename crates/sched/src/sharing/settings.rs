//! What sharing is told: the discipline, what a batch costs, and each class's and group's share.

use core::fmt;
use core::str::FromStr;

use forebay_units::{Bytes, Direction, Nanos, Timestamp};

use crate::policies::sw::SwSettings;

/// What a [`Shares`](super::Shares) is made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharingSettings {
    /// Who goes next among classes that may all go.
    pub discipline: Discipline,
    /// What a batch costs.
    pub cost: CostModel,
    /// Cost that a class of weight 1 may spend in one DRR turn, and how far a class that waits for a
    /// better batch may fall behind and still catch up. Both are multiplied by the weight. At least
    /// 1; about what a large batch costs, in the unit of `cost`.
    pub quantum: u64,
    /// A class beyond a limit that may borrow does so only while fewer requests than this are in
    /// flight. At least 1: the device would idle otherwise.
    pub lend_below: u32,
    /// Cost that the device carries in a second, to hold reservations against; not checked if `None`.
    pub capacity: Option<u64>,
}

impl Default for SharingSettings {
    /// SFQ(D) by bytes, quantum 1 MiB, lending only to keep the device from idling.
    fn default() -> Self {
        Self {
            discipline: Discipline::Sfq,
            cost: CostModel::BYTES,
            quantum: 1 << 20,
            lend_below: 1,
            capacity: None,
        }
    }
}

/// Who goes next among classes that may all go.
///
/// Limits stand before every discipline, and reservations before SFQ(D) and DRR: token buckets are
/// limits under either of these, dmClock is reservations and limits under SFQ(D).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discipline {
    /// Start-time fair queueing at any depth.
    Sfq,
    /// Deficit round robin, SURPLUS rule.
    Drr,
    /// Time windows: a class is a data server. Groups and reservations are not looked at, and
    /// limits do not lend.
    Twins(TwinsSettings),
    /// Windows of arrival: what came in an earlier one goes first, and of one window the classes go
    /// in the order of their numbers. Groups, weights and reservations are not looked at; limits
    /// are, and strict they do not lend.
    Sw(SwSettings),
}

impl Discipline {
    /// Every discipline as settings begin with it, in the order of the tables.
    pub const ALL: [Self; 4] =
        [Self::Sfq, Self::Drr, Self::Twins(TwinsSettings::DEFAULT), Self::Sw(SwSettings::DEFAULT)];

    /// The name as it is written, whatever its windows are.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Sfq => "sfq",
            Self::Drr => "drr",
            Self::Twins(_) => "twins",
            Self::Sw(_) => "sw",
        }
    }

    /// Whether time decides, not shares: groups, weights and reservations are not looked at then.
    pub const fn has_windows(&self) -> bool {
        matches!(self, Self::Twins(_) | Self::Sw(_))
    }

    /// Whether who is at a soft limit may go while the device would idle.
    pub(super) const fn lends(&self) -> bool {
        match self {
            Self::Sfq | Self::Drr => true,
            Self::Twins(_) => false,
            Self::Sw(settings) => !settings.is_strict,
        }
    }

    /// The windows of arrival, under SW.
    pub const fn sw(&self) -> Option<SwSettings> {
        match self {
            Self::Sw(settings) => Some(*settings),
            Self::Sfq | Self::Drr | Self::Twins(_) => None,
        }
    }
}

impl fmt::Display for Discipline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The text names no discipline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownDiscipline;

impl fmt::Display for UnknownDiscipline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("unknown discipline; one of")?;
        for (index, discipline) in Discipline::ALL.iter().enumerate() {
            write!(f, "{} {discipline}", if index == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl core::error::Error for UnknownDiscipline {}

impl FromStr for Discipline {
    type Err = UnknownDiscipline;

    /// Reads a name, with windows as they are by default; upper and lower case are the same.
    fn from_str(text: &str) -> Result<Self, UnknownDiscipline> {
        Self::ALL
            .into_iter()
            .find(|discipline| discipline.as_str().eq_ignore_ascii_case(text))
            .ok_or(UnknownDiscipline)
    }
}

/// The windows of TWINS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TwinsSettings {
    /// Length of a window; not zero. AGIOS: 1 ms built in, 2 ms in its sample configuration.
    pub window: Nanos,
    /// How many data servers take turns, at least 1; class `c` is server `c mod targets`.
    pub targets: u32,
    /// Moves this node's turns, so that several nodes start at different servers.
    pub shift: u32,
    /// When window 0 begins. The same on all nodes keeps their windows aligned.
    pub start: Timestamp,
    /// What happens while the server whose window it is has nothing to do.
    pub idle: WindowIdle,
}

impl TwinsSettings {
    const DEFAULT: Self = Self {
        window: Nanos::millis(1),
        targets: 1,
        shift: 0,
        start: Timestamp(0),
        idle: WindowIdle::Strict,
    };
}

impl Default for TwinsSettings {
    /// Strict windows of 1 ms, and one server.
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// What happens while the server whose window it is has nothing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowIdle {
    /// Nothing: other servers wait for their windows.
    Strict,
    /// Once it has had nothing for so long, the next server in turn that has something goes.
    LendAfter(Nanos),
}

/// What a batch costs, in units that the embedder chooses: cost = per batch + per request · n + per MiB · length.
///
/// With nanoseconds of the device's time as the unit, classes share the device's time, whatever
/// their requests look like. A quotient is rounded up, and nothing costs less than 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CostModel {
    /// Of batches that read.
    pub read: Tariff,
    /// Of batches that write, syncs and appends included.
    pub write: Tariff,
}

/// One direction of a [`CostModel`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tariff {
    /// Cost of a batch as such: what the device needs to get there.
    pub per_batch: u64,
    /// Cost of each request of a batch.
    pub per_request: u64,
    /// Cost of 2^20 bytes.
    pub per_mib: u64,
}

impl CostModel {
    /// One unit is one byte.
    pub const BYTES: Self = Self::both(Tariff { per_batch: 0, per_request: 0, per_mib: 1 << 20 });
    /// One unit is one request.
    pub const OPS: Self = Self::both(Tariff { per_batch: 0, per_request: 1, per_mib: 0 });

    /// The same for reads and writes.
    pub const fn both(tariff: Tariff) -> Self {
        Self { read: tariff, write: tariff }
    }

    /// What `work` costs, at least 1.
    pub fn cost(&self, work: Work) -> u64 {
        let tariff = match work.direction {
            Direction::Read => self.read,
            Direction::Write => self.write,
        };
        let requests = tariff.per_request.saturating_mul(u64::from(work.requests));
        let bytes = (u128::from(work.bytes.0) * u128::from(tariff.per_mib)).div_ceil(1 << 20);
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        tariff.per_batch.saturating_add(requests).saturating_add(bytes).max(1)
    }
}

/// What was dispatched in one piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// Which way the data goes; syncs, appends and truncations write.
    pub direction: Direction,
    /// Requests in it.
    pub requests: u32,
    /// Bytes in it; 0 where they are not known yet.
    pub bytes: Bytes,
}

/// A group of classes: a user above jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(pub u32);

/// The share of a class among its siblings, or of a group among groups and classes without one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Its part in proportion to the others': 1 to [`Share::WEIGHT_MAX`].
    pub weight: u32,
    /// Most requests a second.
    pub ops: Option<Rate>,
    /// Most bytes a second.
    pub bytes: Option<Rate>,
    /// Most cost a second (dmClock's limit).
    pub cost: Option<Rate>,
    /// What happens at a limit when nobody else may go.
    pub at_limit: AtLimit,
}

impl Share {
    /// The largest weight.
    pub const WEIGHT_MAX: u32 = 1_000_000;
}

impl Default for Share {
    /// Weight 1, no limit.
    fn default() -> Self {
        Self { weight: 1, ops: None, bytes: None, cost: None, at_limit: AtLimit::Borrow }
    }
}

/// What happens to a class at its limit while the device would idle.
///
/// Hard limits are kept whoever else is there; soft ones only hold a class back for others. A
/// class in a group borrows only if its group does too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AtLimit {
    /// Soft: it goes on credit, which it pays back as soon as others want the device.
    #[default]
    Borrow,
    /// Hard: it waits.
    Wait,
}

/// A limit: so much in any second, and so much at once after a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Units a second: 1 to [`Rate::MAX`].
    pub per_second: u64,
    /// Units that may go at once: 0 to [`Rate::MAX`]. A larger batch goes too, and is waited for afterwards.
    pub burst: u64,
}

impl Rate {
    /// The largest rate and the largest burst.
    pub const MAX: u64 = 1_000_000_000_000_000;

    /// So many requests a second, with the burst of 3 that Lustre's token buckets have.
    pub const fn ops(per_second: u64) -> Self {
        Self { per_second, burst: 3 }
    }

    /// So many bytes a second, with a burst of 1 MiB.
    pub const fn bytes(per_second: u64) -> Self {
        Self { per_second, burst: 1 << 20 }
    }
}

/// All about one class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassShare {
    /// Its share among its siblings.
    pub share: Share,
    /// Cost a second that it gets before weights are looked at (dmClock's reservation); 0 for none.
    /// At most the limit by cost, if there is one.
    pub reservation: u64,
    /// The group it belongs to; beside the groups if `None`.
    pub group: Option<GroupId>,
}

/// Why a share was refused; nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShareError {
    /// The weight is not in range.
    Weight(u32),
    /// A rate is not in range.
    Rate(u64),
    /// A burst is not in range.
    Burst(u64),
    /// The reservation is not in range.
    Reservation(u64),
    /// The reservation is above the limit by cost.
    ReservationAboveLimit {
        /// What was to be reserved, cost a second.
        reservation: u64,
        /// What the limit allows, cost a second.
        limit: u64,
    },
}

impl fmt::Display for ShareError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Weight(weight) => {
                write!(f, "weight {weight} is not in 1 to {}", Share::WEIGHT_MAX)
            }
            Self::Rate(rate) => {
                write!(
                    f,
                    "limit {rate} is not in 1 to {} a second; leave it out for none",
                    Rate::MAX
                )
            }
            Self::Burst(burst) => write!(f, "burst {burst} is above {}", Rate::MAX),
            Self::Reservation(cost) => write!(f, "reservation {cost} is above {}", Rate::MAX),
            Self::ReservationAboveLimit { reservation, limit } => write!(
                f,
                "reservation {reservation} is above the limit of {limit} by cost; lower it or raise the limit"
            ),
        }
    }
}

impl core::error::Error for ShareError {}

impl Share {
    /// Whether every number is in range.
    pub fn check(&self) -> Result<(), ShareError> {
        if !(1..=Self::WEIGHT_MAX).contains(&self.weight) {
            return Err(ShareError::Weight(self.weight));
        }
        for rate in [self.ops, self.bytes, self.cost].into_iter().flatten() {
            if !(1..=Rate::MAX).contains(&rate.per_second) {
                return Err(ShareError::Rate(rate.per_second));
            }
            if rate.burst > Rate::MAX {
                return Err(ShareError::Burst(rate.burst));
            }
        }
        Ok(())
    }
}

impl ClassShare {
    /// Whether every number is in range and the reservation below the limit.
    pub fn check(&self) -> Result<(), ShareError> {
        self.share.check()?;
        if self.reservation > Rate::MAX {
            return Err(ShareError::Reservation(self.reservation));
        }
        match self.share.cost {
            Some(limit) if self.reservation > limit.per_second => {
                Err(ShareError::ReservationAboveLimit {
                    reservation: self.reservation,
                    limit: limit.per_second,
                })
            }
            _ => Ok(()),
        }
    }
}
