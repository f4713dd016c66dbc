//! Clients that wait for elements of lists, such as `BLPOP`'s.
//!
//! Those who wait for a key are a queue, of which only the first may take an element. It is woken
//! by whoever adds elements, and when it leaves, the next one is. So elements go to clients in the
//! order in which they began to wait. A client joins the queues while it holds its keys' locks, and
//! who adds elements holds that of the key, so nobody misses any.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::Notify;

use super::changes::Changes;

/// Clients that wait for elements of lists.
#[derive(Default)]
pub struct Waiting {
    /// Clients that wait; 0 almost always, so that writes look at no more.
    count: AtomicUsize,
    queues: Mutex<Queues>,
}

type Queues = HashMap<Box<[u8]>, VecDeque<Arc<Notify>>>;

/// One that waits, until [`Waiting::leave`].
pub struct Wait {
    keys: Vec<Box<[u8]>>,
    /// It is first in a queue, whose list may have elements.
    pub woken: Arc<Notify>,
}

impl Waiting {
    /// Begins to wait for elements of keys, whose locks the caller holds.
    pub fn join(&self, keys: &[&[u8]]) -> Wait {
        let mut keys: Vec<Box<[u8]>> = keys.iter().map(|&it| it.into()).collect();
        keys.sort_unstable();
        keys.dedup();
        let woken = Arc::new(Notify::new());
        let mut queues = self.lock();
        for key in &keys {
            let queue = queues.entry(key.clone()).or_default();
            queue.push_back(Arc::clone(&woken));
        }
        self.count.fetch_add(1, Relaxed);
        Wait { keys, woken }
    }

    /// Ends to wait.
    pub fn leave(&self, wait: &Wait) {
        let mut queues = self.lock();
        for key in &wait.keys {
            let Some(queue) = queues.get_mut(key) else {
                continue;
            };
            let is_me = |it: &Arc<Notify>| Arc::ptr_eq(it, &wait.woken);
            let was_first = queue.front().is_some_and(is_me);
            queue.retain(|it| !is_me(it));
            match queue.front() {
                None => drop(queues.remove(key)),
                Some(next) if was_first => next.notify_one(),
                Some(_) => {}
            }
        }
        self.count.fetch_sub(1, Relaxed);
    }

    /// Whether one who waits, or does not yet, may take an element of a key.
    pub fn is_turn(&self, key: &[u8], wait: Option<&Wait>) -> bool {
        if !self.any() {
            return true;
        }
        let queues = self.lock();
        let first = queues.get(key).and_then(VecDeque::front);
        first.is_none_or(|first| wait.is_some_and(|it| Arc::ptr_eq(first, &it.woken)))
    }

    /// Whether anybody waits.
    pub fn any(&self) -> bool {
        self.count() > 0
    }

    /// How many wait.
    pub fn count(&self) -> usize {
        self.count.load(Relaxed)
    }

    /// A list may have got elements.
    pub fn wake(&self, key: &[u8]) {
        if let Some(first) = self.lock().get(key).and_then(VecDeque::front) {
            first.notify_one();
        }
    }

    /// All who wait are to look again.
    pub fn wake_all(&self) {
        let queues = self.lock();
        queues.values().flatten().for_each(|it| it.notify_one());
    }

    fn lock(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(|it| it.into_inner())
    }
}

impl Changes<'_> {
    /// A list may get elements.
    pub(super) fn fill(&mut self, key: &[u8]) {
        if self.keyspace.waiting.any() {
            self.filled.push(key.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether it was woken since the last time.
    fn was_woken(wait: &Wait) -> bool {
        let mut woken = std::pin::pin!(wait.woken.notified());
        woken.as_mut().enable()
    }

    #[test]
    fn who_waits_first_is_served_first() {
        let waiting = Waiting::default();
        assert!(waiting.is_turn(b"a", None));
        let first = waiting.join(&[b"a", b"b", b"a"]);
        let second = waiting.join(&[b"b"]);
        assert!(waiting.is_turn(b"b", Some(&first)) && waiting.is_turn(b"c", None));
        assert!(!waiting.is_turn(b"b", Some(&second)) && !waiting.is_turn(b"a", None));
        waiting.wake(b"b");
        waiting.wake(b"c");
        assert!(was_woken(&first) && !was_woken(&second));
        waiting.leave(&first);
        assert!(was_woken(&second) && waiting.is_turn(b"b", Some(&second)));
        assert!(waiting.is_turn(b"a", None));
        waiting.leave(&second);
        assert!(!waiting.any() && waiting.lock().is_empty());
    }
}
