//! `aioli06-table1`: bonnie++ with one client and with four, without and with Forebay.
//!
//! The program itself is run, unchanged. It stops before each of its phases until all clients have
//! reached it; there the cache is emptied, so that a small file is read from the disk as the
//! paper's file of twice the memory was. A phase is timed until what it wrote is on the disk; emptying
//! the cache again is not part of it.

use std::io::Write as _;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Instant;

use forebay_device::SplitMix64;
use forebay_units::{Bytes, Direction};
use serde_json::{Value, json};

use super::aioli::{self, Way, line, paper_2006};
use super::{Figure, PaperValue, cases, number, parameter};
use crate::chart::Chart;
use crate::error::Error;
use crate::lines::Lines;
use crate::peers::workload::Access;
use crate::peers::{Least, Peer, Stage, Watched};
use crate::programs::{Programs, plain};
use crate::progress::Track;
use crate::report::{Report, Row};
use crate::stop;
use crate::{Options, table};

pub(super) const FIGURE: Figure = Figure {
    name: "aioli06-table1",
    summary: "bonnie++ with 1 and 4 clients: byte by byte, in blocks, and rewriting",
    paper: paper_2006!("table 1"),
    values: &[
        PaperValue {
            what: "NFS, 1 client: write by byte, by block, rewrite, read by byte, by block",
            value: "21.69, 28.40, 2.00, 34.84, 43.54 MB/s",
        },
        PaperValue { what: "aIOLi, 1 client", value: "19.80, 28.29, 2.03, 37.45, 48.81 MB/s" },
        PaperValue { what: "NFS, 4 clients", value: "8.26, 8.78, 1.68, 3.55, 3.02 MB/s" },
        PaperValue { what: "aIOLi, 4 clients", value: "7.41, 9.59, 1.68, 4.74, 13.39 MB/s" },
        PaperValue { what: "aIOLi over NFS, 4 clients reading blocks", value: "4.4" },
    ],
    sizes: |options| {
        let bytes = table::bytes(runs(options)[0].file_bytes as f64);
        format!("files of {bytes} and an empty cache before each phase instead of 4 GB")
    },
    differs: "the local file system instead of NFS as what it is compared with (and so in the place of the \
              paper's NFS in the table), for this program reaches a server only through a kernel's client; \
              bonnie++ 2.00 makes a system call of every byte, which it did not in 2006, so the phases by \
              byte move 1 MiB, the least that it takes, with one client, in the full figure only and \
              there once, where the other phases have a median of several runs; they say what a round \
              trip costs, not what the emulated disk does; each client of four is one process on the same \
              machine, where the paper's had one each.",
    ratios: &[
        ("forebay_over_local_block_read_1", 48.81 / 43.54),
        ("forebay_over_local_block_read_4", 13.39 / 3.02),
        ("forebay_over_local_block_write_1", 28.29 / 28.40),
        ("forebay_over_local_block_write_4", 9.59 / 8.78),
        ("forebay_over_local_byte_read_1", 37.45 / 34.84),
        ("forebay_over_local_byte_write_1", 19.80 / 21.69),
        ("forebay_over_local_rewrite_1", 2.03 / 2.00),
        ("forebay_over_local_rewrite_4", 1.0),
    ],
    beside: |row| {
        let clients = number(row, "clients")?;
        paper_mbps(clients, parameter(row, "phase"), parameter(row, "peer"))
    },
    run,
    charts,
};

const PROGRAM: &str = "bonnie++";
/// Debian puts it where only root looks.
const PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";
/// In the phases by byte: the least that it takes.
const CHAR_BYTES: u64 = 1 << 20;
/// About what a call of a byte takes through Forebay, to foresee how long a run takes.
const CALL_SECONDS: f64 = 90e-6;
const CLIENTS: [usize; 2] = [1, 4];
const WAYS: [Way; 2] = [Way::Local, Way::Forebay];

/// A phase of bonnie++.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Phase {
    /// Its number in the program's prompts.
    number: u32,
    name: &'static str,
    is_by_byte: bool,
    does: Does,
    /// The paper's rates with 1 and 4 clients: NFS, NFS with aIOLi.
    paper: [[f64; 2]; 2],
    /// How often its bytes go through a call.
    passes: u64,
}

