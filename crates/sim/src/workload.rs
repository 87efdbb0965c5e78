//! What clients ask for: made from a scenario's jobs, or read from a recorded list.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use forebay_device::SplitMix64;
use forebay_sched::Access;
use forebay_sched::sharing::{AtLimit, ClassShare, Rate, Share};
use forebay_trace::Recorded;
use forebay_units::{ByteRange, Bytes, ClassId, FileIndex, Nanos, Offset, Timestamp};

use crate::noise::{happens, up_to};
use crate::replay::{Pace, Script};
use crate::scenario::{FileUse, Job, Operation, Order};

/// One request as a client makes it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    pub(crate) file: FileIndex,
    pub(crate) access: Access,
    pub(crate) range: ByteRange,
    pub(crate) class: ClassId,
}

/// One application: clients that are reported together.
#[derive(Clone, Debug)]
pub(crate) struct Application {
    pub(crate) name: String,
    pub(crate) class: ClassId,
    /// Numbers of its first client and first file.
    pub(crate) first_client: u32,
    pub(crate) clients: u32,
    first_file: u32,
    /// What its clients do; a script says that instead if there is none.
    job: Option<Job>,
}

/// All applications and the sizes of all files.
#[derive(Clone, Debug, Default)]
pub(crate) struct Workload {
    pub(crate) applications: Vec<Application>,
    pub(crate) file_sizes: Vec<Bytes>,
    /// Recorded requests, in place of jobs.
    pub(crate) script: Option<Script>,
}

impl Workload {
    pub(crate) fn from_jobs(jobs: &[Job]) -> Self {
        let mut workload = Self::default();
        let mut first_client = 0;
        for job in jobs {
            for number in 0..job.applications {
                let name = match job.applications {
                    1 => job.name.clone(),
                    _ => format!("{}-{number}", job.name),
                };
                let class = ClassId(workload.applications.len() as u32);
                let first_file = workload.file_sizes.len() as u32;
                let files = if job.has_own_files() { job.clients } else { 1 };
                let size = job.file_bytes.unwrap_or(Bytes(job.covered_bytes() as u64));
                workload.file_sizes.extend((0..files).map(|_| size));
                let clients = job.clients;
                let job = Some(job.clone());
                workload.applications.push(Application {
                    name,
                    class,
                    first_client,
                    clients,
                    first_file,
                    job,
                });
                first_client += clients;
            }
        }
        workload
    }

    /// One application for each class of a record.
    pub(crate) fn from_record(record: &[Recorded], pace: Pace) -> Self {
        let files = record.iter().map(|recorded| recorded.request.file.0 + 1).max();
        let mut file_sizes = alloc::vec![Bytes::ZERO; files.unwrap_or_default() as usize];
        for Recorded { request, .. } in record {
            if matches!(request.access, Access::Read | Access::Write) {
                let size = &mut file_sizes[request.file.0 as usize];
                *size = (*size).max(Bytes(request.range.end.0));
            }
        }
        let script = Script::new(record, pace);
        let mut applications: Vec<Application> = Vec::new();
        for (number, player) in (0..).zip(&script.players) {
            match applications.last_mut().filter(|last| last.class == player.class) {
                Some(last) => last.clients += 1,
                None => applications.push(Application {
                    name: format!("class-{}", player.class.0),
                    class: player.class,
                    first_client: number,
                    clients: 1,
                    first_file: 0,
                    job: None,
                }),
            }
        }
        Self { applications, file_sizes, script: Some(script) }
    }

    /// How many requests a client makes, and how many of them are under way at a time.
    pub(crate) fn requests_and_window(&self, application: &Application, rank: u32) -> (u32, u32) {
        match (&application.job, &self.script) {
            (Some(job), _) => (job.requests, job.window.min(job.requests)),
            (None, Some(script)) => {
                let player = &script.players[(application.first_client + rank) as usize];
                (player.requests, player.requests)
            }
            (None, None) => (0, 0),
        }
    }

    /// When a client makes its first request.
    pub(crate) fn start(
        &self,
        application: &Application,
        rank: u32,
        random: &mut SplitMix64,
    ) -> Timestamp {
        match (&application.job, &self.script) {
            (Some(job), _) => Timestamp(job.start.0) + up_to(random, job.start_jitter),
            (None, Some(script)) => {
                script.players[(application.first_client + rank) as usize].started
            }
            (None, None) => Timestamp(0),
        }
    }
}

