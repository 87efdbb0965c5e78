//! The bodies of requests, field by field.

use forebay_units::{ByteRange, Bytes, OFFSET_MAX, Offset};

use super::{
    Bye, Control, Delivery, Descriptor, Hello, Open, Place, Read, ReadList, Truncate, Write,
    WriteData, WriteList,
};
use crate::cursor::{Reader, Writer};
use crate::error::{DecodeError, Fault};
use crate::header::{FLAG_APPEND, FLAG_DESCRIPTOR, Header};
use crate::list::{List, Ranges};
use crate::{
    CONTROL_BYTES_MAX, Handle, MAGIC, NAME_BYTES_MAX, PATH_BYTES_MAX, PAYLOAD_BYTES_MAX,
    RANGES_MAX, REQUEST_BYTES_MAX,
};

/// A range as it stands in the body of a list request, for callers of [`Request::encode_start`](super::Request::encode_start).
pub fn range_bytes(range: ByteRange) -> [u8; 16] {
    let mut bytes = [0; 16];
    Writer::new(&mut bytes).range(range);
    bytes
}

pub(super) fn words(writer: &mut Writer<'_>, words: &[u32]) {
    words.iter().for_each(|word| writer.u32(*word));
}

/// The layout that most bodies share: two words and a range.
pub(super) fn fields(writer: &mut Writer<'_>, [first, second]: [u32; 2], range: ByteRange) {
    words(writer, &[first, second]);
    writer.range(range);
}

pub(super) fn total(ranges: &Ranges<'_>) -> u64 {
    // At most RANGES_MAX times OFFSET_MAX when the sender is wrong: saturate, so that the limit is seen.
    ranges.iter().fold(0, |sum: u64, range| sum.saturating_add(range.length().0))
}

/// The ranges of a list, which together are no longer than a request may be.
fn ranges<'a>(reader: &mut Reader<'a>, count: usize) -> Result<Ranges<'a>, DecodeError> {
    let ranges = List::decode(reader, count)?;
    if total(&ranges) > REQUEST_BYTES_MAX { Err(reader.fault(Fault::Limit, 8)) } else { Ok(ranges) }
}

/// Eager means all of it: a part would need a second mechanism for the rest and gain nothing.
fn delivery(
    reader: &Reader<'_>,
    eager: u32,
    data_bytes: u64,
    back: usize,
) -> Result<Delivery, DecodeError> {
    match eager {
        0 => Ok(Delivery::Granted),
        n if n > PAYLOAD_BYTES_MAX => Err(reader.fault(Fault::Limit, back)),
        n if u64::from(n) == data_bytes => Ok(Delivery::Eager),
        _ => Err(reader.fault(Fault::Mismatch, back)),
    }
}

impl<'a> Hello<'a> {
    pub(super) fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        if reader.array()? != MAGIC {
            return Err(reader.fault(Fault::Magic, 4));
        }
        let (version_min, version_max) = (reader.u16()?, reader.u16()?);
        if version_min > version_max {
            return Err(reader.fault(Fault::Mismatch, 2));
        }
        let (client, pid, uid) = (reader.u64()?, reader.u32()?, reader.u32()?);
        Ok(Self {
            version_min,
            version_max,
            client,
            pid,
            uid,
            job: name(reader)?,
            program: name(reader)?,
        })
    }

    pub(super) fn encode(&self, writer: &mut Writer<'_>) {
        writer.slice(&MAGIC);
        writer.u16(self.version_min);
        writer.u16(self.version_max);
        writer.u64(self.client);
        words(writer, &[self.pid, self.uid]);
        for name in [self.job, self.program] {
            writer.u8(u8::try_from(name.len()).unwrap_or(u8::MAX));
            writer.slice(name);
        }
    }
}

fn name<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], DecodeError> {
    let length = usize::from(reader.u8()?);
    if length > NAME_BYTES_MAX {
        return Err(reader.fault(Fault::Limit, 1));
    }
    reader.slice(length)
}

impl<'a> Open<'a> {
    pub(super) fn decode(flags: u8, reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let descriptor =
            if flags & FLAG_DESCRIPTOR == 0 { Descriptor::Absent } else { Descriptor::Sent };
        let (flags, length) = (reader.u32()?, usize::from(reader.u16()?));
        if length > PATH_BYTES_MAX {
            return Err(reader.fault(Fault::Limit, 2));
        }
        Ok(Self { flags, descriptor, path: reader.slice(length)? })
    }

    pub(super) fn encode(&self, writer: &mut Writer<'_>) {
        writer.u32(self.flags);
        writer.u16(u16::try_from(self.path.len()).unwrap_or(u16::MAX));
        writer.slice(self.path);
    }
}

impl Read {
    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let handle = Handle(reader.u32()?);
        reader.reserved_u32()?;
        Ok(Self { handle, range: reader.range()? })
    }
}

impl Write {
    pub(super) fn decode(flags: u8, reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let place = if flags & FLAG_APPEND == 0 { Place::Range } else { Place::End };
        let (handle, eager) = (Handle(reader.u32()?), reader.u32()?);
        let range = reader.range()?;
        if place == Place::End && range.start != Offset(0) {
            return Err(reader.fault(Fault::Mismatch, 16));
        }
        let delivery = delivery(reader, eager, range.length().0, 20)?;
        Ok(Self { handle, range, place, delivery })
    }
}

impl<'a> ReadList<'a> {
    pub(super) fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let handle = Handle(reader.u32()?);
        let count = reader.count(RANGES_MAX)?;
        Ok(Self { handle, ranges: ranges(reader, count)? })
    }
}

impl<'a> WriteList<'a> {
    pub(super) fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let handle = Handle(reader.u32()?);
        let count = reader.count(RANGES_MAX)?;
        let eager = reader.u32()?;
        reader.reserved_u32()?;
        let ranges = ranges(reader, count)?;
        let back = ranges.body_bytes() + 8;
        Ok(Self { handle, ranges, delivery: delivery(reader, eager, total(&ranges), back)? })
    }
}

impl WriteData {
    pub(super) fn decode(header: &Header, reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let offset = reader.u64_max(REQUEST_BYTES_MAX)?;
        match header.length.saturating_sub(8) {
            0 => Err(reader.fault(Fault::Empty, 0)),
            length => Ok(Self { offset, length }),
        }
    }
}

impl Truncate {
    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let handle = Handle(reader.u32()?);
        reader.reserved_u32()?;
        Ok(Self { handle, size: Bytes(reader.u64_max(OFFSET_MAX.0)?) })
    }
}

impl<'a> Bye<'a> {
    pub(super) fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let (forwarded, native) = (reader.u64()?, reader.u64()?);
        let count = usize::from(reader.u8()?);
        Ok(Self { forwarded, native, reasons: List::decode(reader, count)? })
    }

    pub(super) fn encode(&self, writer: &mut Writer<'_>) {
        writer.u64(self.forwarded);
        writer.u64(self.native);
        writer.u8(u8::try_from(self.reasons.len()).unwrap_or(u8::MAX));
        self.reasons.encode(writer);
    }
}

impl<'a> Control<'a> {
    pub(super) fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let length = usize::from(reader.u16()?);
        if length > CONTROL_BYTES_MAX {
            return Err(reader.fault(Fault::Limit, 2));
        }
        Ok(Self { text: reader.slice(length)? })
    }

    pub(super) fn encode(&self, writer: &mut Writer<'_>) {
        writer.u16(u16::try_from(self.text.len()).unwrap_or(u16::MAX));
        writer.slice(self.text);
    }
}