/// What a phase does with all of its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Does {
    Read,
    Write,
    Both,
}

const PHASES: [Phase; 5] = [
    Phase {
        number: 0,
        name: "byte-write",
        is_by_byte: true,
        does: Does::Write,
        paper: [[21.69, 19.80], [8.26, 7.41]],
        passes: 1,
    },
    Phase {
        number: 1,
        name: "block-write",
        is_by_byte: false,
        does: Does::Write,
        paper: [[28.40, 28.29], [8.78, 9.59]],
        passes: 1,
    },
    Phase {
        number: 2,
        name: "rewrite",
        is_by_byte: false,
        does: Does::Both,
        paper: [[2.00, 2.03], [1.68, 1.68]],
        passes: 2,
    },
    Phase {
        number: 3,
        name: "byte-read",
        is_by_byte: true,
        does: Does::Read,
        paper: [[34.84, 37.45], [3.55, 4.74]],
        passes: 1,
    },
    Phase {
        number: 4,
        name: "block-read",
        is_by_byte: false,
        does: Does::Read,
        paper: [[43.54, 48.81], [3.02, 13.39]],
        passes: 1,
    },
];

/// The paper's rate of a client; its NFS stands where ours is the local file system.
fn paper_mbps(clients: u64, phase: &str, peer: &str) -> Option<f64> {
    let clients = CLIENTS.iter().position(|count| *count as u64 == clients)?;
    let way = WAYS.iter().position(|way| way.name() == peer)?;
    Some(PHASES.iter().find(|own| own.name == phase)?.paper[clients][way])
}

/// What is run once.
#[derive(Clone, Copy, Debug)]
struct Run {
    way: Way,
    clients: usize,
    /// Whether there are phases by byte: the first time only, since they take minutes.
    has_bytes: bool,
    file_bytes: u64,
}

impl Run {
    fn phases(self) -> impl Iterator<Item = Phase> {
        PHASES.into_iter().filter(move |phase| self.has_bytes || !phase.is_by_byte)
    }

    fn phase_bytes(self, phase: Phase) -> u64 {
        if phase.is_by_byte { CHAR_BYTES } else { self.file_bytes }
    }

    /// What the disk has to do in a phase, which begins with an empty cache and ends with a sync.
    fn least(self, phase: Phase) -> Least {
        let all = self.phase_bytes(phase) * self.clients as u64;
        let bytes = |is_done| if is_done { all } else { 0 };
        Least {
            bytes_read: bytes(phase.does != Does::Write),
            bytes_written: bytes(phase.does != Does::Read),
        }
    }

    /// All bytes that the clients' calls move.
    fn bytes(self) -> u64 {
        let one = self.phases().map(|phase| self.phase_bytes(phase) * phase.passes);
        one.sum::<u64>() * self.clients as u64
    }

    /// About how long it takes.
    fn seconds(self) -> f64 {
        let has_round_trips = self.has_bytes && self.way == Way::Forebay;
        let calls = if has_round_trips { 2 * CHAR_BYTES } else { 0 };
        self.bytes() as f64 / 25e6 + calls as f64 * CALL_SECONDS + 1.0
    }

    /// The same after the first time.
    fn again(self) -> Self {
        Self { has_bytes: false, ..self }
    }

    fn parameters(self, phase: Phase) -> Vec<(&'static str, Value)> {
        vec![
            ("clients", self.clients.into()),
            ("phase", phase.name.into()),
            ("peer", self.way.name().into()),
        ]
    }
}

fn runs(options: &Options) -> Vec<Run> {
    let file_bytes = if options.quick { 16 << 20 } else { 48 << 20 };
    let of = |(clients, way): (usize, Way)| {
        let has_bytes = clients == 1 && !options.quick;
        Run { way, clients, has_bytes, file_bytes }
    };
    CLIENTS.into_iter().flat_map(|clients| WAYS.map(|way| (clients, way))).map(of).collect()
}

