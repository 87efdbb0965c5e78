//! Where a file's bytes are: striped over servers, and one file after the other on each device.

use alloc::vec::Vec;

use forebay_units::{ByteRange, Bytes, FileIndex, Offset};

/// Files begin at multiples of this on a device.
const ALIGNMENT: u64 = 1 << 20;

/// How a file is spread, and in which pieces it travels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    pub(crate) servers: u32,
    pub(crate) stripe: Bytes,
    /// The most that one message carries.
    pub(crate) transfer: Option<Bytes>,
}

impl Layout {
    /// Everything at one place.
    pub(crate) const fn whole(transfer: Option<Bytes>) -> Self {
        Self { servers: 1, stripe: Bytes(1), transfer }
    }

    /// The server of a byte.
    pub(crate) fn server_of(&self, offset: Offset) -> u32 {
        match self.servers {
            1 => 0,
            _ => ((offset.0 / self.stripe.0) % u64::from(self.servers)) as u32,
        }
    }

    /// Of a file's bytes before `offset`, how many are on the server.
    fn before(&self, server: u32, offset: Offset) -> u64 {
        if self.servers == 1 {
            return offset.0;
        }
        let row = self.stripe.0 * u64::from(self.servers);
        let in_row = (offset.0 % row).saturating_sub(u64::from(server) * self.stripe.0);
        offset.0 / row * self.stripe.0 + in_row.min(self.stripe.0)
    }

    /// The part of a range that is on the server: contiguous there, like every part of a range.
    pub(crate) fn on_server(&self, server: u32, range: ByteRange) -> ByteRange {
        ByteRange {
            start: Offset(self.before(server, range.start)),
            end: Offset(self.before(server, range.end)),
        }
    }
}

/// The pieces of a range that are still to be sent: server by server, beginning where the range begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pieces {
    range: ByteRange,
    /// Servers that are finished.
    servers_done: u32,
    /// Where the next piece starts on the present server; its first byte there if `None`.
    position: Option<Offset>,
    /// To every server, in one piece: what concerns a file and not its bytes.
    is_broadcast: bool,
}

impl Pieces {
    pub(crate) fn new(range: ByteRange) -> Self {
        Self { range, servers_done: 0, position: None, is_broadcast: false }
    }

    pub(crate) fn broadcast(range: ByteRange) -> Self {
        Self { is_broadcast: true, ..Self::new(range) }
    }

    /// The next piece: a server, and a range of the file's part that it has.
    pub(crate) fn next(&mut self, layout: &Layout) -> Option<(u32, ByteRange)> {
        let first = u64::from(layout.server_of(self.range.start));
        while self.servers_done < layout.servers {
            let server =
                ((first + u64::from(self.servers_done)) % u64::from(layout.servers)) as u32;
            let whole = layout.on_server(server, self.range);
            if self.is_broadcast {
                self.servers_done += 1;
                return Some((server, whole));
            }
            let start = self.position.unwrap_or(whole.start);
            if start >= whole.end {
                (self.servers_done, self.position) = (self.servers_done + 1, None);
                continue;
            }
            let end = match layout.transfer {
                Some(transfer) => whole.end.min(start + transfer),
                None => whole.end,
            };
            self.position = Some(end);
            return Some((server, ByteRange { start, end }));
        }
        None
    }

    /// Whether every piece was taken.
    pub(crate) fn is_empty(mut self, layout: &Layout) -> bool {
        self.next(layout).is_none()
    }
}

/// The first position of every file on a device.
#[derive(Clone, Debug, Default)]
pub(crate) struct Placement {
    starts: Vec<u64>,
}

