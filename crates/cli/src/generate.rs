//! Man pages and shell completions, from the definitions of the command line.

use std::process::ExitCode;

use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::args::{CommandLine, GenerateArgs, Generated};
use crate::failure::{FAILED, Failure};

/// Writes what was asked for into a directory.
pub(crate) fn generate(args: GenerateArgs) -> Result<ExitCode, Failure> {
    let directory = &args.directory;
    let failed = |error: std::io::Error| {
        Failure::new(FAILED, format!("cannot write to {}: {error}", directory.display()))
    };
    std::fs::create_dir_all(directory).map_err(failed)?;
    let mut command = CommandLine::command();
    match args.what {
        Generated::Man => clap_mangen::generate_to(command, directory).map_err(failed)?,
        Generated::Completions => {
            for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
                clap_complete::generate_to(shell, &mut command, "forebay", directory)
                    .map_err(failed)?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}
