//! Events as bytes.
//!
//! ```text
//! event   = kind (u8) · length of the rest · time since the event before · fields by kind
//! submit  = flags · [file · client · class] · start from the end before* · [length]
//!           flags: access (2 bits), fate (3), room (1), same file, client and class (1), same length (1)
//! read    = as submit · moved                          (answered without the scheduler)
//! batch   = flags · number of members · each from the one before*
//!           flags: asked for the policy's (1), continues (1)
//! wait    = flags · until, from now        idle = flags
//! ready, cancel = seq*                     drain = nothing
//! done    = flags · seq* · [errno] · [moved]           flags: failed (1), same moved as before (1)
//! switch  = text     retire = file     file = file · device · inode · generation
//! name    = what (u8) · number · text      setting = text · text
//! refused = access · file · client · class · start · length           depth = number
//! hint    = what (u8) · [until, from now | file]
//! ```
//!
//! Numbers without a width are varints, those with a star differences to what the context holds
//! (the last `seq` named, the end of the last request). The context begins anew with each block.
//! Fields may be added behind those that are known; readers leave them aside. Kinds from `refused`
//! on came later: to be passed over without harm, they change nothing in the context but the time.

use alloc::vec::Vec;

use forebay_sched::{Access, Request};
use forebay_units::{ByteRange, Bytes, ClassId, ClientId, FileId, FileIndex, Offset, Timestamp};

use crate::event::{Asked, Event, Fate, Hinted, Members, Named, Submit, TEXT_BYTES_MAX, cut};
use crate::varint::{BYTES_MAX, Bits, Pen, Scratch, put, put_difference, put_text, set_length};

/// Most members that one event holds; a longer batch takes several.
pub(crate) const MEMBERS_MAX: usize = 1000;

/// Most members that a batch has which is written as the other short events are.
const SHORT_BATCH_MEMBERS: usize = 3;

const _: () = assert!(
    2 + BYTES_MAX + 1 + 1 + SHORT_BATCH_MEMBERS * BYTES_MAX <= Scratch::BYTES,
    "kind, length, time, flags, number and members fit"
);

/// No event takes more bytes.
pub(crate) const EVENT_BYTES_MAX: usize = 16 + BYTES_MAX * (MEMBERS_MAX + 2);

mod kind {
    pub(super) const SUBMIT: u8 = 1;
    pub(super) const IMMEDIATE: u8 = 2;
    pub(super) const DISPATCH: u8 = 3;
    pub(super) const WAIT: u8 = 4;
    pub(super) const IDLE: u8 = 5;
    pub(super) const READY: u8 = 6;
    pub(super) const COMPLETE: u8 = 7;
    pub(super) const CANCEL: u8 = 8;
    pub(super) const DRAIN: u8 = 9;
    pub(super) const SWITCH: u8 = 10;
    pub(super) const RETIRE: u8 = 11;
    pub(super) const FILE: u8 = 12;
    pub(super) const NAME: u8 = 13;
    pub(super) const SETTING: u8 = 14;
    pub(super) const REFUSED: u8 = 15;
    pub(super) const DEPTH: u8 = 16;
    pub(super) const HINT: u8 = 17;
}

/// By the two bits that stand for them.
const ACCESSES: [Access; 4] = [Access::Read, Access::Write, Access::Alone, Access::Sync];

const HAS_ROOM: u8 = 1 << 5;
const SAME_SENDER: u8 = 1 << 6;
const SAME_LENGTH: u8 = 1 << 7;

const FROM_POLICY: u8 = 1;
const CONTINUES: u8 = 1 << 1;

const FAILED: u8 = 1;
const SAME_MOVED: u8 = 1 << 1;

/// What the next event is written as a difference to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Context {
    pub(crate) time: u64,
    pub(crate) next_seq: u64,
    last_seq: u64,
    sender: (FileIndex, ClientId, ClassId),
    end: u64,
    length: u64,
    moved: u64,
}

