//! Looking up a value, at once or as a future. [`many`](super::many) looks up many.

use std::marker::PhantomData;
use std::task::Poll;

use timberline_placement::Access;
use timberline_sync::Restart;
use timberline_sync::epoch::{Guard, Pinned};
use timberline_tier::Memory;

use super::descent::{Descent, LeafAtOnce, Met, Mode, ValueAtOnce, ValueLater};
use super::node::{Body, Hit, Lanes, LeafView, Share, Work};
use super::payload::Values;
use super::tree::{Tree, address};
use crate::cache::{BUCKET_BYTES, Bucket};
use crate::store::{AnyThread, Caller};
use crate::traverse::{Traversal, run};
use crate::value::{Loan, Represent, fetch};

/// The search for a copy of a record in a slow leaf. The leaf is not prefetched before this search
/// has ended.
#[derive(Clone, Copy)]
enum Copy<'t> {
    NotAsked,
    /// The bucket was prefetched.
    Asked(&'t Bucket),
    /// The bucket has no copy.
    Missed(&'t Bucket),
}

/// Searches the value of a key, where other work runs between two steps.
pub(super) struct Lookup<'t, M: Memory, const WORDS: usize, H: Represent, L: Lanes, C> {
    caller: C,
    descent: Descent<'t, M, WORDS, H, ValueLater, L>,
    copy: Copy<'t>,
    /// The leaf, if more of it had to be prefetched.
    leaf: Option<LeafView<'t, WORDS>>,
}

impl<'t, M: Memory, const WORDS: usize, H: Represent, L: Lanes, C: Caller>
    Lookup<'t, M, WORDS, H, L, C>
{
    #[inline(always)]
    pub fn new(
        tree: &'t Tree<M, WORDS, Values<H>>,
        key: u64,
        pinned: impl Into<Pinned<'t>>,
        caller: C,
        lanes: L,
    ) -> Self {
        Lookup {
            caller,
            descent: Descent::new(tree, key, pinned, lanes),
            copy: Copy::NotAsked,
            leaf: None,
        }
    }

    /// The value, unless the leaf is still in flight.
    #[inline(always)]
    fn advance(&mut self) -> Result<Poll<Option<Loan<'t>>>, Restart> {
        if let Copy::Asked(bucket) = self.copy {
            return self.take_copy(bucket);
        }
        let (leaf, share) = match self.leaf {
            Some(leaf) => (leaf, self.descent.share),
            _ => match self.descent.advance()? {
                Met::Leaf(leaf) => (leaf, self.descent.share),
                Met::Inner => return Ok(Poll::Pending),
                Met::SlowLeaf(..) => return self.prefetch_copy(),
            },
        };
        let Descent {
            tree, key, lanes, ..
        } = self.descent;
        if Body::<WORDS>::GUESSED
            && self.leaf.is_none()
            && !leaf.get(|body| body.was_guessed(share))?
        {
            tree.memory()
                .prefetch(address(leaf.of()), Body::<WORDS>::BYTES);
            self.leaf = Some(leaf);
            return Ok(Poll::Pending);
        }
        let found = leaf.lend(|body| tree.look_up(lanes, body, key, share))?;
        if let (Copy::Missed(bucket), Some(value)) = (self.copy, found) {
            tree.missed_copy(bucket, key, value, *leaf, self.caller);
        }
        let note = |guard: &Guard| tree.note(*leaf, Access::Reuse, guard);
        self.caller.with_guard(&tree.store, note);
        Ok(Poll::Ready(found))
    }

    /// Prefetches the bucket for a copy of the record, before its leaf.
    fn prefetch_copy(&mut self) -> Result<Poll<Option<Loan<'t>>>, Restart> {
        let Descent {
            tree, key, pinned, ..
        } = self.descent;
        match tree.bucket_of(key, pinned) {
            Some(bucket) => {
                tree.memory().prefetch(address(bucket), BUCKET_BYTES);
                self.copy = Copy::Asked(bucket);
                Ok(Poll::Pending)
            }
            None => self.prefetch_leaf(),
        }
    }

    /// The copy's value, if there is a copy.
    fn take_copy(&mut self, bucket: &'t Bucket) -> Result<Poll<Option<Loan<'t>>>, Restart> {
        let Descent { tree, key, .. } = self.descent;
        let copy = tree.find_copy(bucket, key, self.caller)?;
        if copy.is_some() {
            return Ok(Poll::Ready(copy));
        }
        self.copy = Copy::Missed(bucket);
        self.prefetch_leaf()
    }

    /// Prefetches the leaf after all.
    fn prefetch_leaf(&mut self) -> Result<Poll<Option<Loan<'t>>>, Restart> {
        self.descent.prefetch_leaf()?;
        Ok(Poll::Pending)
    }
}

