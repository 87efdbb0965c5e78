//! A file on an NFS server, as one process on one node sees it: version 3 over TCP (RFC 1813).
//!
//! A block is cut into transfers of the size that a mount would have (`rsize`, `wsize`). All
//! transfers of a block are on their way at once, and the call returns when all have been answered:
//! a kernel client does the same for `O_DIRECT`, or with its cache switched off. Writes are
//! unstable, and `sync` commits them.
//!
//! Not as a kernel client: no cache, so no read-ahead and no write-behind between calls (a kernel
//! client would join small consecutive writes); and a connection for each process, which is what
//! processes on nodes of their own have.

pub(crate) mod rpc;
pub(crate) mod xdr;

use std::error::Error;
use std::io;

use crate::file::Target;
use rpc::Rpc;
use xdr::{Decoder, Encoder, Malformed};

const SCHEME: &str = "nfs://";

const MOUNT_PROGRAM: u32 = 100_005;
const NFS_PROGRAM: u32 = 100_003;
const VERSION: u32 = 3;

const MOUNT: u32 = 1;
const LOOKUP: u32 = 3;
const READ: u32 = 6;
const WRITE: u32 = 7;
const COMMIT: u32 = 21;

const UNSTABLE: u32 = 0;

/// `fattr3` and what of it stands in `wcc_attr`.
const ATTRIBUTES_BYTES: usize = 84;
const ATTRIBUTES_BEFORE_BYTES: usize = 24;

/// A server that gives back nothing of a transfer is asked again no more than this.
const EMPTY_TRIES_MAX: u32 = 3;

/// Where a file is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Place {
    host: String,
    port: u16,
    mount_port: u16,
    export: String,
    file: String,
    transfer_bytes: u32,
}

impl Place {
    /// Reads `nfs://HOST:PORT/EXPORT?file=NAME&mount_port=PORT&transfer_bytes=BYTES`; anything else is a path.
    pub(crate) fn parse(text: &str) -> Result<Option<Self>, Box<dyn Error>> {
        let Some(rest) = text.strip_prefix(SCHEME) else { return Ok(None) };
        let usage = "not nfs://HOST:PORT/EXPORT?file=NAME&mount_port=PORT&transfer_bytes=BYTES";
        let (address, query) = rest.split_once('?').ok_or(usage)?;
        let (host_port, export) = address.split_once('/').ok_or(usage)?;
        let (host, port) = host_port.rsplit_once(':').ok_or(usage)?;
        let value = |name: &str| {
            let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
            pairs.find(|(own, _)| *own == name).map(|(_, value)| value).ok_or(usage)
        };
        Ok(Some(Self {
            host: host.to_owned(),
            port: port.parse()?,
            mount_port: value("mount_port")?.parse()?,
            export: format!("/{export}"),
            file: value("file")?.to_owned(),
            transfer_bytes: value("transfer_bytes")?.parse::<std::num::NonZeroU32>()?.get(),
        }))
    }
}

/// An open file.
pub(crate) struct NfsFile {
    rpc: Rpc,
    handle: Vec<u8>,
    transfer_bytes: usize,
    is_written: bool,
}

/// Part of a block that has not been answered yet.
struct Transfer {
    call: u32,
    start: usize,
    length: usize,
}

impl NfsFile {
    /// Mounts the export and looks the file up; it has to exist.
    pub(crate) fn open(place: &Place) -> io::Result<Self> {
        let mut mount = Rpc::connect(&place.host, place.mount_port, MOUNT_PROGRAM, VERSION)?;
        let mut arguments = Encoder::default();
        arguments.opaque(place.export.as_bytes());
        let root = handle_in(mount.call(MOUNT, &arguments)?, "mounting")?;

        let mut rpc = Rpc::connect(&place.host, place.port, NFS_PROGRAM, VERSION)?;
        let mut arguments = Encoder::default();
        arguments.opaque(&root).opaque(place.file.as_bytes());
        let handle = handle_in(rpc.call(LOOKUP, &arguments)?, "looking the file up")?;
        Ok(Self { rpc, handle, transfer_bytes: place.transfer_bytes as usize, is_written: false })
    }

    /// The transfers of a block, all sent.
    fn send(&mut self, block: Block<'_>, offset: u64) -> io::Result<Vec<Transfer>> {
        let length = block.len();
        let mut sent = Vec::with_capacity(length.div_ceil(self.transfer_bytes));
        for start in (0..length).step_by(self.transfer_bytes) {
            let length = self.transfer_bytes.min(length - start);
            sent.push(self.send_one(&block, offset, start, length)?);
        }
        Ok(sent)
    }

    fn send_one(
        &mut self,
        block: &Block<'_>,
        offset: u64,
        start: usize,
        length: usize,
    ) -> io::Result<Transfer> {
        let mut arguments = Encoder::default();
        arguments.opaque(&self.handle).u64(offset + start as u64).u32(length as u32);
        let call = match block {
            Block::Read(_) => self.rpc.send(READ, &arguments)?,
            Block::Write(data) => {
                arguments.u32(UNSTABLE).opaque(&data[start..start + length]);
                self.rpc.send(WRITE, &arguments)?
            }
        };
        Ok(Transfer { call, start, length })
    }
}

/// What is moved.
enum Block<'b> {
    /// Only its length matters before the replies are there.
    Read(usize),
    Write(&'b [u8]),
}

