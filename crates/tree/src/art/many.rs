//! Looking up many keys at once, so that their cache misses overlap.
//!
//! In plain memory, keys are looked up in groups (group prefetching: Chen, Ailamaki, Gibbons,
//! Mowry, ICDE 2004): one step of all of them, then the next, until each has found its record. A
//! step reads one node, the first one two, and prefetches the key's next one. All start from one
//! snapshot of a node: the lowest to which the bytes lead that all have in common. If a writer
//! interferes, the key is looked up alone.
//!
//! In emulated memory, or if the value is not in the leaf, each [`Lookup`] takes a step whenever
//! its prefetch has arrived.

use std::task::Poll;

use smallvec::SmallVec;
use timberline_sync::Restart;
use timberline_sync::epoch::Guard;
use timberline_tier::Memory;

use super::find::Cursor;
use super::get::Lookup;
use super::node::{Direct, Inner, Link, Reach, word_at};
use super::tree::Tree;
use crate::traverse::MAX_DEPTH;
use crate::value::{Loan, Represent, fetch_each};

/// A key and the state of its lookup.
struct Asked<'t, B, R> {
    key: B,
    /// The node last read, if it was read at a version.
    parent: Option<Inner<'t, R>>,
    /// The link below, whose target was prefetched; none once the lookup has ended.
    child: Link<'t>,
    /// The number of key bytes that lead there.
    depth: usize,
}

impl<'t, B: AsRef<[u8]>, R: Reach> Asked<'t, B, R> {
    /// One that is to start.
    #[inline(always)]
    fn new(key: B) -> Self {
        Asked {
            key,
            parent: None,
            child: Link::NONE,
            depth: 0,
        }
    }

    /// Reads a node, and prefetches the key's next one.
    #[inline(always)]
    fn read<M: Memory>(
        &mut self,
        tree: &Tree<M, R>,
        node: Inner<'t, R>,
    ) -> Result<Poll<Option<Cursor<'t>>>, Restart> {
        let key = self.key.as_ref();
        let (child, depth, _) = node.child_for(key, self.depth)?;
        if child.is_none() {
            return Ok(Poll::Ready(None));
        }
        tree.prefetch_plainly(child, key, depth);
        (self.parent, self.child, self.depth) = (Some(node), child, depth);
        Ok(Poll::Pending)
    }

    /// Reads an entry of a node without its version, if what it leads to can be read so.
    #[inline(always)]
    fn read_directly<M: Memory>(
        &mut self,
        tree: &Tree<M, R>,
        direct: Direct<'t>,
    ) -> Result<Poll<Option<Cursor<'t>>>, Restart> {
        let key = self.key.as_ref();
        if let Some(&byte) = key.get(self.depth) {
            let child = direct.child(tree.base, byte);
            if child.is_none() {
                return Ok(Poll::Ready(None));
            }
            if !child.needs_versions() {
                self.depth += 1;
                tree.prefetch_plainly(child, key, self.depth);
                (self.parent, self.child) = (None, child);
                return Ok(Poll::Pending);
            }
        }
        let node = tree.enter_direct(direct)?;
        self.read(tree, node)
    }

    /// Reads the first node, to which so many of the key's bytes lead, and of those below it the
    /// next, too, which are in the caches: at most 256 small nodes, or an entry of each.
    #[inline(always)]
    fn start<M: Memory>(
        &mut self,
        tree: &Tree<M, R>,
        (first, depth): (Inner<'t, R>, usize),
    ) -> Result<Poll<Option<Cursor<'t>>>, Restart> {
        self.depth = depth;
        let Some(top) = first.link().direct() else {
            let met = self.read(tree, first)?;
            if met.is_pending()
                && let Some(below) = self.child.small()
            {
                let below = below.read(tree.base)?;
                first.validate()?;
                return self.read(tree, below);
            }
            return Ok(met);
        };
        if let Some(&byte) = self.key.as_ref().get(depth)
            && let Some(below) = top.child(tree.base, byte).direct()
        {
            self.depth += 1;
            return self.read_directly(tree, below);
        }
        self.read_directly(tree, top)
    }

    /// Reads the node that was prefetched.
    #[inline(always)]
    fn step<M: Memory>(
        &mut self,
        tree: &'t Tree<M, R>,
    ) -> Result<Poll<Option<Cursor<'t>>>, Restart> {
        let (parent, child, key) = (self.parent, self.child, self.key.as_ref());
        let validate = || parent.map_or(Ok(()), |parent| parent.validate());
        // First what most nodes are on the way of a string.
        if let Some(link) = child.small() {
            let node = link.read(tree.base)?;
            validate()?;
            return self.read(tree, node);
        }
        if let Some(direct) = child.direct() {
            return self.read_directly(tree, direct);
        }
        if let Some(link) = child.inner() {
            let node = link.read(tree.base)?;
            validate()?;
            return self.read(tree, node);
        }
        let cursor = match child.leaf(tree.base) {
            Some(leaf) => tree.arrive(leaf, key),
            None => {
                let shared = child.shared(tree.base).ok_or(Restart)?;
                tree.look_in(shared, key, validate)?.ok()
            }
        };
        Ok(Poll::Ready(cursor))
    }

    /// Whether the lookup has ended: then `found` gets the record's place.
    #[inline(always)]
    fn settle<M: Memory>(
        &mut self,
        tree: &'t Tree<M, R>,
        guard: &'t Guard<'_>,
        met: Result<Poll<Option<Cursor<'t>>>, Restart>,
        found: impl FnOnce(Option<Cursor<'t>>),
    ) -> bool {
        let cursor = match met {
            Ok(Poll::Pending) => return false,
            Ok(Poll::Ready(cursor)) => cursor,
            Err(Restart) => tree.find_patiently(self.key.as_ref(), guard),
        };
        self.child = Link::NONE;
        found(cursor);
        true
    }
}

