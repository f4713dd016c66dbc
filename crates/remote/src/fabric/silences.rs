//! Since when memory servers give no answer.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use crate::address::ServerId;

/// Memory servers that did not answer an operation which is tried again. All that wait for one of
/// them give up at the same time: if each had a time of its own, operations behind locks and
/// flights would wait for the sum.
#[derive(Default)]
pub struct Silences(Mutex<BTreeMap<ServerId, Silence>>);

struct Silence {
    since: Duration,
    /// When an operation last went without an answer.
    noted: Duration,
}

impl Silences {
    /// Notes that a server gave no answer. Says for how long it has not. If nobody asked for as
    /// long as `longest`, this is another silence.
    pub fn note(&self, server: ServerId, now: Duration, longest: Duration) -> Duration {
        let mut silences = self.lock();
        let begins = Silence {
            since: now,
            noted: now,
        };
        let silence = silences.entry(server).or_insert(begins);
        if now.saturating_sub(silence.noted) > longest {
            silence.since = now;
        }
        silence.noted = now;
        now.saturating_sub(silence.since)
    }

    /// Notes that a server answered.
    pub fn end(&self, server: ServerId) {
        self.lock().remove(&server);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ServerId, Silence>> {
        self.0.lock().unwrap_or_else(|it| it.into_inner())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silence_lasts_until_an_answer_or_until_nobody_asks() {
        let (silences, longest) = (Silences::default(), Duration::from_secs(5));
        let note = |server, secs| {
            let now = Duration::from_secs(secs);
            silences.note(server, now, longest).as_secs()
        };
        assert_eq!([note(1, 10), note(1, 13), note(2, 13)], [0, 3, 0]);
        assert_eq!([note(1, 18), note(1, 24)], [8, 0]);
        assert_eq!([note(2, 17)], [4]);
        silences.end(2);
        assert_eq!([note(2, 18)], [0]);
    }
}
