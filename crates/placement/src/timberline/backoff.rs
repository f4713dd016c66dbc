//! Exponential backoff: the pause doubles after each failure.

use std::time::Duration;

pub struct Backoff {
    first: Duration,
    longest: Duration,
    pause: Duration,
    pub(super) due: Duration,
}

impl Backoff {
    /// Due at once. The pauses double from `first` to `longest`.
    pub fn new(first: Duration, longest: Duration) -> Backoff {
        Backoff {
            first,
            longest,
            pause: first,
            due: Duration::ZERO,
        }
    }

    /// Whether the pause is over.
    pub fn is_over(&mut self, now: Duration) -> bool {
        // A clock that was set back must not end this for good.
        self.due = self.due.min(now.saturating_add(self.pause));
        now >= self.due
    }

    /// Begins a pause.
    pub fn begin(&mut self, now: Duration) {
        self.due = now.saturating_add(self.pause);
    }

    /// The attempt failed: the next pause is twice as long.
    pub fn failed(&mut self) {
        self.pause = (2 * self.pause).min(self.longest);
    }

    /// The attempt succeeded: the next pause is the first one again.
    pub fn succeeded(&mut self) {
        self.pause = self.first;
    }
}
