//! The work that the scheduler core is measured with.
//!
//! A closed loop of 32 clients over 8 files keeps so many requests waiting: each completed request
//! is replaced by its stream's next one. `reads` are interleaved sequential streams of 4 KiB; in
//! `mixed` every fourth stream writes. The device takes no time, so only the core is measured.

use forebay_sched::{
    Access, Batch, Bypass, Decision, PolicyName, PolicySettings, Request, Room, Scheduler,
    SchedulerOptions, build,
};
use forebay_trace::{Recorder, RecorderOptions, Traced};
use forebay_units::{ByteRange, Bytes, ClassId, ClientId, FileIndex, Offset, Timestamp};

const CLIENTS: u64 = 32;
const FILES: u64 = 8;
const STREAMS: u64 = CLIENTS * FILES;
const REQUEST_BYTES: Bytes = Bytes::kib(4);

/// Time from one decision to the next, as the scheduler is told.
const STEP_NS: u64 = 1_000;

/// What the streams do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mix {
    /// All read.
    Reads,
    /// Every fourth writes.
    Mixed,
}

impl Mix {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Reads, Self::Mixed];

    /// As reports call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reads => "reads",
            Self::Mixed => "mixed",
        }
    }

    /// By its name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mix| mix.name() == name)
    }
}

/// A scheduler that always has the same number of requests queued.
pub struct Loop {
    scheduler: Traced,
    streams: Streams,
    batch: Batch,
    now: Timestamp,
    recorded_bytes: u64,
}

impl Loop {
    /// A scheduler with the policy and `queued` requests.
    pub fn new(policy: PolicyName, mix: Mix, queued: usize) -> Self {
        let options = SchedulerOptions {
            bypass: Bypass::Never,
            queue_requests_max: queued,
            ..Default::default()
        };
        let scheduler = Scheduler::new(options, build(policy, &PolicySettings::default()));
        let streams = Streams { mix, next: vec![0; STREAMS as usize] };
        let scheduler = Traced::from(scheduler);
        let mut this =
            Self { scheduler, streams, batch: Batch::new(), now: Timestamp(0), recorded_bytes: 0 };
        // All streams in turn, in an order that is not theirs.
        for turn in 0..queued as u64 {
            this.submit(turn * 89 % STREAMS);
        }
        this
    }

    /// Records from now on; blocks are sealed and given back as soon as they are full.
    pub fn record(&mut self) {
        let next_seq = self.scheduler.stats().submitted;
        self.recorded_bytes = 0;
        self.scheduler.attach(Recorder::new(RecorderOptions::default(), next_seq));
    }

    /// Records no more; how many bytes an event took.
    pub fn end_record(&mut self) -> Option<f64> {
        let (blocks, totals) = self.scheduler.detach()?.finish();
        let bytes = blocks.map(|mut block| block.seal().len()).sum::<usize>() as u64;
        Some((self.recorded_bytes + bytes) as f64 / totals.events.max(1) as f64)
    }

    /// Lets at least `requests` requests pass, and returns how many did: each is decided upon,
    /// completed, and replaced.
    pub fn pass(&mut self, requests: u64) -> u64 {
        let mut passed = 0;
        while passed < requests {
            self.now.0 += STEP_NS;
            match self.scheduler.next(self.now, &mut self.batch) {
                Decision::Dispatch => {
                    passed += self.finish();
                    self.write_blocks();
                }
                Decision::Wait { until } => self.now = until,
                Decision::Idle => unreachable!("something is always queued"),
            }
        }
        passed
    }

    fn write_blocks(&mut self) {
        let Some(recorder) = self.scheduler.recorder() else { return };
        while let Some(mut block) = recorder.take_block() {
            self.recorded_bytes += block.seal().len() as u64;
            recorder.give_back(block);
        }
    }

    fn finish(&mut self) -> u64 {
        let batch = std::mem::take(&mut self.batch);
        for member in batch.members() {
            let moved = member.request.range.length();
            self.scheduler.complete(self.now, member.id, moved, 0).expect("it is in flight");
            self.submit(member.request.tag);
        }
        self.batch = batch;
        self.batch.members().len() as u64
    }

    fn submit(&mut self, stream: u64) {
        let request = self.streams.next(stream);
        self.scheduler.submit(self.now, request, Room::Full).expect("one has just left");
    }
}

/// Client `c` takes every 32nd block of each file, starting at block `c`.
struct Streams {
    mix: Mix,
    /// Blocks each stream has asked for so far.
    next: Vec<u64>,
}

impl Streams {
    fn next(&mut self, stream: u64) -> Request {
        let (client, file) = (stream % CLIENTS, stream / CLIENTS);
        let block = self.next[stream as usize] * CLIENTS + client;
        self.next[stream as usize] += 1;
        let is_write = self.mix == Mix::Mixed && client % 4 == 0;
        Request {
            tag: stream,
            file: FileIndex(file as u32),
            access: if is_write { Access::Write } else { Access::Read },
            range: ByteRange::new(Offset(block * REQUEST_BYTES.0), REQUEST_BYTES),
            client: ClientId(client as u32),
            class: ClassId(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_keeps_the_loop_going() {
        for policy in PolicyName::ALL {
            for mix in Mix::ALL {
                let mut work = Loop::new(policy, mix, 500);
                assert!(work.pass(2_000) >= 2_000, "{policy} {}", mix.name());
            }
        }
    }

    #[test]
    fn streams_cover_each_file_once() {
        let mut streams = Streams { mix: Mix::Mixed, next: vec![0; STREAMS as usize] };
        let mut blocks: Vec<u64> = (0..2 * CLIENTS)
            .map(|turn| streams.next(turn % CLIENTS).range.start.0 / REQUEST_BYTES.0)
            .collect();
        blocks.sort_unstable();
        assert_eq!(blocks, (0..2 * CLIENTS).collect::<Vec<_>>());
    }
}
