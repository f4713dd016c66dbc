//! The way from the root to a leaf, as a [`Traversal`]: one node a step.
//!
//! A step goes as the protocol in [`timberline_sync::version`] says: child's pointer from the parent's validated read,
//! child's snapshot, parent validated again. The root cell is the root's parent, and done in one step with it.

use std::task::Poll;

use timberline_placement::Access;
use timberline_sync::epoch::Guard;
use timberline_sync::shim::pause;
use timberline_sync::{Restart, Snapshot, Versioned};
use timberline_tier::Memory;

use super::node::{Body, Lanes, Link, Share, Work};
use super::payload::Values;
use super::tree::{Root, Tree, address};
use crate::cache::{BUCKET_BYTES, Bucket};
use crate::traverse::{Traversal, run};
use crate::value::Keep;

/// The next node follows at once: hinting at its lines makes one wait of several.
pub(super) const AT_ONCE: bool = false;
/// Other work comes first: the memory is asked for the next node, which an emulated one takes its time for.
pub(super) const LATER: bool = true;

/// The leaf's record may be changed: only the leaf will do.
const ITSELF: bool = false;
/// The record is only read: a copy of it is as good.
const OR_COPY: bool = true;

/// What a step came to.
enum Met<'t, const WORDS: usize> {
    /// A node above, whose child was asked for.
    Inner,
    Leaf(Snapshot<'t, Body<WORDS>>),
    /// The parent of a slow leaf, and that leaf, which was not asked for: its record may have a copy. The next step goes on to the leaf.
    SlowLeaf(Snapshot<'t, Body<WORDS>>, Link),
}

/// Looks for the leaf that covers a key. `WHEN` the next step comes is [`AT_ONCE`] or [`LATER`]; `WHAT` is looked for is the leaf
/// [`ITSELF`], or its record [`OR_COPY`].
pub(super) struct Descent<
    't,
    M: Memory,
    const WORDS: usize,
    H: Keep,
    const WHEN: bool,
    const WHAT: bool,
    L: Lanes,
> {
    tree: &'t Tree<M, WORDS, Values<H>>,
    root: &'t Versioned<Root>,
    lanes: L,
    guard: &'t Guard<'t>,
    key: u64,
    /// The last node, its child that covers the key, and the child's height. `None` at the start.
    below: Option<(Snapshot<'t, Body<WORDS>>, Link, u8)>,
    /// The key's part of the range of keys of the last node's child.
    share: Share,
    restarts: u32,
}

impl<'t, M: Memory, const WORDS: usize, H: Keep, const WHEN: bool, const WHAT: bool, L: Lanes>
    Descent<'t, M, WORDS, H, WHEN, WHAT, L>
{
    /// Nodes up to this height have the CPU asked for their children. What is above is in the caches.
    const HINTED: u8 = match WHEN {
        // An inner node is searched in all its lines at once, without a wait for one of them.
        AT_ONCE => 1,
        LATER if Body::<WORDS>::GUESSED => 2,
        LATER => u8::MAX,
    };
    /// Nodes up to this height have their children asked for: an emulated memory knows by itself what is in the caches.
    const ASKED: u8 = match WHEN {
        LATER if M::TIERED => u8::MAX,
        _ => Self::HINTED,
    };

    #[inline(always)]
    pub fn new(
        tree: &'t Tree<M, WORDS, Values<H>>,
        key: u64,
        guard: &'t Guard<'t>,
        lanes: L,
    ) -> Self {
        Descent {
            tree,
            root: &tree.root,
            lanes,
            guard,
            key,
            below: None,
            share: Share::NONE,
            restarts: 0,
        }
    }

    /// Goes back to the root: what was read on the way is not so any more.
    // Inlined, so that the state is never in memory where it can be in registers.
    #[inline(always)]
    pub fn start_over(&mut self) {
        pause(self.restarts);
        self.restarts += 1;
        self.below = None;
    }

    /// Asks for what the next step will read of a child of this height that covers these keys. Of an inner node that is any
    /// key: search there does not begin at a guess.
    #[inline(always)]
    fn prefetch_child(&mut self, link: Link, height: u8, lower: u64, upper: u64) {
        let (inner, hinted) = (height > 0, height < Self::HINTED);
        let memory = self.tree.memory();
        if !Body::<WORDS>::GUESSED {
            return match WHEN {
                LATER => memory.prefetch(link.address(), Body::<WORDS>::BYTES),
                AT_ONCE => self.tree.prefetch(link),
            };
        }
        self.share = Share::of(self.key, lower, upper);
        let lines = Body::<WORDS>::guess(self.share, lower, upper);
        match (hinted, inner) {
            (false, _) => {}
            (true, true) => self.tree.prefetch_inner(link, lines),
            (true, false) => self.tree.prefetch_near(link, lines),
        }
        if WHEN == LATER {
            let bits = match inner {
                true => lines.inner_bits::<WORDS>(),
                false => lines.bits(),
            };
            memory.charge_prefetch(link.address(), bits);
        }
    }

    /// Begins to read a node; at once or not at all, where the next node follows at once: see [`Get`].
    #[inline(always)]
    fn read<T>(node: &'t Versioned<T>) -> Result<Snapshot<'t, T>, Restart> {
        match WHEN {
            AT_ONCE => node.try_read(),
            LATER => node.read(),
        }
    }

    /// Goes on to where the next node was asked for.
    #[inline(always)]
    fn advance(&mut self) -> Result<Met<'t, WORDS>, Restart> {
        loop {
            let (node, height) = match self.below {
                None => {
                    let root = Self::read(self.root)?;
                    let (link, height) = root.get(|root| (root.node(), root.height()))?;
                    let node = Self::read(link.node(self.guard))?;
                    root.validate()?;
                    (node, height)
                }
                Some((parent, link, height)) => {
                    let node = Self::read(link.node(self.guard))?;
                    parent.validate()?;
                    (node, height)
                }
            };
            if height == 0 {
                return Ok(Met::Leaf(node));
            }
            let (link, range) = node.get(|body| {
                let (index, child) = self.tree.find_child(self.lanes, body, self.key);
                let range = (height <= Self::ASKED).then(|| body.range_of(index));
                (child, range)
            })?;
            self.below = Some((node, link, height - 1));
            if WHAT == OR_COPY && height == 1 && self.tree.may_have_copies(link) {
                return Ok(Met::SlowLeaf(node, link));
            }
            if let Some((lower, upper)) = range {
                self.prefetch_child(link, height - 1, lower, upper);
            }
            if height <= Self::ASKED || WHEN == AT_ONCE {
                return Ok(Met::Inner);
            }
        }
    }
}

impl<'t, M: Memory, const WORDS: usize, H: Keep, const WHEN: bool, const WHAT: bool, L: Lanes>
    Traversal for Descent<'t, M, WORDS, H, WHEN, WHAT, L>
{
    /// The leaf, and the key's part of its range.
    type Output = (Snapshot<'t, Body<WORDS>>, Share);

    #[inline(always)]
    fn step(&mut self) -> Poll<Self::Output> {
        match self.advance() {
            Ok(Met::Leaf(leaf)) => return Poll::Ready((leaf, self.share)),
            Ok(Met::Inner | Met::SlowLeaf(..)) => {}
            Err(Restart) => self.start_over(),
        }
        Poll::Pending
    }
}

/// How far the search for a copy of a record has come, where its leaf is slow. The leaf is not asked for before that is over.
#[derive(Clone, Copy)]
enum Copy<'t> {
    NotAsked,
    /// The memory was asked for the bucket.
    Asked(&'t Bucket),
    /// There is none in its bucket.
    Missed(&'t Bucket),
}

/// Looks for the value of a key, where other work comes between two steps.
pub(super) struct Lookup<'t, M: Memory, const WORDS: usize, H: Keep, L: Lanes> {
    descent: Descent<'t, M, WORDS, H, LATER, OR_COPY, L>,
    copy: Copy<'t>,
    /// The leaf, if it turned out that more of it had to be asked for.
    leaf: Option<Snapshot<'t, Body<WORDS>>>,
}

impl<'t, M: Memory, const WORDS: usize, H: Keep, L: Lanes> Lookup<'t, M, WORDS, H, L> {
    #[inline(always)]
    pub fn new(
        tree: &'t Tree<M, WORDS, Values<H>>,
        key: u64,
        guard: &'t Guard<'t>,
        lanes: L,
    ) -> Self {
        Lookup {
            descent: Descent::new(tree, key, guard, lanes),
            copy: Copy::NotAsked,
            leaf: None,
        }
    }

    /// The value, unless the leaf has to be waited for.
    #[inline(always)]
    fn advance(&mut self) -> Result<Poll<Option<u64>>, Restart> {
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
        let found = leaf.get(|body| tree.look_up(lanes, body, key, share))?;
        if let (Copy::Missed(bucket), Some(value)) = (self.copy, found) {
            tree.missed_copy(bucket, key, value, leaf);
        }
        tree.note(leaf, Access::Reuse);
        Ok(Poll::Ready(found))
    }

    /// Asks for where a copy of the record would be, before its leaf.
    fn prefetch_copy(&mut self) -> Result<Poll<Option<u64>>, Restart> {
        let Descent {
            tree, key, guard, ..
        } = self.descent;
        match tree.bucket_of(key, guard) {
            Some(bucket) => {
                tree.memory().prefetch(address(bucket), BUCKET_BYTES);
                self.copy = Copy::Asked(bucket);
                Ok(Poll::Pending)
            }
            None => self.prefetch_leaf(),
        }
    }

    /// The copy's value, unless there is none.
    fn take_copy(&mut self, bucket: &'t Bucket) -> Result<Poll<Option<u64>>, Restart> {
        let Descent { tree, key, .. } = self.descent;
        let copy = tree.find_copy(bucket, key);
        if copy.is_some() {
            return Ok(Poll::Ready(copy));
        }
        self.copy = Copy::Missed(bucket);
        self.prefetch_leaf()
    }

    /// Asks for the leaf after all.
    fn prefetch_leaf(&mut self) -> Result<Poll<Option<u64>>, Restart> {
        let Descent { tree, key, .. } = self.descent;
        if let Some((parent, leaf, height)) = self.descent.below {
            let (lower, upper) = parent.get(|body| tree.range_below(body, key))?;
            self.descent.prefetch_child(leaf, height, lower, upper);
        }
        Ok(Poll::Pending)
    }
}

impl<M: Memory, const WORDS: usize, H: Keep, L: Lanes> Traversal for Lookup<'_, M, WORDS, H, L> {
    type Output = Option<u64>;

    #[inline(always)]
    fn step(&mut self) -> Poll<Option<u64>> {
        self.advance().unwrap_or_else(|Restart| {
            self.leaf = None;
            self.copy = Copy::NotAsked;
            self.descent.start_over();
            Poll::Pending
        })
    }
}

/// Finds the leaf that covers a key.
pub(super) struct Leaf<'t, M: Memory, const WORDS: usize, H: Keep> {
    pub tree: &'t Tree<M, WORDS, Values<H>>,
    pub key: u64,
    pub guard: &'t Guard<'t>,
}

impl<'t, M: Memory, const WORDS: usize, H: Keep> Leaf<'t, M, WORDS, H> {
    #[cold]
    fn patiently(self) -> (Snapshot<'t, Body<WORDS>>, Share) {
        let Leaf { tree, key, guard } = self;
        run(Descent::<_, _, _, LATER, ITSELF, _>::new(
            tree,
            key,
            guard,
            tree.search,
        ))
    }
}

impl<'t, M: Memory, const WORDS: usize, H: Keep> Work for Leaf<'t, M, WORDS, H> {
    type Output = (Snapshot<'t, Body<WORDS>>, Share);

    #[inline(always)]
    fn run(self, lanes: impl Lanes) -> Self::Output {
        let Leaf { tree, key, guard } = self;
        let mut descent = Descent::<_, _, _, AT_ONCE, ITSELF, _>::new(tree, key, guard, lanes);
        loop {
            match descent.advance() {
                Ok(Met::Leaf(leaf)) => return (leaf, descent.share),
                Ok(Met::Inner | Met::SlowLeaf(..)) => {}
                Err(Restart) => return self.patiently(),
            }
        }
    }
}

/// A place in a leaf that was not locked when it was read.
pub struct Slot<'t, const WORDS: usize> {
    pub leaf: Snapshot<'t, Body<WORDS>>,
    /// The record's index, or where it would have to go.
    pub found: Result<usize, usize>,
    /// Entries of the leaf.
    pub count: usize,
}

/// Finds the place of a key in its leaf. `SHIFTS`: others may have to move aside for it, which reads all lines; they are asked for
/// while the search waits for its own.
pub(super) struct Seek<'t, M: Memory, const WORDS: usize, H: Keep, const SHIFTS: bool>(
    pub Leaf<'t, M, WORDS, H>,
);