fn run(programs: &Programs, options: &Options, track: &mut Track<'_>) -> Result<Report, Error> {
    let runs = runs(options);
    let repetitions = aioli::repetitions(options);
    let stage = Stage::up(programs, &aioli::disk(FIGURE.name, 1 << 30))?;
    let mut report = Report::new(FIGURE.name);
    report.set("repetitions", repetitions);
    report.set("order_seed", options.order_seed());
    report.set("disk", json!(stage.read_back()?));
    report.set("file_bytes_of_a_client", runs[0].file_bytes);
    let mut peers = serde_json::Map::new();
    for way in WAYS {
        peers.insert(way.name().to_owned(), way.peer().settings(programs)?);
    }
    report.set("peers", peers);
    let first: f64 = runs.iter().map(|run| run.seconds()).sum();
    let later: f64 = runs.iter().map(|run| run.again().seconds()).sum();
    track.expect(runs.len() * repetitions, first + later * (repetitions - 1) as f64);
    // Of each run and phase.
    let mut times: Vec<[Vec<f64>; PHASES.len()]> =
        runs.iter().map(|_| Default::default()).collect();
    let mut others = Vec::new();
    let mut random = SplitMix64::new(options.order_seed());
    for idx in cases::order(runs.len(), repetitions, &mut random) {
        stop::check()?;
        let is_first = times[idx].iter().all(Vec::is_empty);
        let run = if is_first { runs[idx] } else { runs[idx].again() };
        let name = format!("{} clients  {}", run.clients, run.way.name());
        let phases = measure(&stage, programs, run).map_err(|error| error.of(&name))?;
        let found: Vec<f64> = phases.iter().map(|(seconds, _)| *seconds).collect();
        others.extend(phases.iter().map(|(_, watched)| watched.others_share));
        let words: Vec<String> = run
            .phases()
            .zip(&found)
            .map(|(phase, seconds)| format!("{} {seconds:.2} s", phase.name))
            .collect();
        track.case(run.seconds(), format!("{name}  {}", words.join(", ")));
        report.raw.push(json!({
            "clients": run.clients, "peer": run.way.name(),
            "phases": run.phases().map(|phase| phase.name).collect::<Vec<_>>(), "seconds": found,
            "disk": phases.iter().map(|(_, watched)| watched.disk).collect::<Vec<_>>(),
            "others_share": phases.iter().map(|(_, watched)| watched.others_share).collect::<Vec<_>>(),
        }));
        for (phase, seconds) in run.phases().zip(found) {
            times[idx][phase.number as usize].push(seconds);
        }
    }
    stage.down()?;
    for (run, times) in runs.iter().zip(&times) {
        for phase in run.phases() {
            let rate = |seconds: &f64| run.phase_bytes(phase) as f64 / seconds / 1e6;
            let rates: Vec<f64> = times[phase.number as usize].iter().map(rate).collect();
            let parameters = run.parameters(phase);
            report.rows.push(Row::median("throughput_of_a_client", "MB/s", &parameters, &rates));
        }
    }
    report.notes.push(cases::disturbance(others));
    findings(&mut report);
    Ok(report)
}

/// Seconds of each phase, and what else happened.
type Phases = Vec<(f64, Watched)>;

/// How long each phase took, until the last client was done with it and all was on the disk.
fn measure(stage: &Stage<'_>, programs: &Programs, run: Run) -> Result<Phases, Error> {
    let folder = stage.root().join("bonnie");
    std::fs::create_dir_all(&folder).map_err(Error::file(&folder))?;
    let mut peer = run.way.peer();
    peer.start(programs, stage.root())?;
    let found = phases(stage, programs, &*peer, &folder, run);
    let stopped = peer.stop(run.bytes());
    let found = found?;
    stopped?;
    std::fs::remove_dir_all(&folder).map_err(Error::file(&folder))?;
    Ok(found)
}

fn phases(
    stage: &Stage<'_>,
    programs: &Programs,
    peer: &dyn Peer,
    folder: &Path,
    run: Run,
) -> Result<Phases, Error> {
    let client = |_| Client::start(command(programs, peer, stage.root(), folder, run)?);
    let mut clients = (0..run.clients).map(client).collect::<Result<Vec<Client>, Error>>()?;
    let mut found = Vec::new();
    for phase in run.phases() {
        clients.iter_mut().try_for_each(|client| client.reach(phase))?;
        found.push(stage.watched(run.least(phase), || {
            let started = Instant::now();
            clients.iter_mut().try_for_each(Client::go)?;
            clients.iter_mut().try_for_each(|client| client.finish(phase))?;
            stage.sync()?;
            Ok(started.elapsed().as_secs_f64())
        })?);
    }
    Ok(found)
}

