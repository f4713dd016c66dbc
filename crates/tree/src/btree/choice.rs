//! The tree of a [`BTree`](super::BTree), which its keys choose: nodes of words for keys of a fixed
//! length of up to eight bytes, nodes of byte strings for all others.
//!
//! The choice is a constant of the key type, so each method has one of both trees in it, and does
//! not ask which one it is: that would cost a lookup seven instructions.
#![allow(unsafe_code)]

use std::hint::unreachable_unchecked;
use std::marker::PhantomData;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use timberline_placement::{
    Compaction, Fill, KeyBytes, LeafRef, Move, NodeKey, Placement, RecordCache, Relocate, Walk,
};
use timberline_sync::epoch::Domain;
use timberline_tier::{CompactionCandidates, Memory, OutOfMemory, TierId};

use super::payload::Values;
use super::scan::Span;
use super::tree::Tree;
use crate::Key;
use crate::key::{bytes_of_word, fits};
use crate::range::{Ordered, Way};
use crate::strings;
use crate::value::{Loan, Represent};

/// See the [module's text](self).
pub struct Choice<K: ?Sized, M: Memory, const WORDS: usize, H: Represent> {
    tree: Which<M, WORDS, H>,
    keys: PhantomData<fn(&K)>,
}

enum Which<M: Memory, const WORDS: usize, H: Represent> {
    Words(Tree<M, WORDS, Values<H>>),
    Strings(strings::Tree<M, WORDS, H>),
}

/// The one or the other.
pub(super) enum Chosen<'t, M: Memory, const WORDS: usize, H: Represent> {
    Words(&'t Tree<M, WORDS, Values<H>>),
    Strings(&'t strings::Tree<M, WORDS, H>),
}

impl<K: Key + ?Sized, M: Memory, const WORDS: usize, H: Represent> Choice<K, M, WORDS, H> {
    /// Whether nodes are of words.
    pub(super) const OF_WORDS: bool = fits(K::LEN);
    /// Bytes of a node.
    pub(super) const BYTES: usize = match Self::OF_WORDS {
        true => Tree::<M, WORDS, Values<H>>::BYTES,
        false => strings::Tree::<M, WORDS, H>::BYTES,
    };

    pub(super) fn new(
        memory: M,
        placement: Arc<dyn Placement>,
        domain: Domain,
    ) -> Result<Self, OutOfMemory> {
        let tree = match Self::OF_WORDS {
            true => Which::Words(Tree::new(memory, placement, domain)?),
            false => Which::Strings(strings::Tree::new(memory, placement, domain)?),
        };
        let keys = PhantomData;
        Ok(Choice { tree, keys })
    }

    #[inline(always)]
    pub(super) fn chosen(&self) -> Chosen<'_, M, WORDS, H> {
        match Self::OF_WORDS {
            true => Chosen::Words(self.words()),
            false => Chosen::Strings(self.strings()),
        }
    }

    /// The tree of words, for keys that have one.
    #[inline(always)]
    pub(crate) fn words(&self) -> &Tree<M, WORDS, Values<H>> {
        assert!(Self::OF_WORDS, "keys fit no word");
        match &self.tree {
            Which::Words(tree) => tree,
            // SAFETY: `new` makes what this constant says, and nothing else makes or changes it.
            Which::Strings(_) => unsafe { unreachable_unchecked() },
        }
    }

    /// The tree of byte strings, for keys that have one.
    #[inline(always)]
    fn strings(&self) -> &strings::Tree<M, WORDS, H> {
        assert!(!Self::OF_WORDS, "keys fit a word");
        match &self.tree {
            Which::Strings(tree) => tree,
            // SAFETY: as above.
            Which::Words(_) => unsafe { unreachable_unchecked() },
        }
    }
}

