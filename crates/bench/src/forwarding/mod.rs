//! `forwarding`: what a forwarder costs where storage costs nothing.
//!
//! A stream of mebibytes and round trips of 8 KiB, between two processes: through a forwarder with
//! its files in memory, and over a raw socket of the same kind, which only copies (a message of
//! the same size into a buffer) or only answers (64 bytes). The two take turns, so that whatever
//! the machine does meanwhile meets both; what counts is the ratio of their medians.
//!
//! The harness is the client in both; the other side is `forebay serve` or `forebay-bench-socket`.

use std::path::Path;

use forebay_units::Direction;
use serde_json::{Value, json};

use crate::error::Error;
use crate::programs::Programs;
use crate::progress::Track;
use crate::report::{Report, Row, median};
use crate::server::Server;
use crate::{Options, machine};

mod raw;
mod through;

use raw::{Peer, Work};
use through::Client;

/// A message of the raw stream, a request of the forwarder's.
const STREAM_BYTES: u64 = 1 << 20;

/// A small read.
const READ_BYTES: u64 = 8 << 10;

/// A message of the raw round trip.
const PING_BYTES: u64 = 64;

/// Requests that the client has unanswered in a stream.
const WINDOW: usize = 4;

/// Of the file in memory, which the stream passes over again and again.
const FILE_BYTES: u64 = 16 << 20;

/// How the two processes are connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Transport {
    Unix,
    Tcp,
}

impl Transport {
    const ALL: [Self; 2] = [Self::Unix, Self::Tcp];

    fn name(self) -> &'static str {
        match self {
            Self::Unix => "unix",
            Self::Tcp => "tcp",
        }
    }
}

/// How much is done.
#[derive(Clone, Copy, Debug)]
struct Extent {
    turns: usize,
    /// Mebibytes of a turn.
    messages: u64,
    /// Round trips of a turn.
    trips: u32,
}

const WHOLE: Extent = Extent { turns: 11, messages: 512, trips: 20_000 };
const QUICK: Extent = Extent { turns: 3, messages: 128, trips: 2_000 };

/// The results of the turns that the two took.
#[derive(Debug, Default)]
struct Turns {
    raw: Vec<f64>,
    forwarder: Vec<f64>,
}

/// Runs the suite.
pub(crate) fn run(
    programs: &Programs,
    options: &Options,
    track: &mut Track<'_>,
) -> Result<Report, Error> {
    let mut extent = if options.quick { QUICK } else { WHOLE };
    extent.turns = options.repetitions.unwrap_or(extent.turns).max(1);
    let mut report = Report::new("forwarding");
    report.set("store", "memory");
    report.set("file_bytes", FILE_BYTES);
    report.set("request_bytes", STREAM_BYTES);
    report.set("window_requests", WINDOW);
    report.set("turns", extent.turns);
    report.set("messages_a_turn", extent.messages);
    report.set("round_trips_a_turn", extent.trips);
    track.expect(Transport::ALL.len() * 3, Transport::ALL.len() as f64 * 3.0);
    let folder = machine::scratch(0)?;
    for transport in Transport::ALL {
        let server = Server::start(programs, &flags(transport, folder.path()))?;
        let mut client = Client::start(server.endpoint(), FILE_BYTES, WINDOW)?;
        for direction in [Direction::Read, Direction::Write] {
            let turns = stream(programs, transport, folder.path(), &mut client, direction, extent)?;
            track.case(1.0, add_stream(&mut report, transport, direction, &turns));
        }
        let turns = round_trips(programs, transport, folder.path(), &mut client, extent)?;
        track.case(1.0, add_round_trips(&mut report, transport, &turns));
        drop(client);
        server.stop()?;
    }
    for transport in Transport::ALL.map(Transport::name) {
        let of = |direction| {
            report.ratios.get(&format!("stream_{direction}_over_raw_{transport}")).copied()
        };
        let least = of("read").zip(of("write")).map(|(read, write)| read.min(write));
        report.ratio(format!("stream_over_raw_{transport}"), least);
    }
    Ok(report)
}

