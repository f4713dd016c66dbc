//! Space comes back: records that count are moved out of a segment, and its file is removed. A
//! store that is a cache deletes them instead, when nothing else makes space.

mod moving;

use std::sync::Arc;

use self::moving::Coming;
use crate::join::Turn;
use crate::location::SegmentId;
use crate::log::{NewRecord, RESERVE};
use crate::pieces::{Value, piece_of};
use crate::records::{CHUNK, Records};
use crate::segment::{START, Segment};
use crate::store::Inner;
use crate::{Error, join};

/// Cleaning begins when less than this fraction of the full segments is live, also where there is
/// space: a store takes at most a third more than what is live. Where the limit of space leaves
/// less, cleaning waits until a segment is needed: each record that is overwritten before need not
/// be moved.
const ENOUGH_LIVE: f64 = 0.75;
/// A segment of which more is live is not worth cleaning, even when space is short.
const TOO_LIVE: f64 = 0.95;
/// In a cache, a segment of which no more is live is cleaned; otherwise the oldest is evicted.
const FEW_LIVE: f64 = 0.5;

/// Records after which others have a turn, who may be on the same thread: what they ask the disk
/// for waits for it.
const RECORDS: u32 = 64;

/// Why a segment is cleaned.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// Obsolete records take space.
    Clean,
    /// Records that count have to go.
    Evict,
}

impl Inner {
    /// Cleans whenever it is worth it, until a write fails or the store closes: two segments at a
    /// time while puts wait and nobody reads from the disk, so that records of one are moved while
    /// the other waits for the disk. A cache deletes its oldest keys, in their order.
    pub async fn clean_all(&self) {
        match self.log.options().evict {
            true => self.clean_one_by_one().await,
            false => {
                join(self.clean_one_by_one(), self.clean_one_by_one()).await;
            }
        }
    }

    async fn clean_one_by_one(&self) {
        loop {
            let go_on = self.log.wait(|state| {
                if state.closing || state.failed.is_some() {
                    return Some(false);
                }
                if state.cleaners > 0 && self.reads.are_under_way() {
                    return None;
                }
                let is_wanted = std::mem::take(&mut state.cleaning_wanted);
                state.cleaners += usize::from(is_wanted);
                is_wanted.then_some(true)
            });
            if !go_on.await {
                return;
            }
            while self.clean_next().await {}
            let mut state = self.log.lock();
            state.cleaners -= 1;
            state.changed();
        }
    }

    /// Cleans the segment that is most worth it. Whether to look for another one.
    async fn clean_next(&self) -> bool {
        // What has expired is obsolete.
        self.remove_expired().await;
        let is_wanted = std::mem::take(&mut self.log.lock().eviction_wanted);
        let is_index_full = is_wanted || self.log.options().evict && self.is_index_full();
        let Some((victim, purpose)) = self.victim(is_index_full) else {
            let mut state = self.log.lock();
            // A put that waits for memory would wait for ever. A head that is full will be a
            // segment whose keys can go.
            if is_index_full && state.full.is_empty() {
                state.no_victim = Some(state.open());
            }
            return false;
        };
        {
            let mut state = self.log.lock();
            state.is_evicting = is_index_full && purpose == Purpose::Evict;
            state.victims.push(victim.id());
        }
        let cleaned = self.clean(&victim, purpose).await;
        let mut state = self.log.lock();
        state.is_evicting = false;
        state.victims.retain(|&it| it != victim.id());
        state.changed();
        match cleaned {
            Ok(()) => true,
            // A segment that can't be read or removed stays as it is.
            Err(Error::Disk(..) | Error::Corrupt(..)) => {
                victim.keep();
                true
            }
            // The disk is full of what others have. It may be tried again.
            Err(Error::Full) => {
                if is_index_full {
                    state.no_victim = Some(state.open());
                }
                false
            }
            Err(_) => {
                victim.keep();
                false
            }
        }
    }