/// bonnie++, which reaches its files the peer's way.
fn command(
    programs: &Programs,
    peer: &dyn Peer,
    root: &Path,
    folder: &Path,
    run: Run,
) -> Result<Command, Error> {
    // A peer says by the environment of a plain program how a file is reached.
    let access = Access {
        direction: Direction::Read,
        file: "bonnie",
        seed: 0,
        block: Bytes::kib(8),
        first: 0,
        every: 1,
        count: 1,
    };
    let reader = peer.command(programs, root, &access)?;
    let mut command = plain(PROGRAM);
    for (name, value) in reader.get_envs().filter_map(|(name, value)| Some((name, value?))) {
        command.env(name, value);
    }
    command.env("PATH", PATH).env("FOREBAY_JOB", "bonnie").arg("-d").arg(folder);
    command.args(["-n", "0", "-r", "0", "-u", "root", "-yp", "-m", "lab", "-z", "1"]);
    command.arg(if run.has_bytes { "-f1" } else { "-f" });
    command.args(["-s", &(run.file_bytes >> 20).to_string()]);
    Ok(command)
}

/// A running bonnie++; it ends when dropped, before the random seeks that would follow.
struct Client {
    child: Child,
    stdin: ChildStdin,
    /// `N:` and a new line before phase N.
    prompts: Lines,
    /// What it does, and `done` when it has.
    progress: Lines,
}

impl Client {
    fn start(mut command: Command) -> Result<Self, Error> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => {
                Error::fix(format!("{PROGRAM} is not installed; on Debian it is in {PROGRAM}"))
            }
            _ => Error::io(PROGRAM)(error),
        })?;
        let stdin = child.stdin.take().expect("it was piped");
        let prompts = Lines::of(PROGRAM, child.stdout.take().expect("it was piped"));
        let progress = Lines::of(PROGRAM, child.stderr.take().expect("it was piped"));
        Ok(Self { child, stdin, prompts, progress })
    }

    /// Waits until it stands before a phase.
    fn reach(&mut self, phase: Phase) -> Result<(), Error> {
        let prompt = format!("{}:", phase.number);
        hear(&self.prompts, phase, |line| line == prompt)
    }

    fn go(&mut self) -> Result<(), Error> {
        self.stdin.write_all(b"\n").map_err(Error::io(PROGRAM))
    }

    /// Waits until it has done what it was let go for.
    fn finish(&mut self, phase: Phase) -> Result<(), Error> {
        hear(&self.progress, phase, |line| line.ends_with("done"))
    }
}

/// Reads lines until the one that is waited for.
fn hear(from: &Lines, phase: Phase, is_it: impl Fn(&str) -> bool) -> Result<(), Error> {
    while let Some(line) = from.next()? {
        if is_it(line.trim()) {
            return Ok(());
        }
    }
    Err(Error::failed(format!("{PROGRAM} ended before or in its phase {}", phase.name)))
}

