//! The light-load freeze: where there is nothing to choose among, waits hurt and order gains nothing.

use forebay_units::{Nanos, Timestamp};

use super::epoch::is_ready;
use crate::auto::load::Load;

/// Less busy time than this between two looks says nothing.
const BUSY_MIN: Nanos = Nanos::millis(1);
/// How long the load has to be light: at first, soon after there was more, and at most.
const PATIENCE_FIRST: Nanos = Nanos::millis(100);
const PATIENCE_NEXT: Nanos = Nanos::secs(1);
const PATIENCE_MAX: Nanos = Nanos::secs(16);
/// A light load that lasted this long was none that comes and goes.
const LASTING: Nanos = Nanos::secs(10);

/// Whether there is too little to order. It freezes after a while of that, the longer the more
/// often it was wrong of late, and thaws with the first look that finds enough.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Light {
    busy: Nanos,
    ready: Nanos,
    /// Since when every look has found too little.
    since: Option<Timestamp>,
    frozen_at: Option<Timestamp>,
    patience: Nanos,
}

impl Default for Light {
    fn default() -> Self {
        Self {
            busy: Nanos::ZERO,
            ready: Nanos::ZERO,
            since: None,
            frozen_at: None,
            patience: PATIENCE_FIRST,
        }
    }
}

impl Light {
    /// Looks at the load since the last look; whether it is too light.
    pub(crate) fn look(&mut self, now: Timestamp, load: &Load) -> bool {
        let (busy, ready) = (load.busy - self.busy, load.ready - self.ready);
        if busy >= BUSY_MIN {
            (self.busy, self.ready) = (load.busy, load.ready);
            if is_ready(ready, busy) {
                self.thaw(now);
            } else {
                let since = *self.since.get_or_insert(now);
                if self.frozen_at.is_none() && now - since >= self.patience {
                    self.frozen_at = Some(now);
                }
            }
        }
        self.frozen_at.is_some()
    }

    fn thaw(&mut self, now: Timestamp) {
        self.since = None;
        if let Some(frozen_at) = self.frozen_at.take() {
            self.patience = match now - frozen_at >= LASTING {
                true => PATIENCE_FIRST,
                false => Nanos(self.patience.0 * 2).max(PATIENCE_NEXT).min(PATIENCE_MAX),
            };
        }
    }
}
