//! `forebay bench`: runs a suite, shows how far it is, and prints its table.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use forebay_bench::{ErrorKind, Options};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::args::BenchArgs;
use crate::console::{print, say};
use crate::failure::{FAILED, Failure, USAGE};

/// In the place of a suite's name: a figure's name follows.
const FIGURE: &str = "fig";

/// In a checkout: the archive.
const RUNS: &str = "bench/runs";

/// Runs a suite or a figure: progress on standard error, the table on standard output, files where asked for.
pub(crate) fn bench(args: BenchArgs) -> Result<ExitCode, Failure> {
    let is_figure = args.suite == FIGURE && !args.quick;
    let archive = match (args.archive, args.no_archive) {
        (None, false) if is_figure => std::env::current_dir().ok().and_then(|here| runs_of(&here)),
        (archive, _) => archive,
    };
    let options = Options {
        quick: args.quick,
        repetitions: args.repetitions,
        seed: args.seed,
        json: args.json,
        output: args.output,
        archive,
    };
    catch_signals()?;
    let mut listener = |progress: &forebay_bench::Progress| say(format_args!("{progress}"));
    let report = match (args.suite.as_str(), &args.figure) {
        (FIGURE, Some(name)) => forebay_bench::run_figure(name, &options, &mut listener),
        (FIGURE, None) => {
            let known: Vec<&str> = forebay_bench::figures().map(|(name, _)| name).collect();
            let text = format!("which figure? known: {}", known.join(", "));
            return Err(Failure::new(USAGE, text));
        }
        (suite, Some(name)) => {
            let text = format!("{name}: only `{FIGURE}` takes a name after it, {suite} does not");
            return Err(Failure::new(USAGE, text));
        }
        (suite, None) => forebay_bench::run(suite, &options, &mut listener),
    };
    let report = report.map_err(|error| {
        let code = if error.kind == ErrorKind::Fix { USAGE } else { FAILED };
        Failure::new(code, error.to_string())
    })?;
    print(&format!("{}\n", forebay_bench::table(&report)))?;
    Ok(ExitCode::SUCCESS)
}

/// Where runs are archived in the checkout that `folder` is in, if it is in one.
fn runs_of(folder: &Path) -> Option<PathBuf> {
    let mut runs = folder.ancestors().map(|folder| folder.join(RUNS));
    runs.find(|runs| runs.is_dir())
}

/// A signal ends the suite as an error would, which takes down whatever it has set up. A second
/// one ends this process at once.
fn catch_signals() -> Result<(), Failure> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])
        .map_err(|error| Failure::new(FAILED, format!("signals: {error}")))?;
    std::thread::spawn(move || {
        let mut forever = signals.forever();
        if let Some(signal) = forever.next() {
            forebay_bench::stop();
            say(format_args!("forebay: signal {signal}: ending; once more to end at once"));
        }
        if let Some(signal) = forever.next() {
            // The kernel ends what was started; a disk has no process that could be ended so.
            for disk in forebay_lab::names().unwrap_or_default() {
                say(format_args!("{}", left(&disk)));
            }
            std::process::exit(128 + signal);
        }
    });
    Ok(())
}

/// What to do about a disk that this has not taken down.
fn left(disk: &str) -> String {
    format!(
        "forebay: the emulated disk {disk} is left; `forebay lab disk down {disk}` takes it down"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_archived_in_the_checkout_that_it_is_made_in() {
        let checkout = tempfile::tempdir().unwrap();
        let (runs, deep) = (checkout.path().join(RUNS), checkout.path().join("a/b"));
        std::fs::create_dir_all(&deep).unwrap();
        assert_eq!(runs_of(&deep), None);
        std::fs::create_dir_all(&runs).unwrap();
        assert_eq!(runs_of(&deep), Some(runs.clone()));
        assert_eq!(runs_of(checkout.path()), Some(runs));
    }
}
