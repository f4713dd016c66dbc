//! Inserting records, and the structure modifications that make room for them.
//!
//! A record that is not there needs a place in a pack or a row, or one leaf and one of: a place in
//! the node where its path ends; a larger such node; an inner node between that and a leaf, or
//! inside a compressed prefix, where two keys part. Where records may share a node, `share.rs` has
//! what becomes of it.
//!
//! Locks are taken parent first. Memory is taken before any lock.

use timberline_placement::Access;
use timberline_sync::Restart;
use timberline_sync::epoch::Guard;
use timberline_tier::{Memory, TierId};

use super::descent::Hit;
use super::fresh::{Fresh, leaf_below};
use super::node::{Kind, Leaf, Link, Position, Reach, Row, Step, Tip, position};
use super::tree::{Inner, Parent, Root, Tree, common};
use crate::InsertError;
use crate::value::Change;

/// What became of an attempt: the value before, which is there as long as the thread stays pinned;
/// or why there was none.
pub(super) type Put = Result<Option<u64>, InsertError>;

/// An attempt to insert one record.
pub(super) struct Insert<'a, C> {
    pub key: &'a [u8],
    pub change: &'a mut C,
    /// Whether prefixes are compared as a whole on the way down, with the help of leaves.
    careful: bool,
}

impl<C: Change> Insert<'_, C> {
    /// The value of a record that is not there yet, once nothing can keep it from being linked.
    pub fn made(&mut self) -> u64 {
        let value = self.change.change(None);
        value.expect("a record is made of nothing")
    }
}

/// Why an attempt starts over.
pub(super) enum Again {
    /// A writer got in between.
    Restart,
    /// What was taken on trust was wrong.
    Carefully,
}

impl From<Restart> for Again {
    fn from(_: Restart) -> Self {
        Again::Restart
    }
}

impl<M: Memory, R: Reach> Tree<M, R> {
    /// Inserts or replaces by what `change` makes of the value before, atomically. Returns what
    /// `out` makes of the value before.
    pub fn upsert<T>(
        &self,
        key: &[u8],
        mut change: impl Change,
        mut out: impl FnMut(u64) -> T,
    ) -> Result<Option<T>, InsertError> {
        self.store.reclaiming(&mut change, |change| {
            let guard = self.store.pin();
            // Where the record is, or a row with its place, there is nothing to build.
            let there = match self.find(key, &guard) {
                Some(Hit::Leaf(leaf)) => self.change(leaf, change, &guard).map(|put| put.map(Some)),
                Some(Hit::InPack(pack, _)) => {
                    let before = self.change_in_pack(pack, key, change);
                    before.map(|before| Ok(Some(before)))
                }
                Some(Hit::InRow(row, at, _)) => self.change_in_row(row, at, true, change).map(Ok),
                None => Err(Restart),
            };
            let put = there.unwrap_or_else(|Restart| self.try_upsert(key, change, &guard));
            Ok(put?.map(&mut out))
        })
    }

    fn try_upsert<C: Change>(&self, key: &[u8], change: &mut C, guard: &Guard) -> Put {
        let mut insert = Insert {
            key,
            change,
            careful: false,
        };
        self.retry(|| {
            self.descend(&mut insert, guard).map_err(|again| {
                insert.careful |= matches!(again, Again::Carefully);
                Restart
            })
        })
    }

    fn descend<C: Change>(&self, insert: &mut Insert<'_, C>, guard: &Guard) -> Result<Put, Again> {
        let root = self.root.read()?;
        let mut parent = Parent::Root(root);
        let mut link = root.get(Root::link)?;
        let (mut depth, mut level, mut on_trust) = (0, 0u8, false);
        loop {
            if link.is_none() {
                return self.hang(insert, parent, guard);
            }
            match self.tip_at(link, guard) {
                Some(Tip::Leaf(leaf)) => {
                    return self.meet(insert, parent, leaf, depth, level, guard);
                }
                Some(Tip::Pack(pack)) => {
                    return self.meet_pack(insert, parent, pack, depth, level, guard);
                }
                Some(Tip::Row(row)) => {
                    return self.meet_row(insert, parent, row, depth, level, guard);
                }
                None => {}
            }
            let inner = self.enter(link, &parent, guard)?;
            self.charge_node(link, insert.key, depth);
            let step = inner
                .node
                .get(|body| body.step(link.kind(), insert.key, depth))?;
            let (branch, at, child, trusted) = match step {
                Step::Differs(same) => {
                    return self.part(insert, parent, inner, depth, same, level, guard);
                }
                Step::Goes {
                    depth,
                    at,
                    child,
                    trusted,
                } => (depth, at, child, trusted),
            };
            if trusted && insert.careful {
                let same = self.same(insert.key, inner, branch, guard)?;
                if same < depth {
                    return Err(Again::Restart);
                }
                if same < branch {
                    return self.part(insert, parent, inner, depth, same - depth, level, guard);
                }
            }
            on_trust |= trusted;
            level = level.saturating_add(1);
            if child.is_none() {
                if on_trust
                    && !insert.careful
                    && self.same(insert.key, inner, branch, guard)? < branch
                {
                    return Err(Again::Carefully);
                }
                return self.add(insert, parent, inner, branch, at, level, guard);
            }
            parent = Parent::Node(inner, at);
            (link, depth) = (child, branch + usize::from(at > 0));
        }
    }