impl Placement {
    /// Files of the given sizes, one after the other, spread by `layout`.
    pub(crate) fn new(sizes: impl Iterator<Item = Bytes>, layout: &Layout) -> Self {
        let mut next = 0u64;
        let starts = sizes.map(|size| {
            let start = next;
            let share = size.0.div_ceil(u64::from(layout.servers)).saturating_add(layout.stripe.0);
            let room = share.div_ceil(ALIGNMENT).saturating_mul(ALIGNMENT);
            next = next.saturating_add(room);
            start
        });
        Self { starts: starts.collect() }
    }

    /// The position of a byte of a file.
    pub(crate) fn position(&self, file: FileIndex, offset: Offset) -> u64 {
        let start = self.starts.get(file.0 as usize).copied().unwrap_or_default();
        start.saturating_add(offset.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(layout: Layout, start: u64, length: u64) -> Vec<(u32, u64, u64)> {
        let mut pieces = Pieces::new(ByteRange::new(Offset(start), Bytes(length)));
        core::iter::from_fn(|| pieces.next(&layout))
            .map(|(server, range)| (server, range.start.0, range.end.0))
            .collect()
    }

    #[test]
    fn a_range_is_contiguous_on_every_server() {
        let layout = Layout { servers: 4, stripe: Bytes(32), transfer: None };
        assert_eq!(pieces(layout, 0, 256), [(0, 0, 64), (1, 0, 64), (2, 0, 64), (3, 0, 64)]);
        assert_eq!(pieces(layout, 40, 40), [(1, 8, 32), (2, 0, 16)]);
        assert_eq!(pieces(layout, 5, 10), [(0, 5, 15)]);
    }

    #[test]
    fn what_is_longer_than_a_message_is_split() {
        let layout = Layout { servers: 2, stripe: Bytes(32), transfer: Some(Bytes(24)) };
        let expected = [(1, 0, 24), (1, 24, 48), (1, 48, 64), (0, 32, 56), (0, 56, 64)];
        assert_eq!(pieces(layout, 32, 96), expected);
        assert_eq!(pieces(Layout::whole(Some(Bytes(8))), 3, 10), [(0, 3, 11), (0, 11, 13)]);
    }

    #[test]
    fn the_pieces_of_any_range_have_all_its_bytes() {
        for transfer in [None, Some(Bytes(7)), Some(Bytes(100))] {
            let layout = Layout { servers: 3, stripe: Bytes(10), transfer };
            for (start, length) in [(0, 1), (0, 1000), (9, 2), (33, 64), (29, 31)] {
                let sum: u64 = pieces(layout, start, length).iter().map(|(_, a, b)| b - a).sum();
                assert_eq!(sum, length);
            }
        }
    }

    #[test]
    fn what_concerns_a_file_goes_to_every_server_with_what_it_has_of_it() {
        let layout = Layout { servers: 3, stripe: Bytes(10), transfer: None };
        let pieces = |range| {
            let mut pieces = Pieces::broadcast(range);
            core::iter::from_fn(|| pieces.next(&layout)).collect::<Vec<_>>()
        };
        // From byte 45 on: the second server has 10 to 19 and 40 to 49 of the file.
        let rest = pieces(ByteRange::from_start(Offset(45)));
        let starts: Vec<_> = rest.iter().map(|(server, range)| (*server, range.start.0)).collect();
        assert_eq!(starts, [(1, 15), (2, 10), (0, 20)]);
        let last = layout.on_server(1, ByteRange::new(Offset(45), Bytes(1)));
        assert!(rest[0].1.intersects(last), "it meets what it is about");
        assert_eq!(pieces(ByteRange::default()).len(), 3, "a sync has no bytes");
    }

    #[test]
    fn files_do_not_overlap_on_a_device() {
        let layout = Layout { servers: 4, stripe: Bytes::kib(32), transfer: None };
        let placement =
            Placement::new([Bytes::mib(4), Bytes(1), Bytes::mib(8)].into_iter(), &layout);
        assert_eq!(placement.starts, [0, 2 << 20, 3 << 20]);
        assert_eq!(placement.position(FileIndex(1), Offset(5)), (2 << 20) + 5);
    }
}
