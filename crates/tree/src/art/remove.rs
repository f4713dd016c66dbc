//! Removing records, and the structure modifications that follow: an inner node with one child left
//! is removed, one with few children becomes smaller. A dense leaf with few records becomes a
//! smaller one or a pack, a pack of one record becomes a leaf.
//!
//! One step removes the record and shrinks its node, so no reader meets an inner node with fewer
//! than two entries. If there is no memory for a smaller node, the large one stays.

use std::sync::atomic::Ordering::Relaxed;

use timberline_placement::Access;
use timberline_sync::Restart;
use timberline_sync::epoch::Guard;
use timberline_tier::Memory;

use super::node::{
    DENSE_DEPTH, DENSE_KEYS, DenseCapacity, DenseLeaf, Fresh, FreshInner, FreshLeaf, Inner,
    LockedParent, LockedShared, LockedTerminal, PACK_BYTES, PACKED, Pack, PackedRecords, Parent,
    Position, Reach, Records, Removed, Shared, Step, Terminal, leaf_bytes, number,
};
use super::pop::Ends;
use super::tree::Tree;
use crate::seeded::{self, Bug};
use crate::value::Loan;

/// The location of a record that is the only one in its terminal node: that node, its parent and
/// its grandparent.
#[derive(Clone, Copy)]
struct Location<'k, 'g, R> {
    key: &'k [u8],
    above: Parent<'g, R>,
    inner: Inner<'g, R>,
    at: Position,
    /// The depth at which the inner node branches.
    branch: usize,
    level: u8,
    terminal: Terminal<'g>,
}

/// The parent of a terminal node, and the number of inner nodes above it.
struct Hanging<'g, R> {
    parent: Parent<'g, R>,
    level: u8,
}

/// The outcome of removing a record from a pack or a dense leaf.
enum Within<'g> {
    NotThere,
    /// It is the only record: its node has to be unlinked.
    Last,
    /// Its value, and the number of records left.
    Removed(Loan<'g>, usize),
}

/// Locks a terminal node with one record, if `ends` allow its value. Also returns the value.
fn lock_last<'g, R: Reach>(
    terminal: Terminal<'g>,
    key: &[u8],
    ends: &Ends<'_, R>,
) -> Result<(LockedTerminal<'g>, Loan<'g>), Restart> {
    let locked = terminal.lock()?;
    let value = locked.last_of(key);
    let value = value.filter(|value| ends.allow(value.word()));
    Ok((locked, value.ok_or(Restart)?))
}

/// Removes a record from a pack or a dense leaf, unless it is the last one there. `find` returns
/// the record's value, if it is present and may be removed, and the number of records. `lock`
/// locks the parent, if it has to change before the leaf of so many records does.
fn remove_in<'g, T, R: Reach>(
    shared: Shared<'g, T>,
    parent: &Parent<'g, R>,
    ends: &Ends<'_, R>,
    find: impl FnOnce(&T) -> (Option<u64>, usize),
    lock: impl FnOnce(usize) -> Result<Option<LockedParent<'g, R>>, Restart>,
    remove: impl FnOnce(LockedShared<'g, T>, Option<LockedParent<'g, R>>),
) -> Result<Within<'g>, Restart> {
    let seen = shared.read()?;
    parent.validate()?;
    let (value, count) = seen.get(find)?;
    let Some(value) = value.filter(|&value| ends.allow(value)) else {
        return Ok(Within::NotThere);
    };
    if count == 1 {
        return Ok(Within::Last);
    }
    let above = lock(count)?;
    let held = LockedShared::upgrade(seen)?;
    ends.hold(usize::from(above.is_some()))?;
    remove(held, above);
    Ok(Within::Removed(shared.lend(value), count - 1))
}

