//! The command line: what can be said, and the help that teaches it.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::setting_flags::SettingFlags;

/// Sends the reads and writes of unmodified programs through a scheduler, so that storage sees
/// few large ordered requests instead of many small interleaved ones.
#[derive(Debug, Parser)]
#[command(name = "forebay", version, max_term_width = 100, after_help = AFTER_HELP)]
pub(crate) struct CommandLine {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const AFTER_HELP: &str = "\
Examples:
  forebay run -- tar cf backup.tar src      run tar; its I/O under this directory is scheduled
  forebay check /usr/bin/rsync              say beforehand what of a program can be scheduled
  forebay serve --listen-unix /run/fb.sock  serve many programs at once
  forebay status unix:/run/fb.sock          see who uses the storage, and how
  forebay set unix:/run/fb.sock class climate weight=3   change how jobs share it
  forebay bench strided-read                measure";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a program with its I/O going through a private forwarder
    Run(RunArgs),
    /// Serve programs on this host (Unix socket) and others (TCP) until told to stop
    Serve(ServeArgs),
    /// Ask a running forwarder what it is doing
    Status(crate::status::StatusArgs),
    /// Say what of a program can be scheduled, without running it
    Check(CheckArgs),
    /// Run a benchmark suite
    Bench(BenchArgs),
    /// Change weights, limits and policies of a running forwarder
    Set(crate::set::SetArgs),
    /// Say why a running forwarder uses the policy that it uses
    Why(crate::why::WhyArgs),
    /// Have a running forwarder use one policy, or choose again
    Pin(crate::pin::PinArgs),
    /// Measure a device on a file of it
    Probe(crate::probe::ProbeArgs),
    /// Learn from simulated situations, or a site's traces, which policy fits
    Train(crate::train::TrainArgs),
    /// Record, read, convert and replay traces
    Trace(crate::trace::TraceArgs),
    /// Run a scenario in virtual time
    Simulate(crate::simulate::SimulateArgs),
    /// Set up and take down the emulated disk
    Lab(crate::lab::LabArgs),
    /// Write man pages or shell completions
    #[command(hide = true)]
    Generate(GenerateArgs),
}

const RUN_HELP: &str = "\
What goes through:
  Reads and writes of files under PREFIX (by default the current directory) made through the
  usual calls of a dynamically linked program and of the programs that it starts. Everything else
  (mmap, sendfile, io_uring, stdio's inner calls, static and Go programs) goes to the kernel as
  always: it is right, merely not scheduled. The report at the end says how much that was.

Examples:
  forebay run -- tar cf backup.tar src
  forebay run --path /scratch --path /data -- ./simulate input.nml
  forebay run --policy hbrr --report report.json -- sh -c './writer & ./reader & wait'
  forebay run --store modelled:hdd-57 -- dd if=big of=/dev/null bs=8k

Exit code:
  that of CMD; 128 + N when signal N ended it; 125 when forebay itself failed, 126 when CMD
  cannot be executed, 127 when it was not found; 2 when a flag or setting is wrong.";

/// What `forebay run` is told.
#[derive(Debug, Args)]
#[command(after_help = RUN_HELP)]
pub(crate) struct RunArgs {
    /// Directory or file whose I/O goes through the forwarder; may be given again [default: the current directory]
    #[arg(long = "path", value_name = "PREFIX")]
    pub(crate) paths: Vec<PathBuf>,
    /// Reach the forwarder over TCP on the loopback instead of a Unix socket
    #[arg(long)]
    pub(crate) tcp: bool,
    /// What programs do when the forwarder cannot be reached
    #[arg(long, value_name = "WHAT", default_value = "fail")]
    pub(crate) on_failure: OnFailure,
    /// Name of the job, for reports and fair sharing [default: run-PID]
    #[arg(long, value_name = "NAME")]
    pub(crate) job: Option<String>,
    /// Write the report as JSON to a file instead of as text to standard error
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    pub(crate) report: Option<PathBuf>,
    /// Write the report as JSON to standard error
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) settings: SettingFlags<false>,
    /// The program and its arguments
    #[arg(required = true, last = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

/// What programs do when the forwarder cannot be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnFailure {
    /// Their calls fail with EIO and a message
    Fail,
    /// Their calls go to the kernel, unscheduled, and a message says so once
    Direct,
}

const SERVE_HELP: &str = "\
Settings come from the file, FOREBAY_SECTION_NAME variables and flags; the later override the
earlier. An unknown key or a bad value is an error that names it and what is allowed.

Examples:
  forebay serve --listen-unix /run/forebay.sock
  forebay serve --config forebay.toml --policy hbrr
  forebay serve --listen-tcp 127.0.0.1:7070 --export-root /data

Programs use it with:
  LD_PRELOAD=libforebay_preload.so FOREBAY_ENDPOINT=unix:/run/forebay.sock FOREBAY_PATHS=/data CMD

SIGTERM and SIGINT end it: no new requests, those in flight are finished. Exit code: 0 after that;
1 when it cannot serve; 2 when a flag or setting is wrong.";

