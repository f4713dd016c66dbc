//! Moving nodes between tiers.
//!
//! A node is named by its path ([`NodeKey`]: the whole key of a leaf; of an inner node, the bytes
//! up to where it branches). The mover descends, locks the parent and the node as any structure
//! modification does, copies the node into a slot of the other tier, hangs that below the parent
//! and retires the old node. Whatever happened to the node since it was named, the mover finds what
//! has that name now, or nothing.
//!
//! Both locks are held while the single boundary is checked, so a child cannot be promoted while
//! its parent is demoted.

use std::sync::atomic::Ordering::Relaxed;

use timberline_placement::{Move, NodeKey};
use timberline_sync::Restart;
use timberline_sync::epoch::Guard;
use timberline_tier::{Memory, Slot, TierId};

use super::node::{
    AT_END, Fresh, FreshInner, FreshLeaf, Inner, Leaf, LockedTerminal, Parent, Reach, Step,
    StoredLink, Terminal,
};
use super::tree::Tree;
use crate::goal::Goal;
use crate::seeded::{self, Bug};
use crate::value::{ValueBlock, ValueCopy};

/// A node found by its name.
pub(super) enum Found<'g, R> {
    Terminal(Parent<'g, R>, Terminal<'g>),
    Inner(Parent<'g, R>, Inner<'g, R>),
}

/// An inner node on the path to a node.
pub(super) struct OnPath<'g, R> {
    inner: Inner<'g, R>,
    /// The depth at which it branches.
    branch: usize,
}