    /// The full segment whose cleaning gives the most space for the least work, if there is enough
    /// to gain (Rosenblum, Ousterhout: "The Design and Implementation of a Log-Structured File
    /// System", TOCS 10(1), 1992, §3.5). In a cache whose index is full, the oldest one that has
    /// keys.
    fn victim(&self, is_index_full: bool) -> Option<(Arc<Segment>, Purpose)> {
        let (others, all, is_full, is_short, now) = {
            let mut state = self.log.lock();
            state.looked_at = state.sequence;
            let mut others = state.victims.clone();
            others.extend(state.heads().map(|head| head.segment.id()));
            // A segment that is made a head later is none of them.
            let all = self.log.segments();
            let is_full = state.no_segments.is_some();
            let is_short = is_full && state.spares.len() < RESERVE;
            (others, all, is_full, is_short, state.sequence)
        };
        let first = all.iter().min_by_key(|it| it.began())?;
        let second = oldest(&all, first.id());
        let others_began = |it: &Arc<Segment>| match it.id() == first.id() {
            true => second,
            false => first.began(),
        };
        // Space that the store left when it was closed is like that of obsolete records.
        let filled = |it: &Arc<Segment>| it.filled(self.log.options().segment_bytes);
        let moving = |it: &Arc<Segment>| it.moving(others_began(it)) * filled(it);
        let is_other = |it: &&Arc<Segment>| others.contains(&it.id());
        let mut full: Vec<_> = all.iter().filter(|it| !is_other(it)).cloned().collect();
        let live: f64 = full.iter().map(|it| it.utilization() * filled(it)).sum();
        let deletes = full.iter().map(moving).sum::<f64>() - live;
        let are_many = deletes > (TOO_LIVE - ENOUGH_LIVE) * full.len() as f64;
        full.retain(|it| !it.is_kept());
        if let Some(dead) = full.iter().find(|it| it.is_dead(others_began(it))) {
            return Some((Arc::clone(dead), Purpose::Clean));
        }
        if is_index_full {
            // Moving records makes no room in the index.
            full.retain(|it| it.utilization() > 0.0);
            let oldest = full.into_iter().min_by_key(|it| it.id());
            return oldest.map(|it| (it, Purpose::Evict));
        }
        if self.log.options().evict {
            if !is_full {
                return None;
            }
            // To move many records costs more than their loss.
            let has_few = |it: &Arc<Segment>| moving(it) <= FEW_LIVE;
            if !full.iter().any(has_few) {
                let oldest = full.into_iter().min_by_key(|it| it.id());
                return oldest.map(|it| (it, Purpose::Evict));
            }
            full.retain(has_few);
        } else if !is_full {
            let obsolete = full.len() as f64 - live;
            let few = (1.0 - ENOUGH_LIVE) * full.len() as f64;
            if obsolete <= few.max(self.log.options().idle_segments()) {
                return None;
            }
        }
        let worth = |segment: &Arc<Segment>| {
            let (moving, age) = (moving(segment), now.saturating_sub(segment.newest()) + 1);
            (1.0 - moving) * age as f64 / (1.0 + moving)
        };
        // Deletes wait for what the reserve lacks, and nothing but cleaning helps them.
        let most = if is_short { 1.0 } else { TOO_LIVE };
        let gains = full.iter().filter(|it| moving(it) < most);
        let best = gains.max_by(|a, b| worth(a).total_cmp(&worth(b))).cloned();
        // Deletes may go when all segments are gone that began before them. What is moved goes to
        // a segment that begins now, in the end, so that this ends.
        let oldest = full.into_iter().min_by_key(|it| it.began());
        let oldest = oldest.filter(|it| are_many && it.began() < now);
        best.or(oldest).map(|it| (it, Purpose::Clean))
    }

