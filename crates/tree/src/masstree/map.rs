//! The map over a trie of B+trees, [`Masstree`].

use std::sync::Arc;

use timberline_placement::{HeatIn, Placement};
use timberline_sync::epoch::Domain;
use timberline_tier::{Memory, Native};

use super::{NODE, Tree};
use crate::error::Refused;
use crate::map::{ByteTree, Make, Map, Stores};
use crate::range::Way;
use crate::store::Store;
use crate::value::{Change, Loan, Represent};
use crate::{Error, Stats, Value};

/// A concurrent ordered map from byte strings: a trie of B+trees, for keys that begin alike. In
/// plain memory ([`new`](Map::new)), or in tiers between which its nodes move by themselves
/// ([`builder`](Map::builder)).
///
/// Keys are whatever is a [`Key`](crate::Key), up to [`MAX_KEY`](crate::MAX_KEY) bytes. Nodes have
/// `32 + 8 × WORDS` bytes, a power of two from 128 to 4,096. Its methods are those of [`Map`].
///
/// A point operation takes seven bytes of the key at a time, in O(log n) node visits where keys
/// differ there; bytes that all keys of a layer share are compared at once. Reads take no lock.
/// Scans are linearizable node by node.
///
/// ```
/// use timberline::Masstree;
///
/// let map: Masstree<str, u64> = Masstree::new();
/// assert_eq!(map.insert("https://example.org/", 1)?, None);
/// assert_eq!(map.insert("https://example.org/a/page", 2)?, None);
/// assert_eq!(map.get("https://example.org/a/page"), Some(2));
/// let all: Vec<(String, u64)> = map.prefix("https://example.org/a").collect();
/// assert_eq!(all, [("https://example.org/a/page".into(), 2)]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type Masstree<K, V, M = Native, const WORDS: usize = NODE> =
    Map<Tree<M, WORDS, <V as Value>::Representation>, K, V>;

impl<M: Memory, const WORDS: usize, H: Represent, K: ?Sized, V> Make<K, V> for Tree<M, WORDS, H> {
    type Memory = M;
    const HEAT: HeatIn = HeatIn::Leaf {
        leaf_bytes: Self::BYTES,
    };

    fn make(memory: M, placement: Arc<dyn Placement>, domain: Domain) -> Result<Self, Error> {
        Ok(Tree::new(memory, placement, domain)?)
    }
}

impl<M: Memory, const WORDS: usize, H: Represent> Stores<H> for Tree<M, WORDS, H> {}

impl<M: Memory, const WORDS: usize, H: Represent> ByteTree for Tree<M, WORDS, H> {
    const NAME: &'static str = "Masstree";

    #[inline(always)]
    fn store(&self) -> &Store<M> {
        &self.store
    }

    #[inline(always)]
    fn get<R>(&self, key: impl AsRef<[u8]>, out: impl FnOnce(Loan<'_>) -> R) -> Option<R> {
        self.get(key.as_ref(), out)
    }

    fn get_each<S: Represent, B: AsRef<[u8]>>(
        &self,
        mut keys: impl Iterator<Item = B>,
        depth: usize,
        mut found: impl FnMut(usize, Option<Loan<'_>>),
    ) {
        // Keys may lie on the stack, where they have to stay as long as lookups are under way.
        const GROUP: usize = 256;
        let mut first = 0;
        loop {
            let group: Vec<B> = keys.by_ref().take(GROUP).collect();
            if group.is_empty() {
                return;
            }
            let lent = group.iter().map(|key| key.as_ref());
            self.get_each(lent, depth, |index, value| found(first + index, value));
            first += group.len();
        }
    }

    async fn get_async<S: Represent, R>(
        &self,
        key: &[u8],
        out: impl FnOnce(Loan<'_>) -> R,
    ) -> Option<R> {
        self.get_async(key, out).await
    }

    #[inline(always)]
    fn upsert<R>(
        &self,
        key: impl AsRef<[u8]>,
        change: impl Change,
        out: impl FnMut(Loan<'_>) -> R,
    ) -> Result<Option<R>, Refused> {
        self.upsert(key.as_ref(), change, out)
    }

    #[inline(always)]
    fn modify<R>(
        &self,
        key: impl AsRef<[u8]>,
        change: impl Change,
        out: impl FnMut(Loan<'_>) -> R,
    ) -> Result<Option<R>, Refused> {
        self.modify(key.as_ref(), change, out)
    }

    #[inline(always)]
    fn remove<R>(
        &self,
        key: &[u8],
        only: Option<u64>,
        out: impl FnOnce(Loan<'_>) -> R,
    ) -> Option<R> {
        self.remove(key, only, out)
    }

    fn pop<R>(&self, way: Way, out: impl FnOnce(&[u8], Loan<'_>) -> R) -> Option<R> {
        self.pop(way, out)
    }

    fn clear(&self) {
        self.clear();
    }

    fn stats(&self) -> Stats {
        self.stats()
    }
}
