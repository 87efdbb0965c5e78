//! Which paths belong to Forebay: absolute prefixes, matched at component boundaries.

use std::ffi::CStr;

use rustix::fs::{CWD, Mode, OFlags};

use crate::descriptor_path;
use crate::text::Text;

/// How many prefixes are kept; each setting counts once, or twice where symbolic links are in it.
const PREFIXES_MAX: usize = 64;

/// All prefixes' bytes together.
const BYTES_MAX: usize = 16 << 10;

/// A list of absolute prefixes.
#[derive(Clone, Copy)]
pub(crate) struct Prefixes {
    text: Text<BYTES_MAX>,
    ends: [usize; PREFIXES_MAX],
    count: usize,
}

impl Prefixes {
    /// No prefix.
    pub(crate) const fn new() -> Self {
        Self { text: Text::new(), ends: [0; PREFIXES_MAX], count: 0 }
    }

    /// Adds a prefix; whether there was room.
    pub(crate) fn push(&mut self, prefix: &[u8]) -> bool {
        let before = self.text.len();
        if self.count == PREFIXES_MAX || before + prefix.len() > BYTES_MAX {
            return false;
        }
        self.text.push(trimmed(prefix));
        self.seal();
        true
    }

    /// Adds a directory under the name that the kernel gives it, symbolic links resolved, if that
    /// can be found out now.
    pub(crate) fn push_resolved(&mut self, path: &CStr) {
        if self.count == PREFIXES_MAX {
            return;
        }
        let before = self.text.len();
        let Ok(opened) =
            rustix::fs::openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
        else {
            return;
        };
        self.text.push_with(|room| descriptor_path::read(&opened, room).unwrap_or(0));
        if self.text.len() > before {
            self.seal();
        }
    }

    fn seal(&mut self) {
        self.ends[self.count] = self.text.len();
        self.count += 1;
    }

    /// What of `path` lies beneath one of the prefixes, without a leading slash.
    pub(crate) fn relative<'p>(&self, path: &'p [u8]) -> Option<&'p [u8]> {
        let mut start = 0;
        self.ends[..self.count].iter().find_map(|&end| {
            let prefix = &self.text.as_bytes()[start..end];
            start = end;
            relative(prefix, path)
        })
    }
}

/// What of `path` lies beneath `prefix`, without a leading slash; empty when they are the same.
pub(crate) fn relative<'p>(prefix: &[u8], path: &'p [u8]) -> Option<&'p [u8]> {
    let rest = path.strip_prefix(trimmed(prefix))?;
    match rest {
        [] => Some(rest),
        [b'/', beneath @ ..] => Some(beneath),
        _ => None,
    }
}

/// Without trailing slashes: `/` becomes nothing, which is a prefix of every absolute path.
fn trimmed(mut prefix: &[u8]) -> &[u8] {
    while let [rest @ .., b'/'] = prefix {
        prefix = rest;
    }
    prefix
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_at_a_component() {
        assert_eq!(relative(b"/data", b"/data/x"), Some(&b"x"[..]));
        assert_eq!(relative(b"/data/", b"/data/x/y"), Some(&b"x/y"[..]));
        assert_eq!(relative(b"/data", b"/data"), Some(&b""[..]));
        assert_eq!(relative(b"/data", b"/database"), None);
        assert_eq!(relative(b"/data", b"/dat"), None);
        assert_eq!(relative(b"/", b"/anything"), Some(&b"anything"[..]));
    }

    #[test]
    fn several_prefixes_are_kept_apart() {
        let mut prefixes = Prefixes::new();
        assert!(prefixes.push(b"/a"));
        assert!(prefixes.push(b"/b/c/"));
        assert_eq!(prefixes.relative(b"/a/1"), Some(&b"1"[..]));
        assert_eq!(prefixes.relative(b"/b/c/2"), Some(&b"2"[..]));
        assert_eq!(prefixes.relative(b"/b/3"), None);
        assert_eq!(prefixes.relative(b"/a/b/c"), Some(&b"b/c"[..]));
    }

    #[test]
    fn a_symbolic_link_in_a_prefix_is_resolved() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let real = folder.path().canonicalize().expect("real path").join("real");
        std::fs::create_dir(&real).expect("folder");
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&real, &link).expect("link");
        let mut prefixes = Prefixes::new();
        let link = std::ffi::CString::new(link.to_str().expect("text")).expect("no zero");
        prefixes.push_resolved(&link);
        let inside = real.join("x");
        assert_eq!(prefixes.relative(inside.to_str().expect("text").as_bytes()), Some(&b"x"[..]));
    }

    #[test]
    fn too_many_prefixes_are_refused() {
        let mut prefixes = Prefixes::new();
        for _ in 0..PREFIXES_MAX {
            assert!(prefixes.push(b"/p"));
        }
        assert!(!prefixes.push(b"/q"));
    }
}
