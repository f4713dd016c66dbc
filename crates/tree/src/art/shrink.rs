//! Removing records, and the structure modifications that follow: a smaller node, or none where one child is left; leaves instead
//! of a row, and one instead of a pack, where few records are left.
//!
//! One step removes the record and makes its node fit, so no reader ever meets an inner node with fewer than two entries.
//! Where there is no memory for a smaller node, or for leaves, the large one stays.

use std::sync::atomic::Ordering::Relaxed;

use timberline_placement::{Access, NewNode};
use timberline_sync::Restart;
use timberline_sync::epoch::{self, Guard};
use timberline_tier::Memory;

use super::node::{
    AT_END, Few, Kind, Link, LockedTip, Pack, Position, ROW_DEPTH, ROW_LEAST, Reach, Row, Step,
    Tip, number,
};
use super::tree::{Inner, Parent, Root, Tree};
use crate::value::Keep;

/// A record's place: what holds it and no other, the node where that hangs, and that node's parent.
struct Spot<'g, R> {
    key: &'g [u8],
    above: Parent<'g, R>,
    inner: Inner<'g, R>,
    at: Position,
    /// The depth at which the inner node branches.
    branch: usize,
    level: u8,
    tip: Tip<'g>,
}

/// What became of a record that should be removed from a pack or a row.
enum Within {
    NotThere,
    /// It is the only one: what holds it goes with it.
    Last,
    /// Its value, and how many are left.
    Removed(u64, usize),
}

/// Locks what holds a record and no other. Returns the value too.
fn lock_last<'g>(tip: Tip<'g>, key: &[u8]) -> Result<(LockedTip<'g>, u64), Restart> {
    let locked = tip.lock()?;
    let value = locked.last_of(key).ok_or(Restart)?;
    Ok((locked, value))
}

impl<M: Memory, R: Reach> Tree<M, R> {
    /// Removes a record. Returns what `out` makes of its value.
    pub fn remove<H: Keep, T>(&self, key: &[u8], out: impl FnOnce(u64) -> T) -> Option<T> {
        let guard = epoch::pin();
        let value = self.retry(|| self.try_remove(key, &guard))?;
        if H::IN_BLOCKS {
            self.store.reclaim_value(value, &guard);
        }
        Some(out(value))
    }

