//! Entries of a map in order, from either end.

use std::collections::VecDeque;

use futures_util::future::try_join_all;

use super::super::Records;
use super::node::{Child, Entry, View};
use super::{AT_A_TIME, PagedMap};
use crate::error::Result;

/// Entries of a range of a map in order. It reads up to 16 pages ahead once it has read some.
pub struct Walk<'a> {
    records: &'a Records,
    from: Vec<u8>,
    to: Option<Vec<u8>>,
    backwards: bool,
    pages: VecDeque<Ahead>,
    entries: VecDeque<Entry>,
    at_a_time: usize,
    /// Entries that are passed over before the next one.
    passed: u64,
}

/// A page that is to be read.
struct Ahead {
    child: Child,
    level: u8,
    /// Whether all of it is in the range.
    is_inside: bool,
}

impl Records {
    /// The entries of a map whose keys are at least `from`, and below `to`; the last ones first if
    /// they are wanted backwards.
    pub fn walk(
        &self,
        map: &PagedMap,
        from: &[u8],
        to: Option<&[u8]>,
        backwards: bool,
    ) -> Walk<'_> {
        let mut walk = Walk {
            records: self,
            from: from.into(),
            to: to.map(Into::into),
            backwards,
            pages: VecDeque::new(),
            entries: VecDeque::new(),
            at_a_time: 1,
            passed: 0,
        };
        walk.expand(map.bytes(), false);
        walk
    }
}

impl Walk<'_> {
    /// The next entry.
    ///
    /// # Errors
    /// As [`Records::get_in`].
    pub async fn next(&mut self) -> Result<Option<Entry>> {
        loop {
            let passed = self.entries.len().min(self.passed as usize);
            self.entries.drain(..passed);
            self.passed -= passed as u64;
            if let Some(entry) = self.entries.pop_front() {
                return Ok(Some(entry));
            }
            match self.pages.front() {
                Some(page) if page.is_inside && page.child.count <= self.passed => {
                    self.passed -= page.child.count;
                    self.pages.pop_front();
                }
                Some(_) => self.read().await?,
                None => return Ok(None),
            }
        }
    }

    /// Passes over so many of the entries that come next: O(height) reads.
    pub fn pass(&mut self, entries: u64) {
        self.passed = self.passed.saturating_add(entries);
    }

    /// How many entries come: O(height) reads.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    pub async fn count(mut self) -> Result<u64> {
        let mut count = 0;
        loop {
            count += self.entries.drain(..).len() as u64;
            match self.pages.front() {
                Some(page) if page.is_inside => {
                    count += page.child.count;
                    self.pages.pop_front();
                }
                Some(_) => self.read_some(1).await?,
                None => return Ok(count.saturating_sub(self.passed)),
            }
        }
    }

    async fn read(&mut self) -> Result<()> {
        let leaves = self.pages.iter().take_while(|it| it.level == 0);
        let some = leaves.take(self.at_a_time).count();
        if some > 0 {
            self.at_a_time = (2 * self.at_a_time).min(AT_A_TIME);
        }
        self.read_some(some.max(1)).await
    }

    /// Reads the first pages: one, or leaves.
    async fn read_some(&mut self, some: usize) -> Result<()> {
        let some: Vec<Ahead> = self.pages.drain(..some).collect();
        let read = some.iter().map(|it| self.records.read_page(it.child.page));
        for (page, bytes) in some.iter().zip(try_join_all(read).await?) {
            self.expand(&bytes, page.is_inside);
        }
        Ok(())
    }

    /// Goes on with what is in a node.
    fn expand(&mut self, node: &[u8], is_inside: bool) {
        let view = View::of(node);
        let (from, to) = (&self.from[..], self.to.as_deref());
        let Some(level) = view.level.checked_sub(1) else {
            let entries = view.entries();
            let entries = entries.filter(|it| it.0 >= from && to.is_none_or(|to| it.0 < to));
            let mut entries: Vec<Entry> =
                entries.map(|it| (it.0.to_vec(), it.1.to_vec())).collect();
            if self.backwards {
                entries.reverse();
            }
            return self.entries.extend(entries);
        };
        let mut pages = Vec::new();
        let mut children = view.children().enumerate().peekable();
        while let Some((number, (least, child))) = children.next() {
            let end = children.peek().map(|it| it.1.0);
            // The first child may have keys below what it says.
            let is_before = end.is_some_and(|end| end <= from);
            let is_behind = number > 0 && to.is_some_and(|to| least >= to);
            if is_before || is_behind {
                continue;
            }
            let begins = is_inside || from.is_empty() || number > 0 && least >= from;
            let ends = is_inside || to.is_none_or(|to| end.is_some_and(|end| end <= to));
            pages.push(Ahead {
                child,
                level,
                is_inside: begins && ends,
            });
        }
        if !self.backwards {
            pages.reverse();
        }
        // In front of all others, the nearest one last.
        pages.into_iter().for_each(|it| self.pages.push_front(it));
    }
}
