//! How long to leave something alone that may be in vain: twice as long each time that it was.

use std::time::Duration;

/// See the [module's text](self).
pub struct Rest {
    first: Duration,
    longest: Duration,
    pause: Duration,
    pub(super) due: Duration,
}

impl Rest {
    /// Due at once; rests from `first` on, and `longest` at most.
    pub fn new(first: Duration, longest: Duration) -> Rest {
        Rest {
            first,
            longest,
            pause: first,
            due: Duration::ZERO,
        }
    }

    /// Whether it has rested long enough.
    pub fn is_over(&mut self, now: Duration) -> bool {
        // A clock that was set back must not end this for good.
        self.due = self.due.min(now.saturating_add(self.pause));
        now >= self.due
    }

    /// Rests from now on.
    pub fn begin(&mut self, now: Duration) {
        self.due = now.saturating_add(self.pause);
    }

    /// It was in vain.
    pub fn lengthen(&mut self) {
        self.pause = (2 * self.pause).min(self.longest);
    }

    /// It was not.
    pub fn shorten(&mut self) {
        self.pause = self.first;
    }
}
