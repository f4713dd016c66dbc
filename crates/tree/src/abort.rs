//! Why an optimistic attempt ends without an outcome.

use timberline_sync::Restart;
use timberline_sync::shim::pause;

use crate::OutOfMemory;
use crate::error::Refused;

/// See the [module's text](self). `?` makes one of a restart, a refusal, or memory that is used up.
#[derive(Debug)]
pub enum Abort {
    /// A writer got in between: the attempt is made again.
    Restart,
    /// It fails for good; the map is as it was.
    Refused(Refused),
}

impl From<Restart> for Abort {
    fn from(_: Restart) -> Self {
        Abort::Restart
    }
}

impl From<Refused> for Abort {
    fn from(refused: Refused) -> Self {
        Abort::Refused(refused)
    }
}

impl From<OutOfMemory> for Abort {
    fn from(full: OutOfMemory) -> Self {
        Abort::Refused(full.into())
    }
}

/// Runs an optimistic attempt until it succeeds or is refused.
#[inline(always)]
pub fn attempt<R>(mut attempt: impl FnMut() -> Result<R, Abort>) -> Result<R, Refused> {
    for tries in 0.. {
        match attempt() {
            Ok(result) => return Ok(result),
            Err(Abort::Refused(refused)) => return Err(refused),
            Err(Abort::Restart) => pause(tries),
        }
    }
    unreachable!("retried forever")
}
