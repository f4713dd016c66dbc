//! What the log's lock guards.

use std::io;
use std::sync::Arc;
use std::task::Waker;

use super::Purpose;
use crate::Error;
use crate::head::{Head, Heat, UNFLUSHED};
use crate::location::SegmentId;
use crate::segment::Segment;

pub(crate) struct State {
    pub hot: Head,
    pub cold: Head,
    /// Heads that are full, oldest first: they are flushed and sealed.
    pub full: Vec<Head>,
    pub spares: Vec<Arc<Segment>>,
    /// Memory of heads that were sealed, for the next: to map as much again costs more than to fill
    /// it.
    pub(super) tails: Vec<Vec<u8>>,
    /// Why no segment could be made.
    pub no_segments: Option<Error>,
    /// The number of the last record when cleaning last looked for a segment. Without newer ones it
    /// would find no more.
    pub looked_at: u64,
    /// Whether to look for segments to clean.
    pub cleaning_wanted: bool,
    /// The store is a cache, and a put waits until keys are gone from its index.
    pub eviction_wanted: bool,
    /// Keys of a segment are going.
    pub is_evicting: bool,
    /// No segment had keys that could go while these were the hot and the cold one.
    pub no_victim: Option<[SegmentId; 2]>,
    /// Cleaners that are at work or look for it.
    pub cleaners: usize,
    /// The segments that they clean, the one that was begun first in front.
    pub victims: Vec<SegmentId>,
    /// The number of the next segment.
    pub next: SegmentId,
    /// The number of the last record.
    pub sequence: u64,
    /// All new records up to this number are on the disk.
    pub durable: u64,
    /// Writers wait until more is durable.
    pub commit_wanted: bool,
    /// Cleaning waits until everything is on the disk, for the time with this number.
    pub sync_wanted: u64,
    /// Everything was on the disk, for the time with this number.
    pub synced: u64,
    /// Whether a checkpoint is to be written, whenever the last one was.
    pub checkpoint_wanted: bool,
    /// The number of the next segment when the last checkpoint was begun.
    pub checkpointed: SegmentId,
    /// The number of the newest one on the disk that is known to be whole.
    pub whole_checkpoint: Option<u32>,
    /// Checkpoints that were written, and why the last one was not.
    pub checkpoints: u64,
    pub checkpoint_failure: Option<Error>,
    /// Segments that were cleaned, and records that were moved for it.
    pub cleaned: u64,
    pub moved: u64,
    /// Records that were evicted.
    pub evicted: u64,
    /// Keys that were removed from the index since they had expired.
    pub expired: u64,
    /// Why there are no more writes.
    pub failed: Option<Arc<io::Error>>,
    pub closing: bool,
    /// Changes so far, of anything that a future may wait for.
    pub(super) changes: u64,
    /// Futures to wake after the next one.
    pub(super) waiting: Vec<Waker>,
}

impl State {
    /// With two segments that are empty. `last` is the number of the last record.
    pub fn new(hot: Arc<Segment>, cold: Arc<Segment>, next: SegmentId, last: u64) -> State {
        State {
            hot: Head::new(Heat::Hot, hot, Vec::new()),
            cold: Head::new(Heat::Cold, cold, Vec::new()),
            full: Vec::new(),
            spares: Vec::new(),
            tails: Vec::new(),
            no_segments: None,
            looked_at: last,
            cleaning_wanted: false,
            eviction_wanted: false,
            is_evicting: false,
            no_victim: None,
            cleaners: 0,
            victims: Vec::new(),
            next,
            sequence: last,
            durable: last,
            commit_wanted: false,
            sync_wanted: 0,
            synced: 0,
            checkpoint_wanted: false,
            checkpointed: next,
            whole_checkpoint: None,
            checkpoints: 0,
            checkpoint_failure: None,
            cleaned: 0,
            moved: 0,
            evicted: 0,
            expired: 0,
            failed: None,
            closing: false,
            changes: 0,
            waiting: Vec::new(),
        }
    }

    /// Whether there are writes.
    pub fn check(&self) -> Result<(), Error> {
        match &self.failed {
            Some(error) => Err(Error::ReadOnly(Arc::clone(error))),
            None if self.closing => Err(Error::Closed),
            None => Ok(()),
        }
    }

    /// No segment can be made, unless cleaning removes one.
    pub fn has_no_space(&mut self, reason: Error) {
        self.no_segments.get_or_insert(reason);
        self.cleaning_wanted = true;
        self.changed();
    }

    /// `Ok(false)` as long as a segment may come; otherwise why none does.
    pub(super) fn wait_for_segment(&mut self, purpose: Purpose) -> Result<bool, Error> {
        if self.no_segments.is_none() {
            // One is being made.
            return Ok(false);
        }
        if purpose == Purpose::Cleaning {
            return Err(Error::Full);
        }
        // As long as cleaning may find space, waiting helps.
        if self.cleaning_wanted {
            return Ok(false);
        }
        if self.looked_at != self.sequence {
            // What was written since has made others obsolete. A second cleaner may be free.
            self.cleaning_wanted = true;
            self.changed();
            return Ok(false);
        }
        if self.cleaners > 0 {
            return Ok(false);
        }
        // The next one that asks has another attempt made to find space.
        let refused = self.no_segments.take();
        self.changed();
        refused.map_or(Ok(false), Err)
    }

    pub fn head(&mut self, heat: Heat) -> &mut Head {
        match heat {
            Heat::Hot => &mut self.hot,
            Heat::Cold => &mut self.cold,
        }
    }

    /// The segments that are written to.
    pub fn open(&self) -> [SegmentId; 2] {
        [self.hot.segment.id(), self.cold.segment.id()]
    }

    /// The oldest full head is sealed.
    pub fn sealed(&mut self) {
        let tail = self.full.remove(0).into_tail();
        let kept: usize = self.tails.iter().map(Vec::capacity).sum();
        if (kept + tail.capacity()) as u64 <= UNFLUSHED {
            self.tails.push(tail);
        }
        self.changed();
    }

    /// All heads with records that may be in memory only.
    pub fn heads(&mut self) -> impl Iterator<Item = &mut Head> {
        self.full.iter_mut().chain([&mut self.hot, &mut self.cold])
    }

    /// Wakes who flushes a head when it becomes due, not at each append until it is flushed: all
    /// who wait would look in vain.
    pub(super) fn became_due(&mut self, heat: Heat, was_due: bool) {
        if !was_due && self.head(heat).is_due() {
            self.changed();
        }
    }

    /// Whether appending has to wait for a flush.
    pub(super) fn is_behind(&mut self) -> bool {
        self.heads().map(|it| it.unflushed()).sum::<u64>() >= UNFLUSHED
    }

    /// Asks for a sync of both heads. Returns its number.
    pub fn want_sync(&mut self) -> u64 {
        self.sync_wanted += 1;
        self.changed();
        self.sync_wanted
    }

    /// Wakes all that wait for a change.
    pub fn changed(&mut self) {
        self.changes += 1;
        for waker in self.waiting.drain(..) {
            waker.wake();
        }
    }
}
