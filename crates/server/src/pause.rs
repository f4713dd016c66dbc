//! `CLIENT PAUSE`: commands of all clients wait for a while, or those that change something.

use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::timeout;

use crate::shared::millis_since_1970;

/// How often a client that waits is looked at, whether it is to end.
const LOOK: Duration = Duration::from_millis(200);

/// Until when commands wait.
#[derive(Default)]
pub(crate) struct Pause {
    /// Twice the milliseconds since 1970, and one more if all commands wait; 0 if there is no
    /// pause.
    until: AtomicI64,
    ended: Notify,
}

impl Pause {
    /// Begins a pause. One that is there becomes no shorter, and holds back no less.
    pub fn begin(&self, until: i64, of_all: bool) {
        let is_on = self.is_on();
        let longer = |before: i64| {
            let (before, all) = if is_on {
                (before >> 1, before & 1)
            } else {
                (0, 0)
            };
            Some(before.max(until.min(i64::MAX >> 1)) << 1 | all | i64::from(of_all))
        };
        let _ = self.until.fetch_update(Relaxed, Relaxed, longer);
    }

    /// Ends it.
    pub fn end(&self) {
        self.until.store(0, Relaxed);
        self.ended.notify_waiters();
    }

    /// Whether some commands wait.
    pub fn is_on(&self) -> bool {
        self.left() > 0
    }

    /// Whether all commands wait, if some do.
    pub fn is_of_all(&self) -> bool {
        self.until.load(Relaxed) & 1 == 1
    }

    /// Milliseconds until it ends.
    fn left(&self) -> i64 {
        let until = match self.until.load(Relaxed) {
            // Almost always: no clock is looked at.
            0 => return 0,
            until => until,
        };
        let left = (until >> 1) - millis_since_1970();
        if left <= 0 {
            let _ = self.until.compare_exchange(until, 0, Relaxed, Relaxed);
        }
        left
    }

    /// Waits a while, at most until it ends.
    pub async fn wait(&self) {
        let left = self.left().max(0).unsigned_abs();
        let most = LOOK.min(Duration::from_millis(left));
        // Over or ended: it is looked at again.
        let _ = timeout(most, self.ended.notified()).await;
    }
}
