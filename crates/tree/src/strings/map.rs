//! What the maps need of the tree.

use timberline_tier::Memory;

use super::get::in_groups;
use super::tree::Tree;
use crate::Stats;
use crate::clear;
use crate::error::Refused;
use crate::map::{Batch, ByteTree, Stores};
use crate::range::Way;
use crate::store::Store;
use crate::value::{Change, Loan, Represent};

impl<M: Memory, const WORDS: usize, H: Represent> Stores<H> for Tree<M, WORDS, H> {}

impl<M: Memory, const WORDS: usize, H: Represent> ByteTree for Tree<M, WORDS, H> {
    const NAME: &'static str = "BTree";

    #[inline(always)]
    fn store(&self) -> &Store<M> {
        &self.store
    }

    #[inline(always)]
    fn get<R>(&self, key: impl AsRef<[u8]>, out: impl FnOnce(Loan<'_>) -> R) -> Option<R> {
        self.look_up(key.as_ref(), out)
    }

    fn get_each<S: Represent, B: AsRef<[u8]>>(
        &self,
        keys: impl Iterator<Item = B>,
        depth: usize,
        mut found: impl FnMut(usize, Option<Loan<'_>>),
    ) {
        in_groups(keys, |first, group| {
            let lent = group.iter().map(|key| key.as_ref());
            self.look_up_each(lent, depth, |index, value| found(first + index, value));
        });
    }

    async fn get_async<S: Represent, R>(
        &self,
        key: &[u8],
        out: impl FnOnce(Loan<'_>) -> R,
    ) -> Option<R> {
        self.look_up_async(key, out).await
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
        self.delete(key, only, out)
    }

    fn pop<R>(&self, way: Way, out: impl FnOnce(&[u8], Loan<'_>) -> R) -> Option<R> {
        self.take_end(way, out)
    }

    fn clear(&self) {
        clear::clear_ordered(self, |key| _ = self.delete(key, None, |_| ()));
    }

    const GROWS: bool = true;

    fn grow(&self, batch: &Batch, from: usize) -> usize {
        self.append(batch, from)
    }

    fn stats(&self) -> Stats {
        self.count_nodes()
    }
}