impl<'t, M: Memory, const WORDS: usize, H: Keep, const SHIFTS: bool> Work
    for Seek<'t, M, WORDS, H, SHIFTS>
{
    type Output = Result<Slot<'t, WORDS>, Restart>;

    #[inline(always)]
    fn run(self, lanes: impl Lanes) -> Self::Output {
        let Leaf { tree, key, .. } = self.0;
        let (leaf, share) = self.0.run(lanes);
        if SHIFTS {
            tree.prefetch_all(Link::from_word(address(leaf.of()) as u64));
        }
        let read = |body: &Body<WORDS>| (tree.seek(lanes, body, key, share), body.count());
        let (found, count) = leaf.get(read)?;
        Ok(Slot { leaf, found, count })
    }
}

/// Finds the value of a key.
///
/// The first attempt does not wait, and gives up where it would have to start over: as a loop without a call in it, it has all
/// it knows in registers. The attempts after that are patient.
pub(super) struct Get<'t, M: Memory, const WORDS: usize, H: Keep> {
    pub tree: &'t Tree<M, WORDS, Values<H>>,
    pub key: u64,
    pub guard: &'t Guard<'t>,
}

impl<M: Memory, const WORDS: usize, H: Keep> Get<'_, M, WORDS, H> {
    #[cold]
    fn patiently(self) -> Option<u64> {
        let Get { tree, key, guard } = self;
        run(Lookup::new(tree, key, guard, tree.search))
    }
}

impl<M: Memory, const WORDS: usize, H: Keep> Work for Get<'_, M, WORDS, H> {
    type Output = Option<u64>;

    #[inline(always)]
    fn run(self, lanes: impl Lanes) -> Option<u64> {
        let Get { tree, key, guard } = self;
        tree.prefetch_copy(key);
        let mut descent = Descent::<_, _, _, AT_ONCE, OR_COPY, _>::new(tree, key, guard, lanes);
        let leaf = loop {
            match descent.advance() {
                Ok(Met::Inner) => {}
                Ok(Met::Leaf(leaf)) => break leaf,
                Ok(Met::SlowLeaf(parent, leaf)) => {
                    let found = tree.get_slow(key, parent, leaf, guard);
                    return found.unwrap_or_else(|Restart| self.patiently());
                }
                Err(Restart) => return self.patiently(),
            }
        };
        match leaf.get(|body| tree.look_up(lanes, body, key, descent.share)) {
            Ok(found) => {
                tree.note(leaf, Access::Reuse);
                found
            }
            Err(Restart) => self.patiently(),
        }
    }
}
