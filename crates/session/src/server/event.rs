//! What a client asks for, as the forwarder's half tells it.

#[cfg(doc)]
use super::Session;
use forebay_units::{ByteRange, Bytes};
use forebay_wire::{Bye, Control, Delivery, Hello, Open, Place, Ranges};

/// Something a client asks for. `F` is what the caller knows its open files by.
///
/// All but `Hello` are to be answered, once, by `tag`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a, F> {
    /// Who it is. Answer with [`Session::welcome`] before receiving on, or refuse and hang up.
    Hello(Hello<'a>),
    /// Open a file: [`Session::opened`], or `done` with an error number.
    Open {
        /// The request.
        tag: u64,
        /// Which file, and whether a descriptor came along.
        open: Open<'a>,
    },
    /// Read: [`Session::data`] as often as needed, in any order, then `done`.
    Read {
        /// The request.
        tag: u64,
        /// The file.
        file: F,
        /// What, in the order of the request's bytes; none is empty.
        ranges: Ranges<'a>,
    },
    /// Write. The payload of an eager one comes next in the stream; for any other,
    /// [`Session::grant`] as often as needed. Then `done`.
    Write {
        /// The request.
        tag: u64,
        /// The file.
        file: F,
        /// Where, in the order of the request's bytes; none is empty. For an append one range from 0.
        ranges: Ranges<'a>,
        /// To the ranges or to the end of the file.
        place: Place,
        /// How the payload travels.
        delivery: Delivery,
    },
    /// `fsync(2)`.
    Sync {
        /// The request.
        tag: u64,
        /// The file.
        file: F,
    },
    /// `fdatasync(2)`.
    DataSync {
        /// The request.
        tag: u64,
        /// The file.
        file: F,
    },
    /// `ftruncate(2)`.
    Truncate {
        /// The request.
        tag: u64,
        /// The file.
        file: F,
        /// Its new size.
        size: Bytes,
    },
    /// `fallocate(2)`.
    Allocate {
        /// The request.
        tag: u64,
        /// The file.
        file: F,
        /// The mode bits.
        mode: u32,
        /// Where; may be empty.
        range: ByteRange,
    },
    /// Size and times: [`Session::attributes`], or `done` with an error number.
    Stat {
        /// The request.
        tag: u64,
        /// The file.
        file: F,
    },
    /// `posix_fadvise(2)`.
    Hint {
        /// The request.
        tag: u64,
        /// The file.
        file: F,
        /// The advice number.
        advice: u32,
        /// Where; empty means to the end of the file.
        range: ByteRange,
    },
    /// Close the file, which is no longer among [`Session::files`]; `done` once that is so.
    Close {
        /// The request.
        tag: u64,
        /// The file.
        file: F,
    },
    /// The forwarder's state: [`Session::status_text`], the last one without more to follow.
    Status {
        /// The request.
        tag: u64,
    },
    /// The end, in order: `done` once everything is answered and closed.
    Bye {
        /// The request.
        tag: u64,
        /// What the client did.
        bye: Bye<'a>,
    },
    /// Change something: [`Session::status_text`] as for a status, or `done` with an error number
    /// if the client may not.
    Control {
        /// The request.
        tag: u64,
        /// What to change.
        control: Control<'a>,
    },
}
