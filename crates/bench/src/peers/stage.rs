//! The emulated disk with its files, and running a workload on it.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use forebay_lab::{Disk, ReadBack, Settings, Statistics};
use forebay_units::{Bytes, Direction};
use rustix::fs::{OFlags, syncfs};
use serde_json::{Value, json};

use super::workload::{Access, Job, Workload};
use super::{Caching, Peer};
use crate::crew::Crew;
use crate::error::Error;
use crate::processors::Usage;
use crate::programs::Programs;

/// What is read of the disk to move its arm, and where `O_DIRECT` wants it in memory.
const FAR_BLOCK: usize = 4096;

/// An emulated disk, up as long as this lives.
#[derive(Debug)]
pub(crate) struct Stage<'p> {
    programs: &'p Programs,
    disk: Disk,
    root: PathBuf,
}

/// What one run came to.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    /// The peer's name.
    pub(crate) peer: &'static str,
    /// From the first job's start to the last one's end.
    pub(crate) seconds: f64,
    /// Bytes that all jobs moved.
    pub(crate) bytes: u64,
    /// Each job, in the workload's order.
    pub(crate) jobs: Vec<Timed>,
    /// What the disk did meanwhile.
    pub(crate) disk: Statistics,
    /// The share of the processors' time that went to others; nothing where the kernel does not say.
    pub(crate) others_share: Option<f64>,
    /// What the peer counted.
    pub(crate) counters: Value,
}

/// A job and how long it took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Timed {
    pub(crate) name: &'static str,
    /// From its own start to its last process's end.
    pub(crate) seconds: f64,
}

/// What the disk has to move at least in a run that finds nothing in a cache and leaves nothing there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Least {
    pub(crate) bytes_read: u64,
    pub(crate) bytes_written: u64,
}

/// What happened while something ran.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Watched {
    pub(crate) disk: Statistics,
    pub(crate) others_share: Option<f64>,
}

impl<'p> Stage<'p> {
    /// Sets the disk up.
    pub(crate) fn up(programs: &'p Programs, settings: &Settings) -> Result<Self, Error> {
        let disk = Disk::up(settings).map_err(lab)?;
        let root = disk.mount_point();
        Ok(Self { programs, disk, root })
    }

    /// Where its files are.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Has everything on the disk.
    pub(crate) fn sync(&self) -> Result<(), Error> {
        let synced = File::open(&self.root).and_then(|root| Ok(syncfs(root)?));
        synced.map_err(Error::file(&self.root))
    }

    /// Has everything on the disk, nothing in the kernel's cache, and the arm at the disk's end:
    /// whatever ran before, the next run begins with a seek and without anything that the drive
    /// has read ahead.
    fn begin_alike(&self) -> Result<(), Error> {
        self.disk.drop_caches().map_err(lab)?;
        let path = self.disk.file();
        let failed = |error| Error::file(&path)(error);
        let direct = OFlags::DIRECT.bits().cast_signed();
        let file =
            OpenOptions::new().read(true).custom_flags(direct).open(&path).map_err(failed)?;
        let end = file.metadata().map_err(failed)?.len();
        let mut memory = vec![0; 2 * FAR_BLOCK];
        let start = memory.as_ptr().align_offset(FAR_BLOCK);
        let block = &mut memory[start..start + FAR_BLOCK];
        file.read_exact_at(block, end.saturating_sub(FAR_BLOCK as u64)).map_err(failed)
    }

    /// Runs something from a cold cache, and checks that the disk has done what a run of it must.
    pub(crate) fn watched<T>(
        &self,
        least: Least,
        run: impl FnOnce() -> Result<T, Error>,
    ) -> Result<(T, Watched), Error> {
        // What the kernel has differs from what was set: the figure would be of another disk.
        let queue_depth = self.read_back()?.settings.queue_depth;
        self.begin_alike()?;
        self.disk.forget_maxima().map_err(lab)?;
        let (before, used_before) = (self.disk.statistics().map_err(lab)?, Usage::now());
        let outcome = run()?;
        let used = Usage::now();
        let disk = self.disk.statistics().map_err(lab)?.since(&before);
        least.check(&disk, queue_depth)?;
        let others_share = used.zip(used_before).map(|(used, before)| used.others_share(&before));
        Ok((outcome, Watched { disk, others_share }))
    }

    /// Makes a file, in order and in one go, so that it is in one piece on the disk; not timed.
    pub(crate) fn make_file(&self, file: &'static str, seed: u64, bytes: u64) -> Result<(), Error> {
        self.unmeasured(Job::sequential("make", Direction::Write, file, seed, Bytes::mib(1), bytes))
    }

    /// Other read-ahead and elevator for the runs that follow.
    pub(crate) fn set_queue(&self, read_ahead_kib: u32, elevator: &str) -> Result<(), Error> {
        self.disk.set_queue(read_ahead_kib, elevator).map_err(lab)
    }

    /// The disk as it is now, as the kernel says.
    pub(crate) fn read_back(&self) -> Result<ReadBack, Error> {
        self.disk.settings_read_back().map_err(lab)
    }

    /// Runs a workload through a peer, from a cold cache. What was written is compared afterwards.
    pub(crate) fn run(&self, peer: &mut dyn Peer, workload: &Workload) -> Result<Measured, Error> {
        peer.start(self.programs, &self.root)?;
        let timed = self.timed(peer, workload);
        // It is ended in any case; what failed first is what counts.
        let counters = peer.stop(workload.bytes());
        let mut measured = timed?;
        measured.counters = counters?;
        // From the disk: what is in the cache says nothing of what was written.
        self.disk.drop_caches().map_err(lab)?;
        for access in workload.written() {
            self.unmeasured_access(&Access { direction: Direction::Read, ..access.clone() })?;
        }
        Ok(measured)
    }

