//! Reading and writing little-endian fields one after the other, with the position for errors.

use forebay_units::{ByteRange, Bytes, OFFSET_MAX, Offset};

use crate::error::{DecodeError, Fault, NoRoom};

/// Reads fields from a body.
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// An error at the field of `back` bytes that was read last.
    pub(crate) fn fault(&self, fault: Fault, back: usize) -> DecodeError {
        DecodeError { at: 0, fault }.moved_by(self.at.saturating_sub(back))
    }

    pub(crate) fn slice(&mut self, n: usize) -> Result<&'a [u8], DecodeError> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let field = rest.get(..n).ok_or(self.fault(Fault::Short, 0))?;
        self.at += n;
        Ok(field)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let field = self.slice(N)?;
        Ok(field.try_into().expect("slice(N) is N long"))
    }

    pub(crate) fn u8(&mut self) -> Result<u8, DecodeError> {
        self.array().map(u8::from_le_bytes)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, DecodeError> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, DecodeError> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, DecodeError> {
        self.array().map(u64::from_le_bytes)
    }

    /// A u32 of at least 1 and at most `max`: how many items follow.
    pub(crate) fn count(&mut self, max: u32) -> Result<usize, DecodeError> {
        match self.u32()? {
            0 => Err(self.fault(Fault::Empty, 4)),
            n if n > max => Err(self.fault(Fault::Limit, 4)),
            n => Ok(n as usize),
        }
    }

    /// A u64 of at most `max`.
    pub(crate) fn u64_max(&mut self, max: u64) -> Result<u64, DecodeError> {
        let value = self.u64()?;
        if value > max { Err(self.fault(Fault::Limit, 8)) } else { Ok(value) }
    }

    pub(crate) fn reserved_u32(&mut self) -> Result<(), DecodeError> {
        if self.u32()? == 0 { Ok(()) } else { Err(self.fault(Fault::Reserved, 4)) }
    }

    /// A file range, possibly empty, that ends within the largest file offset.
    pub(crate) fn range_or_empty(&mut self) -> Result<ByteRange, DecodeError> {
        let start = self.u64_max(OFFSET_MAX.0)?;
        let length = self.u64_max(OFFSET_MAX.0 - start)?;
        Ok(ByteRange::new(Offset(start), Bytes(length)))
    }

    /// A file range of at least one byte and at most a request's length.
    pub(crate) fn range(&mut self) -> Result<ByteRange, DecodeError> {
        let range = self.range_or_empty()?;
        match range.length().0 {
            0 => Err(self.fault(Fault::Empty, 8)),
            n if n > crate::REQUEST_BYTES_MAX => Err(self.fault(Fault::Limit, 8)),
            _ => Ok(range),
        }
    }

    /// Nothing may be left.
    pub(crate) fn end(self) -> Result<(), DecodeError> {
        if self.at == self.bytes.len() { Ok(()) } else { Err(self.fault(Fault::Long, 0)) }
    }
}

/// Writes fields into the caller's buffer; remembers that it was too small rather than failing at each field.
pub(crate) struct Writer<'a> {
    bytes: &'a mut [u8],
    at: usize,
}

impl<'a> Writer<'a> {
    pub(crate) fn new(bytes: &'a mut [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    pub(crate) fn slice(&mut self, field: &[u8]) {
        let end = self.at.saturating_add(field.len());
        if let Some(room) = self.bytes.get_mut(self.at..end) {
            room.copy_from_slice(field);
        }
        self.at = end;
    }

    pub(crate) fn u8(&mut self, value: u8) {
        self.slice(&value.to_le_bytes());
    }

    pub(crate) fn u16(&mut self, value: u16) {
        self.slice(&value.to_le_bytes());
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.slice(&value.to_le_bytes());
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.slice(&value.to_le_bytes());
    }

    pub(crate) fn range(&mut self, range: ByteRange) {
        self.u64(range.start.0);
        self.u64(range.length().0);
    }

    /// How much was written, if there was room for all of it.
    pub(crate) fn end(self) -> Result<usize, NoRoom> {
        if self.at <= self.bytes.len() { Ok(self.at) } else { Err(NoRoom) }
    }
}
