//! A store that keeps its files in memory: for measuring everything but the storage.
//!
//! Every call is carried out inside `start` or `try_now` by copying. A file is one contiguous
//! vector, made when its path is first opened; there are no directories, a path is only a name.

use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};

use forebay_engine::store::{Attributes, Io, OpenHow, Opened, Operation, Store, StoreFile, Wake};
use forebay_units::{Bytes, FileId, Offset, Timestamp};
use rustix::fs::{FallocateFlags, OFlags};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};

use crate::slab::Slab;

/// `st_dev` of all files in memory: a number that no real device has (major and minor are 12 and 20 bits).
const DEVICE: u64 = u64::MAX;

/// Limits and beginnings of a memory store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryOptions {
    /// The most bytes all files may hold together; beyond it calls fail with `ENOSPC`.
    pub capacity: Bytes,
    /// How long a file is when its path is first opened: zeros, their pages already taken from the kernel.
    pub file_length: Bytes,
}

impl Default for MemoryOptions {
    /// 4 GiB, files empty.
    fn default() -> Self {
        Self { capacity: Bytes::mib(4096), file_length: Bytes::ZERO }
    }
}

/// Files in memory.
#[derive(Debug, Default)]
pub struct MemoryStore {
    options: MemoryOptions,
    paths: HashMap<PathBuf, usize>,
    files: Vec<File>,
    /// Sum of the files' lengths.
    held_bytes: u64,
    opens: Slab<Open>,
    finished: Vec<Io>,
}

#[derive(Debug, Default)]
struct File {
    content: Vec<u8>,
    modified_ns: i64,
}

#[derive(Clone, Copy, Debug)]
struct Open {
    file_idx: usize,
    readable: bool,
    writable: bool,
}

impl MemoryStore {
    /// A store without files.
    pub fn new(options: MemoryOptions) -> Self {
        Self { options, ..Self::default() }
    }

    fn file_at(&mut self, path: PathBuf) -> Result<usize, Errno> {
        if let Some(&file_idx) = self.paths.get(&path) {
            return Ok(file_idx);
        }
        let mut file = File::default();
        self.grow(&mut file, self.options.file_length.0)?;
        // A vector of zeros may be made of pages that do not exist until they are written.
        file.content.chunks_mut(4096).for_each(|page| page[0] = std::hint::black_box(0));
        file.modified_ns = now_ns();
        self.files.push(file);
        self.paths.insert(path, self.files.len() - 1);
        Ok(self.files.len() - 1)
    }

    /// Makes `file` at least `length` bytes long, with zeros.
    fn grow(&mut self, file: &mut File, length: u64) -> Result<(), Errno> {
        if length > file.content.len() as u64 {
            self.make_room(file, length)?;
            file.content.resize(length as usize, 0);
        }
        Ok(())
    }

    /// Makes sure that `file` can become `length` bytes long, and counts it so.
    fn make_room(&mut self, file: &mut File, length: u64) -> Result<(), Errno> {
        let more = length.saturating_sub(file.content.len() as u64);
        if more > self.options.capacity.0.saturating_sub(self.held_bytes) {
            return Err(Errno::NOSPC);
        }
        file.content.try_reserve(more as usize).map_err(|_| Errno::NOSPC)?;
        self.held_bytes += more;
        Ok(())
    }

    fn carry_out(&mut self, io: &mut Io) {
        io.outcome = self.open_for(&io.files, io.operation).and_then(|open| {
            // Taken out for the time of the call, so that the store can count its growth.
            let mut file = std::mem::take(&mut self.files[open.file_idx]);
            let outcome = self.carry_out_on(&mut file, io);
            self.files[open.file_idx] = file;
            outcome
        });
    }

    /// The member that has the rights the call needs, or what the kernel says when none has.
    fn open_for(&self, members: &[StoreFile], operation: Operation) -> Result<Open, Errno> {
        let fits = |open: &&Open| match operation {
            Operation::Read(_) => open.readable,
            Operation::Write(_)
            | Operation::Append
            | Operation::Truncate(_)
            | Operation::Allocate { .. } => open.writable,
            Operation::Sync | Operation::DataSync | Operation::Advise { .. } => true,
        };
        let refusal = match operation {
            Operation::Truncate(_) => Errno::INVAL,
            _ => Errno::BADF,
        };
        members.iter().filter_map(|file| self.opens.get(file.0)).find(fits).copied().ok_or(refusal)
    }

