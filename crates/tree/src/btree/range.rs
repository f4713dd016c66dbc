//! The records of a range, from both ends.

use std::collections::VecDeque;
use std::iter::FusedIterator;
use std::marker::PhantomData;

use timberline_tier::Memory;

use super::choice::Choice;
use super::scan::{Record, Span};
use crate::key::{from_word, to_word};
use crate::map::Shared;
use crate::range::Approach;
use crate::value::{Loan, owned};
use crate::{Key, Records, Value};

/// A [`BTree`](super::BTree)'s tree.
type Tree<K, V, M, const WORDS: usize> = Choice<K, M, WORDS, <V as Value>::Representation>;

/// An iterator over the records of a range, from both ends. See
/// [`BTree::range`](super::BTree::range).
pub struct Range<K: Key + ?Sized, V: Value, M: Memory, const WORDS: usize>(Of<K, V, M, WORDS>);

enum Of<K: Key + ?Sized, V: Value, M: Memory, const WORDS: usize> {
    Words(Words<K, V, M, WORDS>),
    Strings(Records<K, V, Tree<K, V, M, WORDS>>),
}

impl<K: Key + ?Sized, V: Value, M: Memory, const WORDS: usize> Range<K, V, M, WORDS> {
    pub(super) fn words(tree: Shared<Tree<K, V, M, WORDS>>, span: Span) -> Self {
        Range(Of::Words(Words::new(tree, span)))
    }

    pub(super) fn strings(records: Records<K, V, Tree<K, V, M, WORDS>>) -> Self {
        Range(Of::Strings(records))
    }

    /// Skips records from the front, up to the first with a key that is not less than `key`.
    /// Skipped leaves are not visited.
    ///
    /// ```
    /// let map: timberline::BTree<u64, u64> = (0..1_000).map(|key| (key, key)).collect();
    /// let mut range = map.range(..);
    /// range.seek(&500);
    /// assert_eq!(range.next(), Some((500, 500)));
    /// ```
    pub fn seek(&mut self, key: &K::Borrowed) {
        match &mut self.0 {
            Of::Words(words) => words.seek(to_word(key)),
            Of::Strings(records) => records.seek(key),
        }
    }
}

impl<K: Key + ?Sized, V: Value, M: Memory, const WORDS: usize> Iterator for Range<K, V, M, WORDS> {
    type Item = (K::Owned, V);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            Of::Words(words) => words.next(),
            Of::Strings(records) => records.next(),
        }
    }
}

impl<K: Key + ?Sized, V: Value, M: Memory, const WORDS: usize> DoubleEndedIterator
    for Range<K, V, M, WORDS>
{
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            Of::Words(words) => words.next_back(),
            Of::Strings(records) => records.next_back(),
        }
    }
}

impl<K: Key + ?Sized, V: Value, M: Memory, const WORDS: usize> FusedIterator
    for Range<K, V, M, WORDS>
{
}

impl<K: Key + ?Sized, V: Value, M: Memory, const WORDS: usize> Approach for Range<K, V, M, WORDS> {
    async fn approach(&self) {
        match &self.0 {
            Of::Words(words) => words.approach().await,
            Of::Strings(records) => records.approach().await,
        }
    }
}

/// The same of a tree of words, which copies a leaf at a time.
struct Words<K: Key + ?Sized, V: Value, M: Memory, const WORDS: usize> {
    tree: Shared<Tree<K, V, M, WORDS>>,
    /// Records copied ahead of the front.
    front: VecDeque<(u64, V)>,
    /// Records copied behind the back.
    back: VecDeque<(u64, V)>,
    /// The keys in between, not read yet.
    unread: Span,
    /// Where a leaf is copied to.
    leaf: Vec<Record<'static>>,
    typed: PhantomData<fn(Box<K>)>,
}

impl<K: Key + ?Sized, V: Value, M: Memory, const WORDS: usize> Words<K, V, M, WORDS> {
    fn new(tree: Shared<Tree<K, V, M, WORDS>>, span: Span) -> Self {
        let (front, back) = (VecDeque::new(), VecDeque::new());
        Words {
            tree,
            front,
            back,
            unread: span,
            leaf: Vec::new(),
            typed: PhantomData,
        }
    }

    fn seek(&mut self, key: u64) {
        for copied in [&mut self.front, &mut self.back] {
            while copied.front().is_some_and(|(first, _)| *first < key) {
                copied.pop_front();
            }
        }
        self.unread.first = self.unread.first.max(key);
    }

    fn typed((key, value): (u64, V)) -> (K::Owned, V) {
        (from_word::<K>(key), value)
    }

    fn next(&mut self) -> Option<(K::Owned, V)> {
        while self.front.is_empty() && !self.unread.is_empty() {
            let tree = self.tree.words();
            let take = |key, value: Loan<'_>| {
                let value = owned(tree.memory(), value);
                self.front.push_back((key, value));
            };
            let (_, upper) = tree.copy_leaf(self.unread.first, self.unread, &mut self.leaf, take);
            self.unread = self.unread.after(upper);
        }
        let next = self.front.pop_front().or_else(|| self.back.pop_front());
        next.map(Self::typed)
    }

    fn next_back(&mut self) -> Option<(K::Owned, V)> {
        while self.back.is_empty() && !self.unread.is_empty() {
            let tree = self.tree.words();
            let take = |key, value: Loan<'_>| {
                let value = owned(tree.memory(), value);
                self.back.push_back((key, value));
            };
            let (lower, _) = tree.copy_leaf(self.unread.last, self.unread, &mut self.leaf, take);
            self.unread = self.unread.before(lower);
        }
        let next = self.back.pop_back().or_else(|| self.front.pop_back());
        next.map(Self::typed)
    }

    async fn approach(&self) {
        if self.front.is_empty() && !self.unread.is_empty() {
            self.tree.words().approach(self.unread.first).await;
        }
    }
}