impl Block<'_> {
    fn len(&self) -> usize {
        match self {
            Self::Read(length) => *length,
            Self::Write(data) => data.len(),
        }
    }
}

/// The transfer that a reply is to.
fn take(sent: &mut Vec<Transfer>, call: u32) -> io::Result<Transfer> {
    let found = sent.iter().position(|transfer| transfer.call == call);
    found.map(|idx| sent.swap_remove(idx)).ok_or_else(|| io::Error::other("a reply to nothing"))
}

fn malformed(Malformed: Malformed) -> io::Error {
    io::Error::other("a malformed reply")
}

/// An error of the server's, if the results say so.
fn status(results: &mut Decoder<'_>, doing: &str) -> io::Result<()> {
    match results.u32().map_err(malformed)? {
        0 => Ok(()),
        // Those below 10000 are errno's.
        code @ 1..10_000 => Err(io::Error::from_raw_os_error(code.cast_signed())),
        code => Err(io::Error::other(format!("{doing}: the server says {code}"))),
    }
}

/// The handle that the results of mounting or looking up begin with.
fn handle_in(mut results: Decoder<'_>, doing: &str) -> io::Result<Vec<u8>> {
    status(&mut results, doing)?;
    Ok(results.opaque().map_err(malformed)?.to_vec())
}

/// The bytes that were read.
fn bytes_read<'m>(results: &mut Decoder<'m>) -> Result<&'m [u8], Malformed> {
    results.skip_optional(ATTRIBUTES_BYTES)?;
    // How many, and whether the file ends there.
    results.skip(8)?;
    results.opaque()
}

/// How many bytes were written.
fn count_written(results: &mut Decoder<'_>) -> Result<usize, Malformed> {
    results.skip_optional(ATTRIBUTES_BEFORE_BYTES)?;
    results.skip_optional(ATTRIBUTES_BYTES)?;
    Ok(results.u32()? as usize)
}

impl Target for NfsFile {
    fn read_at(&mut self, block: &mut [u8], offset: u64) -> io::Result<()> {
        let mut sent = self.send(Block::Read(block.len()), offset)?;
        let mut empty = 0;
        while !sent.is_empty() {
            let (call, mut results) = self.rpc.receive()?;
            let Transfer { start, length, .. } = take(&mut sent, call)?;
            status(&mut results, "reading")?;
            let data = bytes_read(&mut results).map_err(malformed)?;
            if data.len() > length {
                return Err(io::Error::other("more than was asked for"));
            }
            empty += u32::from(data.is_empty());
            if empty > EMPTY_TRIES_MAX {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let end = start + data.len();
            block[start..end].copy_from_slice(data);
            if end < start + length {
                let rest = start + length - end;
                sent.push(self.send_one(&Block::Read(block.len()), offset, end, rest)?);
            }
        }
        Ok(())
    }

    fn write_at(&mut self, block: &[u8], offset: u64) -> io::Result<()> {
        self.is_written = true;
        let mut sent = self.send(Block::Write(block), offset)?;
        while !sent.is_empty() {
            let (call, mut results) = self.rpc.receive()?;
            let Transfer { start, length, .. } = take(&mut sent, call)?;
            status(&mut results, "writing")?;
            let written = count_written(&mut results).map_err(malformed)?;
            if written == 0 || written > length {
                return Err(io::ErrorKind::WriteZero.into());
            }
            if written < length {
                let rest = Block::Write(block);
                sent.push(self.send_one(&rest, offset, start + written, length - written)?);
            }
        }
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        if !self.is_written {
            return Ok(());
        }
        let mut arguments = Encoder::default();
        // From the start, all of it.
        arguments.opaque(&self.handle).u64(0).u32(0);
        let mut results = self.rpc.call(COMMIT, &arguments)?;
        status(&mut results, "committing")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_has_all_its_parts_and_a_path_is_none() {
        let text = "nfs://127.0.0.1:12049/lab/x?file=shared&mount_port=12050&transfer_bytes=32768";
        let place = Place::parse(text).unwrap().unwrap();
        assert_eq!(
            (place.host.as_str(), place.port, place.mount_port),
            ("127.0.0.1", 12049, 12050)
        );
        assert_eq!((place.export.as_str(), place.file.as_str()), ("/lab/x", "shared"));
        assert_eq!(place.transfer_bytes, 32768);
        assert_eq!(Place::parse("/lab/x").unwrap(), None);
        for wrong in ["nfs://host/x?file=a", "nfs://h:1/x", "nfs://h:1/x?file=a&mount_port=2"] {
            assert!(Place::parse(wrong).is_err(), "{wrong}");
        }
        assert!(Place::parse(&text.replace("32768", "0")).is_err());
    }

    #[test]
    fn results_are_read_past_their_attributes() {
        let mut results = Encoder::default();
        results.u32(1);
        results.0.extend([0; ATTRIBUTES_BYTES]);
        results.u32(3).u32(1).opaque(b"abc");
        assert_eq!(bytes_read(&mut Decoder(&results.0)), Ok(&b"abc"[..]));
        let mut results = Encoder::default();
        results.u32(1);
        results.0.extend([0; ATTRIBUTES_BEFORE_BYTES]);
        results.u32(0).u32(4096).u32(0);
        assert_eq!(count_written(&mut Decoder(&results.0)), Ok(4096));
    }
}
