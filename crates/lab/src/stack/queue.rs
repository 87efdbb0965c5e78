//! The block device's queue: what decides a result as much as the disk does.
//!
//! The order of the writes matters. A loop device takes 128 requests at once, so that all of them
//! reach the drive and no elevator has anything to order. Its depth can be changed only while it
//! has no elevator; the one that is picked afterwards keeps it.

use serde::{Deserialize, Serialize};

use super::loop_device::LoopDevice;
use crate::error::Error;
use crate::fuse::TRANSFER_BYTES_MAX;
use crate::settings::Settings;

const NO_ELEVATOR: &str = "none";
const ELEVATOR: &str = "queue/scheduler";
const DEPTH: &str = "queue/nr_requests";
const READ_AHEAD: &str = "queue/read_ahead_kb";
const REQUEST_MAX: &str = "queue/max_sectors_kb";
const ROTATIONAL: &str = "queue/rotational";

/// The largest request: one message to the daemon, so that the depth is that of the drive too.
const REQUEST_KIB_MAX: u32 = TRANSFER_BYTES_MAX as u32 >> 10;

/// What the kernel says about a queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queue {
    /// The elevator.
    pub elevator: String,
    /// `nr_requests`: what may be queued in the elevator, or in the device where there is none.
    pub nr_requests: u32,
    /// `read_ahead_kb`.
    pub read_ahead_kib: u32,
    /// `max_sectors_kb`: the largest request, which the daemon gets in one piece.
    pub request_kib_max: u32,
    /// Whether the kernel takes it for a rotating disk, as elevators ask.
    pub is_rotational: bool,
    /// Whether it goes around the page cache beneath it.
    pub is_direct: bool,
}

/// Sets everything, and checks that the kernel took it.
///
/// # Errors
/// What could not be set, and what the kernel has instead.
pub(crate) fn set(device: &LoopDevice, settings: &Settings) -> Result<(), Error> {
    device.write(ELEVATOR, NO_ELEVATOR)?;
    device.write(DEPTH, &settings.queue_depth.to_string())?;
    let depth = device.read(DEPTH)?;
    if depth != settings.queue_depth.to_string() {
        let text = format!("the queue depth is {depth} after {} was set", settings.queue_depth);
        return Err(Error::failed(text));
    }
    device.write(ROTATIONAL, if is_disk(settings)? { "1" } else { "0" })?;
    let elevators = device.read(ELEVATOR)?;
    let known: Vec<&str> = elevators.split(' ').map(|name| name.trim_matches(['[', ']'])).collect();
    if !known.contains(&settings.elevator.as_str()) {
        let text =
            format!("elevator \"{}\": this kernel has {}", settings.elevator, known.join(", "));
        return Err(Error::fix(text));
    }
    // Even writing the same name again would forget the depth.
    if settings.elevator != NO_ELEVATOR {
        device.write(ELEVATOR, &settings.elevator)?;
    }
    device.write(REQUEST_MAX, &REQUEST_KIB_MAX.to_string())?;
    // Last: the kernel thinks of a read-ahead of its own whenever another limit changes.
    device.write(READ_AHEAD, &settings.read_ahead_kib.to_string())?;
    verify(device, settings).map(drop)
}

/// What the kernel says now, if it is what was set.
///
/// # Errors
/// What is not as it was set.
pub(crate) fn verify(device: &LoopDevice, settings: &Settings) -> Result<Queue, Error> {
    let queue = read(device)?;
    let is_rotational = is_disk(settings)?;
    let wrong = [
        (queue.elevator != settings.elevator).then_some("elevator"),
        // An elevator has a number of its own there, and the device keeps the depth that it had
        // before; the drive counts what reaches it (`depth_max`).
        (queue.elevator == NO_ELEVATOR && queue.nr_requests != settings.queue_depth)
            .then_some("queue depth"),
        (queue.read_ahead_kib != settings.read_ahead_kib).then_some("read-ahead"),
        (queue.request_kib_max != REQUEST_KIB_MAX).then_some("largest request"),
        (queue.is_rotational != is_rotational).then_some("kind of device"),
        (!queue.is_direct).then_some("way around the page cache"),
    ];
    match wrong.into_iter().flatten().next() {
        Some(name) => {
            let text = format!("the kernel has another {name} than was set: {queue:?}");
            Err(Error::failed(text))
        }
        None => Ok(queue),
    }
}

/// What the kernel says now.
fn read(device: &LoopDevice) -> Result<Queue, Error> {
    let number = |attribute| {
        let text = device.read(attribute)?;
        text.parse().map_err(|_| Error::failed(format!("{attribute} is \"{text}\", not a number")))
    };
    let elevators = device.read(ELEVATOR)?;
    let chosen = elevators.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    Ok(Queue {
        elevator: chosen.map_or(elevators.as_str(), |(name, _)| name).to_owned(),
        nr_requests: number(DEPTH)?,
        read_ahead_kib: number(READ_AHEAD)?,
        request_kib_max: number(REQUEST_MAX)?,
        is_rotational: device.read(ROTATIONAL)? == "1",
        is_direct: device.read("loop/dio")? == "1",
    })
}

fn is_disk(settings: &Settings) -> Result<bool, Error> {
    Ok(matches!(settings.device()?.medium, forebay_device::Medium::Disk(_)))
}
