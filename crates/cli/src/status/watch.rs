//! `forebay status --watch`: again and again, in place or line by line.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::Duration;

use forebay_forwarder::Status;

use super::table;
use crate::asked::Asked;
use crate::failure::{FAILED, Failure};

/// Home, and erase to the end of the screen (ECMA-48: CUP, ED).
const REDRAW: &str = "\x1b[H\x1b[J";

/// How what is seen is shown.
#[derive(Clone, Copy)]
enum Show {
    Screen,
    Line,
    Json,
}

/// Asks until the forwarder or the reader has gone.
pub(super) fn watch(asked: &mut Asked, interval: Duration, json: bool) -> Result<(), Failure> {
    let show = match (json, io::stdout().is_terminal()) {
        (true, _) => Show::Json,
        (false, true) => Show::Screen,
        (false, false) => Show::Line,
    };
    let mut before: Option<Status> = None;
    loop {
        let text = asked.text()?;
        let now: Status = serde_json::from_str(&text).map_err(|error| asked.failed(&error))?;
        let shown = match show {
            Show::Json => text + "\n",
            Show::Screen => {
                let endpoint = asked.endpoint.to_string();
                format!("{REDRAW}{}", table::table(&endpoint, &now, before.as_ref()))
            }
            Show::Line => table::line(&now, before.as_ref()),
        };
        let mut output = io::stdout().lock();
        match output.write_all(shown.as_bytes()).and_then(|()| output.flush()) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
            Err(error) => {
                let text = format!("cannot write to standard output: {error}");
                return Err(Failure::new(FAILED, text));
            }
        }
        before = Some(now);
        std::thread::sleep(interval);
    }
}
