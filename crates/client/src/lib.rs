//! A connection to a forwarder: one stream, used by one thread at a time, on that thread.
//!
//! [`Connection`] has a call for each request of the protocol that waits for the answer, and a
//! pipelined interface ([`Connection::start_read`], [`Connection::start_write`],
//! [`Connection::next`]) for callers that keep several requests unanswered.
//!
//! After connecting nothing here allocates (list requests and status excepted), locks, or calls
//! the C library's I/O, because the preload library uses it inside foreign programs, in signal
//! handlers too. Data moves between the socket and the caller's memory without a copy in between.

mod connection;
mod error;
mod memory;
mod outgoing;
mod outstanding;
mod pump;
mod staging;
mod sys;

pub use connection::{Completion, Connection, Limits, Place, Who, Written};
pub use error::{Error, Loss, Refusal};
pub use forebay_session::client::{Unsendable, Violation};
pub use forebay_transport::{Endpoint, EndpointError, Stream};
pub use forebay_units::{ByteRange, Bytes, FileId, Offset};
pub use forebay_wire::{Attributes, Bye, Cause, Handle, Opened, Reason, Reasons};
pub use memory::{Destination, Memory, Source, Transfers};
pub use pump::Ticket;
pub use sys::Piece;
