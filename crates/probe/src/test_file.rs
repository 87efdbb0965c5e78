//! The files that are measured: one of the user's, which is only read, and one of our own.
//!
//! Our own has no name (`O_TMPFILE`, or it loses its name before anything is written): however the
//! measuring ends, even by `kill -9`, nothing is left behind, and no other file is ever written to.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use forebay_device::RANDOM_SPAN;
use forebay_engine::store::{OpenHow, Operation, StoreFile};
use forebay_units::{Bytes, Nanos, Offset};
use rustix::fs::{FileType, Mode, OFlags, fstat, open, openat, statvfs, unlinkat};
use rustix::io::Errno;

use crate::error::Error;
use crate::measure::{Extent, PIECE, Progress, SPAN_MIN};
use crate::one::{LENGTH_MAX, One, refused};

/// What is written to our file where nothing says otherwise and the time suffices.
const FILL_DEFAULT: Bytes = Bytes::mib(1024);

/// Of what is free, so many parts at most where nothing says otherwise.
const SHARE_OF_FREE: u64 = 10;

/// What stays free whatever is asked for.
const FREE_MIN: Bytes = Bytes::mib(64);

/// How requests reach the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Around the page cache (`O_DIRECT`).
    Direct,
    /// Through the page cache, which is emptied before every run; writes with `fdatasync(2)`.
    Buffered,
    /// Of a model: every byte is charged, whatever is cached.
    Modelled,
}

impl Access {
    /// As files and tables write it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Buffered => "buffered",
            Self::Modelled => "modelled",
        }
    }

    /// The one of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Direct, Self::Buffered, Self::Modelled].into_iter().find(|it| it.as_str() == name)
    }
}

/// What a path turned out to be.
#[derive(Debug)]
pub(crate) enum Place {
    /// A directory: everything happens in a file of ours.
    Directory(PathBuf),
    /// A file to be read, the directory that it is in, and its size.
    File(PathBuf, PathBuf, Bytes),
}

impl Place {
    /// Looks at a path.
    pub(crate) fn of(path: &Path) -> Result<Self, Error> {
        let about = |error| Error::fix(format!("{}: {error}", path.display()));
        let whole = path.canonicalize().map_err(about)?;
        let metadata = whole.metadata().map_err(about)?;
        if metadata.is_dir() {
            return Ok(Self::Directory(whole));
        }
        if !metadata.is_file() {
            let text = "neither a directory nor a regular file; give a directory on the device";
            return Err(Error::fix(format!("{}: {text}", path.display())));
        }
        let directory = whole.parent().unwrap_or(Path::new("/")).to_owned();
        Ok(Self::File(whole, directory, Bytes(metadata.len())))
    }

    /// Where our own file goes.
    pub(crate) fn directory(&self) -> &Path {
        match self {
            Self::Directory(directory) | Self::File(_, directory, _) => directory,
        }
    }
}

/// Opens the user's file to be read, around the page cache if that is possible and wanted.
pub(crate) fn open_to_read(path: &Path, size: Bytes, access: Access) -> Result<OwnedFd, Error> {
    let about = |text: String| Error::fix(format!("{}: {text}", path.display()));
    if size < SPAN_MIN {
        return Err(about(format!(
            "{} bytes are too few to measure; at least {}, or its directory",
            size.0, SPAN_MIN.0
        )));
    }
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | direct(access);
    let file = open(path, flags, Mode::empty()).map_err(|errno| about(errno.to_string()))?;
    let stat = fstat(&file).map_err(|errno| about(errno.to_string()))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(about("no longer a regular file".into()));
    }
    // What is not allocated is read from nowhere. A file system that compresses looks the same.
    if access != Access::Modelled && (stat.st_blocks as u64).saturating_mul(512) < size.0 / 10 * 9 {
        return Err(about(
            "sparse or compressed: its bytes are not on the device; give its directory".into(),
        ));
    }
    Ok(file)
}

/// Whether a file of this directory, or this file, can be read around the page cache.
pub(crate) fn access_of(place: &Place) -> Result<Access, Error> {
    let opened = match place {
        Place::Directory(directory) => create(directory, Access::Direct),
        Place::File(path, ..) => {
            open(path, OFlags::RDONLY | OFlags::CLOEXEC | OFlags::DIRECT, Mode::empty())
        }
    };
    match opened {
        Ok(_) => Ok(Access::Direct),
        Err(Errno::INVAL | Errno::OPNOTSUPP) => Ok(Access::Buffered),
        Err(errno) => Err(match place {
            Place::Directory(directory) => cannot_create(directory, errno),
            Place::File(path, ..) => Error::fix(format!("{}: {errno}", path.display())),
        }),
    }
}

/// A file of ours without a name.
pub(crate) fn create_in(directory: &Path, access: Access) -> Result<OwnedFd, Error> {
    create(directory, access).map_err(|errno| cannot_create(directory, errno))
}

fn cannot_create(directory: &Path, errno: Errno) -> Error {
    let place = directory.display();
    Error::fix(format!(
        "cannot make a test file in {place}: {errno}; --no-write reads a file there"
    ))
}

fn direct(access: Access) -> OFlags {
    if access == Access::Direct { OFlags::DIRECT } else { OFlags::empty() }
}

fn create(directory: &Path, access: Access) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | direct(access);
    let mode = Mode::RUSR | Mode::WUSR;
    match open(directory, flags | OFlags::TMPFILE, mode) {
        // File systems that cannot say so in these two ways; the kernel before it knew the flag in a third.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOENT) => {}
        outcome => return outcome,
    }
    let folder =
        open(directory, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let name = OsString::from(format!(".forebay-probe-{}", std::process::id()));
    let created =
        openat(&folder, &name, flags | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW, mode);
    // A file system may make the file and then refuse the flag.
    if !matches!(created, Err(Errno::EXIST)) {
        let _ = unlinkat(&folder, &name, rustix::fs::AtFlags::empty());
    }
    created
}

