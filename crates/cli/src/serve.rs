//! `forebay serve`: a forwarder in the foreground, until SIGTERM or SIGINT.

use std::io::ErrorKind;
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;

use forebay_forwarder::{Forwarder, raise_limits};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::args::ServeArgs;
use crate::console::{print, say};
use crate::failure::{FAILED, Failure, USAGE};

/// Serves until told to stop.
pub(crate) fn serve(args: ServeArgs) -> Result<ExitCode, Failure> {
    let settings = args.settings.resolve(&[])?;
    if args.print_settings {
        print(&settings.to_toml())?;
        return Ok(ExitCode::SUCCESS);
    }
    if settings.listen.unix.is_none() && settings.listen.tcp.is_none() {
        return Err(Failure::new(
            USAGE,
            "nothing to listen on; set listen.unix to a path or listen.tcp to an address",
        ));
    }
    let failed =
        |error: &dyn std::fmt::Display| Failure::new(FAILED, format!("cannot serve: {error}"));
    let mut signals = Signals::new([SIGTERM, SIGINT]).map_err(|error| failed(&error))?;
    if let Some(path) = &settings.listen.unix {
        remove_abandoned(path);
    }
    raise_limits();
    let forwarder = Forwarder::bind(&settings).map_err(|error| failed(&error))?;
    for endpoint in forwarder.endpoints() {
        say(format_args!("forebay: serving on {endpoint}, policy {}", settings.scheduler.policy));
    }
    let stopper = forwarder.stopper();
    std::thread::spawn(move || {
        let mut forever = signals.forever();
        if let Some(signal) = forever.next() {
            stopper.stop();
            say(format_args!("forebay: signal {signal}: stopping; once more to stop at once"));
        }
        if let Some(signal) = forever.next() {
            std::process::exit(128 + signal);
        }
    });
    let outcome = forwarder.run();
    if let Some(path) = &settings.listen.unix {
        // Somebody else may have removed it already.
        let _ = std::fs::remove_file(path);
    }
    let status = outcome.map_err(|error| failed(&error))?;
    say(format_args!(
        "forebay: stopped after {} calls of {} processes, {} bytes read, {} written",
        status.calls.accepted,
        status.clients.processes,
        status.calls.read_bytes,
        status.calls.written_bytes
    ));
    Ok(ExitCode::SUCCESS)
}

/// Removes a socket on which nobody listens: its forwarder was killed and could not do so itself.
/// Anything else at the path stays, and `bind` will say that it is in the way.
fn remove_abandoned(path: &Path) {
    let is_socket = path.symlink_metadata().is_ok_and(|metadata| metadata.file_type().is_socket());
    let is_refused = |error: std::io::Error| error.kind() == ErrorKind::ConnectionRefused;
    if is_socket && UnixStream::connect(path).is_err_and(is_refused) {
        let _ = std::fs::remove_file(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_forwarder::settings::Sources;

    #[test]
    fn printed_settings_are_a_file_that_sets_them() {
        let settings = Sources::new()
            .flag("store.kind", "modelled:hdd-57")
            .flag("listen.unix", "/run/a \"b\".sock")
            .flag("pool.bytes", "8m")
            .toml("[classes.\"a b\"]\nweight = 3\nlimit = \"5op/s\"", Path::new("given"))
            .resolve()
            .unwrap();
        let again =
            Sources::new().toml(&settings.to_toml(), Path::new("printed")).resolve().unwrap();
        assert_eq!(again, settings);
    }
}
