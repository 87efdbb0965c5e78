//! Writing to the user's terminal, pipe or log: a reader that has gone must not stop the work.

use std::fmt;
use std::io::{self, Write as _};

use crate::failure::{FAILED, Failure};

/// Says a line on standard error, or nothing where that is closed. (`eprintln!` would panic.)
pub(crate) fn say(message: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{message}");
}

/// Prints a command's result on standard output. A pipe closed by its reader (`| head`) has what it wanted.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut output = io::stdout().lock();
    match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::new(FAILED, format!("cannot write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// A name that somebody else chose, without what would move the terminal's cursor.
pub(crate) fn printable(name: &str) -> String {
    name.replace(char::is_control, "?")
}
