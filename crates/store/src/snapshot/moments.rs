//! All moments that are held, and their bounds.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use super::moment::Moment;
use crate::index::Index;
use crate::location::SegmentId;
use crate::log::Log;
use crate::store::PENDING;

#[derive(Default)]
pub(crate) struct Moments {
    /// Oldest first.
    open: RwLock<Vec<Arc<Moment>>>,
    /// How many: nobody takes the lock for none.
    count: AtomicUsize,
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

    /// The index is about to change this key. The caller has the log's lock.
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

    /// A segment was erased. Moments may hold at most so many of those; the oldest are given up.
    pub fn erased(&self, id: SegmentId, most: usize) {
        if self.len() == 0 {
            return;
        }
        self.lock_erased().insert(id);
        while self.held() > most {
            let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
            let erased = self.lock_erased();
            let holds_some = |it: &&Arc<Moment>| erased.iter().any(|&id| it.holds(id));
            if let Some(oldest) = open.iter().find(holds_some) {
                oldest.give_up();
            }
        }
    }

    /// Segments that are erased and held.
    pub fn held(&self) -> usize {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        let mut erased = self.lock_erased();
        erased.retain(|&id| open.iter().any(|it| it.holds(id)));
        erased.len()
    }

    fn lock_erased(&self) -> std::sync::MutexGuard<'_, BTreeSet<SegmentId>> {
        self.erased.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
