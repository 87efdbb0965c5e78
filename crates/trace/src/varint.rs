//! Numbers of one to ten bytes: seven bits a byte, lowest first, the top bit says that more follow.
//!
//! Source: LEB128, as in DWARF 5, section 7.6. Differences of either sign are folded to
//! 0, -1, 1, -2, … ("zigzag") first, so that small ones stay small.

use alloc::vec::Vec;

/// Most bytes of one number.
pub(crate) const BYTES_MAX: usize = 10;

/// Where bytes are written.
pub(crate) trait Pen {
    fn byte(&mut self, byte: u8);
}

impl Pen for Vec<u8> {
    #[inline]
    fn byte(&mut self, byte: u8) {
        self.push(byte);
    }
}

/// Room for a short event, to be copied behind the others at once: a byte at a time into a vector
/// would cost a look at its capacity for each.
pub(crate) struct Scratch {
    bytes: [u8; Self::BYTES],
    count: usize,
}

impl Scratch {
    /// A power of two.
    pub(crate) const BYTES: usize = 64;

    #[inline]
    pub(crate) fn new() -> Self {
        Self { bytes: [0; Self::BYTES], count: 0 }
    }

    #[inline]
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    #[inline]
    pub(crate) fn set(&mut self, at: usize, byte: u8) {
        self.bytes[at % Self::BYTES] = byte;
    }

    /// Appends all of it; there must be room for [`Scratch::BYTES`].
    #[inline]
    pub(crate) fn append_to(&self, into: &mut Vec<u8>) {
        debug_assert!(self.count <= Self::BYTES);
        let end = into.len() + self.count;
        // A copy of fixed length is a few instructions, one of variable length a call.
        into.extend_from_slice(&self.bytes);
        into.truncate(end);
    }
}

impl Pen for Scratch {
    #[inline]
    fn byte(&mut self, byte: u8) {
        self.bytes[self.count % Self::BYTES] = byte;
        self.count += 1;
    }
}

/// Appends a number.
#[inline]
pub(crate) fn put(into: &mut impl Pen, mut number: u64) {
    while number >= 0x80 {
        into.byte(number as u8 | 0x80);
        number >>= 7;
    }
    into.byte(number as u8);
}

/// Appends the difference `to - from`, which may be negative and may wrap.
#[inline]
pub(crate) fn put_difference(into: &mut impl Pen, from: u64, to: u64) {
    let difference = to.wrapping_sub(from).cast_signed();
    put(into, ((difference << 1) ^ (difference >> 63)).cast_unsigned());
}

/// Appends a length of at most 2^21 - 1 in exactly three bytes, or of at most 127 in one.
#[inline]
pub(crate) fn set_length(into: &mut [u8], at: usize, reserved: usize, length: usize) {
    debug_assert!(length < 1 << (7 * reserved));
    for byte in 0..reserved {
        let more = if byte + 1 < reserved { 0x80 } else { 0 };
        into[at + byte] = (length >> (7 * byte)) as u8 & 0x7f | more;
    }
}

/// Bytes being taken apart. Every `take_` is `None` when they end too soon or make no number of 64 bits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bits<'a> {
    pub(crate) bytes: &'a [u8],
}

impl<'a> Bits<'a> {
    pub(crate) fn take(&mut self) -> Option<u64> {
        let mut number = 0;
        for at in 0..BYTES_MAX {
            let byte = *self.bytes.get(at)?;
            let bits = u64::from(byte & 0x7f);
            if at == BYTES_MAX - 1 && bits > 1 {
                return None;
            }
            number |= bits << (7 * at);
            if byte & 0x80 == 0 {
                self.bytes = &self.bytes[at + 1..];
                return Some(number);
            }
        }
        None
    }

    /// The number that lies as far from `from` as was written.
    pub(crate) fn take_from(&mut self, from: u64) -> Option<u64> {
        let folded = self.take()?;
        Some(from.wrapping_add((folded >> 1) ^ (folded & 1).wrapping_neg()))
    }

    pub(crate) fn take_u32(&mut self) -> Option<u32> {
        self.take()?.try_into().ok()
    }

    pub(crate) fn take_byte(&mut self) -> Option<u8> {
        let (first, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        Some(*first)
    }

    pub(crate) fn take_bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (front, rest) = self.bytes.split_at_checked(count)?;
        self.bytes = rest;
        Some(front)
    }

    /// A text with its length in front; what is not UTF-8 makes it `None`.
    pub(crate) fn take_text(&mut self) -> Option<&'a str> {
        let length = usize::try_from(self.take()?).ok()?;
        core::str::from_utf8(self.take_bytes(length)?).ok()
    }
}

/// Appends a text with its length in front.
pub(crate) fn put_text(into: &mut Vec<u8>, text: &str) {
    put(into, text.len() as u64);
    into.extend_from_slice(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    const NUMBERS: [u64; 8] = [0, 1, 127, 128, 16_383, 16_384, u64::MAX - 1, u64::MAX];

    #[test]
    fn numbers_come_back() {
        for number in NUMBERS {
            let mut bytes = Vec::new();
            put(&mut bytes, number);
            assert!(bytes.len() <= BYTES_MAX);
            assert_eq!(Bits { bytes: &bytes }.take(), Some(number));
            bytes.pop();
            assert_eq!(Bits { bytes: &bytes }.take(), None);
        }
    }

    #[test]
    fn differences_come_back_and_small_ones_are_short() {
        for from in NUMBERS {
            for to in NUMBERS {
                let mut bytes = Vec::new();
                put_difference(&mut bytes, from, to);
                assert_eq!(Bits { bytes: &bytes }.take_from(from), Some(to));
                let distance = to.wrapping_sub(from).cast_signed().unsigned_abs();
                assert!(distance > 63 || bytes.len() == 1, "{from} {to}");
            }
        }
    }

    #[test]
    fn a_number_beyond_64_bits_is_none() {
        assert_eq!(Bits { bytes: &[0xff; 12] }.take(), None);
        let mut bytes = [0xff; 10];
        bytes[9] = 2;
        assert_eq!(Bits { bytes: &bytes }.take(), None);
    }

    #[test]
    fn a_length_of_fixed_width_reads_as_a_number() {
        for (reserved, length) in [(1, 127), (3, 0), (3, 127), (3, 300), (3, (1 << 21) - 1)] {
            let mut bytes = [0; 3];
            set_length(&mut bytes, 0, reserved, length);
            assert_eq!(Bits { bytes: &bytes[..reserved] }.take(), Some(length as u64));
        }
    }
}