    fn try_remove<'g>(&'g self, key: &'g [u8], guard: &'g Guard) -> Result<Option<u64>, Restart> {
        let root = self.root.read()?;
        let mut parent = Parent::Root(root);
        let mut link = root.get(Root::link)?;
        let (mut depth, mut level) = (0, 0u8);
        loop {
            if link.is_none() {
                return Ok(None);
            }
            if let Some(tip) = self.tip_at(link, guard) {
                // Only at the root; what hangs below a node is met from there.
                if let Some(done) = self.remove_within(tip, key, parent, 0, level, guard)? {
                    return Ok(done);
                }
                let held = parent.upgrade()?;
                let last = lock_last(tip, key)?;
                held.set(Link::NONE);
                return Ok(Some(self.removed(last, guard)));
            }
            let inner = self.enter(link, &parent, guard)?;
            self.visit(link, key, depth);
            let Step::Goes {
                depth: branch,
                at,
                child,
                ..
            } = inner.node.get(|body| body.step(link.kind(), key, depth))?
            else {
                return Ok(None);
            };
            if let Some(tip) = (!child.is_none())
                .then(|| self.tip_at(child, guard))
                .flatten()
            {
                let (hangs, below) = (Parent::Node(inner, at), branch + usize::from(at > 0));
                let done = self.remove_within(tip, key, hangs, below, level + 1, guard)?;
                if let Some(done) = done {
                    return Ok(done);
                }
                let spot = Spot {
                    key,
                    above: parent,
                    inner,
                    at,
                    branch,
                    level,
                    tip,
                };
                return self.take(spot, guard).map(Some);
            }
            parent = Parent::Node(inner, at);
            (link, depth) = (child, branch + usize::from(at > 0));
            level = level.saturating_add(1);
        }
    }

    /// Removes a record where it is, if what holds it can stay without it. `None`: it cannot. `Some(None)`: the record is not there.
    fn remove_within(
        &self,
        tip: Tip<'_>,
        key: &[u8],
        parent: Parent<'_, R>,
        depth: usize,
        level: u8,
        guard: &Guard,
    ) -> Result<Option<Option<u64>>, Restart> {
        let within = match tip {
            Tip::Leaf(leaf) => {
                self.visit_leaf(leaf);
                return Ok((leaf.key() != key).then_some(None));
            }
            Tip::Pack(pack) => self.remove_in_pack(pack, key, &parent)?,
            Tip::Row(row) => self.remove_in_row(row, key, &parent)?,
        };
        Ok(match within {
            Within::NotThere => Some(None),
            Within::Last => None,
            Within::Removed(value, left) => {
                // Whoever changes the parent just now may do it, or the next who removes a record.
                let _ = match tip {
                    Tip::Pack(pack) if left == 1 => self.single_out(pack, parent, level, guard),
                    Tip::Row(row) if left <= ROW_LEAST => {
                        self.dissolve(row, parent, depth, level, guard)
                    }
                    _ => Ok(()),
                };
                Some(Some(value))
            }
        })
    }

    fn remove_in_pack(
        &self,
        pack: Pack<'_>,
        key: &[u8],
        parent: &Parent<'_, R>,
    ) -> Result<Within, Restart> {
        let seen = pack.read()?;
        parent.validate()?;
        self.visit_pack(pack);
        let (value, count) = seen.get(|records| (records.get(number(key)), records.count()))?;
        let Some(value) = value else {
            return Ok(Within::NotThere);
        };
        if count == 1 {
            return Ok(Within::Last);
        }
        let held = pack.upgrade(seen)?;
        held.remove(number(key));
        drop(held);
        self.note(Tip::Pack(pack), Access::Reuse);
        self.store.count(-1);
        Ok(Within::Removed(value, count - 1))
    }

    /// Puts a leaf in the place of a pack of one record. Where there is no memory, the pack stays.
    fn single_out(
        &self,
        pack: Pack<'_>,
        parent: Parent<'_, R>,
        level: u8,
        guard: &Guard,
    ) -> Result<(), Restart> {
        let seen = pack.read()?;
        parent.validate()?;
        let held = seen.get(Few::all)?;
        let [(key, value)] = held[..] else {
            return Ok(());
        };
        let new = NewNode {
            height: 0,
            level,
            parent: self.tier_of_parent(&parent),
            twin: self.store.arenas().tier_of(pack.address()),
        };
        let Ok(fresh) = self.fresh_leaf(new, &key.to_be_bytes()) else {
            return Ok(());
        };
        let parent = parent.upgrade()?;
        let held = pack.upgrade(seen)?;
        let leaf = self.leaf_at(fresh.link, guard);
        leaf.set_first(value);
        leaf.heat().store(pack.heat().load(Relaxed), Relaxed);
        parent.set(fresh.link);
        drop(parent);
        held.retire();
        fresh.keep();
        self.reclaim_tip(Tip::Pack(pack), guard);
        Ok(())
    }

    fn remove_in_row(
        &self,
        row: Row<'_>,
        key: &[u8],
        parent: &Parent<'_, R>,
    ) -> Result<Within, Restart> {
        let seen = row.read()?;
        parent.validate()?;
        let Some(at) = row.place_of(key) else {
            return Ok(Within::NotThere);
        };
        self.visit_row(row, at);
        let (value, count) = seen.get(|records| (records.get(at), records.count()))?;
        let Some(value) = value else {
            return Ok(Within::NotThere);
        };
        if count == 1 {
            return Ok(Within::Last);
        }
        let held = row.upgrade(seen)?;
        held.remove(at);
        drop(held);
        self.note(Tip::Row(row), Access::Reuse);
        self.store.count(-1);
        Ok(Within::Removed(value, count - 1))
    }

    /// Puts leaves of their own, below an inner node, in the place of a row of few records. Where there is no memory, the row stays.
    fn dissolve(
        &self,
        row: Row<'_>,
        parent: Parent<'_, R>,
        depth: usize,
        level: u8,
        guard: &Guard,
    ) -> Result<(), Restart> {
        let seen = row.read()?;
        parent.validate()?;
        let records: Vec<(u8, u64)> = seen.get(|records| {
            let record = |at| records.get(at).map(|value| (at, value));
            (0..=u8::MAX).filter_map(record).collect()
        })?;
        if !(2..=ROW_LEAST).contains(&records.len()) {
            return Ok(());
        }
        let new = NewNode {
            height: 1,
            level,
            parent: self.tier_of_parent(&parent),
            twin: self.store.arenas().tier_of(row.address()),
        };
        let kind = Kind::of(records.len());
        let Ok(inner) = self.fresh_inner(new, kind) else {
            return Ok(());
        };
        let below = self.tier_of(inner.link);
        let new = NewNode {
            height: 0,
            level: level.saturating_add(1),
            parent: below,
            twin: below,
        };
        let leaves = records.iter().map(|&(at, value)| {
            let mut key = *row.least();
            key[ROW_DEPTH] = at;
            let leaf = self.fresh_leaf(new, &key)?;
            self.leaf_at(leaf.link, guard).set_first(value);
            Ok::<_, timberline_tier::OutOfMemory>(leaf)
        });
        let Ok(leaves) = leaves.collect::<Result<Vec<_>, _>>() else {
            return Ok(());
        };
        let parent = parent.upgrade()?;
        let held = row.upgrade(seen)?;
        let body = inner.link.claim::<R>(self.base, guard);
        body.reset(kind, &row.least()[depth..ROW_DEPTH]);
        for (&(at, _), leaf) in records.iter().zip(&leaves) {
            body.insert(1 + Position::from(at), leaf.link);
        }
        self.check_boundary(inner.link, &body, &row.least()[..ROW_DEPTH]);
        drop(body);
        parent.set(inner.link);
        drop(parent);
        held.retire();
        inner.keep();
        leaves.into_iter().for_each(super::fresh::Fresh::keep);
        self.reclaim_tip(Tip::Row(row), guard);
        self.store.count_leaves(records.len() as i64 - 1);
        self.reaches(level.saturating_add(1));
        Ok(())
    }

    /// Takes a leaf from its node, which fits what is left afterwards.
    fn take(&self, spot: Spot<'_, R>, guard: &Guard) -> Result<u64, Restart> {
        let left = spot.inner.node.get(|body| body.count())?.saturating_sub(1);
        if left == 1 {
            return self.collapse(spot, guard);
        }
        if let Some(kind) = spot.inner.link.kind().shrunk(left) {
            let new = NewNode {
                height: 1,
                level: spot.level,
                parent: self.tier_of_parent(&spot.above),
                twin: self.tier_of(spot.inner.link),
            };
            if let Ok(smaller) = self.fresh_inner(new, kind) {
                let above = spot.above.upgrade()?;
                let old = spot.inner.node.upgrade()?;
                let last = lock_last(spot.tip, spot.key)?;
                let path = &spot.key[..spot.branch];
                let body = smaller.link.claim::<R>(self.base, guard);
                body.reset(kind, &path[spot.branch - old.prefix_len()..]);
                old.each(AT_END, |at, link| {
                    if at != spot.at {
                        body.insert(at, link);
                    }
                    true
                });
                self.check_boundary(smaller.link, &body, path);
                drop(body);
                above.set(smaller.link);
                drop(above);
                old.retire();
                smaller.keep();
                self.reclaim_inner(spot.inner.link, guard);
                return Ok(self.removed(last, guard));
            }
        }
        let held = spot.inner.node.upgrade()?;
        let last = lock_last(spot.tip, spot.key)?;
        held.remove(spot.at);
        drop(held);
        Ok(self.removed(last, guard))
    }

    /// Takes one of two entries from a node, and puts the other in the node's place.
    fn collapse(&self, spot: Spot<'_, R>, guard: &Guard) -> Result<u64, Restart> {
        let above = spot.above.upgrade()?;
        let old = spot.inner.node.upgrade()?;
        let mut other = (AT_END, Link::NONE);
        old.each(AT_END, |at, link| {
            if at != spot.at {
                other = (at, link);
            }
            at == spot.at
        });
        let (at, link) = other;
        let last = lock_last(spot.tip, spot.key)?;
        if !link.is_tip() {
            // Who holds it waits for nothing that is locked here.
            let below = link.node::<R>(self.base, guard).lock()?;
            let own = &spot.key[spot.branch - old.prefix_len()..spot.branch];
            let byte = at.saturating_sub(1) as u8;
            let (prefix, _) = below.prefix();
            let len = own.len() + 1 + below.prefix_len();
            let bytes = own
                .iter()
                .copied()
                .chain([byte])
                .chain(prefix.iter().copied());
            below.set_prefix(len, bytes);
        }
        above.set(link);
        drop(above);
        old.retire();
        self.reclaim_inner(spot.inner.link, guard);
        Ok(self.removed(last, guard))
    }

    /// What held a record, and no other, is unlinked: retires it. Returns the value.
    fn removed(&self, (locked, value): (LockedTip<'_>, u64), guard: &Guard) -> u64 {
        let tip = locked.tip();
        locked.retire();
        self.note(tip, Access::Reuse);
        self.store.count(-1);
        self.store.count_leaves(-1);
        self.reclaim_tip(tip, guard);
        value
    }
}
