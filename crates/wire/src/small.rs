//! A whole frame without payload, by value: what most frames are.

use core::fmt;
use core::ops::Deref;

/// The encoded header and body of a frame of at most [`Small::BYTES_MAX`] bytes; derefs to the bytes to send.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Small {
    bytes: [u8; Self::BYTES_MAX],
    length: u8,
}

impl Small {
    /// Room for a header and the longest body of fixed length.
    pub const BYTES_MAX: usize = 56;

    /// Encodes with `write`, which is given all the room there is and says how much it took.
    pub(crate) fn filled_by<E>(
        write: impl FnOnce(&mut [u8]) -> Result<usize, E>,
    ) -> Result<Self, E> {
        let mut bytes = [0; Self::BYTES_MAX];
        let length = write(&mut bytes)?;
        Ok(Self { bytes, length: u8::try_from(length).expect("at most BYTES_MAX") })
    }
}

impl Deref for Small {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

impl fmt::Debug for Small {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Small").field(&&**self).finish()
    }
}