impl<K: Key + ?Sized, M: Memory, const WORDS: usize, H: Represent> Ordered
    for Choice<K, M, WORDS, H>
{
    type Memory = M;

    fn memory(&self) -> &M {
        match self.chosen() {
            Chosen::Words(tree) => tree.memory(),
            Chosen::Strings(tree) => Ordered::memory(tree),
        }
    }

    fn walk(
        &self,
        way: Way,
        from: Bound<&[u8]>,
        limit: usize,
        mut visit: impl FnMut(&[u8], Loan<'_>) -> ControlFlow<()>,
    ) -> usize {
        match self.chosen() {
            Chosen::Strings(tree) => tree.walk(way, from, limit, visit),
            Chosen::Words(tree) => {
                walk_words::<K, _, _, _>(tree, way, from, limit, |key, value| {
                    visit(bytes_of_word::<K>(&key.to_be_bytes()), value)
                })
            }
        }
    }

    fn walk_values(
        &self,
        way: Way,
        from: Bound<&[u8]>,
        limit: usize,
        mut visit: impl FnMut(Loan<'_>) -> ControlFlow<()>,
    ) -> usize {
        match self.chosen() {
            Chosen::Strings(tree) => tree.walk_values(way, from, limit, visit),
            Chosen::Words(tree) => {
                walk_words::<K, _, _, _>(tree, way, from, limit, |_, value| visit(value))
            }
        }
    }

    async fn approach(&self, key: &[u8]) {
        match self.chosen() {
            Chosen::Words(tree) => tree.approach(word_of_bytes::<K>(key)).await,
            Chosen::Strings(tree) => Ordered::approach(tree, key).await,
        }
    }
}

/// The least word of a key that begins with these bytes.
fn word_of_bytes<K: Key + ?Sized>(bytes: &[u8]) -> u64 {
    let (mut word, len) = ([0; 8], K::LEN.unwrap_or(8));
    let some = &bytes[..bytes.len().min(len)];
    word[8 - len..][..some.len()].copy_from_slice(some);
    u64::from_be_bytes(word)
}

/// Walks over words by bounds that are bytes of keys, or of their beginnings.
fn walk_words<K: Key + ?Sized, M: Memory, const WORDS: usize, H: Represent>(
    tree: &Tree<M, WORDS, Values<H>>,
    way: Way,
    from: Bound<&[u8]>,
    limit: usize,
    visit: impl FnMut(u64, Loan<'_>) -> ControlFlow<()>,
) -> usize {
    let word = |bytes: &[u8]| (word_of_bytes::<K>(bytes), Some(bytes.len()) >= K::LEN);
    // Whatever begins with a part of a key is greater than that part.
    let bound = match from {
        Bound::Included(bytes) => Bound::Included(word(bytes)),
        Bound::Excluded(bytes) => Bound::Excluded(word(bytes)),
        Bound::Unbounded => Bound::Unbounded,
    };
    let span = match (way, bound) {
        (Way::Forward, Bound::Excluded((word, true))) => {
            Span::of(Bound::Excluded(word), Bound::Unbounded)
        }
        (Way::Forward, Bound::Included((word, _)) | Bound::Excluded((word, _))) => {
            Span::of(Bound::Included(word), Bound::Unbounded)
        }
        (Way::Backward, Bound::Included((word, true))) => {
            Span::of(Bound::Unbounded, Bound::Included(word))
        }
        (Way::Backward, Bound::Included((word, _)) | Bound::Excluded((word, _))) => {
            Span::of(Bound::Unbounded, Bound::Excluded(word))
        }
        (_, Bound::Unbounded) => Span::of(Bound::Unbounded, Bound::Unbounded),
    };
    if way == Way::Forward {
        return match span.is_empty() {
            true => 0,
            false => tree.scan(span.first, limit, visit),
        };
    }
    tree.scan_back(span, limit, visit)
}

/// Calls of a trait that both trees have.
macro_rules! both {
    ($trait:ident { $(fn $name:ident(&self $(, $arg:ident: $type:ty)*) $(-> $result:ty)?;)* }) => {
        impl<K: Key + ?Sized, M: Memory, const WORDS: usize, H: Represent> $trait
            for Choice<K, M, WORDS, H>
        {
            $(fn $name(&self $(, $arg: $type)*) $(-> $result)? {
                match self.chosen() {
                    Chosen::Words(tree) => $trait::$name(tree $(, $arg)*),
                    Chosen::Strings(tree) => $trait::$name(tree $(, $arg)*),
                }
            })*
        }
    };
}

both! {
    Walk {
        fn levels(&self) -> u8;
        fn level_of(&self, node: &NodeKey) -> u8;
        fn node_bytes(&self) -> usize;
        fn bytes_of(&self, node: &NodeKey) -> usize;
        fn fill(&self, tier: TierId) -> Fill;
        fn each_leaf(&self, from: &[u8], visit: &mut dyn FnMut(LeafRef<'_>) -> ControlFlow<()>);
        fn each_leaf_in(
            &self,
            tier: TierId,
            from: &[u8],
            visit: &mut dyn FnMut(LeafRef<'_>) -> ControlFlow<()>
        );
        fn lowest_fast_inner(&self, draw: u64) -> Option<NodeKey>;
        fn parent_of(&self, node: &NodeKey) -> Option<NodeKey>;
        fn fence_at(&self, address: usize) -> Option<KeyBytes>;
    }
}

both! {
    Relocate {
        fn tiers(&self) -> u8;
        fn promote_to(&self, node: &NodeKey, to: TierId) -> Move;
        fn demote_to(&self, node: &NodeKey, to: TierId) -> Move;
        fn demote_subtree_to(&self, node: &NodeKey, to: TierId) -> Move;
        fn reclaim(&self);
    }
}

both! {
    Compaction {
        fn compaction_candidates(&self, tier: TierId) -> CompactionCandidates;
        fn relocate_below(
            &self,
            node: Option<&NodeKey>,
            slowest: TierId,
            away_from: &CompactionCandidates,
            inner: &mut Vec<NodeKey>
        ) -> usize;
    }
}

both! {
    RecordCache {
        fn record_pages(&self) -> (usize, usize);
        fn add_record_page(&self) -> bool;
        fn drop_record_page(&self) -> bool;
        fn refit_record_pages(&self);
    }
}
