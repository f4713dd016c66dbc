//! Commands that took long.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};
use std::time::Instant;

use tracing::info;

use crate::command::Call;
use crate::seldom::Seldom;
use crate::session::Session;

/// Arguments of an entry, and bytes of each, that are kept. Redis' limits.
const MAX_ARGS: usize = 32;
const MAX_BYTES: usize = 128;

/// Commands that took long, the newest of them.
pub(crate) struct Slowlog {
    /// Microseconds from which on a command is slow; negative for never.
    pub slower_than: AtomicI64,
    /// Entries that are kept.
    pub max_len: AtomicUsize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The newest first.
    entries: VecDeque<Entry>,
    next: u64,
}

/// A slow command.
#[derive(Clone)]
pub(crate) struct Entry {
    pub id: u64,
    /// Seconds since 1970.
    pub at: i64,
    pub micros: u64,
    pub args: Vec<Vec<u8>>,
    pub address: String,
    pub name: Vec<u8>,
}

impl Default for Slowlog {
    fn default() -> Slowlog {
        Slowlog {
            slower_than: AtomicI64::new(10_000),
            max_len: AtomicUsize::new(128),
            state: Mutex::default(),
        }
    }
}

impl Slowlog {
    /// The time, if it is to be known. One reading ends a command and begins the next.
    pub fn clock(&self, session: &Session) -> Option<Instant> {
        let is_on = self.slower_than.load(Relaxed) >= 0;
        is_on.then(|| session.clock.unwrap_or_else(Instant::now))
    }

    /// A command that began then is over. Returns the time, if it was looked at.
    pub fn note(&self, began: Option<Instant>, call: &Call<'_>) -> Option<Instant> {
        let began = began?;
        let now = Instant::now();
        let micros = now.duration_since(began).as_micros() as u64;
        let slower_than = self.slower_than.load(Relaxed);
        if slower_than < 0 || i64::try_from(micros).is_ok_and(|it| it < slower_than) {
            return Some(now);
        }
        static EVENTS: Seldom = Seldom::new();
        if let Some(held_back) = EVENTS.pass() {
            // Not its arguments: they are data.
            let (command, client) = (call.command.name, call.session.client.address());
            info!(command, micros, client, held_back, "a command was slow");
        }
        let args = call.args.iter().take(MAX_ARGS);
        let args = args
            .map(|it| it[..it.len().min(MAX_BYTES)].to_vec())
            .collect();
        let mut state = self.lock();
        let id = state.next;
        state.next += 1;
        state.entries.push_front(Entry {
            id,
            at: call.now / 1000,
            micros,
            args,
            address: call.session.client.address(),
            name: call.session.client.name(),
        });
        state.entries.truncate(self.max_len.load(Relaxed));
        Some(now)
    }

    /// The newest entries, this many at most.
    pub fn entries(&self, count: Option<usize>) -> Vec<Entry> {
        let state = self.lock();
        state
            .entries
            .iter()
            .take(count.unwrap_or(usize::MAX))
            .cloned()
            .collect()
    }

    pub fn len(&self) -> usize {
        self.lock().entries.len()
    }

    pub fn reset(&self) {
        self.lock().entries.clear();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|it| it.into_inner())
    }
}