    fn carry_out_on(&mut self, file: &mut File, io: &mut Io) -> Result<Bytes, Errno> {
        match io.operation {
            Operation::Read(offset) => Ok(read(file, offset, io)),
            Operation::Write(offset) => self.write(file, offset, io),
            Operation::Append => {
                let written = self.write(file, Offset(file.content.len() as u64), io);
                io.end = Offset(file.content.len() as u64);
                written
            }
            Operation::Sync | Operation::DataSync | Operation::Advise { .. } => Ok(Bytes::ZERO),
            Operation::Truncate(size) => {
                self.grow(file, size.0)?;
                self.held_bytes -= file.content.len() as u64 - size.0;
                file.content.truncate(size.0 as usize);
                file.modified_ns = now_ns();
                Ok(Bytes::ZERO)
            }
            Operation::Allocate { mode, offset, length } => {
                self.allocate(file, mode, offset, length)
            }
        }
    }

    fn write(&mut self, file: &mut File, offset: Offset, io: &Io) -> Result<Bytes, Errno> {
        let length: u64 = io.buffers.iter().map(|buffer| buffer.len() as u64).sum();
        if length == 0 {
            return Ok(Bytes::ZERO);
        }
        self.make_room(file, offset.0.saturating_add(length))?;
        let mut at = offset.0 as usize;
        if at > file.content.len() {
            file.content.resize(at, 0);
        }
        for buffer in &io.buffers {
            let (over, beyond) = buffer.split_at(buffer.len().min(file.content.len() - at));
            file.content[at..at + over.len()].copy_from_slice(over);
            file.content.extend_from_slice(beyond);
            at += buffer.len();
        }
        file.modified_ns = now_ns();
        Ok(Bytes(length))
    }

    /// The modes that mean something without blocks: plain, keep-size, punch-hole and zero-range.
    fn allocate(
        &mut self,
        file: &mut File,
        mode: u32,
        offset: Offset,
        length: Bytes,
    ) -> Result<Bytes, Errno> {
        let mode = FallocateFlags::from_bits_retain(mode);
        let keep_size = mode.contains(FallocateFlags::KEEP_SIZE);
        let punch = mode == FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let zero = mode.difference(FallocateFlags::KEEP_SIZE) == FallocateFlags::ZERO_RANGE;
        if length == Bytes::ZERO {
            return Err(Errno::INVAL);
        }
        if !(punch || zero || mode.difference(FallocateFlags::KEEP_SIZE).is_empty()) {
            return Err(Errno::OPNOTSUPP);
        }
        let end = offset + length;
        if !keep_size {
            self.grow(file, end.0)?;
        }
        if punch || zero {
            let file_end = file.content.len() as u64;
            file.content[offset.0.min(file_end) as usize..end.0.min(file_end) as usize].fill(0);
        }
        file.modified_ns = now_ns();
        Ok(Bytes::ZERO)
    }
}

fn read(file: &File, offset: Offset, io: &mut Io) -> Bytes {
    let mut rest =
        usize::try_from(offset.0).ok().and_then(|at| file.content.get(at..)).unwrap_or_default();
    let before = rest.len();
    for buffer in &mut io.buffers {
        let (now, later) = rest.split_at(rest.len().min(buffer.len()));
        buffer[..now.len()].copy_from_slice(now);
        rest = later;
    }
    Bytes((before - rest.len()) as u64)
}

/// The path as a name: relative, without `.`; `..` would leave what is exported, as for a real directory's root.
fn name_of(path: &Path) -> Result<PathBuf, Errno> {
    let mut name = PathBuf::new();
    for component in path.components() {
        match component {
            Component::Normal(part) => name.push(part),
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                return Err(Errno::XDEV);
            }
        }
    }
    if name.as_os_str().is_empty() { Err(Errno::NOENT) } else { Ok(name) }
}

fn now_ns() -> i64 {
    // A tick of a few milliseconds is what file systems give, and costs a fifth of the exact time.
    let now = clock_gettime(ClockId::RealtimeCoarse);
    now.tv_sec.saturating_mul(1_000_000_000).saturating_add(now.tv_nsec)
}

impl Store for MemoryStore {
    fn name(&self) -> String {
        "memory".into()
    }

