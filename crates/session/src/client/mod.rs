//! The client's half: numbers requests, and turns the forwarder's frames into events.
//!
//! It allocates nothing and waits for nothing, so it may be used from a signal handler, as long
//! as the caller sees to it that one call at a time changes it.
//!
//! ```
//! # use forebay_session::client::{Event, Session, Unsendable};
//! # use forebay_wire::{Hello, Request, VERSION};
//! # fn main() -> Result<(), Unsendable> {
//! let mut session = Session::new();
//! let hello = Request::Hello(Hello {
//!     version_min: VERSION, version_max: VERSION, client: 42, pid: 1, uid: 0, job: b"", program: b"cat",
//! });
//! let tag = session.begin(&hello)?;
//! let mut frame = [0; 256];
//! let length = hello.encode(tag, &mut frame).expect("there is room for any hello");
//! // … send frame[..length], then hand what comes back to `session.receive` …
//! # assert!(length > 16);
//! # Ok(())
//! # }
//! ```
//!
//! The calls of a read: `begin`, send the frame; `receive` until its `Done`, and whenever
//! [`payload`](Session::payload) announces data, move it from the stream to the program's memory.
//! The calls of a write: `begin`, send the frame, with the payload if it is eager; `receive` until
//! its `Done`, answering each [`Event::Grant`] with [`write_data`](Session::write_data) and the
//! payload that it asks for.

mod session;
mod violation;

pub use session::{Event, Granted, REQUESTS_MAX, Session, Unsendable};
pub use violation::Violation;