/// What `forebay serve` is told.
#[derive(Debug, Args)]
#[command(after_help = SERVE_HELP)]
pub(crate) struct ServeArgs {
    /// Print every setting with its value, in the form of a settings file, and exit
    #[arg(long)]
    pub(crate) print_settings: bool,
    #[command(flatten)]
    pub(crate) settings: SettingFlags<true>,
}

const CHECK_HELP: &str = "\
Looks at the file only: whether the loader will accept the preload library (not for static, set-id
or foreign binaries; Go programs bypass it), which of the calls that the program and its libraries
import are scheduled, and which move data another way. Scripts are followed to their interpreter.

Examples:
  forebay check /usr/bin/rsync
  forebay check --json ./a.out | jq .

Exit code: 0 when every binary can be scheduled at least in part; 1 when one cannot; 2 when one
cannot be read.";

/// What `forebay check` is told.
#[derive(Debug, Args)]
#[command(after_help = CHECK_HELP)]
pub(crate) struct CheckArgs {
    /// Programs, as a path or a name to be found in PATH
    #[arg(required = true, value_name = "BINARY")]
    pub(crate) binaries: Vec<OsString>,
    /// Print the findings as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// The suites come from the suites themselves.
fn bench_help() -> String {
    let suites = forebay_bench::suites().iter();
    let suites: String =
        suites.map(|suite| format!("  {:<13}  {}\n", suite.name, suite.summary)).collect();
    let figures: String = forebay_bench::figures()
        .map(|(name, summary)| format!("  {name:<13}  {summary}\n"))
        .collect();
    format!(
        "\
Suites:
{suites}
Figures of papers. aioli*: on an emulated disk beside other file servers (root only). agios-*: in
virtual time, for anybody. iofsl-*: half in virtual time, half on an emulated disk, which is left
out without root:
{figures}
Examples:
  forebay bench core
  forebay bench fig aioli06-fig5     in a checkout: archived under bench/runs
  forebay bench fig agios-table7 --no-archive
  forebay bench strided-read --json strided-read.json
  forebay bench strided-read --output figures    the table, a plot as PNG and SVG, and the JSON

Exit code: 0 when the suite ran; 1 when it did not; 2 when there is no such suite or a program that
it needs is missing."
    )
}

/// What `forebay bench` is told.
#[derive(Debug, Args)]
#[command(after_help = bench_help())]
pub(crate) struct BenchArgs {
    /// The suite; or `fig`, and then the figure
    #[arg(value_name = "SUITE")]
    pub(crate) suite: String,
    /// The figure
    #[arg(value_name = "FIGURE")]
    pub(crate) figure: Option<String>,
    /// Write settings, rows and ratios to a file
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Write the same, the table and the plots to a directory
    #[arg(long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
    /// Add this run, with its raw data and circumstances, to a directory of runs [default: for a figure, unless --quick, bench/runs of the checkout that this is called in]
    #[arg(long, value_name = "DIR")]
    pub(crate) archive: Option<PathBuf>,
    /// Archive nothing
    #[arg(long, conflicts_with = "archive")]
    pub(crate) no_archive: bool,
    /// Seed of the order in which runs are shuffled [default: from the clock; printed and archived]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) seed: Option<u64>,
    /// How often everything is run; the table has medians [default: the suite's own]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) repetitions: Option<usize>,
    /// Smaller sizes and fewer repetitions: for a look, not for figures
    #[arg(long)]
    pub(crate) quick: bool,
}

/// What `forebay generate` is told.
#[derive(Debug, Args)]
pub(crate) struct GenerateArgs {
    /// What to write
    pub(crate) what: Generated,
    /// Where to; made if it does not exist
    pub(crate) directory: PathBuf,
}

/// What can be generated from these definitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Generated {
    /// forebay.1 and a page for each command
    Man,
    /// For bash, zsh and fish
    Completions,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_definitions_are_consistent() {
        CommandLine::command().debug_assert();
    }

    #[test]
    fn a_command_keeps_its_own_flags() {
        let line = CommandLine::try_parse_from([
            "forebay", "run", "--tcp", "--", "ls", "--tcp", "--", "-l",
        ]);
        let Command::Run(run) = line.unwrap().command else { panic!("not run") };
        assert!(run.tcp);
        assert_eq!(run.command, ["ls", "--tcp", "--", "-l"]);
    }

    #[test]
    fn every_setting_is_a_flag_of_serve() {
        use forebay_forwarder::settings::{Settings, definition::Definition};
        for (key, value) in Settings::default().entries() {
            let flag = format!("--{}", Definition::find(key).unwrap().flag());
            let line = CommandLine::try_parse_from(["forebay", "serve", &flag, &value]);
            assert!(line.is_ok(), "{flag} {value}: {line:?}");
        }
    }

    #[test]
    fn run_decides_itself_where_to_listen() {
        let line =
            CommandLine::try_parse_from(["forebay", "run", "--listen-unix", "/x", "--", "ls"]);
        assert!(line.is_err());
    }
}
