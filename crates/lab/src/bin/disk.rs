//! The emulated disk's daemon: `forebay-lab-disk DIRECTORY`. Started by `forebay lab disk up`, not by hand.

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let [directory] = &arguments[..] else {
        eprintln!("forebay-lab-disk: DIRECTORY, of a disk that `forebay lab disk up` sets up");
        return ExitCode::from(2);
    };
    match forebay_lab::serve(Path::new(directory)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("forebay-lab-disk: {error}");
            ExitCode::FAILURE
        }
    }
}
