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
use timberline_tier::{Memory, TierId, hint};

use super::node::{
    Base, Inner, Kind, Link, PACK_BYTES, Parent, Position, Reach, leaf_bytes, position,
    value_offset,
};
use super::only::{Only, PassedOver};
use super::tree::Tree;
use super::way::Start;
use crate::key::common;
use crate::range::Way;

/// The most links that are taken ahead of need out of a node above others. A ring has room for as
/// many beyond those that are wanted.
pub(super) const AHEAD_OF_NEED: usize = 16;

/// The most links that are taken out of a node at a time.
const MOST_TAKEN: usize = 2 * AHEAD_OF_NEED;

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

/// A node of the path.
struct Frame<'g, R> {
    inner: Inner<'g, R>,
    /// The position that the next links come from; `None` after the last.
    next: Option<Position>,
    /// How many of the links that are put off are of this node.
    put_off: u8,
    /// How many links are taken ahead of need, where they lead to inner nodes rather than records;
    /// otherwise 0.
    ahead: u8,
}

impl<'g, R> Frame<'g, R> {
    /// A node of which no link is taken yet.
    fn new(inner: Inner<'g, R>, next: Option<Position>, ahead: u8) -> Self {
        let put_off = 0;
        Frame {
            inner,
            next,
            put_off,
            ahead,
        }
    }

    /// Whether links are left.
    fn has_more(&self) -> bool {
        self.put_off > 0 || self.next.is_some()
    }
}

