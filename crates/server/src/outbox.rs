//! Messages that wait for a subscriber.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::resp::Writer;

/// How much a subscriber may leave unread: Redis' `client-output-buffer-limit` of class `pubsub`,
/// with its defaults. 0 is no limit.
#[derive(Debug)]
pub(crate) struct Limit {
    /// Bytes that never wait, besides those that are being sent.
    hard: AtomicUsize,
    /// Bytes that wait for so many seconds at most.
    soft: AtomicUsize,
    seconds: AtomicU64,
}

impl Default for Limit {
    fn default() -> Limit {
        Limit {
            hard: AtomicUsize::new(32 << 20),
            soft: AtomicUsize::new(8 << 20),
            seconds: AtomicU64::new(60),
        }
    }
}

impl Limit {
    /// What it is in Redis' setting, in which clients of other classes have no limit of their own:
    /// all share what clients may take.
    pub fn shown(&self) -> String {
        let (hard, soft) = (self.hard.load(Relaxed), self.soft.load(Relaxed));
        let seconds = self.seconds.load(Relaxed);
        format!("normal 0 0 0 slave 0 0 0 pubsub {hard} {soft} {seconds}")
    }

    /// Changes it as Redis' setting says: four words for each class. There are no replicas, so
    /// their limits mean nothing. What is returned does it.
    pub fn change(&self, setting: &str) -> Result<impl FnOnce() + use<'_>, &'static str> {
        const WRONG: &str = "argument must be CLASS HARD SOFT SECONDS, one time or more";
        let bytes = |word: &str| usize::try_from(crate::options::bytes(word)?).ok();
        let words: Vec<&str> = setting.split_whitespace().collect();
        let (classes, []) = words.as_chunks::<4>() else {
            return Err(WRONG);
        };
        let mut pubsub = None;
        for [class, hard, soft, seconds] in classes {
            let limits = (bytes(hard), bytes(soft), seconds.parse().ok());
            let (Some(hard), Some(soft), Some(seconds)) = limits else {
                return Err(WRONG);
            };
            match class.to_ascii_lowercase().as_str() {
                "pubsub" => pubsub = Some((hard, soft, seconds)),
                "slave" | "replica" => {}
                "normal" if (hard, soft, seconds) == (0, 0, 0) => {}
                "normal" => return Err("only the class pubsub has a limit of its own here"),
                _ => return Err("the classes are normal, slave, replica and pubsub"),
            }
        }
        Ok(move || {
            if let Some((hard, soft, seconds)) = pubsub {
                self.hard.store(hard, Relaxed);
                self.soft.store(soft, Relaxed);
                self.seconds.store(seconds, Relaxed);
            }
        })
    }
}

/// Messages that a subscriber has not been sent.
pub(crate) struct Outbox {
    pub messages: Writer,
    /// Since when they have been more than the soft limit.
    over_since: Option<Instant>,
}

impl Outbox {
    pub fn new(messages: Writer) -> Outbox {
        Outbox {
            messages,
            over_since: None,
        }
    }

    /// Whether more wait than may.
    pub fn is_over(&mut self, limit: &Limit) -> bool {
        let bytes = self.messages.bytes.len();
        let is_above = |limit: &AtomicUsize| match limit.load(Relaxed) {
            0 => false,
            most => bytes > most,
        };
        if !is_above(&limit.soft) {
            self.over_since = None;
            return is_above(&limit.hard);
        }
        let longest = Duration::from_secs(limit.seconds.load(Relaxed));
        let is_too_long = match self.over_since {
            Some(since) => since.elapsed() > longest,
            None => false,
        };
        self.over_since.get_or_insert_with(Instant::now);
        is_above(&limit.hard) || is_too_long
    }

    /// Takes the messages.
    pub fn take(&mut self) -> Writer {
        self.over_since = None;
        self.messages.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_is_taken_as_a_whole_or_not_at_all() {
        let limit = Limit::default();
        let shown = "normal 0 0 0 slave 0 0 0 pubsub 33554432 8388608 60";
        assert_eq!(limit.shown(), shown);
        for same in [shown, "", "normal 0 0 0 slave 256mb 64mb 60"] {
            limit.change(same).unwrap()();
            assert_eq!(limit.shown(), shown);
        }
        for wrong in [
            "pubsub 1mb 1mb",
            "pubsub 1mb 1mb 1 normal 1 0 0",
            "pubsub 1 x 1",
            "pubsub 1 1 -1",
            "others 0 0 0 pubsub 1 1 1",
        ] {
            assert!(limit.change(wrong).is_err(), "{wrong}");
            assert_eq!(limit.shown(), shown);
        }
        limit.change("PubSub 1mb 64kb 5 replica 0 0 0").unwrap()();
        assert!(limit.shown().ends_with(" pubsub 1048576 65536 5"));
    }

    #[test]
    fn messages_may_be_above_the_soft_limit_for_a_while() {
        let limit = Limit::default();
        let mut outbox = Outbox::new(Writer::default());
        outbox.messages.bulk(&[0; 100]);
        assert!(!outbox.is_over(&limit));
        limit.change("pubsub 1000 50 3600").unwrap()();
        assert!(!outbox.is_over(&limit) && outbox.over_since.is_some());
        limit.change("pubsub 1000 50 0").unwrap()();
        std::thread::sleep(Duration::from_millis(1));
        assert!(outbox.is_over(&limit));
        limit.change("pubsub 80 0 3600").unwrap()();
        assert!(outbox.is_over(&limit) && outbox.over_since.is_none());
        outbox.take();
        assert!(!outbox.is_over(&limit));
        limit.change("pubsub 0 0 0").unwrap()();
        outbox.messages.bulk(&[0; 100]);
        assert!(!outbox.is_over(&limit));
    }
}