impl Drop for Client {
    fn drop(&mut self) {
        // One that has ended already needs no end; what it had open is closed with it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn throughput(report: &Report, clients: usize, phase: &str, way: Way) -> Option<f64> {
    let parameters: [(&str, Value); 3] =
        [("clients", clients.into()), ("phase", phase.into()), ("peer", way.name().into())];
    report.value("throughput_of_a_client", &parameters)
}

fn findings(report: &mut Report) {
    for clients in CLIENTS {
        for phase in PHASES {
            let of = |way| throughput(report, clients, phase.name, way);
            let ratio = of(Way::Forebay).zip(of(Way::Local)).map(|(ours, local)| ours / local);
            let key = phase.name.replace('-', "_");
            report.ratio(format!("forebay_over_local_{key}_{clients}"), ratio);
        }
    }
}

fn charts(report: &Report) -> Vec<(&'static str, Chart)> {
    // By byte the rates are hundredths of the others.
    let phases: Vec<Phase> = PHASES.into_iter().filter(|phase| !phase.is_by_byte).collect();
    let series = CLIENTS.into_iter().flat_map(|clients| {
        WAYS.map(|way| {
            let unit = if clients == 1 { "client" } else { "clients" };
            let name = format!("{}, {clients} {unit}", way.legend());
            let values = phases.iter().map(|phase| throughput(report, clients, phase.name, way));
            line(name, way == Way::Local, values)
        })
    });
    let papers = CLIENTS.into_iter().flat_map(|clients| {
        [("NFS", Way::Local), ("aIOLi", Way::Forebay)].map(|(name, way)| {
            let of = |phase: &Phase| paper_mbps(clients as u64, phase.name, way.name());
            line(format!("paper: {name}, {clients}"), false, phases.iter().map(of))
        })
    });
    let chart = Chart {
        title: "bonnie++ with one client and with four".to_owned(),
        subtitle:
            "throughput of one client in MB/s (10^6 bytes) by phase; emulated disk, mq-deadline, \
                   depth 4, read-ahead 128 KiB"
                .to_owned(),
        x_labels: phases.iter().map(|phase| phase.name.to_owned()).collect(),
        y_label: "MB/s".to_owned(),
        series: series.chain(papers).collect(),
    };
    vec![("", chart)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_moves_what_its_phases_say() {
        let run = Run { way: Way::Local, clients: 4, has_bytes: false, file_bytes: 1 << 20 };
        assert_eq!(run.bytes(), 16 << 20);
        let with_bytes = Run { clients: 1, has_bytes: true, ..run };
        assert_eq!(with_bytes.bytes(), (4 << 20) + 2 * CHAR_BYTES);
        assert_eq!(with_bytes.phases().count(), 5);
        assert_eq!(with_bytes.again().bytes(), 4 << 20);
    }

    #[test]
    fn a_phase_stands_in_the_table_by_its_number() {
        assert!(PHASES.iter().enumerate().all(|(idx, phase)| phase.number as usize == idx));
    }

    #[test]
    fn a_phase_is_held_to_what_its_clients_move() {
        let run = Run { way: Way::Local, clients: 4, has_bytes: false, file_bytes: 1 << 20 };
        let [_, write, rewrite, _, read] = PHASES.map(|phase| run.least(phase));
        assert_eq!((write.bytes_read, write.bytes_written), (0, 4 << 20));
        assert_eq!((rewrite.bytes_read, rewrite.bytes_written), (4 << 20, 4 << 20));
        assert_eq!((read.bytes_read, read.bytes_written), (4 << 20, 0));
    }

    #[test]
    fn the_papers_rates_stand_beside_those_of_as_many_clients() {
        assert_eq!(paper_mbps(4, "block-read", "forebay"), Some(13.39));
        assert_eq!(paper_mbps(1, "rewrite", "local"), Some(2.0));
        assert_eq!(paper_mbps(2, "rewrite", "local"), None);
    }

    #[test]
    fn each_phase_is_compared_with_the_same_number_of_clients() {
        let mut report = Report::new(FIGURE.name);
        for (clients, way, mbps) in [
            (1, Way::Local, 50.0),
            (1, Way::Forebay, 40.0),
            (4, Way::Local, 5.0),
            (4, Way::Forebay, 10.0),
        ] {
            let run = Run { way, clients, has_bytes: false, file_bytes: 1 };
            let parameters = run.parameters(PHASES[4]);
            report.rows.push(Row::median("throughput_of_a_client", "MB/s", &parameters, &[mbps]));
        }
        findings(&mut report);
        assert_eq!(report.ratios["forebay_over_local_block_read_1"], 0.8);
        assert_eq!(report.ratios["forebay_over_local_block_read_4"], 2.0);
        assert!(!report.ratios.contains_key("forebay_over_local_byte_read_1"));
        assert_eq!(charts(&report)[0].1.series.len(), 8);
    }

    #[test]
    fn a_client_waits_at_each_prompt_and_one_that_ends_is_told() {
        let mut command = Command::new("sh");
        let script = "echo; echo 1:; read x; echo 'Writing...done' >&2; echo 2:; read x";
        command.args(["-c", script]);
        let mut client = Client::start(command).unwrap();
        client.reach(PHASES[1]).unwrap();
        client.go().unwrap();
        client.finish(PHASES[1]).unwrap();
        client.reach(PHASES[2]).unwrap();
        client.go().unwrap();
        assert!(client.finish(PHASES[2]).is_err_and(|error| error.to_string().contains("rewrite")));
    }
}
