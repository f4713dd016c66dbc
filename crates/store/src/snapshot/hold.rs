//! Segments that stay readable when they are erased.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use crate::location::SegmentId;
use crate::segment::Segment;

/// The files of segments, which are open for as long as something may read them.
pub(crate) struct Hold(RwLock<BTreeMap<SegmentId, Arc<Segment>>>);

impl Hold {
    pub fn new(segments: impl Iterator<Item = Arc<Segment>>) -> Hold {
        let segments = segments.map(|it| (it.id(), it)).collect();
        Hold(RwLock::new(segments))
    }

    /// A segment, if it is held.
    pub fn segment(&self, id: SegmentId) -> Option<Arc<Segment>> {
        let held = self.0.read().unwrap_or_else(PoisonError::into_inner);
        held.get(&id).cloned()
    }

    pub fn has(&self, id: SegmentId) -> bool {
        let held = self.0.read().unwrap_or_else(PoisonError::into_inner);
        held.contains_key(&id)
    }

    pub fn extend(&self, segments: impl IntoIterator<Item = Arc<Segment>>) {
        let segments = segments.into_iter().map(|it| (it.id(), it));
        let segments: Vec<_> = segments.collect();
        let mut held = self.0.write().unwrap_or_else(PoisonError::into_inner);
        held.extend(segments);
    }

    /// It holds nothing from now on.
    pub fn give_up(&self) {
        let mut held = self.0.write().unwrap_or_else(PoisonError::into_inner);
        held.clear();
    }
}
