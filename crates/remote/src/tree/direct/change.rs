//! Changes of records, under their leaf's lock.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use timberline_tree::btree::page::{Page, PageBody};

use super::turns::{HeldLock, Wish};
use super::{Direct, Turns};
use crate::address::Address;
use crate::cache::Flight;
use crate::error::{Error, Result};
use crate::image::{COUNTS_AT, LOCK_BYTES, Sums, trim, written};
use crate::pool::{PoolLock, Writes};
use crate::tree::RemoteTree;
use crate::tree::leaf::{Changed, Full, Write, word_at};
use crate::tree::walk::Missing;

/// What became of a change.
#[derive(Clone, Copy, Debug)]
pub(super) enum Outcome {
    /// It is done. The value before.
    Done(Option<u64>),
    /// The leaf has no room for the record.
    Full,
    /// The leaf is not that of the key.
    Stale,
}

/// What is to be written of a leaf.
#[derive(Default)]
struct Touched {
    /// Entries whose payloads alone are new.
    entries: BTreeSet<usize>,
    /// All of it is.
    page: bool,
}

impl RemoteTree {
    /// Changes a record.
    pub(in crate::tree) async fn change_direct(
        &self,
        direct: Direct,
        key: u64,
        write: Write,
    ) -> Result<Option<u64>> {
        loop {
            self.check_whole()?;
            let place = self.leaf_place(direct, key).await?;
            let outcome = match direct.turns {
                Turns::Together => self.change_together(direct, place, key, write).await?,
                Turns::Alone | Turns::HandedOver => {
                    let flight = self.cache.flights.begin(place.address).await;
                    let changes = [(key, write)];
                    let done = self.change_leaf(direct, place, &flight, &changes).await?;
                    done[0]
                }
            };
            match outcome {
                Outcome::Done(before) => return Ok(before),
                Outcome::Full => self.make_room_direct(direct, key).await?,
                Outcome::Stale => self.refresh(key).await?,
            }
        }
    }

    /// Changes a record together with all that other operations leave at the leaf meanwhile.
    async fn change_together(
        &self,
        direct: Direct,
        place: Missing,
        key: u64,
        write: Write,
    ) -> Result<Outcome> {
        let outcome = Arc::new(OnceLock::new());
        let wish = Wish {
            key,
            write,
            outcome: Arc::clone(&outcome),
        };
        self.turns.leave(place.address, wish);
        let flight = self.cache.flights.begin(place.address).await;
        if let Some(outcome) = outcome.get() {
            return outcome.clone();
        }
        let wishes = self.turns.take_wishes(place.address);
        if !wishes.iter().any(|it| Arc::ptr_eq(&it.outcome, &outcome)) {
            // Whoever took it was dropped.
            return Err(Error::Abandoned);
        }
        let changes: Vec<_> = wishes.iter().map(|it| (it.key, it.write)).collect();
        let done = self.change_leaf(direct, place, &flight, &changes).await;
        for (index, wish) in wishes.iter().enumerate() {
            let _ = wish.outcome.set(done.clone().map(|all| all[index]));
        }
        drop(flight);
        outcome.get().cloned().expect("it was just set")
    }

    /// Changes records of a leaf, whose flight the caller has. Returns an outcome for each.
    async fn change_leaf(
        &self,
        direct: Direct,
        place: Missing,
        flight: &Flight<'_>,
        changes: &[(u64, Write)],
    ) -> Result<Vec<Outcome>> {
        let lock = self.lock_leaf(direct, place.address).await?;
        let page = match self.read_locked(place.address).await {
            Ok(page) => page,
            Err(error) => {
                let _ = self.release_leaf(lock, Writes::new()).await;
                return Err(error);
            }
        };
        trim(&page, place.upper);
        let mut touched = Touched::default();
        let apply = |&(key, write): &(u64, Write)| self.apply(&page, key, write, &mut touched);
        let outcomes = changes.iter().map(apply).collect();
        let writes = self.writes_of(place.address, &page.lock(), &touched);
        let hands_over = direct.turns == Turns::HandedOver && flight.is_awaited();
        match lock {
            Some(held) if hands_over && held.may_go_on() => {
                let result = self.write_in_order(writes).await;
                self.turns.hand_over(place.address, held);
                result?;
            }
            lock => self.release_leaf(lock, writes).await?,
        }
        flight.share(&Arc::new(page));
        Ok(outcomes)
    }

    fn apply(&self, page: &Page, key: u64, write: Write, touched: &mut Touched) -> Outcome {
        let leaf = page.lock();
        if !leaf.covers(key) {
            return Outcome::Stale;
        }
        match write.apply(self.search, &leaf, key) {
            Err(Full) => Outcome::Full,
            Ok((before, changed)) => {
                match changed {
                    Changed::Nothing => {}
                    Changed::Word(index) => drop(touched.entries.insert(index)),
                    Changed::Page => touched.page = true,
                }
                Outcome::Done(before)
            }
        }
    }

    /// What has to be written so that the pool has a leaf as it is here.
    fn writes_of(&self, at: Address, leaf: &PageBody, touched: &Touched) -> Writes {
        if touched.page {
            return vec![(at.add(LOCK_BYTES), written(&self.image_of(leaf)))];
        }
        let entry = |&index: &usize| (at.add(word_at(index)), vec![leaf.word(index)]);
        let mut writes: Writes = touched.entries.iter().map(entry).collect();
        if !writes.is_empty() && self.sums() == Sums::All {
            let counts = self.image_of(leaf)[COUNTS_AT as usize / 8];
            writes.push((at.add(COUNTS_AT), vec![counts]));
        }
        writes
    }

    /// Takes the lock of a leaf, whose flight the caller has; none, if no other server writes it.
    pub(super) async fn lock_leaf(&self, direct: Direct, at: Address) -> Result<Option<HeldLock>> {
        if !direct.is_shared() {
            return Ok(None);
        }
        if let Some(held) = self.turns.take_lock(at) {
            return Ok(Some(held));
        }
        let lock = PoolLock::take(&self.connection, at).await?;
        if lock.is_from_the_dead() {
            self.mend(at).await?;
        }
        Ok(Some(HeldLock::new(lock)))
    }

    /// Writes what was changed of a leaf, and releases its lock.
    pub(super) async fn release_leaf(&self, held: Option<HeldLock>, writes: Writes) -> Result<()> {
        match held {
            Some(held) => held.lock.release_after(&self.connection, writes).await,
            None => self.write_in_order(writes).await,
        }
    }

    async fn write_in_order(&self, writes: Writes) -> Result<()> {
        match writes.is_empty() {
            true => Ok(()),
            false => self.connection.write_in_order(writes).await,
        }
    }
}
