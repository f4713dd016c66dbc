//! What users were refused.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};

use super::Denied;

/// Entries that are kept. Redis' number.
const MOST: usize = 128;
/// The same again within this time is one entry. Redis' time.
const SAME_MILLIS: i64 = 60_000;

/// Why something was refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Reason {
    /// A password, or a user that is not there or off.
    Auth,
    /// Rights.
    Denied(Denied),
}

impl Reason {
    /// Redis' word for it.
    pub fn word(&self) -> &'static str {
        match self {
            Reason::Auth => "auth",
            Reason::Denied(Denied::Command(_)) => "command",
            Reason::Denied(Denied::Key(_)) => "key",
            Reason::Denied(Denied::Channel(_)) => "channel",
        }
    }
}

/// Something that was refused.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub reason: Reason,
    /// Whether it was in a transaction.
    pub in_multi: bool,
    /// The command, key or channel.
    pub object: Vec<u8>,
    pub user: Vec<u8>,
    /// About the connection.
    pub client: String,
    /// How often.
    pub count: u64,
    /// Milliseconds since 1970 of the last time.
    pub at: i64,
}

/// The newest entries.
#[derive(Default)]
pub(crate) struct Log(Mutex<VecDeque<Entry>>);

impl Log {
    /// Adds an entry.
    pub fn add(&self, mut entry: Entry) {
        let mut entries = self.lock();
        let is_same = |it: &Entry| {
            it.reason == entry.reason
                && it.in_multi == entry.in_multi
                && it.object == entry.object
                && it.user == entry.user
                && entry.at - it.at <= SAME_MILLIS
        };
        if let Some(at) = entries.iter().position(is_same)
            && let Some(same) = entries.remove(at)
        {
            entry.count += same.count;
        }
        entries.push_front(entry);
        entries.truncate(MOST);
    }

    /// The newest ones, the last one first.
    pub fn entries(&self, most: usize) -> Vec<Entry> {
        self.lock().iter().take(most).cloned().collect()
    }

    /// Forgets them.
    pub fn reset(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Entry>> {
        self.0.lock().unwrap_or_else(|it| it.into_inner())
    }
}
