//! File locks that say whether somebody lives, and that anybody may look at.
//!
//! Who lives holds the lock alone. Who only looks ([`is_held`]) shares it for a moment, which on a
//! busy machine may be long. So one refusal to take it says nothing by itself: it is asked for
//! shared first, and that fails only if somebody holds it; from the refusal after that on only
//! those that look are in the way, and they go.

use std::fs::File;
use std::io::Result as IoResult;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::stack::wait_until;

/// Longer than anybody has a lock who only looks.
const LOOK_MAX: Duration = Duration::from_secs(20);

/// What one try to take a lock came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Try {
    /// It is held by whoever tried.
    Taken,
    /// Somebody else holds it.
    Held,
    /// Nobody holds it, but somebody looks.
    LookedAt,
}

/// Tries to take a lock. `when_free` is carried out as soon as it is certain that nobody holds it,
/// and while everybody who looks can still see that.
pub(crate) fn try_take(file: &File, when_free: impl FnOnce() -> IoResult<()>) -> IoResult<Try> {
    if !obtain(file, FlockOperation::NonBlockingLockShared)? {
        return Ok(Try::Held);
    }
    when_free()?;
    // What was shared is lost if this is refused.
    let is_taken = obtain(file, FlockOperation::NonBlockingLockExclusive)?;
    Ok(if is_taken { Try::Taken } else { Try::LookedAt })
}

/// Tries until those that only look have gone.
pub(crate) fn take<E>(mut try_once: impl FnMut() -> Result<Try, E>) -> Result<Try, E> {
    let mut outcome = Ok(Try::LookedAt);
    wait_until(LOOK_MAX, || {
        outcome = try_once();
        !matches!(outcome, Ok(Try::LookedAt))
    });
    outcome
}

/// Whether somebody holds it.
pub(crate) fn is_held(file: &File) -> bool {
    obtain(file, FlockOperation::NonBlockingLockShared).is_ok_and(|is_shared| !is_shared)
}

fn obtain(file: &File, how: FlockOperation) -> IoResult<bool> {
    match flock(file, how) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file, opened by some.
    fn opened<const N: usize>(test: &str) -> [File; N] {
        let path = std::env::temp_dir().join(format!("forebay-{test}-{}", std::process::id()));
        let files = [(); N].map(|()| File::create(&path).unwrap());
        std::fs::remove_file(&path).unwrap();
        files
    }

    #[test]
    fn who_holds_a_lock_is_told_from_who_looks_at_it() {
        let [own, other] = opened("lock-told");
        let nothing = || Ok(());
        assert!(!is_held(&other));
        // `other` looks, and goes on looking.
        assert_eq!(try_take(&own, nothing).unwrap(), Try::LookedAt);
        flock(&other, FlockOperation::Unlock).unwrap();
        assert_eq!(try_take(&own, nothing).unwrap(), Try::Taken);
        assert!(is_held(&other));
        let not_free = || panic!("somebody holds it");
        assert_eq!(try_take(&other, not_free).unwrap(), Try::Held);
    }

    #[test]
    fn who_takes_a_lock_waits_for_who_looks_but_not_for_who_holds() {
        let [looking, taking, late] = opened("lock-waits");
        assert!(!is_held(&looking));
        std::thread::scope(|scope| {
            let taken = scope.spawn(|| take(|| try_take(&taking, || Ok(()))));
            flock(&looking, FlockOperation::Unlock).unwrap();
            assert_eq!(taken.join().unwrap().unwrap(), Try::Taken);
        });
        let mut tries = 0;
        let outcome = take(|| {
            tries += 1;
            try_take(&late, || Ok(()))
        });
        assert_eq!((outcome.unwrap(), tries), (Try::Held, 1));
    }
}
