//! The grid: a spatial hash that finds the live requests a new one shares bytes with, in O(1).
//!
//! A file is divided into granules about as large as its requests, and a request hangs in the
//! chain of each granule it touches. All it holds is requests that conflict with nothing, so a
//! chain has few links; one that would grow beyond [`CHAIN_MAX`] refuses, and so does a request
//! of more than [`GRANULES_MAX`] granules. What is refused goes to the region map instead.
//!
//! A link names its request's slot and no more: ranges are compared in the table, and only where
//! the hashes are equal, which mostly means that the granule is the same.

use alloc::vec::Vec;

use forebay_units::{ByteRange, Bytes, FileIndex};

use crate::guard::is_write;
use crate::table::{NIL, Table};

/// Most granules of a request in the grid.
const GRANULES_MAX: u64 = 4;
/// Most granules looked up for one question; the answer is "perhaps" for a wider range.
const LOOKUPS_MAX: u64 = 64;
/// Most links of a chain.
const CHAIN_MAX: usize = 8;
/// Granules are 4 KiB to 1 GiB.
const SHIFTS: core::ops::RangeInclusive<u32> = 12..=30;

/// What matters about a request here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    pub(crate) file: FileIndex,
    pub(crate) range: ByteRange,
    pub(crate) is_write: bool,
}

impl Extent {
    pub(crate) fn conflicts(&self, other: &Self) -> bool {
        (self.is_write || other.is_write)
            && self.file == other.file
            && self.range.intersects(other.range)
    }
}

#[derive(Clone, Copy, Debug)]
struct Link {
    slot: u32,
    hash: u32,
    /// The next one of its chain, or of the free ones.
    next: u32,
}

impl Link {
    /// Whether its request conflicts with `extent`, which touches a granule of that hash.
    fn conflicts(&self, table: &Table, hash: u32, extent: &Extent) -> bool {
        self.hash == hash
            && (extent.is_write || is_write(table.access(self.slot)))
            && table.file(self.slot) == extent.file
            && table.range(self.slot).intersects(extent.range)
    }
}

/// The grid of all files.
#[derive(Debug)]
pub(crate) struct Grid {
    /// First links; as many as a power of two.
    chains: Vec<u32>,
    links: Vec<Link>,
    first_free: u32,
    link_count: usize,
}

impl Grid {
    pub(crate) const fn new() -> Self {
        Self { chains: Vec::new(), links: Vec::new(), first_free: NIL, link_count: 0 }
    }

    /// The granule size for a file whose requests are of about this length, as a power of two.
    pub(crate) fn shift_for(length: Bytes) -> u32 {
        let shift = u64::BITS - length.0.saturating_sub(1).leading_zeros();
        shift.clamp(*SHIFTS.start(), *SHIFTS.end())
    }

    /// Enters a request, unless it is too wide or a chain too long; whether it did.
    pub(crate) fn insert(&mut self, shift: u32, extent: &Extent, slot: u32) -> bool {
        let granules = granules(shift, extent.range);
        let width = granules.end - granules.start;
        if width > GRANULES_MAX {
            return false;
        }
        self.make_room(width as usize);
        let hashes = granules.map(|granule| hash(extent.file, granule));
        if hashes.clone().any(|hash| self.chain(hash).count() >= CHAIN_MAX) {
            return false;
        }
        for hash in hashes {
            let chain = self.chain_of(hash);
            let link = Link { slot, hash, next: self.chains[chain] };
            self.chains[chain] = self.place(link);
            self.link_count += 1;
        }
        true
    }

    /// Takes a request out again.
    pub(crate) fn remove(&mut self, shift: u32, extent: &Extent, slot: u32) {
        for granule in granules(shift, extent.range) {
            let hash = hash(extent.file, granule);
            let chain = self.chain_of(hash);
            let (mut before, mut at) = (NIL, self.chains[chain]);
            while self.link(at).slot != slot || self.link(at).hash != hash {
                (before, at) = (at, self.link(at).next);
            }
            let next = self.link(at).next;
            match before {
                NIL => self.chains[chain] = next,
                _ => self.links[before as usize].next = next,
            }
            self.links[at as usize].next = core::mem::replace(&mut self.first_free, at);
            self.link_count -= 1;
        }
    }

    /// Appends the slots that conflict with `extent`, some perhaps twice; `false` if the range is
    /// too wide to look.
    pub(crate) fn conflicting(
        &self,
        table: &Table,
        shift: u32,
        extent: &Extent,
        into: &mut Vec<u32>,
    ) -> bool {
        let granules = granules(shift, extent.range);
        if granules.end - granules.start > LOOKUPS_MAX {
            return false;
        }
        for granule in granules {
            let hash = hash(extent.file, granule);
            let links = self.chain(hash).filter(|link| link.conflicts(table, hash, extent));
            into.extend(links.map(|link| link.slot));
        }
        true
    }

    /// Whether something conflicts with `extent`, or the range is too wide to say.
    pub(crate) fn may_conflict(&self, table: &Table, shift: u32, extent: &Extent) -> bool {
        let mut granules = granules(shift, extent.range);
        granules.end - granules.start > LOOKUPS_MAX
            || granules.any(|granule| {
                let hash = hash(extent.file, granule);
                self.chain(hash).any(|link| link.conflicts(table, hash, extent))
            })
    }

    fn link(&self, at: u32) -> &Link {
        &self.links[at as usize]
    }

    fn place(&mut self, link: Link) -> u32 {
        if self.first_free == NIL {
            self.links.push(link);
            return self.links.len() as u32 - 1;
        }
        let at = self.first_free;
        self.first_free = self.link(at).next;
        self.links[at as usize] = link;
        at
    }

    fn chain_of(&self, hash: u32) -> usize {
        hash as usize & (self.chains.len() - 1)
    }

    fn chain(&self, hash: u32) -> impl Iterator<Item = &Link> {
        let mut at = self.chains[self.chain_of(hash)];
        core::iter::from_fn(move || {
            let link = (at != NIL).then(|| self.link(at))?;
            at = link.next;
            Some(link)
        })
    }

    /// Keeps chains short: at least two for every link.
    fn make_room(&mut self, more: usize) {
        if 2 * (self.link_count + more) <= self.chains.len() {
            return;
        }
        let length = (2 * self.chains.len()).max(64);
        let old = core::mem::replace(&mut self.chains, alloc::vec![NIL; length]);
        for mut at in old {
            while at != NIL {
                let Link { hash, next, .. } = *self.link(at);
                let chain = self.chain_of(hash);
                self.links[at as usize].next = core::mem::replace(&mut self.chains[chain], at);
                at = next;
            }
        }
    }
}

fn granules(shift: u32, range: ByteRange) -> core::ops::Range<u64> {
    range.start.0 >> shift..((range.end.0 - 1) >> shift) + 1
}

/// Multiplicative (Knuth, The Art of Computer Programming 6.4), but 64 granules in a row share a
/// few cache lines of chains: those are what a stream, or many interleaved ones, comes to next.
fn hash(file: FileIndex, granule: u64) -> u32 {
    let key = (granule >> 6) ^ u64::from(file.0).rotate_left(40);
    let high = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 38) as u32;
    high << 6 | (granule & 63) as u32
}
