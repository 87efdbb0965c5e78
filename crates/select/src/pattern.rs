//! What an access pattern is.

use forebay_units::{Bytes, Direction};

/// Where a process's next request goes (AGIOS 2015, Figure 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Spatiality {
    /// Where its last one ended.
    Contiguous,
    /// A fixed distance further on; the processes together cover the range.
    Strided,
    /// Anywhere.
    Random,
}

/// The application's request against the stripe of the data servers (AGIOS 2015, section 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SizeClass {
    /// Shorter than a stripe: it reaches one server.
    Small,
    /// At least a stripe: it reaches several.
    Large,
}

/// What requests have in common.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pattern {
    /// Where they go.
    pub spatiality: Spatiality,
    /// How large they are for the application.
    pub size_class: SizeClass,
    /// What most of them do.
    pub direction: Direction,
    /// Reads of a thousand.
    pub reads_permille: u32,
    /// Files in use.
    pub files: u32,
    /// Bytes of a file, the mean of the files in use: the span of the offsets seen.
    pub file_bytes: Bytes,
    /// Clients in use.
    pub clients: u32,
    /// Streams in use: a client in a file is one.
    pub streams: u32,
    /// The mean length of a request here.
    pub request: Bytes,
    /// What the application asks for at once, as far as it is seen here: the most frequent length.
    pub application_request: Bytes,
    /// Of a thousand requests, how many continued their stream.
    pub hit_permille: u32,
    /// Of a thousand bursts, how many touch a recent one of another stream of the file: what can
    /// be merged across clients.
    pub adjacent_permille: u32,
}
