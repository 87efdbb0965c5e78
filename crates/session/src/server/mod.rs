//! The forwarder's half: turns a client's frames into events, and answers into frames.
//!
//! ```no_run
//! # use forebay_session::server::{Event, Limits, Session};
//! # fn serve(input: &[u8], send: &mut dyn FnMut(&[u8]), read: &dyn Fn(u32)) {
//! let mut session: Session<u32> = Session::new(Limits::default());
//! let mut rest = input;
//! loop {
//!     if let Some(payload) = session.payload() {
//!         let count = rest.len().min(payload.length as usize);
//!         // … move `count` bytes to where `payload.tag` and `payload.offset` say …
//!         session.payload_received(count);
//!         rest = &rest[count..];
//!     }
//!     match session.receive(rest) {
//!         Ok((0, None)) => break,
//!         Ok((used, event)) => {
//!             rest = &rest[used..];
//!             match event {
//!                 Some(Event::Hello(_)) => send(&session.welcome(1)),
//!                 Some(Event::Read { file, .. }) => read(file), // later: `session.data`, `session.done`
//!                 _ => {}
//!             }
//!         }
//!         Err(violation) => {
//!             send(&violation.refusal());
//!             break;
//!         }
//!     }
//! }
//! # }
//! ```
//!
//! A request that was received must be answered exactly once: `opened`, `attributes` and the last
//! `status_text` answer theirs, `done` any. [`Session::unanswered`] says which are not.

extern crate alloc;

mod event;
mod files;
mod room;
mod session;
mod violation;

pub use event::Event;
pub use session::{Limits, Session};
pub use violation::{Violation, refusal};
