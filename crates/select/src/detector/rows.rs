//! How many servers a file is spread over, from the stripes that one of them sees.

use forebay_units::Bytes;

/// What offsets a scheduler sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Offsets {
    /// Without holes: all of a file, as in a forwarder, or a server's part of it in that part's
    /// own numbers.
    #[default]
    Whole,
    /// A file's own, of which this server has every n-th stripe. The number of servers is learned:
    /// it is what the distances between the stripes seen have in common. Every other access to a
    /// single file that leaves out the same stripes is taken for that.
    Striped,
}

/// Translates a file's offsets to those of the part that this server has.
#[derive(Clone, Debug)]
pub(super) struct Rows {
    stripe: u64,
    /// The greatest common divisor of the distances so far, in stripes: 0 before any is seen.
    servers: u64,
}

impl Rows {
    pub(super) fn new(offsets: Offsets, stripe: Bytes) -> Self {
        let servers = match offsets {
            Offsets::Whole => 1,
            Offsets::Striped => 0,
        };
        Self { stripe: stripe.0.max(1), servers }
    }

    #[inline]
    pub(super) const fn is_whole(&self) -> bool {
        self.servers == 1
    }

    pub(super) const fn stripe_of(&self, offset: u64) -> u64 {
        offset / self.stripe
    }

    /// A file of which `first` is a stripe that this server has also has these here.
    pub(super) fn learn(&mut self, first: u64, start: u64, end: u64, is_dense: bool) {
        let (one, other) = (self.stripe_of(start), self.stripe_of(end.max(start + 1) - 1));
        if is_dense && one != other {
            self.servers = 1;
        }
        for stripe in [one, other] {
            self.servers = common(self.servers, stripe.abs_diff(first));
        }
    }

    /// Where an offset is in this server's part.
    pub(super) fn local(&self, offset: u64) -> u64 {
        match self.servers {
            0 | 1 => offset,
            servers => self.stripe_of(offset) / servers * self.stripe + offset % self.stripe,
        }
    }

    /// Where an end is: after its last byte.
    pub(super) fn local_end(&self, end: u64) -> u64 {
        if self.is_whole() || end == 0 { end } else { self.local(end - 1) + 1 }
    }
}

/// The greatest common divisor, by Euclid; at most 93 steps, and hardly ever more than one.
fn common(mut one: u64, mut other: u64) -> u64 {
    while other != 0 {
        (one, other) = (other, one % other);
    }
    one
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stripes_of_a_server_stand_one_after_the_other() {
        let mut rows = Rows::new(Offsets::Striped, Bytes(32));
        for row in [3, 9, 4, 5] {
            let start = row * 4 * 32 + 2 * 32;
            rows.learn(2, start + 8, start + 32, true);
        }
        assert!(!rows.is_whole());
        assert_eq!(rows.local(64), 0);
        assert_eq!(rows.local_end(96), 32);
        assert_eq!(rows.local(2 * 32 + 4 * 32 + 5), 37);
    }

    #[test]
    fn what_crosses_a_stripe_is_no_servers_part() {
        let mut rows = Rows::new(Offsets::Striped, Bytes(32));
        rows.learn(0, 4 * 32, 4 * 32 + 40, true);
        assert!(rows.is_whole());
        assert_eq!(rows.local_end(168), 168);
    }
}