impl Context {
    /// The context at the start of a block.
    pub(crate) fn new(time: u64, next_seq: u64) -> Self {
        Self { time, next_seq, last_seq: next_seq, ..Self::default() }
    }

    /// A bound on the bytes that an event will take.
    #[inline(always)]
    pub(crate) fn bytes_max(event: &Event<'_>) -> usize {
        match event {
            Event::Dispatch { members, .. } => {
                (16 + BYTES_MAX * (members.count() + 2)).max(Scratch::BYTES)
            }
            Event::Switch { policy: text } | Event::Name { text, .. } => {
                32 + text.len().min(TEXT_BYTES_MAX)
            }
            Event::Setting { key, value } => {
                32 + key.len().min(TEXT_BYTES_MAX) + value.len().min(TEXT_BYTES_MAX)
            }
            _ => Scratch::BYTES,
        }
    }

    /// Appends an event that happened at `time`, or now if that lies behind the event before.
    /// A lost or unknown event, which has no form, leaves nothing.
    #[inline(always)]
    pub(crate) fn put(&mut self, into: &mut Vec<u8>, time: Timestamp, event: &Event<'_>) {
        let Some(kind) = kind_of(event) else { return };
        match event {
            Event::Dispatch { asked, members, continues }
                if members.count() > SHORT_BATCH_MEMBERS =>
            {
                self.put_batch(into, time, *asked, members, *continues);
            }
            Event::Switch { .. } | Event::Name { .. } | Event::Setting { .. } => {
                self.put_text_event(into, kind, time, event);
            }
            _ => {
                let mut scratch = Scratch::new();
                scratch.byte(kind);
                scratch.byte(0);
                self.put_time(&mut scratch, time);
                self.put_fields(&mut scratch, event);
                // All of them are shorter than 128 bytes: their lengths take a byte.
                scratch.set(1, (scratch.count() - 2) as u8);
                scratch.append_to(into);
            }
        }
    }

    #[inline]
    fn put_time(&mut self, into: &mut impl Pen, time: Timestamp) {
        let time = time.0.max(self.time);
        put(into, time - self.time);
        self.time = time;
    }

    fn put_batch(
        &mut self,
        into: &mut Vec<u8>,
        time: Timestamp,
        asked: Asked,
        members: &Members<'_>,
        continues: bool,
    ) {
        let fields = |this: &mut Self, into: &mut Vec<u8>| {
            this.put_time(into, time);
            this.put_members(into, asked, members, continues);
        };
        // Up to here even the longest numbers leave the length a single byte.
        let reserved = if members.count() <= 8 { 1 } else { 3 };
        self.put_framed(into, kind::DISPATCH, reserved, fields);
    }

    #[inline]
    fn put_members(
        &mut self,
        into: &mut impl Pen,
        asked: Asked,
        members: &Members<'_>,
        continues: bool,
    ) {
        into.byte(asked.bit() | if continues { CONTINUES } else { 0 });
        put(into, members.count() as u64);
        members.iter().for_each(|seq| self.put_seq(into, seq));
    }

    #[cold]
    fn put_text_event(&mut self, into: &mut Vec<u8>, kind: u8, time: Timestamp, event: &Event<'_>) {
        self.put_framed(into, kind, 3, |this, into| {
            this.put_time(into, time);
            match event {
                Event::Switch { policy } => put_text(into, cut(policy)),
                Event::Name { of, text } => {
                    let (what, number) = match of {
                        Named::File(file) => (0, file.0),
                        Named::Client(client) => (1, client.0),
                        Named::Class(class) => (2, class.0),
                    };
                    into.push(what);
                    put(into, u64::from(number));
                    put_text(into, cut(text));
                }
                Event::Setting { key, value } => {
                    put_text(into, cut(key));
                    put_text(into, cut(value));
                }
                _ => unreachable!("an event without a text"),
            }
        });
    }

