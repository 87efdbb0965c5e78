//! The private forwarder of one run, on a thread of its own.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use forebay_forwarder::{Error, Forwarder, Status, Stopper};

use super::signals::Signals;
use crate::console::say;
use crate::failure::{Failure, RUN_FAILED};

/// After this long the user is told what is still waited for.
const PATIENCE: Duration = Duration::from_secs(1);

/// A forwarder that serves.
pub(super) struct Service {
    stopper: Stopper,
    /// Brings its last word, or nothing if it panicked.
    done: Receiver<Result<Status, Error>>,
}

impl Service {
    /// Starts to serve.
    pub(super) fn start(forwarder: Forwarder) -> io::Result<Self> {
        let stopper = forwarder.stopper();
        let (sender, done) = channel();
        std::thread::Builder::new().name("forwarder".to_owned()).spawn(move || {
            // Nobody waits any more if the main thread is gone.
            let _ = sender.send(forwarder.run());
        })?;
        Ok(Self { stopper, done })
    }

    /// Ends the service once nobody uses it any more: a program may leave others behind that
    /// still write. A signal ends it at once.
    pub(super) fn end(self, signals: &mut Signals) -> Result<Status, Failure> {
        let Self { stopper, done } = self;
        stopper.stop_when_unused();
        let waking = signals.waking();
        let outcome = std::thread::scope(|scope| {
            let waiter = scope.spawn(move || {
                let outcome = match done.recv_timeout(PATIENCE) {
                    Err(RecvTimeoutError::Timeout) => {
                        say(format_args!(
                            "forebay: waiting for programs that it left behind; a signal ends the wait"
                        ));
                        done.recv().ok()
                    }
                    outcome => outcome.ok(),
                };
                waking.wake();
                outcome
            });
            signals.until_woken(|| stopper.stop());
            waiter.join().ok().flatten()
        });
        let outcome = outcome.ok_or_else(|| {
            Failure::new(
                RUN_FAILED,
                "the forwarder ended by a bug; please report the message above",
            )
        })?;
        outcome.map_err(|error| Failure::new(RUN_FAILED, format!("the forwarder failed: {error}")))
    }
}
