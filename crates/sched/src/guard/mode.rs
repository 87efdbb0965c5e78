//! Which conflicting pairs the guard keeps in order.

use core::fmt;
use core::str::FromStr;

/// Which pairs of requests keep their arrival order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum GuardMode {
    /// None: the layer above has locks, or its semantics leave overlaps undefined (PVFS, MPI-IO
    /// without atomic mode). Syncs still wait for earlier writes.
    None,
    /// Pairs that share a byte, at least one of them writing.
    #[default]
    Overlap,
    /// As `Overlap` within one client; conflicting requests of different clients exclude each
    /// other but may go in another order than they arrived.
    Client,
    /// All pairs of one file with at least one writing, whatever their ranges (aIOLi 2006).
    File,
}

impl GuardMode {
    /// Every mode.
    pub const ALL: [Self; 4] = [Self::None, Self::Overlap, Self::Client, Self::File];

    /// The mode as configuration writes it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Overlap => "overlap",
            Self::Client => "client",
            Self::File => "file",
        }
    }
}

impl fmt::Display for GuardMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The text names no guard mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownGuardMode;

impl fmt::Display for UnknownGuardMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("unknown guard mode; one of none, overlap, client, file")
    }
}

impl core::error::Error for UnknownGuardMode {}

impl FromStr for GuardMode {
    type Err = UnknownGuardMode;

    /// Reads a mode; upper and lower case are the same.
    fn from_str(text: &str) -> Result<Self, UnknownGuardMode> {
        Self::ALL
            .into_iter()
            .find(|mode| mode.as_str().eq_ignore_ascii_case(text))
            .ok_or(UnknownGuardMode)
    }
}