/// How large our file may become: what was asked for, or what is reasonable here.
pub(crate) fn size_in(directory: &Path, asked: Option<Bytes>) -> Result<Bytes, Error> {
    let place = directory.display();
    let stat = statvfs(directory).map_err(|errno| Error::fix(format!("{place}: {errno}")))?;
    let free = Bytes(stat.f_bavail.saturating_mul(stat.f_frsize));
    let room = free - FREE_MIN;
    let size = asked.unwrap_or_else(|| {
        // As far apart as the models' random requests are.
        RANDOM_SPAN.min(Bytes(free.0 / SHARE_OF_FREE)).max(SPAN_MIN)
    });
    let size = Bytes(size.0 / PIECE.0 * PIECE.0);
    if size < SPAN_MIN {
        let min = SPAN_MIN.0 >> 20;
        return Err(Error::fix(format!(
            "a test file of {} bytes is too small: at least {min} MiB",
            size.0
        )));
    }
    if size > room {
        let (size, free) = (size.0 >> 20, free.0 >> 20);
        let text = format!("{free} MiB are free in {place}, too few for a test file of {size} MiB");
        return Err(Error::fix(format!("{text}; --size makes it smaller, --no-write needs none")));
    }
    Ok(size)
}

/// Takes an open file to the store.
pub(crate) fn hand_over(one: &mut One<'_>, file: OwnedFd) -> Result<StoreFile, Error> {
    let opened = one.store().open(OpenHow::Descriptor(file));
    opened
        .map(|opened| opened.file)
        .map_err(|errno| Error::failed(format!("the store does not take the file: {errno}")))
}

/// How much of our file is written.
pub(crate) struct Filling {
    /// No longer than this, once there is enough to measure.
    pub(crate) time: Nanos,
    /// No more than this.
    pub(crate) bytes: Bytes,
}

impl Filling {
    /// In so much time; all of a size that was asked for.
    pub(crate) fn new(time: Nanos, asked: Option<Bytes>) -> Self {
        Self { time, bytes: asked.unwrap_or(FILL_DEFAULT) }
    }
}

/// Takes the space for our file, and writes pieces of it, spread evenly. What of it may be used.
pub(crate) fn fill(
    one: &mut One<'_>,
    file: StoreFile,
    size: Bytes,
    filling: &Filling,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Extent, Error> {
    let began = one.now();
    // Where that is not known, pieces take their space as they are written.
    let whole = Operation::Allocate { mode: 0, offset: Offset(0), length: size };
    match one.try_call(file, whole)? {
        Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
        Err(errno) => return Err(refused(whole, errno)),
    }
    let extent = Extent::whole(file, size);
    let (pieces, least) = (size.0 / PIECE.0, SPAN_MIN.0 / PIECE.0);
    let most = pieces.min(filling.bytes.0 / PIECE.0).max(least);
    let mut used = 0;
    while used < most && (used < least || one.now() - began < filling.time) {
        let start = extent.piece(used);
        for at in (start..start + PIECE.0).step_by(LENGTH_MAX.0 as usize) {
            one.write(file, at, LENGTH_MAX)?;
        }
        used += 1;
        progress(&Progress::Filling { done: Bytes(used * PIECE.0), size: Bytes(most * PIECE.0) });
    }
    one.call(file, Operation::DataSync)?;
    Ok(extent.with_used(used))
}

/// Makes our file so long without a byte in it: enough for a model.
pub(crate) fn stretch(one: &mut One<'_>, file: StoreFile, size: Bytes) -> Result<(), Error> {
    one.call(file, Operation::Truncate(size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_ours_has_no_name() {
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        for access in [Access::Direct, Access::Buffered] {
            let _file = create_in(folder.path(), access).unwrap();
            assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        }
    }

    #[test]
    fn a_size_has_to_fit_and_to_mean_something() {
        let folder = tempfile::tempdir().unwrap();
        let size = |asked| size_in(folder.path(), asked);
        assert_eq!(size(Some(Bytes::mib(64) + Bytes(5))).unwrap(), Bytes::mib(64));
        assert!(size(None).unwrap() >= SPAN_MIN);
        let small = size(Some(Bytes::mib(63))).unwrap_err().to_string();
        assert!(small.contains("at least 64 MiB"), "{small}");
        let large = size(Some(Bytes::mib(1 << 40))).unwrap_err().to_string();
        assert!(large.contains("--size") && large.contains("free"), "{large}");
    }

    #[test]
    fn what_is_no_place_to_measure_is_refused_with_a_remedy() {
        let text = |path: &str| Place::of(Path::new(path)).unwrap_err().to_string();
        assert!(text("/dev/null").contains("give a directory"));
        assert!(text("/no/such/place").contains("No such file"));
    }

    #[test]
    fn holes_and_small_files_are_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let file = std::fs::File::create(&path).unwrap();
        file.set_len(SPAN_MIN.0).unwrap();
        let refusal = |size| open_to_read(&path, size, Access::Buffered).unwrap_err().to_string();
        assert!(refusal(SPAN_MIN).contains("sparse"), "{}", refusal(SPAN_MIN));
        assert!(refusal(Bytes(5)).contains("too few"), "{}", refusal(Bytes(5)));
        assert!(open_to_read(&path, SPAN_MIN, Access::Modelled).is_ok());
    }
}
