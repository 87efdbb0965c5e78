//! `forebay simulate --trace`: what simulated clients asked for, as a trace.
//!
//! It has what clients asked, before requests were striped and sent to schedulers, of which a
//! scenario may have many: so it can be asked again of any other scenario. What a scheduler
//! decided is not in it.

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::Path;

use forebay_sim::Simulation;
use forebay_trace::{Adjustment, Event, Fate, Header, Named, Recorder, RecorderOptions, Submit};
use forebay_units::Timestamp;

use crate::failure::{FAILED, Failure};

/// What a request's end is called that failed: `EIO`.
const FAILED_ERRNO: u16 = 5;

/// Writes what was asked for. `names` are those of the simulation's classes; what each has is
/// written where they share.
pub(super) fn write(
    path: &Path,
    header: &Header,
    simulation: &Simulation,
    names: &[String],
    is_shared: bool,
) -> Result<(), Failure> {
    let written = File::create(path).and_then(|file| {
        let mut output = BufWriter::new(file);
        record(&mut output, header, simulation, names, is_shared)?;
        output.flush()
    });
    written.map_err(|error| Failure::new(FAILED, format!("{}: {error}", path.display())))
}

/// What a trace of a simulation says about where it comes from.
pub(super) fn header(scenario: &str, policy: &str, seed: u64) -> Header {
    let settings = [
        ("simulate.scenario", scenario.to_owned()),
        ("simulate.policy", policy.to_owned()),
        ("simulate.seed", seed.to_string()),
    ];
    Header {
        source: concat!("forebay simulate ", env!("CARGO_PKG_VERSION")).into(),
        clock_base_ns: 0,
        settings: settings.map(|(key, value)| (key.to_owned(), value)).into(),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    // At one moment what began earlier ends first, so that what a client does next follows it.
    Ends,
    Begins,
}

fn record(
    output: &mut impl io::Write,
    header: &Header,
    simulation: &Simulation,
    names: &[String],
    is_shared: bool,
) -> io::Result<()> {
    output.write_all(&header.to_bytes())?;
    let mut recorder = Recorder::new(RecorderOptions::default(), 0);
    let mut put = |at: Timestamp, event: &Event<'_>| -> io::Result<()> {
        recorder.record(at, event);
        while let Some(mut block) = recorder.take_block() {
            output.write_all(block.seal())?;
            recorder.give_back(block);
        }
        Ok(())
    };
    for (class, name) in simulation.classes().zip(names) {
        put(Timestamp(0), &Event::Name { of: Named::Class(class.id), text: name })?;
        if is_shared {
            let share = Adjustment::Class(class.id, Some(class.share));
            let (key, value) = (share.key(), share.value());
            put(Timestamp(0), &Event::Setting { key: &key, value: &value })?;
        }
    }
    let requests = simulation.requests();
    let mut steps = Vec::with_capacity(2 * requests.len());
    for (seq, made) in (0_u64..).zip(requests) {
        steps.push((made.at, What::Begins, seq));
        steps.extend(made.answer.map(|answer| (answer.at, What::Ends, seq)));
    }
    steps.sort_unstable();
    for (at, what, seq) in steps {
        let made = &requests[usize::try_from(seq).expect("it is a place in memory")];
        match (what, made.answer) {
            (What::Begins, _) => {
                let request = forebay_sched::Request { tag: 0, ..made.request };
                let (seq, has_room, fate) = (None, false, Fate::Queued);
                put(at, &Event::Submit(Submit { seq, request, has_room, fate }))?;
            }
            (What::Ends, Some(answer)) => {
                let errno = if answer.is_failed { FAILED_ERRNO } else { 0 };
                put(at, &Event::Complete { seq, errno, moved: answer.moved })?;
            }
            (What::Ends, None) => {}
        }
    }
    let (blocks, totals) = recorder.finish();
    for mut block in blocks {
        output.write_all(block.seal())?;
    }
    output.write_all(&totals.to_bytes())
}
