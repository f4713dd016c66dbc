//! Moving the records of a segment that count to where they stay.

use smallvec::SmallVec;

use crate::Error;
use crate::index::{GROUP, Spot};
use crate::location::Location;
use crate::log::Appended;
use crate::pieces::Value;
use crate::record::{Kind, Moved, Record};
use crate::records::Records;
use crate::segment::Segment;
use crate::store::Inner;

impl Inner {
    /// Moves a piece of a value if it counts.
    pub(super) async fn relocate_piece(
        &self,
        victim: &Segment,
        location: Location,
        record: Moved<'_>,
        (value, number): (&Value, u32),
    ) -> Result<(), Error> {
        while value.has(number, location) {
            let placed = |moved: Location| {
                // Otherwise nobody has the value any more, and what was moved does not count.
                let counts = self.large.get(value.id).is_some();
                if counts && value.relocate(number, location, moved) {
                    self.log.count(None, Some(moved));
                    victim.kill(location);
                }
            };
            match self.log.append_moved(victim.id(), &record, placed)? {
                Appended::NotNow(changes) => self.log.wait_for_change(changes).await,
                Appended::At(()) | Appended::Refused => break,
            }
        }
        Ok(())
    }

    /// Looks for the next records in the index, for all at the same time, and moves those that
    /// count, unless they are not to be moved at once. As for a batch, the index can't give memory
    /// back meanwhile; this waits for locks, but not for the disk.
    pub(super) fn look_ahead(
        &self,
        victim: &Segment,
        records: &Records,
        mut is_at_once: bool,
    ) -> Result<Coming, Error> {
        let coming: SmallVec<[_; GROUP]> = records.coming().collect();
        let keys: SmallVec<[&[u8]; GROUP]> = coming.iter().map(|it| it.1.key).collect();
        let held = self.index.hold();
        let found = self.find_many(&held, &keys);
        let is_slow = self.index.is_tiered();
        let mut over = SmallVec::new();
        for (&(location, record), found) in coming.iter().zip(found) {
            let spot = found.filter(|it| it.0 == location.to_word()).map(|it| it.1);
            let is_over = match spot.filter(|_| record.kind == Kind::Put) {
                Some(spot) if is_at_once && (spot.is_some() || !is_slow) => {
                    let moved = self.relocate_at(spot, victim, location, record)?;
                    // Nor is there space for the others, then.
                    is_at_once = !matches!(moved, Appended::NotNow(_));
                    matches!(moved, Appended::At(()))
                }
                // In slow memory, others are to go on while it is looked for.
                Some(_) => false,
                // What hides others may have to be kept.
                None => record.kind == Kind::Put && !record.hides(),
            };
            over.push((location, is_over));
        }
        Ok(Coming(over))
    }

    /// Moves a record that was found in the index at a spot, unless it is not there any more.
    fn relocate_at(
        &self,
        spot: Option<Spot<'_>>,
        victim: &Segment,
        location: Location,
        record: Moved<'_>,
    ) -> Result<Appended<()>, Error> {
        let _stripe = self.stripe(record.key);
        if self.index.word_found(spot, record.key) != Some(location.to_word()) {
            return Ok(Appended::Refused);
        }
        let place = |word| self.index.update_found(spot, record.key, word);
        self.move_record(victim, location, &record, place)
    }

    /// Moves a record if it counts, or a delete in its place if it has to hide others.
    pub(super) async fn relocate(
        &self,
        victim: &Segment,
        location: Location,
        record: Moved<'_>,
        oldest: u64,
    ) -> Result<(), Error> {
        self.approach(record.key).await;
        loop {
            let changes = {
                let _stripe = self.stripe(record.key);
                let known = self.locate(record.key);
                let record = if record.kind == Kind::Put && known == Some(location) {
                    record
                } else if self.is_to_hide(&record, known) && oldest < record.sequence {
                    let (sequence, key) = (record.sequence, record.key);
                    Moved::instead(Record::new(Kind::Delete, sequence, key, &[]))
                } else {
                    return Ok(());
                };
                let place = |word| self.index.update(record.key, word);
                match self.move_record(victim, location, &record, place)? {
                    Appended::NotNow(changes) => changes,
                    Appended::At(()) | Appended::Refused => return Ok(()),
                }
            };
            self.log.wait_for_change(changes).await;
        }
    }

    /// Appends a record to where cleaning moves them, or a delete in its stead, if that is possible
    /// at once; `place` has the index know where a record is now. The caller holds the lock of its
    /// key, and has found out that it counts.
    fn move_record(
        &self,
        victim: &Segment,
        location: Location,
        record: &Moved<'_>,
        place: impl FnOnce(u64) -> Option<u64>,
    ) -> Result<Appended<()>, Error> {
        let mut now = None;
        let placed = |moved: Location| {
            if record.kind == Kind::Put {
                place(moved.to_word()).expect("its key is locked, and was there");
                self.log.count(None, Some(moved));
                victim.kill(location);
                now = Some(moved);
            }
        };
        let appended = self.log.append_moved(victim.id(), record, placed)?;
        // Others need not wait for this with the log's lock.
        if let Some(moved) = now {
            let was_near = self.window.read(location, |_, _| ()).is_some();
            if !self.cache.relocate(location, moved) && was_near {
                self.cache.insert(moved, record.expires, record.value);
            }
        }
        Ok(appended)
    }

    /// Whether a record that is not the one of its key, which is at `known`, hides others that may
    /// be on the disk, and no newer one does. What replaced one that did not expire hides them.
    fn is_to_hide(&self, record: &Record, known: Option<Location>) -> bool {
        let is_delete = record.kind == Kind::Delete;
        let is_over = is_delete || self.deadlines.has_passed(record.expires);
        record.hides() && is_over && !known.is_some_and(Location::hides)
    }
}

/// What became of the next records, in their order, when they were looked for in the index
/// together: where each is, and whether there is nothing more to do for it.
#[derive(Default)]
pub(super) struct Coming(SmallVec<[(Location, bool); GROUP]>);

impl Coming {
    /// Whether all of them are in front of a record.
    pub fn is_behind(&self, location: Location) -> bool {
        let last = self.0.last();
        last.is_none_or(|last| last.0.offset() < location.offset())
    }

    /// Whether this one was moved, or is not the one of its key.
    pub fn is_over(&self, location: Location) -> bool {
        self.0.contains(&(location, true))
    }
}
