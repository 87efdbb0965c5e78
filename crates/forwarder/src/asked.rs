//! What a client asks for, freed from the bytes that it came in, in the engine's terms.

use forebay_engine::{Action, FileKey, Ranges};
use forebay_session::server;
use forebay_units::ByteRange;
use forebay_wire::{Delivery, Descriptor, Place};

/// What a client asks for, freed from the bytes that it came in.
pub(crate) enum Asked {
    Hello { process: u64, user: u32, job: Vec<u8>, name: String },
    Open { tag: u64, flags: u32, descriptor: Descriptor, path: Vec<u8> },
    Call { tag: u64, file: FileKey, action: Action, ranges: Ranges, eager: bool },
    Stat { tag: u64, file: FileKey },
    Close { tag: u64, file: FileKey },
    Status { tag: u64 },
    Control { tag: u64, text: Vec<u8> },
    Bye { tag: u64, reasons: Vec<(u8, u64)> },
}

impl From<server::Event<'_, FileKey>> for Asked {
    fn from(event: server::Event<'_, FileKey>) -> Self {
        use server::Event as E;
        let control = |tag, file, action, range| Self::Call {
            tag,
            file,
            action,
            ranges: Ranges::One(range),
            eager: false,
        };
        let nowhere = ByteRange::default();
        match event {
            E::Hello(hello) => Self::Hello {
                process: hello.client,
                user: hello.uid,
                job: hello.job.to_vec(),
                name: format!("{} {}", String::from_utf8_lossy(hello.program), hello.pid),
            },
            E::Open { tag, open } => Self::Open {
                tag,
                flags: open.flags,
                descriptor: open.descriptor,
                path: open.path.to_vec(),
            },
            E::Read { tag, file, ranges } => {
                Self::Call { tag, file, action: Action::Read, ranges: owned(ranges), eager: false }
            }
            E::Write { tag, file, ranges, place, delivery } => Self::Call {
                tag,
                file,
                action: match place {
                    Place::Range => Action::Write,
                    Place::End => Action::Append,
                },
                ranges: owned(ranges),
                eager: delivery == Delivery::Eager,
            },
            E::Sync { tag, file } => control(tag, file, Action::Sync, nowhere),
            E::DataSync { tag, file } => control(tag, file, Action::DataSync, nowhere),
            E::Truncate { tag, file, size } => control(tag, file, Action::Truncate(size), nowhere),
            E::Allocate { tag, file, mode, range } => {
                control(tag, file, Action::Allocate { mode }, range)
            }
            E::Hint { tag, file, advice, range } => {
                control(tag, file, Action::Advise { advice }, range)
            }
            E::Stat { tag, file } => Self::Stat { tag, file },
            E::Close { tag, file } => Self::Close { tag, file },
            E::Status { tag } => Self::Status { tag },
            E::Control { tag, control } => Self::Control { tag, text: control.text.to_vec() },
            E::Bye { tag, bye } => Self::Bye {
                tag,
                reasons: bye.reasons.iter().map(|reason| (reason.reason, reason.calls)).collect(),
            },
        }
    }
}

fn owned(ranges: forebay_wire::Ranges<'_>) -> Ranges {
    let mut iter = ranges.iter();
    match (iter.next(), ranges.len()) {
        (Some(range), 1) => Ranges::One(range),
        _ => Ranges::Many(ranges.iter().collect()),
    }
}
