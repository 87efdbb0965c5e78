//! The protocol's two state machines, without sockets: bytes in, events out; calls in, bytes out.
//!
//! ```text
//!  client::Session                                   server::Session
//!    begin(request) ─► tag, frame ─────────────────►  receive ─► Event, payload
//!    receive ─► Event, payload    ◄─────────────────  grant, data, done, … ─► frame
//! ```
//!
//! Both ends work alike:
//!
//! - `receive` takes bytes of the stream, at most one frame's header and body at a time, and says
//!   how many it took. It keeps what is incomplete, so the caller may hand in fragments of any size.
//! - A frame's payload never passes through. When [`payload`](server::Session::payload) says that
//!   the next bytes are payload, the caller moves them to where they belong and says so with
//!   `payload_received`; until then `receive` takes nothing.
//! - What is to be sent is returned by value, in the order in which it must be sent; no output is
//!   kept inside, so there is nothing to drain. A frame that announces payload is followed by it.
//! - Every broken rule is a `Violation`; the session is over then, whatever comes after.
//!
//! The only calls that change a session are those that take `&mut self`; none waits, looks at a
//! clock or draws a random number. The client's half does not allocate either, so that it may be
//! used from a signal handler: `alloc` is in scope of `server` only, so the compiler sees to it.
#![no_std]
#![forbid(unsafe_code)]

mod assembly;
pub mod client;
pub mod server;

/// The payload that the stream brings next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Payload {
    /// Whose it is.
    pub tag: u64,
    /// Where the next byte belongs, counted from the request's first byte.
    pub offset: u64,
    /// How many bytes are still to come in this frame: at least 1.
    pub length: u32,
}

impl Payload {
    /// The payload as a frame begins; `None` if it has none.
    fn begin(tag: u64, offset: u64, length: u32) -> Option<Self> {
        (length > 0).then_some(Self { tag, offset, length })
    }

    /// What is left of expected payload after `count` bytes of it.
    ///
    /// # Panics
    /// If there is less.
    fn advance(expected: Option<Self>, count: usize) -> Option<Self> {
        let Some(Self { tag, offset, length }) = expected else {
            assert_eq!(count, 0, "no payload was announced");
            return None;
        };
        let count = u32::try_from(count).ok().filter(|count| *count <= length);
        let count = count.expect("no more payload is received than was announced");
        Self::begin(tag, offset + u64::from(count), length - count)
    }
}
