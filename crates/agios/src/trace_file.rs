//! Traces in AGIOS's format: one line for each arrival, in files that are numbered.
//!
//! A line is `nanoseconds since the start`, file, `R` or `W`, offset and length, separated by tabs.
//! A file is `prefix.N.suffix` for the first N from 1 that does not exist.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use forebay_units::{Bytes, Direction, Nanos};

use crate::config::Trace;

/// A trace being written.
#[derive(Debug)]
pub(crate) struct TraceFile {
    lines: BufWriter<File>,
    path: PathBuf,
}

impl TraceFile {
    /// Creates the next file.
    pub(crate) fn create(settings: &Trace) -> io::Result<Self> {
        let buffer = usize::try_from(settings.buffer.0).unwrap_or(usize::MAX);
        for number in 1_u32.. {
            let path = numbered(settings, number);
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(file) => {
                    return Ok(Self { lines: BufWriter::with_capacity(buffer, file), path });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => {
                    return Err(io::Error::new(
                        error.kind(),
                        format!(
                            "{}: {error}; correct trace_file_prefix or set trace = false",
                            path.display()
                        ),
                    ));
                }
            }
        }
        Err(io::Error::other("no number is left for a trace file"))
    }

    /// Writes a line, sooner or later.
    pub(crate) fn line(
        &mut self,
        since_start: Nanos,
        file: &[u8],
        direction: Direction,
        offset: u64,
        length: Bytes,
    ) -> io::Result<()> {
        let letter = match direction {
            Direction::Read => 'R',
            Direction::Write => 'W',
        };
        write!(self.lines, "{}\t", since_start.0)?;
        self.lines.write_all(file)?;
        writeln!(self.lines, "\t{letter}\t{offset}\t{}", length.0)
    }

    /// Writes what is still in the buffer.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.lines.flush().map_err(|error| self.named(&error))
    }

    /// The error with the file's name.
    pub(crate) fn named(&self, error: &io::Error) -> io::Error {
        io::Error::new(error.kind(), format!("{}: {error}", self.path.display()))
    }
}

fn numbered(settings: &Trace, number: u32) -> PathBuf {
    let mut path = settings.prefix.clone().into_os_string();
    path.push(format!(".{number}."));
    path.push(&settings.suffix);
    PathBuf::from(path)
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    #[test]
    fn files_are_numbered_and_lines_are_those_of_agios() {
        let folder = TempDir::new().unwrap();
        let settings = Trace {
            prefix: folder.path().join("trace"),
            suffix: PathBuf::from("out"),
            buffer: Bytes::kib(1),
        };
        for number in 1..3 {
            let mut trace = TraceFile::create(&settings).unwrap();
            trace.line(Nanos(5), b"a file", Direction::Read, 8192, Bytes(10)).unwrap();
            trace.line(Nanos(70), b"b", Direction::Write, 0, Bytes(0)).unwrap();
            trace.finish().unwrap();
            let text =
                std::fs::read_to_string(folder.path().join(format!("trace.{number}.out"))).unwrap();
            assert_eq!(text, "5\ta file\tR\t8192\t10\n70\tb\tW\t0\t0\n");
        }
    }

    #[test]
    fn a_file_that_cannot_be_made_is_named() {
        let settings = Trace {
            prefix: PathBuf::from("/nowhere/trace"),
            suffix: PathBuf::from("out"),
            buffer: Bytes::kib(1),
        };
        let error = TraceFile::create(&settings).unwrap_err().to_string();
        assert!(
            error.starts_with("/nowhere/trace.1.out: ") && error.contains("set trace"),
            "{error}"
        );
    }
}
