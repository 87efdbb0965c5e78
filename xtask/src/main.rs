//! Repository chores: `cargo run -p xtask -- tidy` checks what the compiler cannot.

use std::process::ExitCode;

mod tidy;

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("tidy") => match tidy::complaints_of_repository() {
            Ok(complaints) if complaints.is_empty() => ExitCode::SUCCESS,
            Ok(complaints) => {
                complaints.iter().for_each(|complaint| eprintln!("tidy: {complaint}"));
                ExitCode::FAILURE
            }
            Err(error) => {
                eprintln!("tidy: cannot read the repository: {error}");
                ExitCode::FAILURE
            }
        },
        _ => {
            eprintln!("usage: cargo run -p xtask -- tidy");
            ExitCode::from(2)
        }
    }
}
