//! A plain program that reads or writes every so many blocks of a file; it knows nothing of Forebay.
//!
//! `forebay-bench-strides read|write|read-direct|write-direct FILE SEED BLOCK_BYTES FIRST EVERY COUNT`
//!
//! It opens FILE, says `ready`, and waits until its standard input ends, so that whoever started
//! many of these can let them all go at once. Then it takes the blocks FIRST, FIRST + EVERY, …,
//! COUNT of them, one after another. Every 8 bytes of the file follow from their offset and SEED:
//! a reader compares all it gets, a writer ends with `fsync`. At the end it says `done`.
//!
//! `-direct` opens FILE with `O_DIRECT`. FILE may also be on an NFS server (see [`nfs`]):
//! `nfs://HOST:PORT/EXPORT?file=NAME&mount_port=PORT&transfer_bytes=BYTES`.

mod file;
mod nfs;

use std::error::Error;
use std::io::{Read as _, Write as _};
use std::process::ExitCode;

use file::{Aligned, Local, Target};
use nfs::{NfsFile, Place};

const WORD_BYTES: usize = 8;

struct Job {
    is_writer: bool,
    is_direct: bool,
    path: String,
    seed: u64,
    block_bytes: usize,
    first: u64,
    every: u64,
    count: u64,
}

impl Job {
    fn from_arguments() -> Result<Self, Box<dyn Error>> {
        let usage = "read|write|read-direct|write-direct FILE SEED BLOCK_BYTES FIRST EVERY COUNT";
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        let [mode, path, seed, block_bytes, first, every, count] = &arguments[..] else {
            return Err(usage.into());
        };
        let (is_writer, is_direct) = match mode.as_str() {
            "read" => (false, false),
            "write" => (true, false),
            "read-direct" => (false, true),
            "write-direct" => (true, true),
            _ => return Err(usage.into()),
        };
        let block_bytes: usize = block_bytes.parse()?;
        if block_bytes == 0 || !block_bytes.is_multiple_of(WORD_BYTES) {
            return Err(format!("BLOCK_BYTES {block_bytes}: not a multiple of {WORD_BYTES}").into());
        }
        let (seed, first, every, count) =
            (seed.parse()?, first.parse()?, every.parse()?, count.parse()?);
        let path = path.clone();
        Ok(Self { is_writer, is_direct, path, seed, block_bytes, first, every, count })
    }

    fn open(&self) -> Result<Box<dyn Target>, Box<dyn Error>> {
        match Place::parse(&self.path)? {
            Some(_) if self.is_direct => Err("an NFS file has no O_DIRECT here".into()),
            Some(place) => Ok(Box::new(NfsFile::open(&place)?)),
            None => Ok(Box::new(Local::open(&self.path, self.is_writer, self.is_direct)?)),
        }
    }

    fn run(&self, file: &mut dyn Target) -> Result<(), Box<dyn Error>> {
        let mut block = Aligned::new(self.block_bytes);
        for turn in 0..self.count {
            let offset = (self.first + turn * self.every) * self.block_bytes as u64;
            if self.is_writer {
                self.fill(block.bytes(), offset);
                file.write_at(block.bytes(), offset)?;
            } else {
                file.read_at(block.bytes(), offset)
                    .map_err(|error| format!("offset {offset}: {error}"))?;
                self.check(block.bytes(), offset)?;
            }
        }
        if self.is_writer { Ok(file.sync()?) } else { Ok(()) }
    }

    /// What the word at `offset` holds: different for every offset and seed, cheap to compute.
    fn word(&self, offset: u64) -> [u8; WORD_BYTES] {
        (offset ^ self.seed).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_ne_bytes()
    }

    fn fill(&self, block: &mut [u8], start: u64) {
        for (word, offset) in block.chunks_exact_mut(WORD_BYTES).zip((start..).step_by(WORD_BYTES))
        {
            word.copy_from_slice(&self.word(offset));
        }
    }

    fn check(&self, block: &[u8], start: u64) -> Result<(), String> {
        let words = block.chunks_exact(WORD_BYTES).zip((start..).step_by(WORD_BYTES));
        match words.into_iter().find(|(word, offset)| *word != self.word(*offset)) {
            Some((word, offset)) => Err(format!(
                "wrong data at offset {offset}: {word:02x?}, not {:02x?}",
                self.word(offset)
            )),
            None => Ok(()),
        }
    }
}

/// Says one word to whoever started this, in one call, so that many may share a pipe.
fn say(word: &[u8]) -> std::io::Result<()> {
    let mut out = std::io::stdout();
    out.write_all(word)?;
    out.flush()
}

fn run() -> Result<(), Box<dyn Error>> {
    let job = Job::from_arguments()?;
    let mut file = job.open().map_err(|error| format!("{}: {error}", job.path))?;
    say(b"ready\n")?;
    std::io::stdin().read_to_end(&mut Vec::new())?;
    job.run(&mut *file).map_err(|error| format!("{}: {error}", job.path))?;
    drop(file);
    Ok(say(b"done\n")?)
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("forebay-bench-strides: {error}");
            ExitCode::FAILURE
        }
    }
}
