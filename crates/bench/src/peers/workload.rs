//! What processes do: who moves which blocks of which file, and which processes belong together.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use forebay_units::{Bytes, Direction};

use super::Caching;
use crate::error::Error;
use crate::programs::Programs;
use crate::strided::order_of_start;

/// What one process does: blocks `first`, `first + every`, … of a file, `count` of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    /// Reading compares everything with what `seed` says; writing ends with a sync.
    pub(crate) direction: Direction,
    /// The file's name below the stage's root.
    pub(crate) file: &'static str,
    /// What the file holds, or is to hold.
    pub(crate) seed: u64,
    /// One call.
    pub(crate) block: Bytes,
    pub(crate) first: u64,
    pub(crate) every: u64,
    pub(crate) count: u64,
}

/// Processes that start together and are timed together.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    /// What tables call it; Forebay is told it too.
    pub(crate) name: &'static str,
    /// How long after the first job it starts.
    pub(crate) start_after: Duration,
    /// A process each, in the order in which they are started.
    pub(crate) accesses: Vec<Access>,
}

/// Jobs side by side.
#[derive(Clone, Debug)]
pub(crate) struct Workload {
    pub(crate) jobs: Vec<Job>,
}

impl Access {
    /// The plain program on a file that the kernel opens.
    pub(crate) fn program(
        &self,
        programs: &Programs,
        path: &Path,
        caching: Caching,
    ) -> Result<Command, Error> {
        let mode = match (self.direction, caching) {
            (Direction::Read, Caching::Buffered) => "read",
            (Direction::Write, Caching::Buffered) => "write",
            (Direction::Read, Caching::Direct) => "read-direct",
            (Direction::Write, Caching::Direct) => "write-direct",
        };
        let mut command = programs.strides()?;
        command.arg(mode).arg(path);
        let numbers = [self.seed, self.block.0, self.first, self.every, self.count];
        command.args(numbers.map(|number| number.to_string()));
        Ok(command)
    }

    /// Bytes that it moves.
    pub(crate) fn bytes(&self) -> u64 {
        self.block.0 * self.count
    }

    /// What it moves: file, start, end.
    fn ranges(&self) -> impl Iterator<Item = (&'static str, u64, u64)> {
        let block = self.block.0;
        let starts = (0..self.count).map(move |turn| (self.first + turn * self.every) * block);
        starts.map(move |start| (self.file, start, start + block))
    }
}

impl Job {
    /// `processes` that share a file of `bytes` in blocks, in turns; whole rounds only.
    pub(crate) fn strided(
        name: &'static str,
        direction: Direction,
        file: &'static str,
        seed: u64,
        processes: u64,
        block: Bytes,
        bytes: u64,
    ) -> Self {
        let count = (bytes / (block.0 * processes)).max(1);
        let access =
            |first| Access { direction, file, seed, block, first, every: processes, count };
        let accesses = order_of_start(processes).into_iter().map(access).collect();
        Self { name, start_after: Duration::ZERO, accesses }
    }

    /// One process that moves `bytes` of a file in order.
    pub(crate) fn sequential(
        name: &'static str,
        direction: Direction,
        file: &'static str,
        seed: u64,
        block: Bytes,
        bytes: u64,
    ) -> Self {
        Self::strided(name, direction, file, seed, 1, block, bytes)
    }

    /// The same job, started later than the first one.
    pub(crate) fn after(self, start_after: Duration) -> Self {
        Self { start_after, ..self }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.accesses.iter().map(Access::bytes).sum()
    }
}

impl Workload {
    /// One job alone.
    pub(crate) fn of(job: Job) -> Self {
        Self { jobs: vec![job] }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.jobs.iter().map(Job::bytes).sum()
    }

    /// Bytes of files that it moves at least once in this direction.
    pub(crate) fn distinct_bytes(&self, direction: Direction) -> u64 {
        let accesses = self.jobs.iter().flat_map(|job| &job.accesses);
        let accesses = accesses.filter(|access| access.direction == direction);
        let mut ranges: Vec<(&str, u64, u64)> = accesses.flat_map(Access::ranges).collect();
        ranges.sort_unstable();
        let (mut bytes, mut last) = (0, ("", 0));
        for (file, start, end) in ranges {
            let covered = if last.0 == file { last.1 } else { 0 };
            bytes += end.saturating_sub(start.max(covered));
            last = (file, end.max(covered));
        }
        bytes
    }

    /// What has to be in the files afterwards.
    pub(crate) fn written(&self) -> impl Iterator<Item = &Access> {
        let accesses = self.jobs.iter().flat_map(|job| &job.accesses);
        accesses.filter(|access| access.direction == Direction::Write)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_strided_job_covers_its_file_once() {
        let job = Job::strided("x", Direction::Read, "f", 1, 4, Bytes::kib(8), 64 << 10);
        let blocks = job
            .accesses
            .iter()
            .flat_map(|access| (0..access.count).map(|turn| access.first + turn * access.every));
        let mut blocks: Vec<u64> = blocks.collect();
        blocks.sort_unstable();
        assert!(blocks.into_iter().eq(0..8));
        assert_eq!(job.bytes(), 64 << 10);
    }

    #[test]
    fn what_two_jobs_read_of_a_file_counts_once() {
        let strided =
            |file, seed| Job::strided("x", Direction::Read, file, seed, 4, Bytes::kib(8), 64 << 10);
        let ahead = Job::sequential("y", Direction::Read, "f", 1, Bytes::kib(32), 96 << 10);
        let write = Job::sequential("z", Direction::Write, "f", 1, Bytes::kib(4), 4 << 10);
        let jobs = vec![strided("f", 1), ahead, strided("g", 2), write];
        let workload = Workload { jobs };
        assert_eq!(workload.distinct_bytes(Direction::Read), (96 << 10) + (64 << 10));
        assert_eq!(workload.distinct_bytes(Direction::Write), 4 << 10);
    }

    #[test]
    fn one_process_alone_is_sequential() {
        let job = Job::sequential("x", Direction::Write, "f", 1, Bytes::mib(1), 3 << 20);
        assert_eq!((job.accesses.len(), job.accesses[0].every, job.accesses[0].count), (1, 1, 3));
        assert_eq!(Workload::of(job).written().count(), 1);
    }
}
