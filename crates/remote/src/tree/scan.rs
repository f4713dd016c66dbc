//! Records in the order of their keys, or in the reverse order.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use futures_util::future::try_join_all;
use timberline_tree::btree::page::{Page, PageBody};

use super::fetch::{Admission, Leaf};
use super::part::{Direction, Wanted, records_from};
use super::walk::Found;
use super::{LOAD_FILL, RemoteTree};
use crate::child::{Child, entries_in};
use crate::error::{Error, Result};

/// The most leaves that a scan reads at a time.
const MOST_AHEAD: usize = 16;

/// Records that a scan reads beyond its limit: it knows only about how many the leaves have.
const SLACK: usize = 2;

/// Entries of a leaf as it is loaded.
const USUAL_ENTRIES: usize = (Page::CAPACITY as f64 * LOAD_FILL) as usize;

/// Records of a range. Each is as it was at some time since the scan began.
///
/// A scan reads ahead: as many leaves at a time as its [`limit`](Self::limit) takes; without a
/// limit one, then two, four, and so on up to 16.
pub struct Scan<'a> {
    tree: &'a RemoteTree,
    direction: Direction,
    /// The keys that are left, after those in `records`.
    rest: Option<RangeInclusive<u64>>,
    records: VecDeque<(u64, u64)>,
    /// How many records are left of the limit.
    left: Option<usize>,
    /// Leaves that are read at a time where there is no limit.
    ahead: usize,
}

/// What a leaf has of a range.
struct LeafRecords {
    fences: RangeInclusive<u64>,
    records: Vec<(u64, u64)>,
}

impl RemoteTree {
    /// The records whose keys are within `keys`, all of which have to be this server's, in
    /// ascending order.
    ///
    /// # Errors
    /// Some are not.
    pub fn scan(&self, keys: RangeInclusive<u64>) -> Result<Scan<'_>> {
        self.scan_towards(Direction::Up, keys)
    }

    /// The same in descending order.
    ///
    /// # Errors
    /// As [`scan`](Self::scan).
    pub fn scan_down(&self, keys: RangeInclusive<u64>) -> Result<Scan<'_>> {
        self.scan_towards(Direction::Down, keys)
    }

    fn scan_towards(&self, direction: Direction, keys: RangeInclusive<u64>) -> Result<Scan<'_>> {
        if !keys.is_empty()
            && let Some(key) = self.owned.read().first_outside(&keys)
        {
            return Err(Error::NotOwned(key));
        }
        Ok(Scan {
            tree: self,
            direction,
            rest: (!keys.is_empty()).then_some(keys),
            records: VecDeque::new(),
            left: None,
            ahead: 1,
        })
    }

    /// What the leaf that covers `key` has of a range, or the part of it that is wanted.
    async fn leaf_records(&self, key: u64, wanted: &Wanted) -> Result<LeafRecords> {
        let keys = &wanted.keys;
        if let Some(direct) = self.options.direct {
            let leaf = self.leaf_direct(direct, key).await?;
            return Ok(LeafRecords::of(&leaf.lock(), keys));
        }
        loop {
            match self
                .leaf_for(key, Admission::ByOptions, Some(wanted))
                .await?
            {
                Leaf::Cached(leaf) => {
                    let read =
                        |body: &PageBody| (LeafRecords::of(body, keys), self.is_ahead(leaf.frame));
                    if let Ok((records, is_ahead)) = leaf.view.get(read) {
                        if is_ahead {
                            self.write_leaf(key).await?;
                        }
                        return Ok(records);
                    }
                }
                Leaf::Seen(page) => return Ok(LeafRecords::of(&page.lock(), keys)),
                Leaf::Loose(leaf) => {
                    leaf.share();
                    return Ok(LeafRecords::of(&leaf.page.lock(), keys));
                }
            }
        }
    }

    /// The next leaves in a direction, as far as their parent in the cache says: so many, and no
    /// more than so many records take. Of each a key, the first being `key`, and about how many
    /// records are wanted. It may be wrong meanwhile.
    fn next_leaves(
        &self,
        key: u64,
        direction: Direction,
        most: usize,
        records: usize,
    ) -> Vec<(u64, usize)> {
        let children = |body: &PageBody| {
            let first = body.child_for(self.search, key);
            let mut next = Vec::new();
            let mut left = records;
            for step in 0..most {
                let index = match direction {
                    Direction::Up => Some(first + step).filter(|&index| index < body.count()),
                    Direction::Down => first.checked_sub(step),
                };
                let Some(index) = index else { break };
                let fences = body.range_of(index);
                let begin = match (step, direction) {
                    (0, _) => key,
                    (_, Direction::Up) => fences.0,
                    (_, Direction::Down) => fences.1,
                };
                next.push((begin, left));
                let entries = self.entries_of(body.word(index));
                left = left.saturating_sub(records_from(begin, direction, fences, entries));
                if left == 0 {
                    break;
                }
            }
            next
        };
        let alone = || vec![(key, records)];
        match self.walk(key, 1) {
            Ok(Found::Here(parent)) => parent.view.get(children).unwrap_or_else(|_| alone()),
            _ => alone(),
        }
    }

    /// About how many entries a leaf has that a word leads to.
    fn entries_of(&self, word: u64) -> usize {
        let cached = match Child::of_word(word) {
            Child::Cached(id) => self.at(id).view.get(|body| body.count()).ok(),
            Child::Remote(_) => entries_in(word),
        };
        cached.unwrap_or(USUAL_ENTRIES)
    }
}

