//! Where the preload library is.

use std::path::{Path, PathBuf};

use crate::failure::{Failure, RUN_FAILED};

const NAME: &str = "libforebay_preload.so";

/// Names the library to use instead of the installed one.
const VARIABLE: &str = "FOREBAY_PRELOAD";

/// Finds the preload library: named by `FOREBAY_PRELOAD`, beside this program (a build
/// directory), or in `../lib/forebay` (an installation).
pub(crate) fn find() -> Result<PathBuf, Failure> {
    if let Some(named) = std::env::var_os(VARIABLE) {
        let named = PathBuf::from(named);
        return named.canonicalize().map_err(|error| {
            Failure::new(
                RUN_FAILED,
                format!("{VARIABLE} = {:?}: {error}; name the file {NAME}", named),
            )
        });
    }
    let program =
        std::env::current_exe().and_then(|program| program.canonicalize()).map_err(|error| {
            Failure::new(RUN_FAILED, format!("cannot find out where this program is: {error}"))
        })?;
    let directory = program.parent().unwrap_or(Path::new("/"));
    let candidates = [directory.join(NAME), directory.join("../lib/forebay").join(NAME)];
    candidates.iter().find_map(|candidate| candidate.canonicalize().ok()).ok_or_else(|| {
        Failure::new(
            RUN_FAILED,
            format!(
                "{NAME} is neither {} nor {}; build it with `make build`, or name it in {VARIABLE}",
                candidates[0].display(),
                candidates[1].display()
            ),
        )
    })
}