    /// # Errors
    /// `EOPNOTSUPP` for a descriptor: its content is in a real file, and pretending that it is here would be a lie.
    /// `EXDEV` for a path that is absolute or has `..`, `ENOSPC` when a new file does not fit.
    fn open(&mut self, how: OpenHow) -> Result<Opened, Errno> {
        let OpenHow::Beneath { path, flags } = how else { return Err(Errno::OPNOTSUPP) };
        let file_idx = self.file_at(name_of(&path)?)?;
        let access = OFlags::from_bits_retain(flags as u32) & OFlags::ACCMODE;
        let open = Open {
            file_idx,
            readable: access != OFlags::WRONLY,
            writable: access != OFlags::RDONLY,
        };
        let id = FileId { device: DEVICE, inode: file_idx as u64 + 1, generation: 0 };
        Ok(Opened { file: StoreFile(self.opens.insert(open)), id })
    }

    fn close(&mut self, file: StoreFile) {
        let was_open = self.opens.remove(file.0);
        debug_assert!(was_open.is_some(), "{file:?} is not open");
    }

    fn attributes(&mut self, file: StoreFile) -> Result<Attributes, Errno> {
        let open = self.opens.get(file.0).ok_or(Errno::BADF)?;
        let file = &self.files[open.file_idx];
        let size = file.content.len() as u64;
        Ok(Attributes {
            size: Bytes(size),
            blocks_512: size.div_ceil(4096) * 8,
            modified_ns: file.modified_ns,
        })
    }

    fn try_now(&mut self, mut io: Io) -> Result<Io, Io> {
        self.carry_out(&mut io);
        Ok(io)
    }

    fn tries_now(&self) -> bool {
        true
    }

    fn start(&mut self, _now: Timestamp, mut io: Io) {
        self.carry_out(&mut io);
        self.finished.push(io);
    }

    fn take_finished(&mut self, _now: Timestamp, finished: &mut Vec<Io>) {
        finished.append(&mut self.finished);
    }

    fn wake(&self) -> Wake<'_> {
        let deadline = (!self.finished.is_empty()).then_some(Timestamp(0));
        Wake { descriptor: None, deadline }
    }

    fn depth_default(&self) -> usize {
        32
    }
}

#[cfg(test)]
mod tests {
    use forebay_pool::{Pool, Share};

    use super::*;

    const RDWR: i32 = 2;

    fn open(store: &mut MemoryStore, path: &str, flags: i32) -> Result<Opened, Errno> {
        store.open(OpenHow::Beneath { path: path.into(), flags })
    }

    fn run(
        store: &mut MemoryStore,
        file: StoreFile,
        operation: Operation,
        data: &mut [u8],
    ) -> Result<Bytes, Errno> {
        let pool = Pool::new(Bytes::mib(2)).unwrap();
        let mut buffers = Vec::new();
        for piece in data.chunks(5000) {
            let mut buffer = pool.try_take(Bytes(piece.len() as u64), Share::Dispatch).unwrap();
            buffer.copy_from_slice(piece);
            buffers.push(buffer);
        }
        let io = Io {
            token: 7,
            files: vec![file],
            operation,
            buffers,
            outcome: Ok(Bytes::ZERO),
            end: Offset(0),
        };
        store.start(Timestamp(0), io);
        assert_eq!(store.wake().deadline, Some(Timestamp(0)));
        let mut finished = Vec::new();
        store.take_finished(Timestamp(0), &mut finished);
        let io = finished.pop().unwrap();
        assert_eq!((io.token, finished.len(), store.wake().deadline), (7, 0, None));
        data.chunks_mut(5000)
            .zip(&io.buffers)
            .for_each(|(piece, buffer)| piece.copy_from_slice(buffer));
        io.outcome
    }

    #[test]
    fn what_was_written_is_read_with_zeros_in_the_gap_and_an_end() {
        let mut store = MemoryStore::default();
        let file = open(&mut store, "a", RDWR).unwrap().file;
        let mut data: Vec<u8> = (0..12_000).map(|i| i as u8 | 1).collect();
        assert_eq!(
            run(&mut store, file, Operation::Write(Offset(100)), &mut data),
            Ok(Bytes(12_000))
        );
        assert_eq!(
            run(&mut store, file, Operation::Write(Offset(50)), &mut [9; 100]),
            Ok(Bytes(100))
        );
        data[..50].fill(9);
        let mut seen = vec![3; 20_000];
        assert_eq!(run(&mut store, file, Operation::Read(Offset(0)), &mut seen), Ok(Bytes(12_100)));
        assert_eq!(
            (&seen[..50], &seen[50..100], &seen[100..12_100]),
            (&[0; 50][..], &[9; 50][..], &data[..])
        );
        assert_eq!(
            run(&mut store, file, Operation::Read(Offset(u64::MAX)), &mut seen),
            Ok(Bytes(0))
        );
    }

