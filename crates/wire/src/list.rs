//! Lists inside bodies: the ranges of a list request, the reasons of a `Bye`.
//!
//! A [`List`] is the sender's slice of items, the receiver's undecoded bytes, or a single item;
//! all look the same from outside, so one type serves both ends without an allocation.

use core::fmt;

use forebay_units::{ByteRange, Bytes, Offset};

use crate::cursor::{Reader, Writer};
use crate::error::DecodeError;

const ITEM_BYTES_MAX: usize = 16;

/// Something of which a body holds many.
pub trait Item: Copy + PartialEq + fmt::Debug + sealed::Codec {}

mod sealed {
    use crate::error::DecodeError;

    pub trait Codec: Sized {
        /// The length of an item; at most [`super::ITEM_BYTES_MAX`].
        const BYTES: usize;
        /// Checks bytes from outside, as long as an item.
        fn check(bytes: &[u8]) -> Result<(), DecodeError>;
        /// Reads an item that was checked.
        fn read(bytes: &[u8]) -> Self;
        fn write(self, bytes: &mut [u8]);
    }
}
use sealed::Codec;

/// The ranges of a list request, in the order of its bytes.
pub type Ranges<'a> = List<'a, ByteRange>;

/// Why calls went past the forwarder, and how many.
pub type Reasons<'a> = List<'a, Reason>;

/// Calls that a client did not send here, for one reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reason {
    /// The client library's number for the reason.
    pub reason: u8,
    /// How many calls.
    pub calls: u64,
}

/// Items in a body.
#[derive(Clone, Copy)]
pub struct List<'a, T>(Form<'a, T>);

#[derive(Clone, Copy)]
enum Form<'a, T> {
    One(T),
    Items(&'a [T]),
    /// Checked when the list was decoded.
    Bytes(&'a [u8]),
}

impl<'a, T: Item> List<'a, T> {
    /// A list of one item.
    pub fn one(item: T) -> Self {
        Self(Form::One(item))
    }

    /// How many items.
    pub fn len(&self) -> usize {
        match self.0 {
            Form::One(_) => 1,
            Form::Items(items) => items.len(),
            Form::Bytes(bytes) => bytes.len() / T::BYTES,
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The items in order.
    pub fn iter(&self) -> ListIter<'a, T> {
        ListIter { list: *self, next: 0 }
    }

    /// How many bytes of body the items take.
    pub(crate) fn body_bytes(&self) -> usize {
        self.len() * T::BYTES
    }

    pub(crate) fn decode(reader: &mut Reader<'a>, count: usize) -> Result<Self, DecodeError> {
        let start = reader.at();
        let bytes = reader.slice(count * T::BYTES)?;
        for (idx, item) in bytes.chunks_exact(T::BYTES).enumerate() {
            T::check(item).map_err(|error| error.moved_by(start + idx * T::BYTES))?;
        }
        Ok(Self(Form::Bytes(bytes)))
    }

    pub(crate) fn encode(&self, writer: &mut Writer<'_>) {
        match self.0 {
            Form::One(item) => encode(item, writer),
            Form::Items(items) => items.iter().for_each(|item| encode(*item, writer)),
            Form::Bytes(bytes) => writer.slice(bytes),
        }
    }

    fn at(&self, index: usize) -> Option<T> {
        match self.0 {
            Form::One(item) => (index == 0).then_some(item),
            Form::Items(items) => items.get(index).copied(),
            Form::Bytes(bytes) => bytes.chunks_exact(T::BYTES).nth(index).map(T::read),
        }
    }
}

fn encode<T: Item>(item: T, writer: &mut Writer<'_>) {
    let mut bytes = [0; ITEM_BYTES_MAX];
    item.write(&mut bytes);
    writer.slice(&bytes[..T::BYTES]);
}

impl<'a, T> From<&'a [T]> for List<'a, T> {
    fn from(items: &'a [T]) -> Self {
        Self(Form::Items(items))
    }
}

impl<T: Item> PartialEq for List<'_, T> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<T: Item + Eq> Eq for List<'_, T> {}

impl<T: Item> fmt::Debug for List<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<'a, T: Item> IntoIterator for List<'a, T> {
    type Item = T;
    type IntoIter = ListIter<'a, T>;

    fn into_iter(self) -> ListIter<'a, T> {
        self.iter()
    }
}

/// Iterates over the items of a [`List`].
#[derive(Clone, Debug)]
pub struct ListIter<'a, T: Item> {
    list: List<'a, T>,
    next: usize,
}

impl<T: Item> Iterator for ListIter<'_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        let item = self.list.at(self.next)?;
        self.next += 1;
        Some(item)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.list.len() - self.next;
        (left, Some(left))
    }
}

impl<T: Item> ExactSizeIterator for ListIter<'_, T> {}

impl Item for ByteRange {}
impl Codec for ByteRange {
    const BYTES: usize = 16;

    fn check(bytes: &[u8]) -> Result<(), DecodeError> {
        Reader::new(bytes).range().map(drop)
    }

    fn read(bytes: &[u8]) -> Self {
        let (start, length) = bytes.split_at(8);
        Self::new(Offset(u64_from(start)), Bytes(u64_from(length)))
    }

    fn write(self, bytes: &mut [u8]) {
        Writer::new(bytes).range(self);
    }
}

impl Item for Reason {}
impl Codec for Reason {
    const BYTES: usize = 9;

    fn check(_bytes: &[u8]) -> Result<(), DecodeError> {
        Ok(())
    }

    fn read(bytes: &[u8]) -> Self {
        Self { reason: bytes[0], calls: u64_from(&bytes[1..]) }
    }

    fn write(self, bytes: &mut [u8]) {
        let mut writer = Writer::new(bytes);
        writer.u8(self.reason);
        writer.u64(self.calls);
    }
}

fn u64_from(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().expect("an item's fields are cut to size"))
}
