//! Text of bounded length, built without allocation: messages, paths, settings.

use core::fmt::{self, Write};
use std::ffi::CStr;

/// Up to `N` bytes; what does not fit is cut off and remembered as cut off.
#[derive(Clone, Copy)]
pub(crate) struct Text<const N: usize> {
    bytes: [u8; N],
    length: usize,
    cut: bool,
}

impl<const N: usize> Text<N> {
    /// Nothing yet.
    pub(crate) const fn new() -> Self {
        Self { bytes: [0; N], length: 0, cut: false }
    }

    /// Appends bytes.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let room = N - self.length;
        let taken = bytes.len().min(room);
        self.bytes[self.length..self.length + taken].copy_from_slice(&bytes[..taken]);
        self.length += taken;
        self.cut |= taken < bytes.len();
    }

    /// Lets `fill` write into what is left and takes over as many bytes as it says.
    pub(crate) fn push_with(&mut self, fill: impl FnOnce(&mut [u8]) -> usize) -> &[u8] {
        let start = self.length;
        let filled = fill(&mut self.bytes[start..]);
        self.length = (start + filled).min(N);
        &self.bytes[start..self.length]
    }

    /// What is there.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// How many bytes are there.
    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// Whether there is nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Whether something did not fit.
    pub(crate) fn is_cut(&self) -> bool {
        self.cut
    }

    /// As a C string, if the terminating zero fits and no other is inside.
    pub(crate) fn as_c_str(&self) -> Option<&CStr> {
        let end = (self.length + 1).min(N);
        if end == self.length {
            return None;
        }
        CStr::from_bytes_with_nul(&self.bytes[..end]).ok()
    }
}

impl<const N: usize> Write for Text<N> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.push(text.as_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_cut_off_and_known_to_be() {
        let mut text = Text::<4>::new();
        text.push(b"abc");
        assert!(!text.is_cut());
        text.push(b"def");
        assert_eq!(text.as_bytes(), b"abcd");
        assert!(text.is_cut());
        assert!(text.as_c_str().is_none());
    }

    #[test]
    fn a_text_is_a_c_string_when_the_zero_fits() {
        let mut text = Text::<16>::new();
        write!(text, "fd/{}", 12).expect("never fails");
        assert_eq!(text.as_c_str(), Some(c"fd/12"));
    }
}