    #[test]
    fn one_path_is_one_file_and_rights_are_per_open() {
        let mut store = MemoryStore::default();
        let writer = open(&mut store, "d/a", 1).unwrap();
        let reader = open(&mut store, "./d/a", 0).unwrap();
        assert_eq!(writer.id, reader.id);
        assert_ne!(open(&mut store, "d/b", 0).unwrap().id, reader.id);
        assert_eq!(
            run(&mut store, reader.file, Operation::Write(Offset(0)), &mut [1]),
            Err(Errno::BADF)
        );
        assert_eq!(
            run(&mut store, writer.file, Operation::Read(Offset(0)), &mut [1]),
            Err(Errno::BADF)
        );
        assert_eq!(
            run(&mut store, reader.file, Operation::Truncate(Bytes(1)), &mut []),
            Err(Errno::INVAL)
        );
        assert_eq!(run(&mut store, writer.file, Operation::Append, &mut [1, 2]), Ok(Bytes(2)));
        assert_eq!(run(&mut store, writer.file, Operation::Append, &mut [3]), Ok(Bytes(1)));
        let mut seen = [0; 3];
        assert_eq!(
            run(&mut store, reader.file, Operation::Read(Offset(0)), &mut seen),
            Ok(Bytes(3))
        );
        assert_eq!(seen, [1, 2, 3]);
    }

    #[test]
    fn a_full_store_says_so_and_truncating_makes_room() {
        let mut store =
            MemoryStore::new(MemoryOptions { capacity: Bytes(100), file_length: Bytes(60) });
        let file = open(&mut store, "a", RDWR).unwrap().file;
        assert_eq!(open(&mut store, "b", RDWR).unwrap_err(), Errno::NOSPC);
        assert_eq!(
            run(&mut store, file, Operation::Write(Offset(41)), &mut [1; 60]),
            Err(Errno::NOSPC)
        );
        assert_eq!(
            run(&mut store, file, Operation::Write(Offset(40)), &mut [1; 60]),
            Ok(Bytes(60))
        );
        assert_eq!(run(&mut store, file, Operation::Truncate(Bytes(40)), &mut []), Ok(Bytes(0)));
        assert!(open(&mut store, "b", RDWR).is_ok());
        assert_eq!(
            run(&mut store, file, Operation::Truncate(Bytes(u64::MAX)), &mut []),
            Err(Errno::NOSPC)
        );
        assert_eq!(store.attributes(file).unwrap().size, Bytes(40));
    }

    #[test]
    fn allocation_extends_punches_and_refuses_what_it_cannot() {
        let mut store = MemoryStore::default();
        let file = open(&mut store, "a", RDWR).unwrap().file;
        let allocate = |mode, offset, length| Operation::Allocate {
            mode,
            offset: Offset(offset),
            length: Bytes(length),
        };
        run(&mut store, file, Operation::Write(Offset(0)), &mut [1; 10]).unwrap();
        assert_eq!(run(&mut store, file, allocate(0, 5, 10), &mut []), Ok(Bytes(0)));
        assert_eq!(store.attributes(file).unwrap().size, Bytes(15));
        assert_eq!(run(&mut store, file, allocate(3, 2, 100), &mut []), Ok(Bytes(0)));
        let mut seen = [7; 15];
        run(&mut store, file, Operation::Read(Offset(0)), &mut seen).unwrap();
        assert_eq!(seen, [1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(run(&mut store, file, allocate(8, 0, 4096), &mut []), Err(Errno::OPNOTSUPP));
        assert_eq!(run(&mut store, file, allocate(0, 0, 0), &mut []), Err(Errno::INVAL));
    }

    #[test]
    fn a_descriptor_and_a_path_that_leaves_are_refused() {
        let mut store = MemoryStore::default();
        let null = std::fs::File::open("/dev/null").unwrap();
        assert_eq!(store.open(OpenHow::Descriptor(null.into())).unwrap_err(), Errno::OPNOTSUPP);
        for (path, refusal) in [("/a", Errno::XDEV), ("a/../../b", Errno::XDEV), ("", Errno::NOENT)]
        {
            assert_eq!(open(&mut store, path, RDWR).unwrap_err(), refusal, "{path:?}");
        }
    }
}