/// A walk over leaves, packs and dense leaves.
pub(super) struct Walker<'g, M: Memory, R: Reach> {
    tree: &'g Tree<M, R>,
    guard: &'g Guard<'g>,
    way: Way,
    only: Only,
    passed_over: PassedOver<'g>,
    from: Start<'g>,
    /// Whether the first link leads to the start of the range; its target may have records before
    /// the start, too.
    sought: bool,
    /// The current node, and those above it that have links left.
    top: Option<Frame<'g, R>>,
    above: SmallVec<[Frame<'g, R>; 6]>,
    /// The links that were taken out of these nodes and are not passed yet: the next one last.
    put_off: SmallVec<[Link<'g>; 2 * MOST_TAKEN]>,
    started: bool,
    restarts: u32,
}

impl<'g, M: Memory, R: Reach> Walker<'g, M, R> {
    pub fn new(tree: &'g Tree<M, R>, way: Way, from: Start<'g>, guard: &'g Guard<'g>) -> Self {
        Walker {
            tree,
            guard,
            way,
            only: Only::All,
            passed_over: PassedOver::NONE,
            from,
            sought: false,
            top: None,
            above: SmallVec::new(),
            put_off: SmallVec::new(),
            started: false,
            restarts: 0,
        }
    }

    /// Skips nodes of slower tiers than this, and their subtrees.
    pub fn down_to(mut self, slowest: TierId) -> Self {
        self.only = Only::DownTo(slowest);
        self
    }

    /// Passes over records of other tiers, but for the one that the walk begins at.
    pub fn records_of(mut self, tier: TierId) -> Self {
        self.only = Only::RecordsOf(tier);
        self
    }

    /// The links that it passed over.
    pub fn passed_over(&self) -> PassedOver<'g> {
        self.passed_over
    }

    /// Whether the first link since the walk's start leads to that start, where records may have to
    /// be left out. Says so once.
    #[inline(always)]
    pub fn was_sought(&mut self) -> bool {
        std::mem::take(&mut self.sought)
    }

    /// The start of the walk.
    pub fn start(&self) -> Start<'g> {
        self.from
    }

    /// Whether all records below a link are before the start.
    pub fn leaves_out(&self, link: Link<'g>) -> bool {
        link.terminal(self.tree.base)
            .is_some_and(|terminal| self.from.leaves_out(self.way, &self.way.last_of(terminal)))
    }

    /// Writes links into `ring`, from `walked` until there are `until`, or a few more. The caller
    /// will want at most `most`. The ring has room for [`AHEAD_OF_NEED`] more than `until`. Returns
    /// the number of links then; fewer where it passed over many others.
    // A function of its own: what shows records has other uses for registers.
    #[inline(never)]
    pub fn fill(
        &mut self,
        ring: &mut [Link<'g>],
        mut walked: usize,
        until: usize,
        most: usize,
    ) -> (usize, Filled) {
        if !self.started {
            match self.seek(until - walked) {
                Ok(None) => {}
                Ok(Some(link)) => {
                    ring[walked] = link;
                    self.sought = true;
                    walked += 1;
                    if link.is_dense() {
                        return (walked, Filled::WithDense);
                    }
                }
                Err(Restart) => return (walked, Filled::Lost),
            }
        }
        while walked < until {
            let Some(top) = &mut self.top else {
                self.top = self.above.pop();
                if self.top.is_none() {
                    return (walked, Filled::Ended);
                }
                continue;
            };
            let step = if top.put_off > 0 {
                self.pass(ring, walked, until)
            } else if let Some(next) = top.next {
                let room = match usize::from(top.ahead) {
                    0 => until - walked,
                    ahead => ahead.min(most - walked),
                };
                let step = self.take(next, &mut ring[walked..walked + room]);
                if step == Ok(0) && self.passed_over.count >= PassedOver::MOST {
                    return (walked, Filled::Full);
                }
                step
            } else {
                self.top = None;
                continue;
            };
            let Ok(taken) = step else {
                return (walked, Filled::Lost);
            };
            walked += taken;
            if taken > 0 && ring[walked - 1].is_dense() {
                if let Some(&next) = self.put_off.last() {
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
        (self.from, self.started, self.top) = (from, false, None);
        self.above.clear();
        self.put_off.clear();
    }

    /// Makes a node the current one, of which no link is taken yet.
    #[inline(always)]
    fn push(&mut self, inner: Inner<'g, R>, next: Option<Position>, ahead: u8) {
        let above = self.top.replace(Frame::new(inner, next, ahead));
        if let Some(above) = above.filter(Frame::has_more) {
            self.above.push(above);
        }
    }

    /// Passes the next links that were put off: into the ring, or, if the first leads to an inner
    /// node, on to that one.
    #[inline(always)]
    fn pass(
        &mut self,
        ring: &mut [Link<'g>],
        walked: usize,
        until: usize,
    ) -> Result<usize, Restart> {
        let Some(top) = &mut self.top else {
            return Ok(0);
        };
        let rest = self.put_off.len() - usize::from(top.put_off);
        let next = self.put_off[rest..].iter().rev();
        let mut passed = 0;
        for (place, &link) in ring[walked..until].iter_mut().zip(next) {
            if link.is_record() {
                *place = link;
                passed += 1;
                continue;
            }
            if link.is_dense() {
                *place = link;
                passed += 1;
            } else if passed == 0 {
                self.put_off.pop();
                top.put_off -= 1;
                let link = link.inner().ok_or(Restart)?;
                let inner = self.tree.enter(link, &Parent::Node(top.inner, 0))?;
                self.push(inner, Some(self.way.begin()), 0);
                return Ok(0);
            }
            break;
        }
        top.put_off -= passed as u8;
        self.put_off.truncate(self.put_off.len() - passed);
        Ok(passed)
    }

    /// Takes the next links out of the current node, and prefetches their targets. Those from the
    /// first link to an inner node on, or behind one to a dense leaf, are put off. Returns the
    /// number of the others.
    #[inline(always)]
    fn take(&mut self, from: Position, into: &mut [Link<'g>]) -> Result<usize, Restart> {
        let (tree, way, only) = (self.tree, self.way, self.only);
        let Some(top) = &mut self.top else {
            return Ok(0);
        };
        let most = into.len().min(MOST_TAKEN);
        let into = &mut into[..most];
        let over = &mut self.passed_over;
        let (count, next) = Self::take_from(tree, &top.inner, way, (only, over), from, into)?;
        top.next = next;
        let taken = &into[..count];
        let base = tree.base;
        for (at, &link) in taken.iter().enumerate() {
            if !link.is_record() {
                return Ok(at + self.put_off(&taken[at..]));
            }
            Self::prefetch_record(tree, base, link);
        }
        Ok(count)
    }

    /// Puts off these links of the current node, but for the first if it leads to a dense leaf.
    /// Returns the number of the others.
    #[inline(never)]
    fn put_off(&mut self, links: &[Link<'g>]) -> usize {
        let (Some(top), Some(first)) = (&mut self.top, links.first()) else {
            return 0;
        };
        let passed = usize::from(first.is_dense());
        top.put_off = (links.len() - passed) as u8;
        let rest = self.put_off.len();
        self.put_off.extend_from_slice(&links[passed..]);
        self.put_off[rest..].reverse();
        if passed > 0 {
            Self::prefetch(self.tree, *first);
            return passed;
        }
        top.ahead = ahead_of_need(*first);
        // Showing a dense leaf takes long enough to prefetch the next one then.
        let base = self.tree.base;
        for &link in links {
            if link.is_record() {
                Self::prefetch_record(self.tree, base, link);
                continue;
            }
            Self::prefetch(self.tree, link);
            if link.is_dense() {
                break;
            }
        }
        0
    }

    /// Takes links out of a node.
    #[inline(always)]
    fn take_from(
        tree: &Tree<M, R>,
        inner: &Inner<'g, R>,
        way: Way,
        (only, over): (Only, &mut PassedOver<'g>),
        from: Position,
        links: &mut [Link<'g>],
    ) -> Result<(usize, Option<Position>), Restart> {
        let link = inner.link();
        let (kind, address) = (link.kind(), link.address(tree.base));
        tree.memory().charge_access(address, kind.bytes::<R>());
        let (mut count, next) = inner.take(way, from, links)?;
        count = only.keep(tree, &mut links[..count], over);
        Ok((count, next))
    }

    /// Prefetches a leaf or a pack, without a branch between them: it would be mispredicted half of
    /// the time.
    #[inline(always)]
    fn prefetch_record(tree: &Tree<M, R>, base: Base<R>, link: Link<'_>) {
        if M::CHARGES {
            return Self::prefetch(tree, link);
        }
        for address in link.record_lines(base) {
            hint::prefetch_lines(address, 1);
        }
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
            // Of a large one, where plain memory allows: the links that are taken first.
            let most = if M::CHARGES { 128 } else { 320 };
            prefetch(link.kind().bytes::<R>().min(most));
        }
    }

    /// Prefetches the entries of a node of 256 from a byte on. It has many lines, and which links
    /// are there is known only then.
    #[inline(always)]
    fn prefetch_entries(&self, link: Link<'g>, byte: u8, wanted: usize) {
        // Where memory is charged, the whole node is when links are taken.
        if M::CHARGES || link.direct().is_none() {
            return;
        }
        // Nodes of this kind are half full at times.
        let bytes = 2 * wanted.min(MOST_TAKEN) * size_of::<R>();
        let (kind, address) = (Kind::N256, link.address(self.tree.base));
        let entry = address + kind.entry::<R>(byte);
        let first = match self.way {
            Way::Forward => entry,
            Way::Backward => entry.saturating_sub(bytes),
        };
        let first = first.clamp(address, address + kind.bytes::<R>() - 1);
        hint::prefetch_lines(address, 1);
        hint::prefetch(first, bytes.min(address + kind.bytes::<R>() - first));
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
    fn seek(&mut self, wanted: usize) -> Result<Option<Link<'g>>, Restart> {
        self.started = true;
        let (mut parent, mut link) = self.tree.root.read(self.tree.store.pinned(self.guard))?;
        let mut depth = 0;
        loop {
            if link.is_none() || self.only.ends_at(self.tree, link) {
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
            let from = self.from;
            if let Some(&byte) = from.key().and_then(|key| key.get(depth)) {
                self.prefetch_entries(link, byte, wanted);
            }
            let inner = self.tree.enter(inner, &parent)?;
            let Some(key) = from.key() else {
                let begin = Some(self.way.begin());
                self.push(inner, begin, 0);
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
                self.push(inner, begin, 0);
                return Ok(None);
            }
            let at = position(key, branch);
            let child = inner.child(at)?;
            let next = self.way.after(at);
            self.push(inner, next, ahead_of_need(child));
            parent = Parent::Node(inner, at);
            (link, depth) = (child, branch + usize::from(at > 0));
        }
    }
}

/// How many links to take at once, ahead of need, out of a node with this link: none where it leads
/// to records, and a few where a child alone has many.
#[inline(always)]
fn ahead_of_need(link: Link<'_>) -> u8 {
    if link.is_none() || link.is_terminal() {
        return 0;
    }
    match link.kind() {
        Kind::N3 | Kind::N16 => AHEAD_OF_NEED as u8,
        Kind::N48 | Kind::N256 => 2,
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