impl<M: Memory, R: Reach> Tree<M, R> {
    /// The node of a name. `pass` sees each inner node on the way, the named one included, until it
    /// returns false; then there is none.
    pub(super) fn follow<'g>(
        &'g self,
        name: &NodeKey,
        guard: &'g Guard<'g>,
        mut pass: impl FnMut(&OnPath<'g, R>) -> bool,
    ) -> Result<Option<Found<'g, R>>, Restart> {
        let (mut parent, mut link) = self.root.read(self.store.pinned(guard))?;
        let mut depth = 0;
        loop {
            if let Some(terminal) = link.terminal(self.base) {
                let named = name.height == 0 && terminal.covers(&name.key);
                return Ok(named.then_some(Found::Terminal(parent, terminal)));
            }
            let Some(inner) = link.inner() else {
                return Ok(None);
            };
            let inner = self.enter(inner, &parent)?;
            self.charge_node(inner.link(), &name.key, depth);
            let Step::Goes {
                depth: branch,
                at,
                child,
                ..
            } = inner.step(&name.key, depth)?
            else {
                return Ok(None);
            };
            let here = OnPath { inner, branch };
            if branch > name.key.len() || !pass(&here) {
                return Ok(None);
            }
            if name.height > 0 && branch == name.key.len() {
                return Ok(Some(Found::Inner(parent, inner)));
            }
            parent = Parent::Node(inner, at);
            (link, depth) = (child, branch + usize::from(at > 0));
        }
    }

    /// Moves one node, if the single boundary allows.
    pub fn relocate(&self, name: &NodeKey, to: Goal<'_>, guard: &Guard) -> Move {
        self.retry(|| match self.follow(name, guard, |_| true)? {
            None => Ok(Move::Stale),
            Some(Found::Terminal(parent, Terminal::Leaf(leaf))) => {
                self.move_leaf(parent, leaf, to, guard)
            }
            Some(Found::Terminal(parent, terminal)) => {
                self.move_shared(parent, terminal, to, guard)
            }
            Some(Found::Inner(parent, inner)) => self.move_inner(parent, inner, to, guard),
        })
    }

    /// Bytes of a node, if there is one of this name.
    pub fn size_of(&self, name: &NodeKey, guard: &Guard) -> Result<Option<usize>, Restart> {
        let found = self.follow(name, guard, |_| true)?;
        Ok(found.map(|found| match found {
            Found::Terminal(_, terminal) => {
                terminal.bytes() + self.block_of(terminal).map_or(0, ValueBlock::slot)
            }
            Found::Inner(_, inner) => inner.kind().bytes::<R>(),
        }))
    }

    /// The reason why a node below this parent cannot move, if there is one.
    fn stays(&self, parent: &Parent<'_, R>, link: StoredLink, goal: Goal<'_>) -> Option<Move> {
        if goal.has(self.store.arenas(), link.address(self.base)) {
            return Some(Move::AlreadyThere);
        }
        let (from, to) = (self.tier_of(link), goal.tier);
        (to < from && self.tier_of_parent(parent) > to).then_some(Move::Blocked)
    }

    fn move_leaf(
        &self,
        parent: Parent<'_, R>,
        leaf: Leaf<'_>,
        goal: Goal<'_>,
        guard: &Guard,
    ) -> Result<Move, Restart> {
        let terminal = Terminal::Leaf(leaf);
        let link = *terminal.link(self.base);
        let value = leaf.value();
        if let Some(stays) = self.stays(&parent, link, goal) {
            let block = self.block_of(terminal);
            let elsewhere = |it: &ValueBlock| goal.avoids(it.address());
            if stays != Move::AlreadyThere || !block.as_ref().is_some_and(elsewhere) {
                return Ok(stays);
            }
        }
        let Ok(slot) = self.store.allocate_in(goal.tier, leaf.bytes()) else {
            return Ok(Move::Full);
        };
        let block = match self.in_blocks {
            true => ValueCopy::new(&self.store, value, goal),
            false => Ok(None),
        };
        let Ok(block) = block else {
            return Ok(Move::Full);
        };
        let held = parent.upgrade()?;
        let locked = leaf.lock()?;
        if self.in_blocks && leaf.value().word() != value.word() {
            return Err(Restart);
        }
        self.charge_copy(terminal, &slot);
        let heat = leaf.heat().load(Relaxed);
        let copy = FreshLeaf::new(slot, self.base, leaf.key(), heat);
        self.tell_moved(terminal, &copy);
        let (copy, copied) = match block {
            None => (copy.with(leaf.value().word()), None),
            Some(block) => {
                let (copy, copied) = copy.with_copy(&locked, block.make(value));
                (copy, Some(copied))
            }
        };
        self.replace(held, LockedTerminal::Leaf(locked), copy, goal.tier, guard);
        if let Some(copied) = copied {
            copied.reclaim(&self.store, guard);
        }
        let from = self.tier_of(link);
        self.store.count_move(from, goal.tier, leaf.bytes());
        Ok(Move::Moved(1))
    }

    /// The same for a pack or a dense leaf.
    fn move_shared(
        &self,
        parent: Parent<'_, R>,
        terminal: Terminal<'_>,
        goal: Goal<'_>,
        guard: &Guard,
    ) -> Result<Move, Restart> {
        let link = *terminal.link(self.base);
        if let Some(stays) = self.stays(&parent, link, goal) {
            return Ok(stays);
        }
        let Ok(slot) = self.store.allocate_in(goal.tier, terminal.bytes()) else {
            return Ok(Move::Full);
        };
        let held = parent.upgrade()?;
        let mut old = terminal.lock()?;
        self.charge_copy(terminal, &slot);
        let copy = self.copy_shared(&old, slot);
        if seeded::has(Bug::CopiedBeforeLocked) {
            drop(old);
            std::thread::yield_now();
            old = terminal.lock()?;
        }
        self.tell_moved(terminal, &copy);
        self.replace(held, old, copy, goal.tier, guard);
        let from = self.tier_of(link);
        self.store.count_move(from, goal.tier, terminal.bytes());
        Ok(Move::Moved(1))
    }

    /// Copies a pack or a dense leaf into a slot of its own size.
    fn copy_shared<'t>(&self, old: &LockedTerminal<'_>, slot: Slot<'t>) -> Fresh<'t> {
        let (base, heat) = (self.base, old.terminal().heat().load(Relaxed));
        match old {
            LockedTerminal::Leaf(_) => unreachable!("leaves are copied with what lies beside them"),
            LockedTerminal::Pack(old) => Fresh::pack(slot, base, old.depth(), &old.all(), heat),
            LockedTerminal::DenseLeaf(old) => {
                let dense = old.node();
                Fresh::dense(slot, base, dense.least(), dense.capacity(), heat, |copy| {
                    copy.take_over(old);
                })
            }
        }
    }

    /// Tells the memory that a terminal node is copied.
    fn charge_copy(&self, old: Terminal<'_>, to: &Slot<'_>) {
        self.memory().charge_access(old.address(), old.bytes());
        self.memory().charge_access(to.address(), old.bytes());
    }

    /// Tells the placement that a leaf moves, before anything changes: it may panic.
    fn tell_moved(&self, old: Terminal<'_>, copy: &Fresh<'_>) {
        let (old, new) = (self.leaf_ref(old), self.leaf_ref(copy.terminal(self.base)));
        self.store.placement.leaf_moved(old, new);
    }

    /// The terminal node that covers a key, and its parent, if there is one.
    pub fn parent_of<'g>(
        &'g self,
        key: &[u8],
        guard: &'g Guard<'g>,
    ) -> Result<Option<(Parent<'g, R>, Terminal<'g>)>, Restart> {
        let found = self.follow(&NodeKey::leaf(key.into()), guard, |_| true)?;
        Ok(match found {
            Some(Found::Terminal(parent, terminal)) => Some((parent, terminal)),
            _ => None,
        })
    }

    /// The terminal node that covers a key, if there is one.
    pub fn terminal_of<'g>(&'g self, key: &[u8], guard: &'g Guard<'g>) -> Option<Terminal<'g>> {
        let found = self.retry(|| self.parent_of(key, guard));
        found.map(|(_, terminal)| terminal)
    }

    fn move_inner(
        &self,
        parent: Parent<'_, R>,
        inner: Inner<'_, R>,
        goal: Goal<'_>,
        guard: &Guard,
    ) -> Result<Move, Restart> {
        let link = **inner.link();
        if let Some(stays) = self.stays(&parent, link, goal) {
            return Ok(stays);
        }
        let (from, to) = (self.tier_of(link), goal.tier);
        if to > from && inner.get(|body| self.has_child_faster_than(to, body))? {
            return Ok(Move::Blocked);
        }
        let bytes = inner.kind().bytes::<R>();
        let Ok(slot) = self.store.allocate_in(goal.tier, bytes) else {
            return Ok(Move::Full);
        };
        let held = parent.upgrade()?;
        let old = inner.upgrade()?;
        self.memory().charge_access(link.address(self.base), bytes);
        self.memory().charge_access(slot.address(), bytes);
        let copy = FreshInner::copy_of(slot, self.base, old, guard);
        held.replace_inner(copy).reclaim(&self.store, guard);
        self.store.count_move(from, to, bytes);
        Ok(Move::Moved(1))
    }

    /// Moves a node and its ancestors in slower tiers to this one, ancestors first.
    pub fn promote(&self, name: &NodeKey, to: TierId) -> Move {
        let mut moved = 0;
        loop {
            // One pin a node: where a thread moves the path back as fast, garbage must not pile up.
            let guard = self.store.pin();
            let slow = |link| self.tier_of(link) > to;
            let path = self.retry(|| self.on_path(name, slow, &guard));
            let slow = match path.as_deref() {
                Ok([slow, ..]) => slow,
                Ok([]) if moved == 0 => return Move::AlreadyThere,
                Err(Stale) if moved == 0 => return Move::Stale,
                Ok([]) | Err(Stale) => return Move::Moved(moved),
            };
            match self.relocate(slow, Goal::promotion(to), &guard) {
                Move::Moved(nodes) => moved += nodes,
                Move::Full => return Move::Full,
                // The tree changed in between: look again.
                Move::AlreadyThere | Move::Stale | Move::Blocked => {}
            }
        }
    }

    /// The `wanted` nodes on the path to a node, itself included, topmost first.
    fn on_path(
        &self,
        name: &NodeKey,
        wanted: impl Fn(StoredLink) -> bool,
        guard: &Guard,
    ) -> Result<Result<Vec<NodeKey>, Stale>, Restart> {
        let mut nodes = Vec::new();
        let found = self.follow(name, guard, |here| {
            if wanted(**here.inner.link()) {
                nodes.push(branching(&name.key[..here.branch]));
            }
            true
        })?;
        Ok(match found {
            None => Err(Stale),
            Some(Found::Terminal(_, terminal)) => {
                if wanted(*terminal.link(self.base)) {
                    nodes.push(name.clone());
                }
                Ok(nodes)
            }
            Some(Found::Inner(..)) => Ok(nodes),
        })
    }

    /// The lowest inner node above a node.
    pub fn node_above(&self, name: &NodeKey, guard: &Guard) -> Result<Option<NodeKey>, Restart> {
        let mut above = None;
        self.follow(name, guard, |here| {
            let is_named = name.height > 0 && here.branch == name.key.len();
            if !is_named {
                above = Some(here.branch);
            }
            true
        })?;
        Ok(above.map(|branch| branching(&name.key[..branch])))
    }

    /// How many inner nodes lie above a node.
    pub fn nodes_above(&self, name: &NodeKey, guard: &Guard) -> Result<usize, Restart> {
        let mut above = 0;
        self.follow(name, guard, |here| {
            let is_named = name.height > 0 && here.branch == name.key.len();
            above += usize::from(!is_named);
            true
        })?;
        Ok(above)
    }

    /// The names of a node's children in faster tiers than this.
    pub fn children_faster_than(
        &self,
        tier: TierId,
        name: &NodeKey,
        guard: &Guard,
    ) -> Result<Vec<NodeKey>, Restart> {
        let Some(Found::Inner(_, inner)) = self.follow(name, guard, |_| true)? else {
            return Ok(Vec::new());
        };
        let links = inner.children(|link| self.tier_of(link) < tier)?;
        let names = links.into_iter().map(|(_, link)| {
            if let Some(terminal) = link.terminal(self.base) {
                return Ok(NodeKey::leaf((&*terminal.key()).into()));
            }
            let child = link.inner().ok_or(Restart)?;
            let child = self.enter(child, &Parent::Node(inner, AT_END))?;
            self.name_of(child, name.key.len() + 1)
        });
        names.collect()
    }

    /// The name of an inner node whose prefix begins at `depth`.
    pub fn name_of(&self, inner: Inner<'_, R>, depth: usize) -> Result<NodeKey, Restart> {
        let branch = depth + inner.get(|body| body.prefix_len())?;
        let path = self.key_below(inner)?;
        Ok(branching(&path[..branch]))
    }

    /// A fast inner node without fast ones below it, other than the topmost.
    pub fn draw_fast_inner(
        &self,
        mut draw: u64,
        guard: &Guard,
    ) -> Result<Option<NodeKey>, Restart> {
        let (mut parent, link) = self.root.read(self.store.pinned(guard))?;
        let (mut depth, mut lowest) = (0, None);
        let is_fast = |link: StoredLink| self.is_fast(link);
        let Some(mut link) = link.inner().filter(|link| is_fast(***link)) else {
            return Ok(None);
        };
        loop {
            let inner = self.enter(link, &parent)?;
            let below = inner.children(|child| !child.is_terminal() && is_fast(child))?;
            let len = inner.get(|body| body.prefix_len())?;
            let count = below.len() as u64;
            let drawn = below.get(draw.checked_rem(count).unwrap_or(0) as usize);
            let Some(child) = drawn.and_then(|(_, link)| link.inner()) else {
                return match lowest {
                    Some(depth) => self.name_of(inner, depth).map(Some),
                    None => Ok(None),
                };
            };
            link = child;
            draw /= count;
            parent = Parent::Node(inner, AT_END);
            depth += len + 1;
            lowest = Some(depth);
        }
    }
}

/// No such node.
struct Stale;

/// The name of the inner node that branches after these bytes.
pub(super) fn branching(path: &[u8]) -> NodeKey {
    NodeKey {
        key: path.into(),
        height: 1,
    }
}
