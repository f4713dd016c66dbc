//! Walking leaves, packs and dense leaves in the order of their keys, forward or backward.
//!
//! A walker keeps its path: nodes with the version that was read, and a position in each. One
//! validated read takes a few links out of a node; the walker prefetches all their targets at once,
//! so that the misses of neighbours overlap. It enters an inner node only while the parent is
//! unchanged. Otherwise it starts over after the last link that was shown.
//!
//! So it returns links that were in the tree at some moment of the walk, in strict order, and each
//! record that stays in the tree exactly once, whatever splits, merges or moves meanwhile.

use std::cmp::Ordering::{Equal, Greater, Less};

use smallvec::SmallVec;
use timberline_sync::Restart;
use timberline_sync::epoch::Guard;
use timberline_sync::shim::pause;
use timberline_tier::{Memory, TierId};

use super::node::{
    Inner, InnerLink, Link, PACK_BYTES, Parent, Position, Reach, leaf_bytes, position, value_offset,
};
use super::tree::{Tree, common};
use super::way::Start;
use crate::range::Way;

/// The most links that are taken out of a node at a time.
const TAKEN: usize = 16;

/// The number of a dense leaf's values that are prefetched where a walk begins.
const VALUES_AHEAD: usize = 48;

/// Why filling a ring ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Filled {
    /// The ring has the wanted number.
    Full,
    /// The last link leads to a dense leaf, which takes long to show.
    WithDense,
    /// There are no further links.
    Ended,
    /// A writer changed the node: the walk has to [start over](Walker::start_over).
    Lost,
}

struct Frame<'g, R> {
    inner: Inner<'g, R>,
    links: [Link<'g>; TAKEN],
    /// The numbers of the first link that is not passed yet, and of the next one to come.
    taken: u8,
    count: u8,
    /// The position that the next links come from; `None` after the last.
    next: Option<Position>,
    /// Whether links here lead to inner nodes rather than records: then links are taken ahead of
    /// need.
    is_upper: bool,
}

impl<'g, R> Frame<'g, R> {
    /// The links that are not passed yet.
    fn left(&self) -> &[Link<'g>] {
        &self.links[usize::from(self.taken)..usize::from(self.count)]
    }
}

/// A walk over leaves, packs and dense leaves.
pub(super) struct Walker<'g, M: Memory, R: Reach> {
    tree: &'g Tree<M, R>,
    guard: &'g Guard<'g>,
    way: Way,
    /// The slowest tier to walk. Nodes of slower tiers are skipped, with their subtrees.
    slowest: Option<TierId>,
    from: Start<'g>,
    /// The number of the link to the start of the range; its target may have records before the
    /// start, too.
    sought: usize,
    /// The path: `depth` nodes down to the current one. Those behind are kept to be used again.
    frames: SmallVec<[Frame<'g, R>; 4]>,
    depth: usize,
    started: bool,
    restarts: u32,
}

impl<'g, M: Memory, R: Reach> Walker<'g, M, R> {
    pub fn new(tree: &'g Tree<M, R>, way: Way, from: Start<'g>, guard: &'g Guard<'g>) -> Self {
        Walker {
            tree,
            guard,
            way,
            slowest: None,
            from,
            sought: usize::MAX,
            frames: SmallVec::new(),
            depth: 0,
            started: false,
            restarts: 0,
        }
    }

    /// Skips nodes of slower tiers than this, and their subtrees.
    pub fn down_to(mut self, slowest: TierId) -> Self {
        self.slowest = Some(slowest);
        self
    }

