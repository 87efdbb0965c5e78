//! Recorded shares in real time: told to a forwarder as `forebay set` would, from the moment on at
//! which the trace tells them.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use forebay_client::Endpoint;
use forebay_sched::sharing::{AtLimit, ClassShare, Discipline, Rate};
use forebay_trace::Adjustment;
use forebay_units::{ClassId, Timestamp};

use crate::asked::Asked;
use crate::console::say;
use crate::failure::Failure;

/// What a class's clients call their job.
pub(super) fn job(class: ClassId) -> String {
    format!("class-{}", class.0)
}

/// Changes of shares, at their times since the first request.
pub(super) struct Shares {
    first: Vec<Vec<String>>,
    later: Vec<(Timestamp, Vec<String>)>,
}

impl Shares {
    /// Those of a recording, as words for a forwarder; what it has no words for is said.
    pub(super) fn of(changes: &[(Timestamp, Adjustment)]) -> Self {
        let (mut classes, mut general) = (BTreeMap::new(), Vec::new());
        let mut later = Vec::new();
        let (mut users, mut has_reservation, mut has_windows) = (0, false, false);
        for (at, change) in changes {
            let words = match change {
                Adjustment::Class(class, share) => {
                    let share = share.unwrap_or_default();
                    has_reservation |= share.reservation > 0;
                    if *at == Timestamp(0) {
                        classes.insert(*class, share);
                        continue;
                    }
                    of_class(*class, &share)
                }
                Adjustment::Group(..) => {
                    users += 1;
                    continue;
                }
                Adjustment::Sharing(sharing) => match discipline(&sharing.discipline) {
                    Some(word) => vec![format!("discipline={word}")],
                    None => {
                        has_windows = true;
                        continue;
                    }
                },
                Adjustment::Policy(_) | Adjustment::ClassPolicy(..) => continue,
            };
            match *at {
                Timestamp(0) => general.push(words),
                at => later.push((at, words)),
            }
        }
        for (is_so, what) in [
            (users > 0, "shares of users: all clients are one user here"),
            (has_reservation, "reservations, which a trace does not tell in bytes"),
            (has_windows, "windows of classes, which a forwarder does not have"),
        ] {
            if is_so {
                say(format_args!("forebay: not replayed in real time: {what}"));
            }
        }
        let told = classes.iter().filter(|(_, share)| {
            ClassShare { reservation: 0, group: None, ..**share } != ClassShare::default()
        });
        general.extend(told.map(|(class, share)| of_class(*class, share)));
        Self { first: general, later }
    }

    /// Tells what holds from the beginning.
    pub(super) fn begin(&self, endpoint: &Endpoint) -> Result<(), Failure> {
        if self.first.is_empty() {
            return Ok(());
        }
        let mut asked = connect(endpoint)?;
        self.first.iter().try_for_each(|words| tell(&mut asked, words))
    }

    /// Tells what changes, each at its time, until `over` hangs up.
    pub(super) fn go_on(&self, endpoint: &Endpoint, over: &Receiver<()>) -> Result<(), Failure> {
        if self.later.is_empty() {
            return Ok(());
        }
        let (mut asked, start) = (connect(endpoint)?, Instant::now());
        for (at, words) in &self.later {
            let left = Duration::from_nanos(at.0).saturating_sub(start.elapsed());
            match over.recv_timeout(left) {
                Err(RecvTimeoutError::Timeout) => tell(&mut asked, words)?,
                Ok(()) | Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        Ok(())
    }
}

fn connect(endpoint: &Endpoint) -> Result<Asked, Failure> {
    Asked::connect(&endpoint.to_string(), "forebay trace replay", "nothing was set at")
}

fn tell(asked: &mut Asked, words: &[String]) -> Result<(), Failure> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    asked.tell(&words).map(drop)
}

/// The name of a discipline that a forwarder has.
pub(super) fn discipline(discipline: &Discipline) -> Option<&'static str> {
    match discipline {
        Discipline::Sfq => Some("sfq"),
        Discipline::Drr => Some("drr"),
        _ => None,
    }
}

fn of_class(class: ClassId, share: &ClassShare) -> Vec<String> {
    let share = &share.share;
    let rate = |rate: Option<Rate>| {
        rate.map_or_else(|| "none".into(), |rate| format!("{}/s", rate.per_second))
    };
    let at_limit = if share.at_limit == AtLimit::Wait { "wait" } else { "borrow" };
    vec![
        "class".into(),
        job(class),
        format!("weight={}", share.weight),
        format!("limit_bytes_per_second={}", rate(share.bytes)),
        format!("limit_operations_per_second={}", rate(share.ops)),
        format!("at_limit={at_limit}"),
    ]
}