    /// A new leaf below this parent.
    fn leaf_for<C: Change>(
        &self,
        insert: &mut Insert<'_, C>,
        below: TierId,
        level: u8,
    ) -> Result<Fresh<'_, M, R>, InsertError> {
        let leaf = self.fresh_leaf(leaf_below(below, level), insert.key)?;
        if C::PREPARES {
            insert.change.prepare(None, self.tier_of(leaf.link))?;
        }
        Ok(leaf)
    }

    /// Gives a new leaf its value, once nothing can keep it from being linked.
    fn fill<C: Change>(&self, leaf: &Fresh<'_, M, R>, insert: &mut Insert<'_, C>, guard: &Guard) {
        self.leaf_at(leaf.link, guard).set_first(insert.made());
    }

    fn inserted(&self, leaf: Link, level: u8, guard: &Guard) {
        self.store.count(1);
        self.store.count_leaves(1);
        self.reaches(level);
        self.note(Tip::Leaf(self.leaf_at(leaf, guard)), Access::Insert);
    }

    /// Hangs the first leaf below the root.
    fn hang<C: Change>(
        &self,
        insert: &mut Insert<'_, C>,
        parent: Parent<'_, R>,
        guard: &Guard,
    ) -> Result<Put, Again> {
        let leaf = match self.leaf_for(insert, self.tier_of_parent(&parent), 0) {
            Ok(leaf) => leaf,
            Err(refused) => return Ok(Err(refused)),
        };
        let link = leaf.link;
        let held = parent.upgrade()?;
        self.fill(&leaf, insert, guard);
        leaf.keep();
        held.set(link);
        drop(held);
        self.inserted(link, 0, guard);
        Ok(Ok(None))
    }

    /// The path ends at a leaf: that of the key, or one to part from.
    fn meet<C: Change>(
        &self,
        insert: &mut Insert<'_, C>,
        parent: Parent<'_, R>,
        leaf: Leaf<'_>,
        depth: usize,
        level: u8,
        guard: &Guard,
    ) -> Result<Put, Again> {
        self.visit_leaf(leaf);
        if leaf.key() == insert.key {
            return Ok(self.change(leaf, insert.change, guard)?.map(Some));
        }
        if self.shares {
            return self.pair_up(insert, parent, leaf, depth, level, guard);
        }
        self.part_from(insert, parent, Tip::Leaf(leaf), depth, level, guard)
    }

    /// The path ends at a row: that of the key, or one to part from.
    fn meet_row<C: Change>(
        &self,
        insert: &mut Insert<'_, C>,
        parent: Parent<'_, R>,
        row: Row<'_>,
        depth: usize,
        level: u8,
        guard: &Guard,
    ) -> Result<Put, Again> {
        let Some(at) = row.place_of(insert.key) else {
            return self.part_from(insert, parent, Tip::Row(row), depth, level, guard);
        };
        self.visit_row(row, at);
        let seen = row.read()?;
        parent.validate()?;
        if seen.get(|records| records.get(at).is_none() && records.is_full())? {
            return self.widen(insert, parent, (row, seen), at, level, guard);
        }
        Ok(Ok(self.change_in_row(row, at, true, insert.change)?))
    }

    /// The path ends at what holds records of other keys.
    fn part_from<C: Change>(
        &self,
        insert: &mut Insert<'_, C>,
        parent: Parent<'_, R>,
        tip: Tip<'_>,
        depth: usize,
        level: u8,
        guard: &Guard,
    ) -> Result<Put, Again> {
        let (key, other) = (insert.key, tip.key());
        let same = common(&other, key);
        if same < depth {
            return Err(Again::Carefully);
        }
        let fork = Fork {
            prefix: &key[depth..same],
            path: &key[..same],
            old: self.link_to(tip),
            old_at: position(&other, same),
            new_at: position(key, same),
        };
        self.fork(insert, parent, fork, level, guard, None)
    }

    /// The key leaves a node's prefix after `same` bytes of it.
    #[allow(clippy::too_many_arguments)]
    fn part<C: Change>(
        &self,
        insert: &mut Insert<'_, C>,
        parent: Parent<'_, R>,
        inner: Inner<'_, R>,
        depth: usize,
        same: usize,
        level: u8,
        guard: &Guard,
    ) -> Result<Put, Again> {
        let (key, split) = (insert.key, depth + same);
        let below = self.key_below(inner, guard)?;
        // What was taken on trust further up.
        if below.get(..split) != key.get(..split) {
            return Err(Again::Carefully);
        }
        let len = inner.node.get(|body| body.prefix_len())?;
        let rest = &below[split + 1..depth + len];
        let fork = Fork {
            prefix: &key[depth..split],
            path: &key[..split],
            old: inner.link,
            old_at: position(&below, split),
            new_at: position(key, split),
        };
        self.fork(insert, parent, fork, level, guard, Some((inner, rest)))
    }

    /// Puts a new inner node between a parent and what hangs there, and a new leaf beside that.
    /// What hangs there may be an inner node whose prefix is `cut` to some bytes.
    fn fork<C: Change>(
        &self,
        insert: &mut Insert<'_, C>,
        parent: Parent<'_, R>,
        fork: Fork<'_>,
        level: u8,
        guard: &Guard,
        cut: Option<(Inner<'_, R>, &[u8])>,
    ) -> Result<Put, Again> {
        let new = self.in_place_of(fork.old, 1, &parent, level);
        let level = level.saturating_add(1);
        let inner = match self.fresh_inner(new, Kind::N3) {
            Ok(inner) => inner,
            Err(full) => return Ok(Err(full.into())),
        };
        let leaf = match self.leaf_for(insert, self.tier_of(inner.link), level) {
            Ok(leaf) => leaf,
            Err(refused) => return Ok(Err(refused)),
        };
        let parent = parent.upgrade()?;
        let held = cut.map(|(inner, _)| inner.node.upgrade()).transpose()?;
        let body = inner.link.claim::<R>(self.base, guard);
        body.reset(Kind::N3, fork.prefix);
        body.insert(fork.old_at, fork.old);
        body.insert(fork.new_at, leaf.link);
        // Code of others, which may panic, runs before anything changes.
        self.check_boundary(inner.link, &body, fork.path);
        drop(body);
        self.fill(&leaf, insert, guard);
        let (above, link) = (inner.link, leaf.link);
        inner.keep();
        leaf.keep();
        if let (Some(held), Some((_, rest))) = (held, cut) {
            held.set_prefix(rest.len(), rest.iter().copied());
        }
        parent.set(above);
        drop(parent);
        self.inserted(link, level, guard);
        Ok(Ok(None))
    }

    /// Adds a leaf to the node where the key's path ends.
    #[allow(clippy::too_many_arguments)]
    fn add<C: Change>(
        &self,
        insert: &mut Insert<'_, C>,
        parent: Parent<'_, R>,
        inner: Inner<'_, R>,
        branch: usize,
        at: Position,
        level: u8,
        guard: &Guard,
    ) -> Result<Put, Again> {
        let key = insert.key;
        let (full, prefix_len) = inner
            .node
            .get(|body| (body.is_full_for(at), body.prefix_len()))?;
        if !full {
            let leaf = match self.leaf_for(insert, self.tier_of(inner.link), level) {
                Ok(leaf) => leaf,
                Err(refused) => return Ok(Err(refused)),
            };
            let link = leaf.link;
            let held = inner.node.upgrade()?;
            self.fill(&leaf, insert, guard);
            leaf.keep();
            held.insert(at, link);
            drop(held);
            self.inserted(link, level, guard);
            return Ok(Ok(None));
        }
        let kind = Kind::of(inner.link.kind().capacity() + 1);
        let new = self.in_place_of(inner.link, 1, &parent, level - 1);
        let larger = match self.fresh_inner(new, kind) {
            Ok(larger) => larger,
            Err(full) => return Ok(Err(full.into())),
        };
        let leaf = match self.leaf_for(insert, self.tier_of(larger.link), level) {
            Ok(leaf) => leaf,
            Err(refused) => return Ok(Err(refused)),
        };
        let parent = parent.upgrade()?;
        let old = inner.node.upgrade()?;
        let body = larger.link.claim::<R>(self.base, guard);
        body.reset(kind, &key[branch - prefix_len..branch]);
        body.take_over(&old);
        body.insert(at, leaf.link);
        // Code of others, which may panic, runs before anything changes.
        self.check_boundary(larger.link, &body, &key[..branch]);
        drop(body);
        self.fill(&leaf, insert, guard);
        let (above, link) = (larger.link, leaf.link);
        larger.keep();
        leaf.keep();
        parent.set(above);
        drop(parent);
        old.retire();
        self.reclaim_inner(inner.link, guard);
        self.inserted(link, level, guard);
        Ok(Ok(None))
    }

    /// How many bytes of its path, which ends at `branch`, a node has in common with a key.
    fn same(
        &self,
        key: &[u8],
        inner: Inner<'_, R>,
        branch: usize,
        guard: &Guard,
    ) -> Result<usize, Restart> {
        let below = self.key_below(inner, guard)?;
        Ok(common(&below[..branch], key))
    }
}

/// Where two paths part.
struct Fork<'a> {
    /// The bytes between the parent's branch and this one.
    prefix: &'a [u8],
    /// All bytes up to this one.
    path: &'a [u8],
    /// What hung there.
    old: Link,
    old_at: Position,
    new_at: Position,
}
