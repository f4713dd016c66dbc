//! Reading no more of a leaf than it has, or than is asked for.
//!
//! A leaf's entries are one run of words, and its parent tells how many there were
//! ([`child`](crate::child)); the leaf's first words tell how many there are. So a leaf is read as
//! far as it is in use. A scan that begins or ends within a leaf guesses by the fences where its
//! first key is, as if keys were spread evenly, and reads from there on. What it gets is a leaf
//! with narrower fences. If these don't have the key, the leaf is read as a whole.

use std::ops::{Range, RangeInclusive};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use futures_util::future::try_join;
use timberline_tree::btree::page::{Page, PageBody, PageHead};

use super::RemoteTree;
use super::offload::Way;
use super::walk::Missing;
use crate::address::Address;
use crate::error::Result;
use crate::image::LOCK_BYTES;

/// Entries at the beginning of a leaf that are read though nobody asks for them, as without them it
/// takes two reads: the first words, and the entries.
const SPARED: usize = 16;

/// Entries that are read beyond the last that is asked for, if there are no more.
const ROUNDED: usize = 3;

/// What is asked for of a leaf: the records of these keys, or the first so many of them in a
/// direction.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub direction: Direction,
    pub keys: RangeInclusive<u64>,
    pub records: usize,
}

/// Of a scan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Direction {
    Up,
    Down,
}

impl Wanted {
    /// The key at which it begins.
    fn first(&self) -> u64 {
        match self.direction {
            Direction::Up => *self.keys.start(),
            Direction::Down => *self.keys.end(),
        }
    }
}

/// A leaf, or a part of one.
pub(super) struct Read {
    pub page: Page,
    /// How many entries all of it has.
    pub entries: usize,
}

/// How far keys were from where an even spread has them, lately: in 256ths of an entry.
#[derive(Default)]
pub(super) struct Unevenness(AtomicU64);

impl Unevenness {
    const ONE: u64 = 256;
    /// So much of the average is the latest sample: one part in so many.
    const SAMPLES: u64 = 32;

    /// Adds a sample, in entries. One that is added meanwhile by another thread may be lost.
    fn learn(&self, entries: usize) {
        let before = self.0.load(Relaxed);
        let sample = entries as u64 * Self::ONE;
        let after = before - before.div_ceil(Self::SAMPLES) + sample / Self::SAMPLES;
        self.0.store(after, Relaxed);
    }

    /// How many entries to read more on either side of a guess: few guesses are further off.
    fn margin(&self) -> usize {
        1 + (3 * self.0.load(Relaxed)).div_ceil(Self::ONE) as usize
    }
}

/// Where a key is among the entries of a leaf, if keys are spread evenly.
fn place_of(key: u64, missing: &Missing, entries: usize) -> usize {
    let Missing { lower, upper, .. } = *missing;
    let share = key.saturating_sub(lower) as f64 / (upper.saturating_sub(lower) as f64 + 1.0);
    ((share * entries as f64) as usize).min(entries)
}

/// About how many of a leaf's records are at a key or beyond it in a direction.
pub(super) fn records_from(
    key: u64,
    direction: Direction,
    (lower, upper): (u64, u64),
    entries: usize,
) -> usize {
    let all = (upper.saturating_sub(lower) as f64 + 1.0).max(1.0);
    let meant = match direction {
        Direction::Up => upper.saturating_sub(key),
        Direction::Down => key.saturating_sub(lower),
    };
    ((meant as f64 + 1.0) / all * entries as f64).round() as usize
}

/// The entries to read of a leaf that has so many.
fn range_of(wanted: &Wanted, missing: &Missing, entries: usize, margin: usize) -> Range<usize> {
    let at = |key| place_of(key, missing, entries);
    let (start, end) = (*wanted.keys.start(), *wanted.keys.end());
    let (is_first, is_last) = (start <= missing.lower, end >= missing.upper);
    let from = match is_first {
        true => 0,
        false => at(start).saturating_sub(margin),
    };
    let to = match is_last {
        true => entries,
        false => at(end) + 1 + margin,
    };
    // As many records as are wanted; more, if it is guessed where the first of them is.
    let with = |slack| wanted.records.saturating_add(slack);
    let (from, to) = match wanted.direction {
        Direction::Up => {
            let most = with(if is_first { 0 } else { margin });
            (from, to.min(at(start).saturating_add(most)))
        }
        Direction::Down => {
            let most = with(if is_last { 0 } else { 1 + margin });
            (from.max(to.min(entries).saturating_sub(most)), to)
        }
    };
    let from = if from < SPARED { 0 } else { from };
    let to = if to + ROUNDED >= entries { entries } else { to };
    from.min(entries)..to
}

impl RemoteTree {
    /// Reads a node that a walk missed, or the part of a leaf that is wanted. The caller has its
    /// flight.
    ///
    /// # Errors
    /// The memory server does not answer, or has no node there.
    pub(super) async fn read_missing(
        &self,
        missing: &Missing,
        wanted: Option<&Wanted>,
    ) -> Result<Read> {
        let may_be_mixed = missing.height > 0 || self.shares_leaves();
        if let Some(entries) = missing.entries.filter(|_| !may_be_mixed) {
            let read = match wanted {
                Some(wanted) => self.read_part(missing, entries, wanted).await?,
                None => self.read_in_use(missing.address, entries).await?,
            };
            if let Some(read) = read {
                return Ok(read);
            }
        }
        let page = self.read_node(missing.address, missing.height).await?;
        let entries = page.lock().count();
        Ok(Read { page, entries })
    }

