//! Records whose copies are in the cache and their leaves are not: changes that stay in the copies,
//! and their way to the pool.

use std::ops::RangeInclusive;

use super::RemoteTree;
use super::fetch::{Admission, Leaf};
use super::leaf::{Write, word_at};
use super::together::together;
use super::walk::{Found, Missing};
use crate::cache::{Flight, InTheWay};
use crate::error::{Error, Result};
use crate::image::{Lines, written_lines};

impl RemoteTree {
    /// Changes the copy of a record whose leaf is not in the cache, if there is one.
    pub(super) fn write_copy(&self, key: u64, write: Write, missing: Missing) -> Option<u64> {
        let value = write.value()?;
        let is_there = !self.options.write_through && self.cache.copies.get(key).is_some();
        if missing.height > 0 || !is_there {
            return None;
        }
        let _flight = self.cache.flights.try_begin(missing.address)?;
        self.check_owned(key).ok()?;
        // Another operation may have brought the leaf after the walk.
        match self.walk(key, 0) {
            Ok(Found::Missing(still)) if still == missing => self.cache.copies.update(key, value),
            _ => None,
        }
    }

    /// Offers what a leaf has of a record a place among the copies.
    pub(super) fn keep_copy(&self, key: u64, value: u64, _leaf: &Flight<'_>) -> Option<InTheWay> {
        self.cache.copies.offer(key, value)
    }

    /// Writes the record of a dirty copy that is in the way, so that its place can be used.
    pub(super) async fn make_way(&self, copy: Option<InTheWay>) -> Result<()> {
        let Some(InTheWay(key)) = copy else {
            return Ok(());
        };
        match self.settle(key, Admission::ByOptions).await {
            // Giving its key away writes it, too. The caller's own operation is done.
            Err(Error::NotOwned(_)) => Ok(()),
            result => result,
        }
    }

    /// Writes the records of all dirty copies of these keys.
    pub(super) async fn settle_all(
        &self,
        keys: &RangeInclusive<u64>,
        admission: Admission,
    ) -> Result<()> {
        let copies = &self.cache.copies;
        let dirty = (0..copies.sets()).flat_map(|set| copies.dirty_keys(set));
        let meant = dirty.filter(|key| keys.contains(key));
        together(meant, |key| self.settle(key, admission)).await
    }

    /// Writes the record of a dirty copy, and with it those others that its leaf has.
    async fn settle(&self, key: u64, admission: Admission) -> Result<()> {
        let copies = &self.cache.copies;
        while copies.dirty_value(key).is_some() {
            let leaf = match self.leaf(key, admission).await? {
                // It was merged into the leaf.
                Leaf::Cached(_) => return Ok(()),
                Leaf::Loose(leaf) => leaf,
                Leaf::Seen(_) => continue,
            };
            let (merged, at, words) = {
                let page = leaf.page.lock();
                let merged: Vec<_> = (0..page.count())
                    .filter(|&index| copies.dirty_value(page.key(index)).is_some())
                    .collect();
                let (at, words) = match merged[..] {
                    [index] => (word_at(index), vec![page.word(index)]),
                    _ => {
                        let lines = Lines::of_entries(merged.iter().copied());
                        written_lines(&self.image_of(&page), self.sums(), lines)
                    }
                };
                let merged = merged.into_iter();
                let merged: Vec<_> = merged.map(|it| (page.key(it), page.word(it))).collect();
                (merged, at, words)
            };
            self.write_words(leaf.address.add(at), words).await?;
            for (key, value) in merged {
                copies.follow(key, Some(value));
            }
        }
        Ok(())
    }
}
