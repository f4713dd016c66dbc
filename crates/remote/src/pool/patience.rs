//! How long one tries again what others are in the middle of.

use std::time::Duration;

use crate::fabric::{Connection, yield_now};

/// Attempts that are made in any case: on the slowest networks one takes long.
const ATTEMPTS: u32 = 1_000;
/// How long attempts are made in any case: the other side may be a thread that does not run.
const LONGEST: Duration = Duration::from_secs(10);

/// Attempts at what another server is in the middle of. They are over after a thousand, in ten
/// seconds or more.
#[derive(Default)]
pub(crate) struct Patience {
    attempts: u32,
    /// When the first one had failed.
    since: Duration,
}

impl Patience {
    /// How many failed.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// Notes that one failed. Says whether they are over; if not, lets others go on first.
    pub async fn is_over(&mut self, connection: &Connection) -> bool {
        if self.attempts == 0 {
            self.since = connection.now();
        }
        self.attempts += 1;
        let elapsed = || connection.now().saturating_sub(self.since);
        let is_over = self.attempts > ATTEMPTS && elapsed() > LONGEST;
        if !is_over {
            yield_now().await;
        }
        is_over
    }
}