    /// Reads the part of a leaf that is wanted, which had so many entries. `None`: it is no leaf.
    async fn read_part(
        &self,
        missing: &Missing,
        entries: usize,
        wanted: &Wanted,
    ) -> Result<Option<Read>> {
        let range = range_of(wanted, missing, entries, self.unevenness.margin());
        let (head, words) = self.read_entries(missing.address, range.clone()).await?;
        let Ok(head) = PageHead::of(&head) else {
            return Ok(None);
        };
        let first = wanted.first();
        let part = head.part(range.start, &words).ok();
        let part = part.filter(|page| page.lock().covers(first));
        let entries = head.count();
        let (read, begin) = match part {
            Some(page) => (Some(Read { page, entries }), range.start),
            None => (self.read_in_use(missing.address, entries).await?, 0),
        };
        if let Some(Read { page, .. }) = &read
            && first > missing.lower
            && first < missing.upper
        {
            let before = |&(key, _): &(u64, u64)| key < first;
            let place = begin + page.lock().records().take_while(before).count();
            let guessed = place_of(first, missing, entries);
            self.unevenness.learn(place.abs_diff(guessed));
        }
        Ok(read)
    }

    /// Reads a leaf that had so many entries. `None`: it is no leaf.
    async fn read_in_use(&self, at: Address, entries: usize) -> Result<Option<Read>> {
        let (head, mut words) = self.read_entries(at, 0..entries).await?;
        let Ok(head) = PageHead::of(&head) else {
            return Ok(None);
        };
        if head.count() > entries {
            let rest = entries..head.count();
            words.extend(self.read_words_of(at, rest).await?);
        }
        let page = head.part(0, &words).ok();
        let entries = head.count();
        Ok(page.map(|page| Read { page, entries }))
    }

    /// Reads the words before a leaf's entries, and those of some entries.
    async fn read_entries(&self, at: Address, range: Range<usize>) -> Result<(Vec<u64>, Vec<u64>)> {
        let read = async {
            let head_words = PageHead::WORDS - 1;
            let (mut head, words) = if range.start == 0 {
                let words = head_words + 2 * range.end;
                let mut head = self.connection.read(at.add(LOCK_BYTES), words).await?;
                let words = head.split_off(head_words);
                (head, words)
            } else {
                let head = self.connection.read(at.add(LOCK_BYTES), head_words);
                try_join(head, self.read_words_of(at, range)).await?
            };
            // In place of the lock.
            head.insert(0, 0);
            Ok((head, words))
        };
        let timed = self.offloading.timed(Way::Read, at, &self.connection, read);
        timed.await
    }

    async fn read_words_of(&self, at: Address, range: Range<usize>) -> Result<Vec<u64>> {
        let first = 8 * PageBody::image_index(range.start) as u64;
        self.connection.read(at.add(first), 2 * range.len()).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MISSING: Missing = Missing {
        address: Address::new(0, 1 << 20),
        height: 0,
        lower: 1_000,
        upper: 1_399,
        entries: Some(40),
    };

    fn range(direction: Direction, keys: RangeInclusive<u64>, records: usize) -> Range<usize> {
        let wanted = Wanted {
            direction,
            keys,
            records,
        };
        range_of(&wanted, &MISSING, 40, 2)
    }

    #[test]
    fn what_is_wanted_is_within_the_range() {
        use Direction::{Down, Up};
        const ALL: usize = usize::MAX;
        // Of 40 entries, one for each ten keys.
        for (direction, keys, records, expected) in [
            (Up, 1_000..=9_999, ALL, 0..40),
            (Up, 1_000..=9_999, 20, 0..20),
            (Up, 1_000..=9_999, 38, 0..40),
            (Up, 1_200..=9_999, ALL, 18..40),
            (Up, 1_200..=9_999, 5, 18..27),
            (Up, 1_200..=1_300, ALL, 18..33),
            (Up, 1_100..=9_999, ALL, 0..40),
            (Up, 0..=u64::MAX, 0, 0..0),
            (Down, 0..=1_399, ALL, 0..40),
            (Down, 0..=1_399, 10, 30..40),
            (Down, 0..=1_299, 5, 24..32),
            (Down, 1_250..=1_299, ALL, 23..32),
            (Down, 0..=1_100, ALL, 0..13),
            (Down, 0..=u64::MAX, 30, 0..40),
        ] {
            let shown = format!("{direction:?} {keys:?} {records}");
            assert_eq!(range(direction, keys, records), expected, "{shown}");
        }
    }

    #[test]
    fn guesses_that_are_off_widen_the_margin() {
        let unevenness = Unevenness::default();
        assert_eq!(unevenness.margin(), 1);
        for _ in 0..1_000 {
            unevenness.learn(4);
        }
        assert!((10..=14).contains(&unevenness.margin()));
        for _ in 0..1_000 {
            unevenness.learn(0);
        }
        assert_eq!(unevenness.margin(), 1);
    }

    #[test]
    fn records_are_estimated_by_keys() {
        use Direction::{Down, Up};
        let of = |key, direction| records_from(key, direction, (1_000, 1_399), 40);
        assert_eq!((of(1_000, Up), of(1_399, Down)), (40, 40));
        assert_eq!((of(1_300, Up), of(1_300, Down)), (10, 30));
        assert_eq!(records_from(7, Up, (0, u64::MAX), 40), 40);
    }
}