    /// Appends an event whose length takes `reserved` bytes.
    #[inline]
    fn put_framed(
        &mut self,
        into: &mut Vec<u8>,
        kind: u8,
        reserved: usize,
        fields: impl FnOnce(&mut Self, &mut Vec<u8>),
    ) {
        into.push(kind);
        let at = into.len();
        into.extend_from_slice(&[0; 3][..reserved]);
        fields(self, into);
        let length = into.len() - at - reserved;
        set_length(into, at, reserved, length);
    }

    /// The fields of an event of a few numbers.
    #[inline(always)]
    fn put_fields(&mut self, into: &mut impl Pen, event: &Event<'_>) {
        match event {
            Event::Submit(submit) => {
                let flags = (submit.fate as u8) << 2 | if submit.has_room { HAS_ROOM } else { 0 };
                self.put_request(into, &submit.request, flags);
                if submit.fate.is_accepted() {
                    self.last_seq = self.next_seq;
                    self.next_seq += 1;
                }
            }
            Event::Immediate { request, moved } => {
                self.put_request(into, request, 0);
                put(into, moved.0);
            }
            Event::Wait { asked, until } => {
                into.byte(asked.bit());
                put(into, until.0.saturating_sub(self.time));
            }
            Event::Idle { asked } => into.byte(asked.bit()),
            Event::Ready { seq } | Event::Cancel { seq } => self.put_seq(into, *seq),
            Event::Complete { seq, errno, moved } => {
                let is_same = self.moved == moved.0;
                let failed = if *errno == 0 { 0 } else { FAILED };
                into.byte(failed | if is_same { SAME_MOVED } else { 0 });
                self.put_seq(into, *seq);
                if *errno != 0 {
                    put(into, u64::from(*errno));
                }
                if !is_same {
                    put(into, moved.0);
                    self.moved = moved.0;
                }
            }
            Event::Retire { file } => put(into, u64::from(file.0)),
            Event::File { file, id } => {
                [u64::from(file.0), id.device, id.inode, id.generation]
                    .iter()
                    .for_each(|number| put(into, *number));
            }
            Event::Dispatch { asked, members, continues } => {
                self.put_members(into, *asked, members, *continues);
            }
            Event::Refused { request } => {
                into.byte(access_bits(request.access));
                let Request { file, client, class, range, .. } = request;
                [u64::from(file.0), u64::from(client.0), u64::from(class.0)]
                    .iter()
                    .for_each(|number| put(into, *number));
                put(into, range.start.0);
                put(into, range.length().0);
            }
            Event::Depth { depth } => put(into, u64::from(*depth)),
            Event::Hint(Hinted::MoreFollows { until }) => {
                into.byte(0);
                put(into, until.0.saturating_sub(self.time));
            }
            Event::Hint(Hinted::NoMore) => into.byte(1),
            Event::Hint(Hinted::Forget { file }) => {
                into.byte(2);
                put(into, u64::from(file.0));
            }
            Event::Drain
            | Event::Switch { .. }
            | Event::Name { .. }
            | Event::Setting { .. }
            | Event::Lost { .. }
            | Event::Unknown { .. } => {}
        }
    }

    #[inline]
    fn put_request(&mut self, into: &mut impl Pen, request: &Request, flags: u8) {
        let sender = (request.file, request.client, request.class);
        let length = request.range.length().0;
        let (is_same_sender, is_same_length) = (sender == self.sender, length == self.length);
        into.byte(
            access_bits(request.access)
                | flags
                | if is_same_sender { SAME_SENDER } else { 0 }
                | if is_same_length { SAME_LENGTH } else { 0 },
        );
        if !is_same_sender {
            put(into, u64::from(request.file.0));
            put(into, u64::from(request.client.0));
            put(into, u64::from(request.class.0));
            self.sender = sender;
        }
        put_difference(into, self.end, request.range.start.0);
        if !is_same_length {
            put(into, length);
        }
        (self.length, self.end) = (length, request.range.start.0.saturating_add(length));
    }