impl<M: Memory, R: Reach> Tree<M, R> {
    /// Calls `found` with each key's position and value, `depth` lookups at a time, while the
    /// thread is pinned.
    pub fn get_each<H: Represent, B: AsRef<[u8]>>(
        &self,
        keys: impl Iterator<Item = B>,
        depth: usize,
        mut found: impl FnMut(usize, Option<Loan<'_>>),
    ) {
        let guard = &self.store.pin();
        if M::CHARGES || H::IN_BLOCKS {
            let lookups = keys.map(|key| Lookup::new(self, key, guard, guard));
            return fetch_each::<H, _>(self.memory(), depth, lookups, found);
        }
        self.find_each(guard, keys, depth, |at, cursor| {
            found(at, cursor.and_then(|cursor| self.read(cursor, guard)));
        });
    }

    /// The same in plain memory, with each record's place, as long as the thread is pinned.
    #[inline(always)]
    pub(super) fn find_each<'g, B: AsRef<[u8]>>(
        &'g self,
        guard: &'g Guard<'_>,
        mut keys: impl Iterator<Item = B>,
        depth: usize,
        mut found: impl FnMut(usize, Option<Cursor<'g>>),
    ) {
        let depth = depth.clamp(1, MAX_DEPTH);
        let mut group = SmallVec::<[_; MAX_DEPTH]>::new();
        let mut first = 0;
        loop {
            group.extend(keys.by_ref().take(depth).map(Asked::new));
            let top = match group.len() {
                0 => return,
                1 => None,
                _ => self.top_of(guard, &group),
            };
            let Some(top) = top else {
                for (at, asked) in (first..).zip(&group) {
                    found(at, self.find_patiently(asked.key.as_ref(), guard));
                }
                first += group.len();
                group.clear();
                continue;
            };
            for (at, asked) in (first..).zip(&mut group) {
                let met = asked.start(self, top);
                asked.settle(self, guard, met, |value| found(at, value));
            }
            let mut is_over = false;
            while !is_over {
                is_over = true;
                for (at, asked) in (first..).zip(&mut group) {
                    if !asked.child.is_none() {
                        let met = asked.step(self);
                        is_over &= asked.settle(self, guard, met, |value| found(at, value));
                    }
                }
            }
            first += group.len();
            group.clear();
        }
    }

    /// The lowest inner node to which bytes lead that all of these keys begin with, and how many
    /// lead there. None where there is one node at most, or a writer has locked the root.
    #[inline(always)]
    fn top_of<'g, B: AsRef<[u8]>>(
        &'g self,
        guard: &'g Guard<'_>,
        group: &[Asked<'g, B, R>],
    ) -> Option<(Inner<'g, R>, usize)> {
        let mut node = self.top_inner(self.store.pinned(guard)).ok()??;
        let (first, others) = group.split_first()?;
        let (first, others) = (first.key.as_ref(), others.iter().map(|it| it.key.as_ref()));
        let shared = &first[..alike(first, others)];
        let mut depth = 0;
        // At the end of these bytes, keys may go on in many ways.
        while depth < shared.len()
            && let Ok((child, below @ 1.., _)) = node.child_for(shared, depth)
            && let Some(link) = child.inner()
            && let Ok(next) = link.read(self.base)
            && node.validate().is_ok()
        {
            (node, depth) = (next, below);
        }
        Some((node, depth))
    }
}

/// How many bytes all of these keys begin with.
#[inline(always)]
fn alike<'k>(first: &[u8], others: impl Iterator<Item = &'k [u8]> + Clone) -> usize {
    let least = others
        .clone()
        .map(<[u8]>::len)
        .fold(first.len(), usize::min);
    let mut at = 0;
    while at < least {
        let word = word_at(first, at);
        let differ = others
            .clone()
            .fold(0, |bits, it| bits | (word ^ word_at(it, at)));
        at += differ.trailing_zeros() as usize / 8;
        if differ != 0 {
            break;
        }
    }
    at.min(least)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::alike;
    use crate::Art;

    #[test]
    fn what_all_keys_begin_with_is_as_long_as_it_can_be() {
        for (keys, shared) in [
            (&["a"][..], 1),
            (&["", "a"], 0),
            (&["b", "a"], 0),
            (&["pear", "pea", "pearl"], 3),
            (&["12345678", "12345678"], 8),
            (&["123456789a", "123456789b", "1234567890"], 9),
            (&["12345678 one", "12345678 other", "12345678"], 8),
            (&["a long key\0", "a long key", "a long key\0\0"], 10),
        ] {
            for turn in 0..keys.len() {
                let mut keys: Vec<&[u8]> = keys.iter().map(|it| it.as_bytes()).collect();
                keys.rotate_left(turn);
                assert_eq!(
                    alike(keys[0], keys[1..].iter().copied()),
                    shared,
                    "{keys:?}"
                );
            }
        }
    }

    /// Keys that begin alike, of which some are there, some end where others go on, and some differ
    /// where all others are alike.
    #[test]
    fn groups_find_what_is_there() {
        let mut state = 7u64;
        let mut draw = |below: usize| {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            (state >> 33) as usize % below
        };
        for letters in [2, 12, 60, 256] {
            let (map, mut model) = (Art::<[u8], u64>::new(), BTreeMap::new());
            for round in 0..300u64 {
                let begin = &b"what they have in common, more than a node knows"
                    [..[0, 0, 1, 3, 8, 13, 48][draw(7)]];
                let keys: Vec<Vec<u8>> = (0..1 + draw(40))
                    .map(|_| {
                        let end = (0..draw(5)).map(|_| (b'0' as usize + draw(letters)) as u8);
                        let end: Vec<u8> = end.collect();
                        let mut key = [begin, &end].concat();
                        if !key.is_empty() && draw(50) == 0 {
                            let at = draw(key.len());
                            key[at] ^= 1;
                        }
                        key
                    })
                    .collect();
                for (key, value) in keys.iter().zip(100 * round..) {
                    if draw(2) == 0 {
                        map.insert(key, value).expect("there is memory");
                        model.insert(key.clone(), value);
                    }
                    if draw(20) == 0 {
                        map.remove(key);
                        model.remove(key);
                    }
                }
                let asked: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
                let (held, mut found) = (map.hold(), vec![None; asked.len()]);
                map.find_many(&held, &asked, &mut found);
                let mut values = vec![None; asked.len()];
                map.get_many(&asked, &mut values);
                for (at, key) in keys.iter().enumerate() {
                    let expected = model.get(key).copied();
                    assert_eq!(found[at].map(|it| it.0), expected, "{key:?}");
                    assert_eq!(values[at], expected, "{key:?}");
                }
            }
        }
    }
}
