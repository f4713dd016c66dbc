//! Looking up many keys, so that the waits for their leaves overlap.
//!
//! On this machine's memory, a lookup has two steps: down to the leaf's parent at once, as most of
//! the inner nodes are in the caches, and then the leaf, which was asked for meanwhile. Little has
//! to be kept between the two, and keys finish in their order. Where the memory is emulated, or the
//! value is not in the leaf, each [`Lookup`] takes as many steps as it has to wait.

use timberline_placement::Access;
use timberline_sync::Restart;
use timberline_sync::epoch::Guard;
use timberline_tier::Memory;

use super::descent::{Descent, LeafAtOnce, Met};
use super::get::Lookup;
use super::node::{Lanes, Link, Share, View, Work};
use super::payload::Values;
use super::tree::Tree;
use crate::traverse::MAX_DEPTH;
use crate::value::{Loan, Represent, fetch_each};

/// Looks up many keys.
struct Each<'t, M: Memory, const WORDS: usize, H: Represent, K, F> {
    tree: &'t Tree<M, WORDS, Values<H>>,
    keys: K,
    depth: usize,
    found: F,
}

impl<M, const WORDS: usize, H, K, F> Work for Each<'_, M, WORDS, H, K, F>
where
    M: Memory,
    H: Represent,
    K: Iterator<Item = u64>,
    F: FnMut(usize, Option<Loan<'_>>),
{
    type Output = ();

    #[inline(always)]
    fn run(mut self, lanes: impl Lanes) {
        let tree = self.tree;
        let guard = &tree.store.pin();
        let mut found = |at, word: Option<u64>| {
            (self.found)(at, word.map(|word| Loan::new(word, guard)));
        };
        if M::CHARGES || H::IN_BLOCKS || tree.has_copies() {
            let look_up = |key| Lookup::new(tree, key, guard, guard, lanes);
            return fetch_each::<H, _>(tree.memory(), self.depth, self.keys.map(look_up), found);
        }
        let depth = self.depth.clamp(1, MAX_DEPTH);
        let mut ring = [const { None }; MAX_DEPTH];
        let (mut at, mut begun) = (0, 0);
        for key in self.keys {
            let place = &mut ring[at];
            if let Some(asked) = place.replace(Asked::new(tree, lanes, key, guard)) {
                found(begun - depth, asked.finish(tree, lanes, guard));
            }
            begun += 1;
            at = if at + 1 < depth { at + 1 } else { 0 };
        }
        // The oldest comes first: behind the youngest, if the ring is full.
        let waiting = begun.min(depth);
        let oldest = if begun > depth { at } else { 0 };
        for (index, asked) in (begun - waiting..).zip(0..waiting) {
            let asked = ring[(oldest + asked) % depth].take();
            let asked = asked.expect("as many wait");
            found(index, asked.finish(tree, lanes, guard));
        }
    }
}

/// A key whose leaf was asked for.
struct Asked<'t, const WORDS: usize> {
    key: u64,
    /// The leaf's parent, and the leaf; `None` if there is no parent, or a writer got in between.
    leaf: Option<(View<'t, WORDS>, Link<'t, WORDS>)>,
    /// The key's part of the leaf's range.
    share: Share,
}

impl<'t, const WORDS: usize> Asked<'t, WORDS> {
    #[inline(always)]
    fn new<M: Memory, H: Represent>(
        tree: &'t Tree<M, WORDS, Values<H>>,
        lanes: impl Lanes,
        key: u64,
        guard: &'t Guard<'t>,
    ) -> Self {
        let mut descent = Descent::<_, _, _, LeafAtOnce, _>::new(tree, key, guard, lanes);
        let leaf = loop {
            match (descent.advance(), descent.below) {
                (Ok(Met::Inner), Some((parent, leaf))) if leaf.height() == 0 => {
                    break Some((parent, leaf));
                }
                (Ok(Met::Inner), _) => {}
                _ => break None,
            }
        };
        let share = descent.share;
        Asked { key, leaf, share }
    }

    #[inline(always)]
    fn finish<M: Memory, H: Represent>(
        self,
        tree: &Tree<M, WORDS, Values<H>>,
        lanes: impl Lanes,
        guard: &Guard,
    ) -> Option<u64> {
        let Asked { key, leaf, share } = self;
        let look_up = || {
            let (parent, link) = leaf.ok_or(Restart)?;
            let leaf = *link.try_read()?;
            parent.validate()?;
            let found = leaf.get(|body| tree.look_up(lanes, body, key, share))?;
            tree.note(leaf, Access::Reuse, guard);
            Ok(found)
        };
        look_up().unwrap_or_else(|Restart| tree.get_patiently(key, guard))
    }
}

impl<M: Memory, const WORDS: usize, H: Represent> Tree<M, WORDS, Values<H>> {
    /// Gives `found` each key's position and value, `depth` lookups at a time. It is called with
    /// the thread pinned.
    pub fn get_each(
        &self,
        keys: impl Iterator<Item = u64>,
        depth: usize,
        found: impl FnMut(usize, Option<Loan<'_>>),
    ) {
        self.search.run(Each {
            tree: self,
            keys,
            depth,
            found,
        });
    }
}