    /// Takes the disk down.
    pub(crate) fn down(self) -> Result<(), Error> {
        self.disk.down().map_err(lab)
    }

    fn timed(&self, peer: &mut dyn Peer, workload: &Workload) -> Result<Measured, Error> {
        let mut crews = Vec::new();
        for job in &workload.jobs {
            let command = |access| {
                let mut command = peer.command(self.programs, &self.root, access)?;
                command.env("FOREBAY_JOB", job.name);
                Ok(command)
            };
            let commands: Result<Vec<Command>, Error> = job.accesses.iter().map(command).collect();
            crews.push((job, Crew::assemble(commands?)?));
        }
        // Everybody stands at the gate: what starting them has read is forgotten too.
        let least = Least::of(workload);
        let ((seconds, times), watched) = self.watched(least, || side_by_side(crews))?;
        let Watched { disk, others_share } = watched;
        Ok(Measured {
            peer: peer.name(),
            seconds: seconds.as_secs_f64(),
            bytes: workload.bytes(),
            jobs: times,
            disk,
            others_share,
            counters: Value::Null,
        })
    }

    fn unmeasured(&self, job: Job) -> Result<(), Error> {
        job.accesses.iter().try_for_each(|access| self.unmeasured_access(access))
    }

    /// Does it natively, while the disk takes no time.
    fn unmeasured_access(&self, access: &Access) -> Result<(), Error> {
        self.disk.charge(false).map_err(lab)?;
        let path = self.root.join(access.file);
        let command = access.program(self.programs, &path, Caching::Buffered)?;
        let outcome = Crew::assemble(vec![command])?.run().map(drop);
        self.disk.charge(true).map_err(lab)?;
        outcome
    }
}

/// Lets each crew go at its time; how long all took together, and each.
fn side_by_side(crews: Vec<(&Job, Crew)>) -> Result<(Duration, Vec<Timed>), Error> {
    let started = Instant::now();
    let times = std::thread::scope(|scope| {
        let run = |(job, crew): (&Job, Crew)| {
            let (name, start_after) = (job.name, job.start_after);
            scope.spawn(move || {
                // Not a synchronisation: when a job starts is part of the workload.
                std::thread::sleep(start_after.saturating_sub(started.elapsed()));
                let seconds = crew.run()?.as_secs_f64();
                Ok(Timed { name, seconds })
            })
        };
        let running: Vec<_> = crews.into_iter().map(run).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, Result<Timed, Error>>| {
            thread
                .join()
                .unwrap_or_else(|_| Err(Error::failed("a thread that watched a job ended")))
        };
        running.into_iter().map(join).collect::<Result<Vec<Timed>, Error>>()
    })?;
    Ok((started.elapsed(), times))
}

impl Least {
    fn of(workload: &Workload) -> Self {
        Self {
            bytes_read: workload.distinct_bytes(Direction::Read),
            bytes_written: workload.distinct_bytes(Direction::Write),
        }
    }

    /// An error unless the disk has moved that much, with no more at it at once than its queue has places.
    fn check(&self, disk: &Statistics, queue_depth: u32) -> Result<(), Error> {
        let moved = [
            ("read from", disk.bytes_read, self.bytes_read),
            ("written to", disk.bytes_written, self.bytes_written),
        ];
        for (what, moved, least) in moved {
            if moved < least {
                let text = format!("only {moved} of {least} bytes were {what} the disk");
                return Err(Error::failed(format!("{text}: the others were in a cache")));
            }
        }
        if disk.depth_max > queue_depth.into() {
            let text = format!("{} requests were at the disk at once", disk.depth_max);
            return Err(Error::failed(format!("{text}; its queue is {queue_depth} deep")));
        }
        Ok(())
    }
}

impl Measured {
    /// Millions of bytes a second, of all jobs together.
    pub(crate) fn throughput(&self) -> f64 {
        self.bytes as f64 / self.seconds / 1e6
    }

    /// Everything, for the archive.
    pub(crate) fn raw(&self) -> Value {
        let jobs: Vec<Value> = self
            .jobs
            .iter()
            .map(|job| json!({ "name": job.name, "seconds": job.seconds }))
            .collect();
        json!({
            "peer": self.peer, "seconds": self.seconds, "bytes": self.bytes, "jobs": jobs,
            "disk": self.disk, "others_share": self.others_share, "counters": self.counters,
        })
    }
}

/// The lab's errors, as the bench's.
fn lab(error: forebay_lab::Error) -> Error {
    match error.kind {
        forebay_lab::ErrorKind::Fix => Error::fix(error.to_string()),
        forebay_lab::ErrorKind::Failed => Error::failed(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_is_not_what_it_says_is_an_error() {
        let least = Least { bytes_read: 100, bytes_written: 10 };
        let disk = Statistics {
            bytes_read: 100,
            bytes_written: 10,
            depth_max: 4,
            ..Statistics::default()
        };
        assert!(least.check(&disk, 4).is_ok());
        let said = |disk: Statistics| least.check(&disk, 4).unwrap_err().to_string();
        assert!(said(Statistics { bytes_read: 99, ..disk }).contains("99 of 100 bytes were read"));
        assert!(said(Statistics { bytes_written: 0, ..disk }).contains("written to the disk"));
        assert!(said(Statistics { depth_max: 5, ..disk }).contains("5 requests"));
    }
}