    #[inline]
    fn put_seq(&mut self, into: &mut impl Pen, seq: u64) {
        put_difference(into, self.last_seq, seq);
        self.last_seq = seq;
    }

    /// Takes the fields of an event of some kind; `None` if they are not what they should be.
    pub(crate) fn take<'a>(&mut self, kind: u8, bits: &mut Bits<'a>) -> Option<Event<'a>> {
        self.time = self.time.checked_add(bits.take()?)?;
        Some(match kind {
            kind::SUBMIT => {
                let (request, flags) = self.take_request(bits)?;
                let fate = *Fate::ALL.get(usize::from(flags >> 2 & 7))?;
                let seq = fate.is_accepted().then_some(self.next_seq);
                if fate.is_accepted() {
                    self.last_seq = self.next_seq;
                    self.next_seq = self.next_seq.checked_add(1)?;
                }
                Event::Submit(Submit { seq, request, has_room: flags & HAS_ROOM != 0, fate })
            }
            kind::IMMEDIATE => {
                let (request, _) = self.take_request(bits)?;
                Event::Immediate { request, moved: Bytes(bits.take()?) }
            }
            kind::DISPATCH => {
                let flags = bits.take_byte()?;
                let count = usize::try_from(bits.take()?).ok()?;
                let (members, last) = Members::take(count, self.last_seq, bits)?;
                self.last_seq = last;
                let (asked, continues) = (Asked::from_bits(flags), flags & CONTINUES != 0);
                Event::Dispatch { asked, members, continues }
            }
            kind::WAIT => Event::Wait {
                asked: Asked::from_bits(bits.take_byte()?),
                until: Timestamp(self.time.checked_add(bits.take()?)?),
            },
            kind::IDLE => Event::Idle { asked: Asked::from_bits(bits.take_byte()?) },
            kind::READY => Event::Ready { seq: self.take_seq(bits)? },
            kind::CANCEL => Event::Cancel { seq: self.take_seq(bits)? },
            kind::COMPLETE => {
                let flags = bits.take_byte()?;
                let seq = self.take_seq(bits)?;
                let errno = match flags & FAILED != 0 {
                    true => bits.take()?.try_into().ok()?,
                    false => 0,
                };
                if flags & SAME_MOVED == 0 {
                    self.moved = bits.take()?;
                }
                Event::Complete { seq, errno, moved: Bytes(self.moved) }
            }
            kind::DRAIN => Event::Drain,
            kind::SWITCH => Event::Switch { policy: bits.take_text()? },
            kind::RETIRE => Event::Retire { file: FileIndex(bits.take_u32()?) },
            kind::FILE => Event::File {
                file: FileIndex(bits.take_u32()?),
                id: FileId { device: bits.take()?, inode: bits.take()?, generation: bits.take()? },
            },
            kind::NAME => {
                let (what, number) = (bits.take_byte()?, bits.take_u32()?);
                let of = match what {
                    0 => Named::File(FileIndex(number)),
                    1 => Named::Client(ClientId(number)),
                    2 => Named::Class(ClassId(number)),
                    _ => return Some(Event::Unknown { kind }),
                };
                Event::Name { of, text: bits.take_text()? }
            }
            kind::SETTING => Event::Setting { key: bits.take_text()?, value: bits.take_text()? },
            kind::REFUSED => {
                let access = ACCESSES[usize::from(bits.take_byte()? & 3)];
                let (file, client, class) = (bits.take_u32()?, bits.take_u32()?, bits.take_u32()?);
                let (start, length) = (bits.take()?, bits.take()?);
                let end = Offset(start.checked_add(length)?);
                let range = ByteRange { start: Offset(start), end };
                let (file, client, class) = (FileIndex(file), ClientId(client), ClassId(class));
                Event::Refused { request: Request { tag: 0, file, access, range, client, class } }
            }
            kind::DEPTH => Event::Depth { depth: bits.take_u32().filter(|depth| *depth > 0)? },
            kind::HINT => match bits.take_byte()? {
                0 => {
                    let until = Timestamp(self.time.checked_add(bits.take()?)?);
                    Event::Hint(Hinted::MoreFollows { until })
                }
                1 => Event::Hint(Hinted::NoMore),
                2 => Event::Hint(Hinted::Forget { file: FileIndex(bits.take_u32()?) }),
                _ => Event::Unknown { kind },
            },
            _ => Event::Unknown { kind },
        })
    }

    fn take_request(&mut self, bits: &mut Bits<'_>) -> Option<(Request, u8)> {
        let flags = bits.take_byte()?;
        if flags & SAME_SENDER == 0 {
            self.sender = (
                FileIndex(bits.take_u32()?),
                ClientId(bits.take_u32()?),
                ClassId(bits.take_u32()?),
            );
        }
        let start = bits.take_from(self.end)?;
        if flags & SAME_LENGTH == 0 {
            self.length = bits.take()?;
        }
        self.end = start.checked_add(self.length)?;
        let (file, client, class) = self.sender;
        let range = ByteRange { start: Offset(start), end: Offset(self.end) };
        let access = ACCESSES[usize::from(flags & 3)];
        Some((Request { tag: 0, file, access, range, client, class }, flags))
    }

    fn take_seq(&mut self, bits: &mut Bits<'_>) -> Option<u64> {
        self.last_seq = bits.take_from(self.last_seq)?;
        Some(self.last_seq)
    }
}

