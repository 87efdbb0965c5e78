//! Whether the disk beneath a folder rotates: what the kernel says of it.

use std::fs;
use std::path::Path;

/// `None` where the kernel does not know: network file systems, overlays, memory.
pub(crate) fn is_rotating(folder: &Path) -> Option<bool> {
    let device = rustix::fs::stat(folder).ok()?.st_dev;
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let block = format!("/sys/dev/block/{major}:{minor}");
    // A partition has no queue of its own; the disk's is one folder up.
    let paths = [format!("{block}/queue/rotational"), format!("{block}/../queue/rotational")];
    let text = paths.iter().find_map(|path| fs::read_to_string(path).ok())?;
    match text.trim() {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    }
}
