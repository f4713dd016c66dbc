//! Keys that `WATCH` watches.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};

/// Keys that clients watch, each with the number of its changes.
#[derive(Default)]
pub struct Watches {
    /// Keys that are watched; 0 almost always, so that writes look at no more.
    count: AtomicUsize,
    keys: Mutex<HashMap<Box<[u8]>, Watch>>,
}

#[derive(Default)]
struct Watch {
    changes: u64,
    watchers: usize,
}

/// A key that one client watches.
#[derive(Debug)]
pub struct Watched {
    /// The key.
    pub key: Box<[u8]>,
    /// Whether it was there.
    pub existed: bool,
    changes: u64,
}

impl Watches {
    /// Watches a key, whose lock the caller holds, until [`unwatch`](Self::unwatch).
    pub fn watch(&self, key: &[u8], existed: bool) -> Watched {
        let mut keys = self.lock();
        let watch = keys.entry(key.into()).or_default();
        watch.watchers += 1;
        let changes = watch.changes;
        self.count.store(keys.len(), Relaxed);
        Watched {
            key: key.into(),
            existed,
            changes,
        }
    }

    /// Ends a watch. Says whether the key was not changed.
    pub fn unwatch(&self, watched: &Watched) -> bool {
        let mut keys = self.lock();
        let Some(watch) = keys.get_mut(&watched.key) else {
            return false;
        };
        let unchanged = watch.changes == watched.changes;
        watch.watchers -= 1;
        if watch.watchers == 0 {
            keys.remove(&watched.key);
        }
        self.count.store(keys.len(), Relaxed);
        unchanged
    }

    /// Whether any key is watched.
    pub fn any(&self) -> bool {
        self.count.load(Relaxed) > 0
    }

    /// A key was changed, by one who holds its lock.
    pub fn touch(&self, key: &[u8]) {
        if self.any()
            && let Some(watch) = self.lock().get_mut(key)
        {
            watch.changes += 1;
        }
    }

    /// All keys were changed.
    pub fn touch_all(&self) {
        for watch in self.lock().values_mut() {
            watch.changes += 1;
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Box<[u8]>, Watch>> {
        self.keys.lock().unwrap_or_else(|it| it.into_inner())
    }
}
