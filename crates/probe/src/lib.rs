//! Measures a device on a file of it, and keeps what was found.

mod error;
mod known;

use std::path::Path;

use forebay_select::DeviceProfile;

pub use error::{Error, ErrorKind};
pub use known::{assumed, of_model};

/// The profile of the device on which `path` is, if it was probed on this machine.
///
/// # Errors
/// If there is one that cannot be read.
pub fn load_for(path: &Path) -> Result<Option<DeviceProfile>, Error> {
    std::fs::metadata(path).map_err(|error| Error::fix(format!("{}: {error}", path.display())))?;
    Ok(None)
}
