//! External data representation: numbers with the large end first, everything padded to four bytes (RFC 4506).

/// Builds a message.
#[derive(Default)]
pub(crate) struct Encoder(pub(crate) Vec<u8>);

impl Encoder {
    pub(crate) fn u32(&mut self, value: u32) -> &mut Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    pub(crate) fn u64(&mut self, value: u64) -> &mut Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    /// Bytes with their length before them.
    pub(crate) fn opaque(&mut self, bytes: &[u8]) -> &mut Self {
        self.u32(bytes.len() as u32);
        self.0.extend(bytes);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }
}

/// A message that ends too early or has a length that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

/// Takes a message apart.
pub(crate) struct Decoder<'m>(pub(crate) &'m [u8]);

impl<'m> Decoder<'m> {
    pub(crate) fn u32(&mut self) -> Result<u32, Malformed> {
        let (value, rest) = self.0.split_first_chunk().ok_or(Malformed)?;
        self.0 = rest;
        Ok(u32::from_be_bytes(*value))
    }

    /// Bytes with their length before them.
    pub(crate) fn opaque(&mut self) -> Result<&'m [u8], Malformed> {
        let length = self.u32()? as usize;
        let bytes = self.0.get(..length).ok_or(Malformed)?;
        self.skip(length.next_multiple_of(4))?;
        Ok(bytes)
    }

    pub(crate) fn skip(&mut self, length: usize) -> Result<(), Malformed> {
        self.0 = self.0.get(length..).ok_or(Malformed)?;
        Ok(())
    }

    /// A word that says whether `length` bytes follow, and those bytes, unread.
    pub(crate) fn skip_optional(&mut self, length: usize) -> Result<(), Malformed> {
        if self.u32()? == 0 { Ok(()) } else { self.skip(length) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_built_is_taken_apart() {
        let mut encoder = Encoder::default();
        encoder.u32(7).opaque(b"hello").u32(0).u32(1).u64(2).u32(9);
        assert_eq!(encoder.0.len(), 4 + (4 + 8) + 4 + 12 + 4);
        let mut decoder = Decoder(&encoder.0);
        assert_eq!((decoder.u32(), decoder.opaque()), (Ok(7), Ok(&b"hello"[..])));
        assert_eq!((decoder.skip_optional(8), decoder.skip_optional(8)), (Ok(()), Ok(())));
        assert_eq!((decoder.u32(), decoder.u32()), (Ok(9), Err(Malformed)));
    }

    #[test]
    fn a_length_beyond_the_end_is_malformed() {
        assert_eq!(Decoder(&[0xff, 0xff, 0xff, 0xff, 1]).opaque(), Err(Malformed));
        assert_eq!(Decoder(&[0, 0, 0, 5, 1, 2, 3, 4, 5]).opaque(), Err(Malformed));
    }
}