impl<M: Memory, R: Reach> Tree<M, R> {
    /// Removes a record, if its value is `only` or `only` is `None`. Returns the result of `out`
    /// for its value.
    pub fn remove<T>(
        &self,
        key: &[u8],
        only: Option<u64>,
        out: impl FnOnce(Loan<'_>) -> T,
    ) -> Option<T> {
        let guard = self.store.pin();
        let value = self.retry(|| self.try_remove(key, &mut Ends::any(only), &guard))?;
        Some(out(value))
    }

    /// Removes a record, if `ends` allow it. Returns its value.
    pub(super) fn try_remove<'g>(
        &'g self,
        key: &[u8],
        ends: &mut Ends<'g, R>,
        guard: &'g Guard<'g>,
    ) -> Result<Option<Loan<'g>>, Restart> {
        let (mut parent, mut link) = self.root.read(self.store.pinned(guard))?;
        ends.pass(parent)?;
        let (mut depth, mut level) = (0, 0u8);
        loop {
            if let Some(terminal) = link.terminal(self.base) {
                // Only at the root; what hangs below a node is met from there.
                let within = Hanging { parent, level };
                if let Some(done) = self.remove_within(terminal, key, within, ends, guard)? {
                    return Ok(done);
                }
                return self.unlink(parent, terminal, key, ends, guard).map(Some);
            }
            let Some(inner) = link.inner() else {
                return Ok(None);
            };
            let inner = self.enter(inner, &parent)?;
            self.charge_node(inner.link(), key, depth);
            let Step::Goes {
                depth: branch,
                at,
                child,
                ..
            } = inner.step(key, depth)?
            else {
                return Ok(None);
            };
            if !ends.pass(Parent::Node(inner, at))? {
                return Ok(None);
            }
            if let Some(terminal) = child.terminal(self.base) {
                let within = Hanging {
                    parent: Parent::Node(inner, at),
                    level: level.saturating_add(1),
                };
                if let Some(done) = self.remove_within(terminal, key, within, ends, guard)? {
                    return Ok(done);
                }
                let location = Location {
                    key,
                    above: parent,
                    inner,
                    at,
                    branch,
                    level,
                    terminal,
                };
                return self.take(location, ends, guard).map(Some);
            }
            parent = Parent::Node(inner, at);
            (link, depth) = (child, branch + usize::from(at > 0));
            level = level.saturating_add(1);
        }
    }

    /// Removes a record from its node, if the node can stay without it. `None`: the node cannot.
    /// `Some(None)`: the record is absent.
    fn remove_within<'g>(
        &self,
        terminal: Terminal<'g>,
        key: &[u8],
        Hanging { parent, level }: Hanging<'g, R>,
        ends: &Ends<'_, R>,
        guard: &Guard,
    ) -> Result<Option<Option<Loan<'g>>>, Restart> {
        let within = match terminal {
            Terminal::Leaf(leaf) => {
                self.visit_leaf(leaf);
                let is_it = leaf.key() == key && ends.allow(leaf.value().word());
                return Ok((!is_it).then_some(None));
            }
            Terminal::Pack(pack) => {
                let key = number(key);
                let find = |records: &PackedRecords| {
                    self.visit_pack(pack);
                    let value = records.get(key);
                    let value = value.filter(|_| ends.is_at_end(records, key));
                    (value, records.count())
                };
                remove_in(
                    pack,
                    &parent,
                    ends,
                    find,
                    |_| Ok(None),
                    |held, _| held.remove(key),
                )?
            }
            Terminal::DenseLeaf(dense) => {
                let Some(at) = dense.place_of(key) else {
                    return Ok(Some(None));
                };
                let find = |records: &Records| {
                    self.visit_dense(dense, at);
                    let value = records.get(at);
                    let value = value.filter(|_| ends.is_at_end_of_dense(records, at));
                    (value, records.count())
                };
                // The link to a dense leaf with all its records tells so.
                let is_told = |count| count == DENSE_KEYS && !seeded::has(Bug::StillToldFull);
                let lock = |count| match is_told(count) {
                    true => parent.upgrade().map(Some),
                    false => Ok(None),
                };
                remove_in(dense, &parent, ends, find, lock, |held, above| {
                    if let Some(above) = above {
                        above.tell_full(&held, self.base, false);
                    }
                    held.remove(at);
                })?
            }
        };
        Ok(match within {
            Within::NotThere => Some(None),
            Within::Last => None,
            Within::Removed(value, left) => {
                self.store.count(-1);
                self.note(terminal, Access::Reuse, guard);
                // The thread that changes the parent now may do it, or the next removal.
                let _ = match terminal {
                    Terminal::Pack(pack) if left == 1 => {
                        self.single_out(pack, parent, level, guard)
                    }
                    Terminal::DenseLeaf(dense) if dense.capacity().is_too_much_for(left) => {
                        self.narrow(dense, parent, level, guard)
                    }
                    _ => Ok(()),
                };
                Some(Some(value))
            }
        })
    }

    /// Replaces a pack of one record by a leaf. If there is no memory, the pack stays.
    fn single_out(
        &self,
        pack: Pack<'_>,
        parent: Parent<'_, R>,
        level: u8,
        guard: &Guard,
    ) -> Result<(), Restart> {
        let seen = pack.read()?;
        parent.validate()?;
        let held = seen.get(PackedRecords::all)?;
        let [(key, value)] = held[..] else {
            return Ok(());
        };
        let (old, bytes) = (Terminal::Pack(pack), leaf_bytes(DENSE_DEPTH + 1));
        let Ok(slot) = self.slot_for_terminal(bytes, old, &parent, level) else {
            return Ok(());
        };
        let parent = parent.upgrade()?;
        let held = LockedShared::upgrade(seen)?;
        let heat = pack.heat().load(Relaxed);
        let leaf = FreshLeaf::new(slot, self.base, &key.to_be_bytes(), heat).with(value);
        self.replace(parent, LockedTerminal::Pack(held), leaf, guard);
        Ok(())
    }

    /// Replaces a dense leaf by a smaller one, or the smallest by a pack. If there is no memory,
    /// the dense leaf stays.
    fn narrow(
        &self,
        dense: DenseLeaf<'_>,
        parent: Parent<'_, R>,
        level: u8,
        guard: &Guard,
    ) -> Result<(), Restart> {
        let seen = dense.read()?;
        parent.validate()?;
        let left = seen.get(|records| records.count())?;
        if !dense.capacity().is_too_much_for(left) {
            return Ok(());
        }
        let (old, capacity) = (Terminal::DenseLeaf(dense), dense.capacity().smaller());
        let bytes = capacity.map_or(PACK_BYTES, DenseCapacity::bytes);
        let Ok(slot) = self.slot_for_terminal(bytes, old, &parent, level) else {
            return Ok(());
        };
        let parent = parent.upgrade()?;
        let held = LockedShared::upgrade(seen)?;
        let (least, heat) = (dense.least(), dense.heat().load(Relaxed));
        let new = match capacity {
            Some(capacity) => Fresh::dense(slot, self.base, least, capacity, heat, |smaller| {
                smaller.take_over(&held);
            }),
            None => {
                let mut few = Vec::with_capacity(PACKED);
                let first = number(least);
                held.each(|at, value| few.push((first + u64::from(at), value)));
                Fresh::pack(slot, self.base, DENSE_DEPTH, &few, heat)
            }
        };
        self.replace(parent, LockedTerminal::DenseLeaf(held), new, guard);
        Ok(())
    }

    /// Removes a terminal node from its inner node, which shrinks to the entries that are left.
    fn take<'g>(
        &self,
        location: Location<'_, 'g, R>,
        ends: &Ends<'_, R>,
        guard: &Guard,
    ) -> Result<Loan<'g>, Restart> {
        let Location {
            key,
            above,
            inner,
            at,
            branch,
            level,
            terminal,
        } = location;
        let left = inner.get(|body| body.count())?.saturating_sub(1);
        if left == 1 {
            return self.collapse(location, ends, guard);
        }
        if let Some(kind) = inner.kind().shrunk(left)
            && let Ok(slot) = self.slot_for_inner(kind, **inner.link(), &above, level)
        {
            let above = above.upgrade()?;
            let old = inner.upgrade()?;
            let (last, value) = lock_last(terminal, key, ends)?;
            ends.hold(2)?;
            let path = &key[..branch];
            let prefix = &path[branch - old.prefix_len()..];
            let mut smaller = FreshInner::new(slot, self.base, kind, prefix, guard);
            smaller.take_over(old, Some(at));
            self.check_boundary(&smaller, smaller.tier(), path);
            let (old, last) = above.replace_without(at, last, smaller, self.base);
            old.reclaim(&self.store, guard);
            return Ok(self.removed(terminal, value, last, guard));
        }
        self.unlink(Parent::Node(inner, at), terminal, key, ends, guard)
    }

    /// Unlinks a terminal node whose only record is removed.
    fn unlink<'g>(
        &self,
        parent: Parent<'g, R>,
        terminal: Terminal<'g>,
        key: &[u8],
        ends: &Ends<'_, R>,
        guard: &Guard,
    ) -> Result<Loan<'g>, Restart> {
        let held = parent.upgrade()?;
        let (last, value) = lock_last(terminal, key, ends)?;
        ends.hold(1)?;
        let last = held.unlink(last, self.base);
        Ok(self.removed(terminal, value, last, guard))
    }

    /// Removes one of two entries from an inner node, and replaces the node by the other entry.
    fn collapse<'g>(
        &self,
        location: Location<'_, 'g, R>,
        ends: &Ends<'_, R>,
        guard: &Guard,
    ) -> Result<Loan<'g>, Restart> {
        let tier_above = self.tier_of_parent(&location.above);
        let above = location.above.upgrade()?;
        let old = location.inner.upgrade()?;
        let (at, other) = old.other(location.at);
        let (last, value) = lock_last(location.terminal, location.key, ends)?;
        ends.hold(2)?;
        // Above the topmost node nothing is slow.
        let path_above = (location.branch - old.prefix_len()).saturating_sub(1);
        // What is slow above a fast child may have been reported by the name of the node that goes.
        self.check_child(
            tier_above,
            self.tier_of(*other),
            &location.key[..path_above],
        );
        if let Some(below) = other.inner() {
            // The thread that holds the lock waits for nothing that is locked here.
            let below = below.lock(self.base)?;
            let own = &location.key[location.branch - old.prefix_len()..location.branch];
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
        let (old, last) = above.collapse(old, location.at, last, self.base);
        old.reclaim(&self.store, guard);
        Ok(self.removed(location.terminal, value, last, guard))
    }

    /// Retires an unlinked terminal node. Returns the value, which is readable as long as the
    /// thread stays pinned.
    fn removed<'g>(
        &self,
        terminal: Terminal<'_>,
        value: Loan<'g>,
        last: Removed<'_>,
        guard: &Guard,
    ) -> Loan<'g> {
        self.store.count(-1);
        self.store.count_leaves(-1);
        last.node.reclaim(&self.store, guard);
        if let Some(value) = last.value {
            value.reclaim(&self.store, guard);
        }
        self.note(terminal, Access::Reuse, guard);
        value
    }
}