/// The place of an access in [`ACCESSES`].
#[inline(always)]
fn access_bits(access: Access) -> u8 {
    match access {
        Access::Read => 0,
        Access::Write => 1,
        Access::Alone => 2,
        Access::Sync => 3,
    }
}

/// The kind of an event that has a form; a lost or unknown one has none.
#[inline(always)]
fn kind_of(event: &Event<'_>) -> Option<u8> {
    Some(match event {
        Event::Submit(_) => kind::SUBMIT,
        Event::Immediate { .. } => kind::IMMEDIATE,
        Event::Dispatch { .. } => kind::DISPATCH,
        Event::Wait { .. } => kind::WAIT,
        Event::Idle { .. } => kind::IDLE,
        Event::Ready { .. } => kind::READY,
        Event::Complete { .. } => kind::COMPLETE,
        Event::Cancel { .. } => kind::CANCEL,
        Event::Drain => kind::DRAIN,
        Event::Switch { .. } => kind::SWITCH,
        Event::Retire { .. } => kind::RETIRE,
        Event::File { .. } => kind::FILE,
        Event::Name { .. } => kind::NAME,
        Event::Setting { .. } => kind::SETTING,
        Event::Refused { .. } => kind::REFUSED,
        Event::Depth { .. } => kind::DEPTH,
        Event::Hint(_) => kind::HINT,
        Event::Lost { .. } | Event::Unknown { .. } => return None,
    })
}

impl Asked {
    fn bit(self) -> u8 {
        match self {
            Self::Anything => 0,
            Self::FromPolicy => FROM_POLICY,
        }
    }

    fn from_bits(flags: u8) -> Self {
        match flags & FROM_POLICY != 0 {
            true => Self::FromPolicy,
            false => Self::Anything,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_of_the_format_has_every_kind_of_event() {
        let page = include_str!("../../../docs/trace-format.md");
        let (_, events) = page.split_once("## Events").unwrap();
        let (events, _) = events.split_once("**Request**").unwrap();
        let told: Vec<u8> = events
            .lines()
            .filter_map(|line| line.strip_prefix("| ")?.split_once(" |")?.0.parse().ok())
            .collect();
        // The kind is all there is: what wants fields lacks them, and is known all the same.
        let is_known = |kind: &u8| {
            let mut bits = Bits { bytes: &[0] };
            let taken = Context::new(0, 0).take(*kind, &mut bits);
            !matches!(taken, Some(Event::Unknown { .. }))
        };
        let known: Vec<u8> = (0..=u8::MAX).filter(is_known).collect();
        assert_eq!(told, known);
    }
}