impl<'t, M: Memory, const WORDS: usize, H: Represent, L: Lanes, C: Caller> Traversal
    for Lookup<'t, M, WORDS, H, L, C>
{
    type Output = Option<Loan<'t>>;

    #[inline(always)]
    fn step(&mut self) -> Poll<Option<Loan<'t>>> {
        self.advance().unwrap_or_else(|Restart| {
            self.leaf = None;
            self.copy = Copy::NotAsked;
            self.descent.start_over();
            Poll::Pending
        })
    }
}

/// Finds the value of a key.
///
/// The first attempt does not wait, and ends if it would have to start over: as a loop without a
/// call, it keeps its state in registers. The next attempts wait for writers.
struct Get<'t, M: Memory, const WORDS: usize, H: Represent, D> {
    tree: &'t Tree<M, WORDS, Values<H>>,
    key: u64,
    guard: &'t Guard<'t>,
    mode: PhantomData<D>,
}

impl<'t, M: Memory, const WORDS: usize, H: Represent, D: Mode> Get<'t, M, WORDS, H, D> {
    fn new(tree: &'t Tree<M, WORDS, Values<H>>, key: u64, guard: &'t Guard<'t>) -> Self {
        let mode = PhantomData;
        Get {
            tree,
            key,
            guard,
            mode,
        }
    }
}

impl<'t, M: Memory, const WORDS: usize, H: Represent, D: Mode> Work for Get<'t, M, WORDS, H, D> {
    type Output = Option<Loan<'t>>;

    #[inline(always)]
    fn run(self, lanes: impl Lanes) -> Option<Loan<'t>> {
        let Get {
            tree, key, guard, ..
        } = self;
        if D::OR_COPY {
            tree.prefetch_copy(key);
        }
        let pinned = tree.store.pinned(guard);
        let mut descent = Descent::<_, _, _, D, _>::new(tree, key, pinned, lanes);
        let leaf = loop {
            match descent.advance() {
                Ok(Met::Inner) => {}
                Ok(Met::Leaf(leaf)) => break leaf,
                Ok(Met::SlowLeaf(parent, leaf)) => {
                    let found = tree.get_slow(key, parent, leaf, guard);
                    return found.unwrap_or_else(|Restart| tree.get_patiently(key, guard));
                }
                Err(Restart) => return tree.get_patiently(key, guard),
            }
        };
        match leaf.lend(|body| tree.look_up(lanes, body, key, descent.share)) {
            Ok(found) => {
                tree.note(*leaf, Access::Reuse, guard);
                found
            }
            Err(Restart) => tree.get_patiently(key, guard),
        }
    }
}

impl<M: Memory, const WORDS: usize, H: Represent> Tree<M, WORDS, Values<H>> {
    /// Applies `out` to the value of a key.
    #[inline(always)]
    pub fn get<R>(&self, key: u64, out: impl FnOnce(Loan<'_>) -> R) -> Option<R> {
        let guard = &self.store.pin();
        self.get_under(key, guard).map(out)
    }

    /// The value of a key.
    #[inline(always)]
    pub(super) fn get_under<'g>(&'g self, key: u64, guard: &'g Guard<'g>) -> Option<Loan<'g>> {
        // Decided once: most maps have no copies, and their lookups skip them.
        match self.has_copies() {
            false => self
                .search
                .run(Get::<_, _, _, LeafAtOnce>::new(self, key, guard)),
            true => self
                .search
                .run(Get::<_, _, _, ValueAtOnce>::new(self, key, guard)),
        }
    }

    /// The value of a key, waiting for writers.
    #[cold]
    pub(super) fn get_patiently<'g>(&'g self, key: u64, guard: &'g Guard<'g>) -> Option<Loan<'g>> {
        run(Lookup::new(
            self,
            key,
            self.store.pinned(guard),
            guard,
            self.search,
        ))
    }

    /// The place of a record in a leaf that may be changing.
    #[inline(always)]
    pub fn look_up<'b>(
        &self,
        lanes: impl Lanes,
        body: &'b Body<WORDS>,
        key: u64,
        share: Share,
    ) -> Option<Hit<'b>> {
        let hit = self.seek(lanes, body, key, share).ok()?;
        self.charge_payload(body, hit.index());
        Some(hit)
    }

    /// Applies `out` to the value of a key, yielding at each node.
    pub async fn get_async<R>(&self, key: u64, out: impl FnOnce(Loan<'_>) -> R) -> Option<R> {
        let guard = self.store.domain().owned_guard();
        let lookup = Lookup::new(self, key, &guard, AnyThread, self.search);
        let found = fetch::<H, _>(self.memory(), lookup).await;
        found.map(out)
    }
}
