//! All moments that are held, and their bounds.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use super::Hold;
use super::moment::Moment;
use crate::index::Index;
use crate::location::SegmentId;
use crate::log::Log;
use crate::pieces::Value;
use crate::store::PENDING;

#[derive(Default)]
pub(crate) struct Moments {
    /// Oldest first.
    open: RwLock<Vec<Arc<Moment>>>,
    /// How many: nobody takes the lock for none.
    count: AtomicUsize,
    /// What readers of values in pieces hold. Oldest first.
    readers: Mutex<Vec<Arc<Hold>>>,
    /// Segments that are erased, and that moments held when it was last looked at.
    erased: Mutex<BTreeSet<SegmentId>>,
}

impl Moments {
    /// Holds a moment from now on. The caller has the log's lock.
    pub fn add(&self, moment: Arc<Moment>) {
        let mut open = self.open.write().unwrap_or_else(PoisonError::into_inner);
        open.push(moment);
        self.count.store(open.len(), SeqCst);
    }

    pub fn remove(&self, moment: &Arc<Moment>) {
        let mut open = self.open.write().unwrap_or_else(PoisonError::into_inner);
        open.retain(|it| !Arc::ptr_eq(it, moment));
        self.count.store(open.len(), SeqCst);
    }

    pub fn len(&self) -> usize {
        self.count.load(SeqCst)
    }

    /// The index is about to change this key. The caller has the log's lock, and that of the key
    /// until the index has changed.
    pub fn note(&self, index: &dyn Index, log: &Log, key: &[u8]) {
        if self.len() == 0 {
            return;
        }
        let word = index.get(key).unwrap_or(PENDING);
        for moment in &*self.open.read().unwrap_or_else(PoisonError::into_inner) {
            if !moment.note(key, word, |id| log.segment(id)) {
                moment.give_up();
            }
        }
    }

    /// A key is about to lose this value, which is in pieces. The caller has the log's lock.
    pub fn note_value(&self, value: &Arc<Value>, log: &Log) {
        if self.len() == 0 {
            return;
        }
        for moment in &*self.open.read().unwrap_or_else(PoisonError::into_inner) {
            moment.note_value(value, |id| log.segment(id));
        }
    }

    /// A reader holds these segments from now on. The caller has the log's lock.
    pub fn add_reader(&self, hold: Arc<Hold>) {
        self.lock_readers().push(hold);
    }

    pub fn remove_reader(&self, hold: &Arc<Hold>) {
        self.lock_readers().retain(|it| !Arc::ptr_eq(it, hold));
    }

    /// Bytes of memory that they take.
    pub fn bytes(&self) -> u64 {
        if self.len() == 0 {
            return 0;
        }
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        open.iter().map(|it| it.bytes()).sum()
    }

    /// Gives up the oldest that takes memory, which has noted all that the others have, if there is
    /// one.
    pub fn give_up_memory(&self) -> bool {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        let oldest = open.iter().find(|it| it.bytes() > 0);
        oldest.inspect(|it| it.give_up()).is_some()
    }

    /// A segment was erased. Moments and readers may hold at most so many of those; the oldest
    /// moments are given up, and then the oldest readers.
    pub fn erased(&self, id: SegmentId, most: usize) {
        if self.len() == 0 && self.lock_readers().is_empty() {
            return;
        }
        self.lock_erased().insert(id);
        while self.held() > most {
            let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
            let readers = self.lock_readers();
            let erased = self.lock_erased();
            let holds_some = |it: &Hold| erased.iter().any(|&id| it.has(id));
            if let Some(oldest) = open.iter().find(|it| holds_some(&it.hold)) {
                oldest.give_up();
            } else if let Some(oldest) = readers.iter().find(|it| holds_some(it)) {
                oldest.give_up();
            }
        }
    }

    /// Segments that are erased and held.
    pub fn held(&self) -> usize {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        let readers = self.lock_readers();
        let mut erased = self.lock_erased();
        erased.retain(|&id| {
            open.iter().any(|it| it.hold.has(id)) || readers.iter().any(|it| it.has(id))
        });
        erased.len()
    }

    fn lock_readers(&self) -> MutexGuard<'_, Vec<Arc<Hold>>> {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_erased(&self) -> MutexGuard<'_, BTreeSet<SegmentId>> {
        self.erased.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
