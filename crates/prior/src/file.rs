//! Files: read with a bound, and replaced as a whole.

use std::fs::{self, File, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

/// What a regular file holds, of a longer one than `bytes_max` one byte more than that.
pub(crate) fn read(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    // Whoever opens a pipe waits for a writer.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Puts text in a file's place: written beside it, brought to the device, renamed over it.
pub(crate) fn replace(path: &Path, text: &str) -> io::Result<()> {
    let path = target(path);
    let mut next = beside(&path)?;
    next.write_all(text.as_bytes())?;
    next.as_file().sync_all()?;
    next.persist(&path).map_err(|error| error.error)?;
    // The new name is in the folder; only the folder's own sync makes it last.
    File::open(folder(&path))?.sync_all()
}

/// Whether a file of that name can be put in its place.
pub(crate) fn is_replaceable(path: &Path) -> io::Result<()> {
    beside(&target(path)).map(drop)
}

/// Gives a file a name that says that it is damaged, in place of an older one that was.
pub(crate) fn set_aside(path: &Path) -> io::Result<PathBuf> {
    let path = target(path);
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".damaged");
    let aside = path.with_file_name(name);
    fs::rename(path, &aside)?;
    Ok(aside)
}

/// A new file in the same folder, which goes away unless it is given a name.
fn beside(path: &Path) -> io::Result<NamedTempFile> {
    let mut prefix = path.file_name().unwrap_or_default().to_owned();
    prefix.push(".");
    let mut builder = tempfile::Builder::new();
    // As any new file: the umask says who may read it.
    builder.prefix(&prefix).suffix(".new").permissions(Permissions::from_mode(0o666));
    builder.tempfile_in(folder(path))
}

/// Where a link leads, also if nothing is there yet; any other path is its own.
fn target(path: &Path) -> PathBuf {
    let followed = || fs::read_link(path).map(|target| folder(path).join(target));
    fs::canonicalize(path).or_else(|_| followed()).unwrap_or_else(|_| path.into())
}

fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}
