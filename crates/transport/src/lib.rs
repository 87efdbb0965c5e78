//! Sockets that carry frames, payloads and descriptors.
//!
//! [`Endpoint`] says where, [`Listener`] accepts, [`Stream`] moves bytes and, on a Unix socket,
//! descriptors. Everything here is a thin, allocation-free layer over system calls made directly
//! (not through the C library), because the client side runs inside the preload library, where
//! the C library's `read` and `write` are our own hooks.

mod endpoint;
mod listener;
mod stream;

pub use endpoint::{Endpoint, EndpointError};
pub use listener::{Listener, Peer};
pub use stream::{Ready, Received, Stream};
