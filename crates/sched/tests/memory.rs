//! Bytes a queued request, everything counted: table, policy, guard, what is reserved and not used.

mod counting;

use forebay_sched::{
    Access, Bypass, ClassOptions, PolicyName, PolicySettings, Request, Room, Scheduler,
    SchedulerOptions, build, source,
};
use forebay_units::{ByteRange, Bytes, ClassId, ClientId, FileIndex, Offset, Timestamp};

const QUEUED: u64 = 1_000_000;
const LENGTH: u64 = 8 << 10;

/// Request `n` by its place: file and block.
type Place = fn(u64) -> (u64, u64);

/// Without sharing if `classes` is 1.
fn bytes_a_request(policy: PolicyName, access: Access, place: Place, classes: u64) -> f64 {
    let (_, bytes) = counting::bytes_kept_by(|| {
        let options = SchedulerOptions { bypass: Bypass::Never, ..SchedulerOptions::default() };
        let settings = PolicySettings::default();
        let mut scheduler = match classes {
            1 => Scheduler::new(options, build(policy, &settings)),
            _ => {
                Scheduler::with_classes(options, ClassOptions::default(), source(policy, &settings))
            }
        };
        for n in 0..QUEUED {
            let (file, block) = place(n);
            let request = Request {
                tag: n,
                file: FileIndex(file as u32),
                access,
                range: ByteRange::new(Offset(block * LENGTH), Bytes(LENGTH)),
                client: ClientId((n % 32) as u32),
                class: ClassId((n / 64 % classes) as u32),
            };
            scheduler.submit(Timestamp(n), request, Room::Full).expect("there is room");
        }
        scheduler
    });
    bytes as f64 / QUEUED as f64
}

/// Two producers whose requests of one file come nearly in order.
fn one_file(n: u64) -> (u64, u64) {
    (0, n ^ 1)
}

fn many_files(n: u64) -> (u64, u64) {
    (n % 1024, n / 1024)
}

/// 32 clients, 32 pieces each at a time, a client's whole turn after the other's.
fn strided(n: u64) -> (u64, u64) {
    let (round, client, piece) = (n / 1024, n / 32 % 32, n % 32);
    (0, round * 1024 + piece * 32 + client)
}

#[test]
fn a_million_queued_requests_take_at_most_128_bytes_each_under_every_policy() {
    for policy in PolicyName::ALL {
        let bytes = bytes_a_request(policy, Access::Write, one_file, 1);
        println!("{policy:7} {bytes:.1}");
        assert!(bytes <= 128.0, "{policy}: {bytes:.1}");
    }
}

#[test]
fn so_do_they_in_many_files_in_strides_and_in_many_classes() {
    for (place, classes) in [(many_files as Place, 1), (strided, 1), (one_file, 1000)] {
        let bytes = bytes_a_request(PolicyName::Aioli, Access::Read, place, classes);
        println!("aIOLi, {classes} classes: {bytes:.1}");
        assert!(bytes <= 128.0, "aIOLi, {classes} classes: {bytes:.1}");
    }
}