impl Application {
    /// Its weight, and the most bytes that it moves in a second.
    pub(crate) fn share(&self) -> ClassShare {
        let (weight, limit) = self.job.as_ref().map_or((1, None), |job| (job.weight, job.limit));
        let bytes = limit.map(|limit| Rate::bytes(limit.per_second()));
        let share = Share { weight, bytes, at_limit: AtLimit::Wait, ..Share::default() };
        ClassShare { share, ..ClassShare::default() }
    }

    /// The request of that number of a client, unless it has made all of its requests.
    pub(crate) fn request(&self, rank: u32, number: u32, random: &mut SplitMix64) -> Option<Asked> {
        let job = self.job.as_ref().filter(|job| number < job.requests)?;
        let doing = job.doing(number);
        let (file, own_rank) = match doing.file {
            FileUse::Shared => (0, u64::from(rank)),
            FileUse::PerProcess => (rank, 0),
        };
        let number = u64::from(doing.number);
        let block = match doing.order {
            Order::Contiguous => own_rank * u64::from(doing.requests) + number,
            Order::Strided => own_rank + number * u64::from(job.clients),
            Order::Random => {
                let bytes = job.file_bytes.map_or(job.covered_by(&doing) as u64, |bytes| bytes.0);
                random.below((bytes / doing.request.0).max(1))
            }
        };
        let reads = match doing.operation {
            Operation::Read => true,
            Operation::Write => false,
            Operation::Mixed => happens(random, job.reads_percent * 10),
        };
        Some(Asked {
            file: FileIndex(self.first_file + file),
            access: if reads { Access::Read } else { Access::Write },
            range: ByteRange::new(Offset(block * doing.request.0), doing.request),
            class: self.class,
        })
    }

    /// How long a client thinks after its request of that number.
    pub(crate) fn think(&self, number: u32, random: &mut SplitMix64) -> Nanos {
        let Some(job) = &self.job else { return Nanos::ZERO };
        job.doing(number).think + up_to(random, job.think_jitter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Phase;

    fn offsets(job: &Job, rank: u32) -> Vec<(u32, u64)> {
        let workload = Workload::from_jobs(core::slice::from_ref(job));
        let mut random = SplitMix64::new(1);
        (0..job.requests)
            .map(|number| {
                let asked = workload.applications[0].request(rank, number, &mut random);
                let asked = asked.expect("it makes so many");
                (asked.file.0, asked.range.start.0 / job.request.0)
            })
            .collect()
    }

    #[test]
    fn orders_are_what_they_are_called() {
        let job = |file, order| Job { clients: 4, requests: 3, file, order, ..Job::default() };
        let shared = |order| job(FileUse::Shared, order);
        assert_eq!(offsets(&shared(Order::Strided), 1), [(0, 1), (0, 5), (0, 9)]);
        assert_eq!(offsets(&shared(Order::Contiguous), 1), [(0, 3), (0, 4), (0, 5)]);
        let own = job(FileUse::PerProcess, Order::Contiguous);
        assert_eq!(offsets(&own, 2), [(2, 0), (2, 1), (2, 2)]);
        let random = Job { requests: 100, ..shared(Order::Random) };
        let blocks = offsets(&random, 0);
        assert!(blocks.iter().all(|(_, block)| *block < 400) && !blocks.is_sorted());
    }

    #[test]
    fn phases_take_turns_and_each_goes_on_where_it_was() {
        let own = Some(FileUse::PerProcess);
        let in_order =
            Phase { requests: 2, file: own, order: Some(Order::Contiguous), ..Phase::default() };
        let phases = alloc::vec![in_order, Phase { requests: 1, ..Phase::default() }];
        let job = Job { clients: 4, requests: 7, phases, ..Job::default() };
        let expected = [(1, 0), (1, 1), (0, 1), (1, 2), (1, 3), (0, 5), (1, 4)];
        assert_eq!(offsets(&job, 1), expected);
        // Seven requests: five of the first phase, in one's own file; two of the second, of four.
        assert_eq!(job.covered_bytes(), 8 * u128::from(job.request.0));
        let workload = Workload::from_jobs(core::slice::from_ref(&job));
        assert_eq!(workload.file_sizes.len(), 4);
    }

    #[test]
    fn applications_have_files_and_classes_of_their_own() {
        let jobs = [
            Job { applications: 2, ..Job::default() },
            Job { clients: 3, file: FileUse::PerProcess, order: Order::Random, ..Job::default() },
        ];
        let workload = Workload::from_jobs(&jobs);
        let firsts: Vec<_> = workload
            .applications
            .iter()
            .map(|application| {
                (application.class.0, application.first_client, application.first_file)
            })
            .collect();
        assert_eq!(firsts, [(0, 0, 0), (1, 8, 1), (2, 16, 2)]);
        assert_eq!(workload.file_sizes.len(), 5);
    }
}