impl LeafRecords {
    fn of(leaf: &PageBody, keys: &RangeInclusive<u64>) -> LeafRecords {
        let records = leaf.records().filter(|(key, _)| keys.contains(key));
        LeafRecords {
            fences: leaf.lower()..=leaf.upper(),
            records: records.collect(),
        }
    }
}

impl Scan<'_> {
    /// Ends after so many records, and reads the leaves ahead that they take.
    #[must_use]
    pub fn limit(mut self, records: usize) -> Self {
        self.left = Some(records);
        self
    }

    /// The next record.
    ///
    /// # Errors
    /// A memory server does not answer. The same record can be asked for again.
    pub async fn next(&mut self) -> Result<Option<(u64, u64)>> {
        if self.left == Some(0) {
            return Ok(None);
        }
        loop {
            if let Some(record) = self.records.pop_front() {
                self.left = self.left.map(|left| left - 1);
                return Ok(Some(record));
            }
            match (self.rest.clone(), self.next_key()) {
                (Some(keys), Some(first)) => self.read_leaves(&keys, first).await?,
                _ => return Ok(None),
            }
        }
    }

    /// Takes the records of the next leaves, from this key on.
    async fn read_leaves(&mut self, keys: &RangeInclusive<u64>, first: u64) -> Result<()> {
        let (tree, direction) = (self.tree, self.direction);
        let (most, records) = match self.left {
            // Leaves that others change are read whole, and nobody knows what they have.
            Some(left) if tree.options.direct.is_some() => {
                let leaves = left.div_ceil(USUAL_ENTRIES);
                (leaves.min(MOST_AHEAD), usize::MAX)
            }
            Some(left) => (MOST_AHEAD, left + SLACK),
            None => (self.ahead, usize::MAX),
        };
        let mut next = tree.next_leaves(first, direction, most, records);
        next.retain(|(begin, _)| keys.contains(begin));
        let leaves = next.iter().map(|&(begin, records)| async move {
            let keys = match direction {
                Direction::Up => begin..=*keys.end(),
                Direction::Down => *keys.start()..=begin,
            };
            let wanted = Wanted {
                direction,
                keys,
                records,
            };
            tree.leaf_records(begin, &wanted).await
        });
        let leaves = try_join_all(leaves).await?;
        tree.check_lease()?;
        for (&(begin, _), leaf) in next.iter().zip(leaves) {
            // A leaf that was split since its parent was read ends before the next one begins, and
            // so does a part of one.
            if self.next_key() != Some(begin) {
                break;
            }
            self.take(keys, leaf);
            tree.demand.count(begin);
        }
        self.ahead = (2 * self.ahead).min(MOST_AHEAD);
        Ok(())
    }

    /// The key at which the rest begins.
    fn next_key(&self) -> Option<u64> {
        self.rest.as_ref().map(|rest| match self.direction {
            Direction::Up => *rest.start(),
            Direction::Down => *rest.end(),
        })
    }

    fn take(&mut self, keys: &RangeInclusive<u64>, mut leaf: LeafRecords) {
        // A leaf that was merged since its parent was read has keys that came before.
        let rest = self.rest.clone();
        leaf.records
            .retain(|(key, _)| rest.as_ref().is_some_and(|rest| rest.contains(key)));
        let (lower, upper) = leaf.fences.into_inner();
        match self.direction {
            Direction::Up => {
                self.records.extend(leaf.records);
                self.rest = (upper < *keys.end()).then(|| upper + 1..=*keys.end());
            }
            Direction::Down => {
                self.records.extend(leaf.records.into_iter().rev());
                self.rest = (lower > *keys.start()).then(|| *keys.start()..=lower - 1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::fabric::InProcess;
    use crate::tree::{Layout, Options, load};

    /// Two leaves are read at a time; the second is one with the first when its turn comes.
    #[test]
    fn a_leaf_that_was_merged_shows_no_record_twice() {
        let pool = Arc::new(InProcess::new(1, 4 << 20).unwrap());
        let loaded = load(pool.clone(), Layout::default(), []);
        timberline_io::wait_for(loaded).unwrap();
        let options = Options {
            cache_bytes: 256 << 10,
            ..Options::default()
        };
        let tree = timberline_io::wait_for(RemoteTree::open(pool, options)).unwrap();
        let keys = 0..=29;
        let leaf = |fences: RangeInclusive<u64>| LeafRecords {
            records: fences.clone().map(|key| (key, key)).collect(),
            fences,
        };
        for direction in [Direction::Up, Direction::Down] {
            let mut scan = tree.scan_towards(direction, keys.clone()).unwrap();
            let (first, rest) = match direction {
                Direction::Up => (0..=9, 20..=29),
                Direction::Down => (20..=29, 0..=9),
            };
            scan.take(&keys, leaf(first.clone()));
            scan.take(&keys, leaf(*first.start().min(&10)..=*first.end().max(&19)));
            scan.take(&keys, leaf(rest));
            let mut shown: Vec<u64> = scan.records.iter().map(|record| record.0).collect();
            if direction == Direction::Down {
                shown.reverse();
            }
            assert_eq!(shown, (0..30).collect::<Vec<u64>>());
            assert_eq!(scan.next_key(), None);
        }
    }
}
