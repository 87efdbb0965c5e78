//! The other end of a raw socket: what a forwarder is compared with.
//!
//! `forebay-bench-socket sink|source|echo unix:PATH|tcp:ADDRESS BYTES COUNT` connects and then, until
//! the connection ends,
//!
//! - `sink`: receives COUNT messages of BYTES and answers with one byte;
//! - `source`: waits for one byte and sends COUNT messages of BYTES;
//! - `echo`: sends every message of BYTES back.

use std::error::Error;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

trait Stream: Read + Write {}

impl<T: Read + Write> Stream for T {}

fn connect(endpoint: &str) -> Result<Box<dyn Stream>, Box<dyn Error>> {
    if let Some(path) = endpoint.strip_prefix("unix:") {
        return Ok(Box::new(UnixStream::connect(path)?));
    }
    let address = endpoint.strip_prefix("tcp:").ok_or("unix:PATH or tcp:ADDRESS")?;
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    Ok(Box::new(stream))
}

/// One turn of a mode.
type Turn = fn(&mut dyn Stream, &mut [u8], u64) -> io::Result<()>;

fn sink(stream: &mut dyn Stream, message: &mut [u8], count: u64) -> io::Result<()> {
    (0..count).try_for_each(|_| stream.read_exact(message))?;
    stream.write_all(&[0])
}

fn source(stream: &mut dyn Stream, message: &mut [u8], count: u64) -> io::Result<()> {
    stream.read_exact(&mut [0])?;
    (0..count).try_for_each(|_| stream.write_all(message))
}

fn echo(stream: &mut dyn Stream, message: &mut [u8], _: u64) -> io::Result<()> {
    stream.read_exact(message)?;
    stream.write_all(message)
}

fn run() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [mode, endpoint, bytes, count] = &arguments[..] else {
        return Err("sink|source|echo unix:PATH|tcp:ADDRESS BYTES COUNT".into());
    };
    let turn: Turn = match mode.as_str() {
        "sink" => sink,
        "source" => source,
        "echo" => echo,
        _ => return Err("sink, source or echo".into()),
    };
    let (mut message, count) = (vec![1; bytes.parse()?], count.parse()?);
    let mut stream = connect(endpoint)?;
    loop {
        match turn(&mut *stream, &mut message, count) {
            Ok(()) => {}
            // The other side has what it wanted.
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset
                ) =>
            {
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        }
    }
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("forebay-bench-socket: {error}");
            ExitCode::FAILURE
        }
    }
}
