//! A plain program that reads or writes every so many blocks of a file; it knows nothing of Forebay.
//!
//! `forebay-bench-strides read|write FILE SEED BLOCK_BYTES FIRST EVERY COUNT`
//!
//! It opens FILE, says `ready`, and waits until its standard input ends, so that whoever started
//! many of these can let them all go at once. Then it takes the blocks FIRST, FIRST + EVERY, …,
//! COUNT of them, one after another. Every 8 bytes of the file follow from their offset and SEED:
//! a reader compares all it gets, a writer ends with `fsync`. At the end it says `done`.

use std::error::Error;
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::process::ExitCode;

const WORD_BYTES: usize = 8;

struct Job {
    is_writer: bool,
    path: String,
    seed: u64,
    block_bytes: usize,
    first: u64,
    every: u64,
    count: u64,
}

impl Job {
    fn from_arguments() -> Result<Self, Box<dyn Error>> {
        let usage = "read|write FILE SEED BLOCK_BYTES FIRST EVERY COUNT";
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        let [mode, path, seed, block_bytes, first, every, count] = &arguments[..] else {
            return Err(usage.into());
        };
        let is_writer = match mode.as_str() {
            "read" => false,
            "write" => true,
            _ => return Err(usage.into()),
        };
        let block_bytes: usize = block_bytes.parse()?;
        if block_bytes == 0 || !block_bytes.is_multiple_of(WORD_BYTES) {
            return Err(format!("BLOCK_BYTES {block_bytes}: not a multiple of {WORD_BYTES}").into());
        }
        let (seed, first, every, count) =
            (seed.parse()?, first.parse()?, every.parse()?, count.parse()?);
        Ok(Self { is_writer, path: path.clone(), seed, block_bytes, first, every, count })
    }

    fn open(&self) -> std::io::Result<File> {
        OpenOptions::new()
            .read(!self.is_writer)
            .write(self.is_writer)
            .create(self.is_writer)
            .open(&self.path)
    }

    fn run(&self, file: &File) -> Result<(), Box<dyn Error>> {
        let mut block = vec![0; self.block_bytes];
        for turn in 0..self.count {
            let offset = (self.first + turn * self.every) * self.block_bytes as u64;
            if self.is_writer {
                self.fill(&mut block, offset);
                file.write_all_at(&block, offset)?;
            } else {
                file.read_exact_at(&mut block, offset)
                    .map_err(|error| format!("offset {offset}: {error}"))?;
                self.check(&block, offset)?;
            }
        }
        if self.is_writer { Ok(file.sync_all()?) } else { Ok(()) }
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
    let file = job.open().map_err(|error| format!("{}: {error}", job.path))?;
    say(b"ready\n")?;
    std::io::stdin().read_to_end(&mut Vec::new())?;
    job.run(&file).map_err(|error| format!("{}: {error}", job.path))?;
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