    async fn clean(&self, victim: &Arc<Segment>, purpose: Purpose) -> Result<(), Error> {
        // A record that the index does not know is then one that it has left.
        self.wait_for_index();
        // A delete is kept while there may be older records of its key. They are in segments that
        // began before it.
        let oldest = oldest(&self.log.segments(), victim.id());
        if !victim.is_dead(oldest) {
            let mut records = Records::new(victim, START);
            // Bytes of records that eviction passes over.
            let mut left = victim.written() / 2;
            let mut coming = Coming::default();
            records.read_by(self.reads.at_once(CHUNK));
            let mut turn = Turn::default();
            while let Some(location) = records.next().await? {
                if turn.after(RECORDS).await {
                    records.read_by(self.reads.at_once(CHUNK));
                }
                if coming.is_behind(location) {
                    records.check_ahead();
                    let is_at_once = purpose == Purpose::Clean;
                    coming = self.look_ahead(victim, &records, is_at_once)?;
                }
                // A location that the index has left does not come back.
                if coming.is_over(location) {
                    continue;
                }
                let record = records.moved();
                if let Some(piece) = piece_of(&record) {
                    match self.large.get(piece.0) {
                        // A value goes as a whole, unless it is being written.
                        Some(value) if purpose == Purpose::Evict && self.has_value(&value) => {
                            self.evict(&value.key, |inner| inner.has_value(&value))
                                .await?;
                        }
                        Some(value) => {
                            let (number, value) = (piece.1, &*value);
                            self.relocate_piece(victim, location, record, (value, number))
                                .await?;
                        }
                        None => {}
                    }
                    continue;
                }
                if purpose == Purpose::Evict && self.locate(record.key) == Some(location) {
                    let bytes = record.bytes() as u64;
                    if bytes > left || !self.cache.was_read(location) {
                        let counts = |inner: &Inner| inner.locate(record.key) == Some(location);
                        self.evict(record.key, counts).await?;
                        continue;
                    }
                    left -= bytes;
                }
                self.relocate(victim, location, record, oldest).await?;
            }
            if !victim.is_empty() || !records.are_readable() {
                // Damaged records that the index knows: who reads them gets an error, as long as
                // their segment is there. What the disk can't read may be a delete, and readable
                // again.
                return Err(Error::Corrupt(victim.path.clone(), START));
            }
        }
        // What made records of the victim obsolete has to be on the disk before they go.
        self.sync_all().await?;
        // Otherwise a reader would look for them in vain until the index knows what made them so.
        self.wait_for_index();
        let removed = self.disk.remove(&victim.path).await;
        removed.map_err(Error::disk(&victim.path))?;
        let synced = self.disk.sync_folder(&self.folder).await;
        synced.map_err(Error::disk(&self.folder))?;
        self.log.forget(victim.id());
        let options = self.log.options();
        let most = options.snapshot_space / options.segment_bytes;
        self.moments.erased(victim.id(), most as usize);
        let mut state = self.log.lock();
        state.cleaned += 1;
        state.no_segments = None;
        state.changed();
        Ok(())
    }

    /// Deletes a key if its record or its value counts. A delete is written, so that no older
    /// record of the key comes back after a crash.
    async fn evict(&self, key: &[u8], counts: impl Fn(&Inner) -> bool) -> Result<(), Error> {
        // Not until it is on the disk: what is waited for there waits for this.
        let evicted = self.append(&[NewRecord::evict(key)], counts).await?;
        if evicted.is_some() {
            self.log.lock().evicted += 1;
        }
        Ok(())
    }

    /// Whether a value in pieces is the one that its key has.
    fn has_value(&self, value: &Value) -> bool {
        self.large
            .of(&value.key)
            .is_some_and(|it| it.id == value.id)
    }
}

/// The greatest number of a record when the first of segments began, without this one.
fn oldest(segments: &[Arc<Segment>], without: SegmentId) -> u64 {
    let others = segments.iter().filter(|it| it.id() != without);
    let began = others.map(|it| it.began());
    began.min().unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::path::Path;
    use std::pin::pin;
    use std::task::{Context, Waker};

    use timberline_io::{Disk, Simulation};

    use super::*;
    use crate::{Durability, Options, Store};

    /// The most segments that are cleaned at a time while records of a full store are overwritten,
    /// beside a get whose read nobody looks at, or without.
    fn most_at_a_time(beside_get: bool) -> usize {
        let (disk, mut driver) = Disk::simulated(&Simulation::new(1));
        const KEYS: u32 = 960;
        let segment_bytes = 64 << 10;
        let options = Options {
            segment_bytes,
            capacity: 20 * segment_bytes,
            cache_bytes: 0,
            durability: Durability::None,
            direct: false,
            ..Options::default()
        };
        driver.block_on(async {
            let opened = Store::open_on(&disk, Path::new("store"), options).await;
            let (store, _) = opened.expect("it opens");
            let put = async |key: u32| {
                let put = store.put(&key.to_le_bytes(), &[1; 1000]).await;
                put.expect("there is space");
            };
            let work = async {
                for key in 0..KEYS {
                    put(key).await;
                }
                let mut get = Box::pin(store.get(&[0; 4]));
                if beside_get {
                    let mut context = Context::from_waker(Waker::noop());
                    assert!(get.as_mut().poll(&mut context).is_pending());
                }
                for number in 0..5000u32 {
                    put(number.wrapping_mul(40_503) % KEYS).await;
                }
                store.close();
            };
            let mut work = pin!(join(work, store.maintain()));
            let mut most = 0;
            let (_, maintained) = poll_fn(|context| {
                let done = work.as_mut().poll(context);
                most = most.max(store.inner.log.lock().victims.len());
                done
            })
            .await;
            maintained.expect("nothing fails");
            most
        })
    }

    #[test]
    fn two_segments_are_cleaned_at_a_time_unless_somebody_reads() {
        assert_eq!(most_at_a_time(false), 2);
        assert_eq!(most_at_a_time(true), 1);
    }
}