fn flags(transport: Transport, folder: &Path) -> Vec<String> {
    let listen = match transport {
        Transport::Unix => format!("--listen-unix={}", folder.join("socket").display()),
        Transport::Tcp => "--listen-tcp=127.0.0.1:0".to_owned(),
    };
    vec![listen, "--store-kind=memory".to_owned()]
}

fn stream(
    programs: &Programs,
    transport: Transport,
    folder: &Path,
    client: &mut Client,
    direction: Direction,
    extent: Extent,
) -> Result<Turns, Error> {
    let count = extent.messages;
    let mut peer = Peer::start(programs, transport, folder, Work::Stream { direction, count })?;
    let mut turns = Turns::default();
    let rate =
        |elapsed: std::time::Duration| (count * STREAM_BYTES) as f64 / elapsed.as_secs_f64() / 1e6;
    // The first turn of each warms up.
    peer.stream_once(direction, count)?;
    client.stream_once(direction, count)?;
    for _ in 0..extent.turns {
        turns.raw.push(rate(peer.stream_once(direction, count)?));
        turns.forwarder.push(rate(client.stream_once(direction, count)?));
    }
    Ok(turns)
}

fn round_trips(
    programs: &Programs,
    transport: Transport,
    folder: &Path,
    client: &mut Client,
    extent: Extent,
) -> Result<Turns, Error> {
    let mut peer = Peer::start(programs, transport, folder, Work::Echo)?;
    let mut turns = Turns::default();
    let us = |elapsed: std::time::Duration| elapsed.as_secs_f64() * 1e6;
    peer.round_trip(extent.trips)?;
    client.round_trip(extent.trips)?;
    for _ in 0..extent.turns {
        turns.raw.push(us(peer.round_trip(extent.trips)?));
        turns.forwarder.push(us(client.round_trip(extent.trips)?));
    }
    Ok(turns)
}

/// Adds the rows and the ratio; what to say of them.
fn add_stream(
    report: &mut Report,
    transport: Transport,
    direction: Direction,
    turns: &Turns,
) -> String {
    let direction = match direction {
        Direction::Read => "read",
        Direction::Write => "write",
    };
    let over = add(report, ("stream", "MB/s"), transport, direction, turns);
    report.ratio(format!("stream_{direction}_over_raw_{}", transport.name()), Some(over));
    format!("stream  {:4}  {direction:5}  {over:.2} of raw", transport.name())
}

fn add_round_trips(report: &mut Report, transport: Transport, turns: &Turns) -> String {
    let over = add(report, ("round_trip", "us"), transport, "read", turns);
    report.ratio(format!("rtt_over_raw_{}", transport.name()), Some(over));
    format!("round trip  {:4}  {over:.2} of raw", transport.name())
}

/// Adds the rows of both; the forwarder's median over the raw one.
fn add(
    report: &mut Report,
    (name, unit): (&'static str, &'static str),
    transport: Transport,
    direction: &'static str,
    turns: &Turns,
) -> f64 {
    for (path, results) in [("raw", &turns.raw), ("forwarder", &turns.forwarder)] {
        let parameters: [(&'static str, Value); 3] = [
            ("transport", transport.name().into()),
            ("direction", direction.into()),
            ("path", path.into()),
        ];
        report.rows.push(Row::median(name, unit, &parameters, results));
        let transport = transport.name();
        report.raw.push(
            json!({"name": name, "transport": transport, "direction": direction, "path": path,
            "unit": unit, "turns": results}),
        );
    }
    median(&turns.forwarder) / median(&turns.raw)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_that_of_the_medians() {
        let mut report = Report::new("forwarding");
        let turns = Turns { raw: vec![100.0, 90.0, 400.0], forwarder: vec![80.0, 20.0, 85.0] };
        add_stream(&mut report, Transport::Tcp, Direction::Write, &turns);
        assert_eq!(report.ratios["stream_write_over_raw_tcp"], 0.8);
        let raw = [("path", "raw".into()), ("transport", "tcp".into())];
        assert_eq!(report.value("stream", &raw), Some(100.0));
    }
}