    /// The lower bound of the records to show of the target of link `number`.
    #[inline(always)]
    pub fn from(&self, number: usize) -> Start<'g> {
        match number == self.sought {
            true => self.from,
            false => Start::Everything,
        }
    }

    /// Whether all records below link `number` are before the start.
    #[inline(always)]
    pub fn leaves_out(&self, number: usize, link: Link<'g>) -> bool {
        number == self.sought
            && link
                .terminal(self.tree.base)
                .is_some_and(|terminal| self.from.leaves_out(self.way, &self.way.last_of(terminal)))
    }

    /// Writes links into `ring`, each at the index of its number, from `walked` until there are
    /// `until`. The caller will want at most `most`. Returns the number of links then.
    #[inline(always)]
    pub fn fill<const N: usize>(
        &mut self,
        ring: &mut [Link<'g>; N],
        mut walked: usize,
        until: usize,
        most: usize,
    ) -> (usize, Filled) {
        if !self.started {
            match self.seek() {
                Ok(None) => {}
                Ok(Some(link)) => {
                    ring[walked % N] = link;
                    self.sought = walked;
                    walked += 1;
                    if link.is_dense() {
                        return (walked, Filled::WithDense);
                    }
                }
                Err(Restart) => return (walked, Filled::Lost),
            }
        }
        while walked < until {
            let Some(frame) = self.top() else {
                return (walked, Filled::Ended);
            };
            let link;
            if frame.taken < frame.count {
                link = frame.links[usize::from(frame.taken) % TAKEN];
                frame.taken += 1;
                if let Some(inner) = link.inner() {
                    if self.enter(inner).is_err() {
                        return (walked, Filled::Lost);
                    }
                    continue;
                }
                ring[walked % N] = link;
                walked += 1;
            } else if let Some(next) = frame.next {
                let at = walked % N;
                let count = (until - walked).min(N - at).min(TAKEN);
                let taken = match frame.is_upper {
                    true => self.take(next, most - walked).map(|()| 0),
                    false => self.take_records(next, &mut ring[at..at + count]),
                };
                let Ok(taken) = taken else {
                    return (walked, Filled::Lost);
                };
                if taken == 0 {
                    continue;
                }
                walked += taken;
                link = ring[(walked - 1) % N];
            } else {
                self.depth -= 1;
                continue;
            }
            if link.is_dense() {
                if let Some(&next) = self.top().and_then(|frame| frame.left().first()) {
                    Self::prefetch(self.tree, next);
                }
                return (walked, Filled::WithDense);
            }
        }
        (walked, Filled::Full)
    }

    /// Restarts the walk at another key.
    #[cold]
    pub fn start_over(&mut self, from: Start<'g>) {
        pause(self.restarts);
        self.restarts += 1;
        (self.from, self.started, self.depth) = (from, false, 0);
    }

    /// The current node.
    #[inline(always)]
    fn top(&mut self) -> Option<&mut Frame<'g, R>> {
        self.frames.get_mut(self.depth.wrapping_sub(1))
    }

    /// Enters a node, of which no link is taken yet.
    fn push(&mut self, inner: Inner<'g, R>, next: Option<Position>) {
        self.depth += 1;
        if let Some(frame) = self.top() {
            (frame.inner, frame.taken, frame.count) = (inner, 0, 0);
            (frame.next, frame.is_upper) = (next, false);
            return;
        }
        self.frames.push(Frame {
            inner,
            links: [Link::NONE; TAKEN],
            taken: 0,
            count: 0,
            next,
            is_upper: false,
        });
    }

    /// Enters a child of the current node.
    #[inline(never)]
    fn enter(&mut self, link: InnerLink<'g>) -> Result<(), Restart> {
        let Some(frame) = self.top() else {
            return Err(Restart);
        };
        let parent = Parent::Node(frame.inner, 0);
        let inner = self.tree.enter(link, &parent)?;
        self.push(inner, Some(self.way.begin()));
        Ok(())
    }

    /// Takes the next links out of the current node, and prefetches their targets.
    #[inline(never)]
    fn take(&mut self, from: Position, most: usize) -> Result<(), Restart> {
        let (tree, way, slowest) = (self.tree, self.way, self.slowest);
        let Some(frame) = self.top() else {
            return Ok(());
        };
        let links = &mut frame.links[..most.clamp(1, TAKEN)];
        let (count, next) = Self::take_from(tree, frame.inner, way, slowest, from, links)?;
        // Showing a dense leaf takes long enough to prefetch the next one then.
        for &link in &frame.links[..count] {
            Self::prefetch(tree, link);
            if link.is_dense() {
                break;
            }
        }
        (frame.taken, frame.count, frame.next) = (0, count as u8, next);
        Ok(())
    }

    /// The same, into a ring, up to the first link to an inner node or a dense leaf. The links
    /// after that one stay with the node. Returns the number of links in the ring.
    #[inline(always)]
    fn take_records(&mut self, from: Position, into: &mut [Link<'g>]) -> Result<usize, Restart> {
        let (tree, way, slowest) = (self.tree, self.way, self.slowest);
        let Some(frame) = self.top() else {
            return Ok(0);
        };
        let (count, next) = Self::take_from(tree, frame.inner, way, slowest, from, into)?;
        (frame.taken, frame.count, frame.next) = (0, 0, next);
        for (at, &link) in into[..count].iter().enumerate() {
            if link.is_record() {
                // Prefetches one or two lines without a branch, which would be mispredicted half of
                // the time.
                let bytes = if link.is_leaf() {
                    leaf_bytes(8)
                } else {
                    PACK_BYTES
                };
                tree.memory().prefetch(link.address(tree.base), bytes);
                continue;
            }
            let taken = at + usize::from(link.is_dense());
            frame.is_upper = taken == 0;
            frame.count = (count - taken) as u8;
            frame.links[..count - taken].copy_from_slice(&into[taken..count]);
            Self::prefetch(tree, link);
            if !link.is_dense() {
                frame
                    .left()
                    .iter()
                    .for_each(|&link| Self::prefetch(tree, link));
            }
            return Ok(taken);
        }
        Ok(count)
    }

    /// Takes links out of a node.
    #[inline(always)]
    fn take_from(
        tree: &Tree<M, R>,
        inner: Inner<'g, R>,
        way: Way,
        slowest: Option<TierId>,
        from: Position,
        links: &mut [Link<'g>],
    ) -> Result<(usize, Option<Position>), Restart> {
        let link = inner.link();
        let (kind, address) = (link.kind(), link.address(tree.base));
        tree.memory().charge_access(address, kind.bytes::<R>());
        let (mut count, next) = inner.take(way, from, links)?;
        if let Some(slowest) = slowest {
            let all = std::mem::replace(&mut count, 0);
            for at in 0..all {
                if tree.tier_of(*links[at]) <= slowest {
                    links[count] = links[at];
                    count += 1;
                }
            }
        }
        Ok((count, next))
    }

    #[inline(always)]
    fn prefetch(tree: &Tree<M, R>, link: Link<'_>) {
        let prefetch = |bytes| tree.memory().prefetch(link.address(tree.base), bytes);
        // One case a kind: where the kind is known, the address is one subtraction away.
        if link.is_leaf() {
            prefetch(leaf_bytes(8));
        } else if link.is_pack() {
            prefetch(PACK_BYTES);
        } else if link.is_dense() {
            prefetch(value_offset(8));
        } else {
            prefetch(link.kind().bytes::<R>().min(128));
        }
    }

    /// Prefetches values of a dense leaf that has all, from the start of the walk on: as many as
    /// most scans want.
    fn prefetch_from(&self, link: Link<'g>) {
        let dense = link.dense(self.tree.base).filter(|_| link.is_full());
        if let (Some(dense), Some(&[.., at])) = (dense, self.from.key()) {
            let first = match self.way {
                Way::Forward => at,
                Way::Backward => at.saturating_sub(VALUES_AHEAD as u8 - 1),
            };
            let (first, bytes) = (dense.address() + value_offset(first), 8 * VALUES_AHEAD);
            self.tree.memory().prefetch(first, bytes);
        }
    }

    /// Builds the path to the start of the walk. Returns the link there, if the path ends at
    /// records.
    fn seek(&mut self) -> Result<Option<Link<'g>>, Restart> {
        self.started = true;
        let (mut parent, mut link) = self.tree.root.read(self.tree.store.pinned(self.guard))?;
        let mut depth = 0;
        loop {
            let is_slower = |slowest| self.tree.tier_of(*link) > slowest;
            if link.is_none() || self.slowest.is_some_and(is_slower) {
                return Ok(None);
            }
            if link.is_terminal() {
                // Not read before its neighbours are prefetched.
                Self::prefetch(self.tree, link);
                self.prefetch_from(link);
                return Ok(Some(link));
            }
            let Some(inner) = link.inner() else {
                return Ok(None);
            };
            let inner = self.tree.enter(inner, &parent)?;
            let from = self.from;
            let Some(key) = from.key() else {
                let begin = Some(self.way.begin());
                self.push(inner, begin);
                return Ok(None);
            };
            let len = inner.get(|body| body.prefix_len())?;
            let branch = depth + len;
            let order = if len == 0 {
                Equal
            } else {
                let (prefix, known) = inner.get(|body| body.prefix())?;
                let rest = key.get(depth..).unwrap_or(&[]);
                if known {
                    compare(&prefix, rest)
                } else {
                    let below = self.tree.key_below(inner)?;
                    compare(&below[depth..branch], rest)
                }
            };
            let all = match (order, self.way) {
                (Equal, _) => None,
                (Greater, Way::Forward) | (Less, Way::Backward) => Some(true),
                (Less, Way::Forward) | (Greater, Way::Backward) => Some(false),
            };
            if let Some(all) = all {
                let begin = all.then(|| self.way.begin());
                self.push(inner, begin);
                return Ok(None);
            }
            let at = position(key, branch);
            let child = inner.child(at)?;
            let next = self.way.after(at);
            self.push(inner, next);
            parent = Parent::Node(inner, at);
            (link, depth) = (child, branch + usize::from(at > 0));
        }
    }
}

/// Compares a prefix with the bytes of a key at the same depth: `Equal` if the key continues after
/// it.
fn compare(prefix: &[u8], key: &[u8]) -> std::cmp::Ordering {
    let same = common(prefix, key);
    match (prefix.get(same), key.get(same)) {
        (None, _) => Equal,
        // The key ends within the prefix: all keys below are greater.
        (Some(_), None) => Greater,
        (Some(one), Some(two)) => one.cmp(two),
    }
}
