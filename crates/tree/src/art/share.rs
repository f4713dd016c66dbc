//! Inserts that make records share a node. Two records whose paths meet at a leaf become a pack. A
//! full pack becomes a dense leaf if its keys differ in the last byte only; otherwise its records
//! are spread below a new inner node. A full dense leaf becomes a larger one. `remove.rs` shrinks
//! packs and dense leaves.

use std::sync::atomic::Ordering::Relaxed;

use timberline_placement::Access;
use timberline_sync::Snapshot;
use timberline_sync::epoch::Guard;
use timberline_tier::{Memory, Slot};

use super::fresh::leaf_below;
use super::insert::{Insert, Put, Site};
use super::node::{
    DENSE_DEPTH, DenseCapacity, DenseLeaf, Fresh, FreshInner, FreshLeaf, Kind, Leaf, Link,
    Linkable, LockedParent, LockedShared, LockedTerminal, PACK_BYTES, PACKED, Pack, PackSnapshot,
    PackedRecords, Position, Reach, Record, Records, Terminal, leaf_bytes, number,
};
use super::tree::Tree;
use crate::abort::Abort;
use crate::key::common;
use crate::value::Change;

/// A pack that can't take a new record, at one version.
struct Full<'g> {
    pack: Pack<'g>,
    seen: Snapshot<'g, PackedRecords>,
    held: PackSnapshot,
}

impl<M: Memory, R: Reach> Tree<M, R> {
    /// Replaces a leaf by a pack with its record and the new one.
    pub(super) fn pair_up<'g, C: Change>(
        &self,
        insert: &mut Insert<'_, C>,
        site: Site<'g, R>,
        leaf: Leaf<'g>,
    ) -> Put<'g> {
        if common(leaf.key(), insert.key) < site.depth {
            return insert.carefully();
        }
        let old = Terminal::Leaf(leaf);
        let slot = self.slot_for_terminal(PACK_BYTES, old, &site.parent, site.level)?;
        let parent = site.parent.upgrade()?;
        let locked = leaf.lock()?;
        let mut records = [
            (number(leaf.key()), leaf.value().word()),
            (number(insert.key), insert.made()),
        ];
        records.sort_unstable();
        let heat = leaf.heat().load(Relaxed);
        let new = Fresh::pack(slot, self.base, site.depth, &records, heat);
        self.swap(parent, LockedTerminal::Leaf(locked), new, site.guard);
        Ok(None)
    }

    /// The path ends at a pack, which has the record or gets it.
    pub(super) fn meet_pack<'g, C: Change>(
        &self,
        insert: &mut Insert<'_, C>,
        site: Site<'g, R>,
        pack: Pack<'g>,
    ) -> Put<'g> {
        let seen = pack.read()?;
        site.parent.validate()?;
        self.visit_pack(pack);
        let (key, held) = (number(insert.key), seen.get(PackedRecords::all)?);
        if held.iter().any(|&(other, _)| other == key) {
            let before = self.change_in_pack(pack, insert.key, insert.change, site.guard)?;
            return Ok(Some(before));
        }
        let same = common(&pack.key().to_be_bytes(), insert.key);
        if same < site.depth {
            return insert.carefully();
        }
        if held.len() == PACKED {
            return self.spread(insert, site, Full { pack, seen, held });
        }
        if !seen.get(|records| records.has_room_for(key))? {
            return self.take_in(insert, site, Full { pack, seen, held });
        }
        self.put_in(insert, pack, seen, site.guard)
    }

    /// Inserts a record that is absent into a pack as it was seen, if that takes it.
    #[inline(always)]
    pub(super) fn put_in<C: Change>(
        &self,
        insert: &mut Insert<'_, C>,
        pack: Pack<'_>,
        seen: Snapshot<'_, PackedRecords>,
        guard: &Guard,
    ) -> Put<'static> {
        let key = number(insert.key);
        if !seen.get(|records| records.has_room_for(key))? {
            return Err(Abort::Restart);
        }
        let locked = LockedShared::upgrade(seen)?;
        locked.insert(key, insert.made());
        drop(locked);
        self.store.count(1);
        self.note(Terminal::Pack(pack), Access::Insert, guard);
        Ok(None)
    }

    /// Replaces a pack that is not full by one that can take a key with a shorter common prefix.
    #[cold]
    fn take_in<'g, C: Change>(
        &self,
        insert: &mut Insert<'_, C>,
        site: Site<'g, R>,
        old: Full<'g>,
    ) -> Put<'g> {
        let terminal = Terminal::Pack(old.pack);
        let slot = self.slot_for_terminal(PACK_BYTES, terminal, &site.parent, site.level)?;
        let parent = site.parent.upgrade()?;
        let locked = LockedShared::upgrade(old.seen)?;
        let new = (number(insert.key), insert.made());
        let mut records = [new; PACKED];
        records[1..=old.held.len()].copy_from_slice(&old.held);
        let records = &mut records[..=old.held.len()];
        records.sort_unstable();
        let heat = old.pack.heat().load(Relaxed);
        let new = Fresh::pack(slot, self.base, site.depth, records, heat);
        self.swap(parent, LockedTerminal::Pack(locked), new, site.guard);
        Ok(None)
    }

    /// Replaces a full pack by an inner node, with leaves and packs below it for its records and
    /// the new one.
    fn spread<'g, C: Change>(
        &self,
        insert: &mut Insert<'_, C>,
        site: Site<'g, R>,
        full: Full<'g>,
    ) -> Put<'g> {
        let new_key = number(insert.key);
        let mut records = [(new_key, 0); PACKED + 1];
        records[..PACKED].copy_from_slice(&full.held);
        records.sort_unstable();
        let branch = (records[0].0 ^ records[PACKED].0).leading_zeros() as usize / 8;
        if branch == DENSE_DEPTH {
            return self.line_up(insert, site, full);
        }
        let byte = |&(key, _): &Record| key.to_be_bytes()[branch];
        let groups = || records.chunk_by(|one, two| byte(one) == byte(two));
        let kind = Kind::of(groups().count());
        let old = Terminal::Pack(full.pack).link(self.base);
        let slot = self.slot_for_inner(kind, *old, &site.parent, site.level)?;
        let level = site.level.saturating_add(1);
        let new = leaf_below(slot.tier(), level);
        let mut slots = [const { None }; PACKED + 1];
        for (slot, group) in slots.iter_mut().zip(groups()) {
            let bytes = match group {
                [_] => leaf_bytes(DENSE_DEPTH + 1),
                _ => PACK_BYTES,
            };
            *slot = Some(self.store.allocate(new, bytes)?);
        }
        let parent = site.parent.upgrade()?;
        let locked = LockedShared::upgrade(full.seen)?;
        let prefix = &insert.key[site.depth..branch];
        let inner = FreshInner::new(slot, self.base, kind, prefix, site.guard);
        let tiers = slots.iter().flatten().map(Slot::tier);
        let beside = tiers.min().unwrap_or(inner.tier());
        // Foreign code, which may panic, runs before anything changes.
        self.check_boundary(&inner, beside, &insert.key[..branch]);
        let value = insert.made();
        for record in records.iter_mut().filter(|(key, _)| *key == new_key) {
            record.1 = value;
        }
        let (heat, mut noted) = (full.pack.heat().load(Relaxed), None);
        let groups = records.chunk_by(|one, two| byte(one) == byte(two));
        for (slot, group) in slots.into_iter().flatten().zip(groups) {
            let new = match group {
                &[(key, value)] => {
                    FreshLeaf::new(slot, self.base, &key.to_be_bytes(), heat).with(value)
                }
                _ => Fresh::pack(slot, self.base, branch + 1, group, heat),
            };
            let link = inner.insert(1 + Position::from(byte(&group[0])), new);
            if group.iter().any(|&(key, _)| key == new_key) {
                noted = Some(link);
            }
        }
        let count = inner.count() as i64;
        self.replace(parent, LockedTerminal::Pack(locked), inner, site.guard);
        self.store.count(1);
        self.store.count_leaves(count - 1);
        self.reaches(level);
        if let Some(link) = noted {
            self.note_at(link, Access::Insert, site.guard);
        }
        Ok(None)
    }

    /// Replaces a full pack by a dense leaf, if its keys and the new one are neighbours.
    fn line_up<'g, C: Change>(
        &self,
        insert: &mut Insert<'_, C>,
        site: Site<'g, R>,
        full: Full<'g>,
    ) -> Put<'g> {
        let (old, capacity) = (Terminal::Pack(full.pack), DenseCapacity::LEAST);
        let slot = self.slot_for_terminal(capacity.bytes(), old, &site.parent, site.level)?;
        let parent = site.parent.upgrade()?;
        let locked = LockedShared::upgrade(full.seen)?;
        let (key, heat) = (number(insert.key), full.pack.heat().load(Relaxed));
        let new = (key, insert.made());
        let dense = Fresh::dense(
            slot,
            self.base,
            &key.to_be_bytes(),
            capacity,
            heat,
            |dense| {
                for &(key, value) in full.held.iter().chain([&new]) {
                    dense.insert(key as u8, value);
                }
            },
        );
        self.swap(parent, LockedTerminal::Pack(locked), dense, site.guard);
        Ok(None)
    }

    /// Inserts a record that is absent into a dense leaf as it was seen, if that has room.
    #[inline(always)]
    pub(super) fn put_in_dense<C: Change>(
        &self,
        insert: &mut Insert<'_, C>,
        (dense, seen): (DenseLeaf<'_>, Snapshot<'_, Records>),
        at: u8,
        guard: &Guard,
    ) -> Put<'static> {
        if seen.get(Records::is_full)? {
            return Err(Abort::Restart);
        }
        let locked = LockedShared::upgrade(seen)?;
        locked.insert(at, insert.made());
        let has_all = locked.has_all();
        drop(locked);
        self.store.count(1);
        self.note(Terminal::DenseLeaf(dense), Access::Insert, guard);
        if has_all {
            self.tell_full(dense, guard);
        }
        Ok(None)
    }

    /// Lets the link to a dense leaf tell that it has all its records, if it does.
    #[cold]
    fn tell_full(&self, dense: DenseLeaf<'_>, guard: &Guard) {
        self.retry(|| {
            let Some((parent, found)) = self.parent_of(dense.least(), guard)? else {
                return Ok(());
            };
            if found.address() != dense.address() {
                return Ok(());
            }
            let held = parent.upgrade()?;
            let dense = dense.lock()?;
            if dense.has_all() {
                held.tell_full(&dense, self.base, true);
            }
            dense.unlock(false);
            Ok(())
        });
    }

    /// Replaces a full dense leaf by a larger one, with a new record at a place.
    pub(super) fn widen<'g, C: Change>(
        &self,
        insert: &mut Insert<'_, C>,
        site: Site<'g, R>,
        (dense, seen): (DenseLeaf<'g>, Snapshot<'g, Records>),
        at: u8,
    ) -> Put<'g> {
        let capacity = dense.capacity().larger();
        let old = Terminal::DenseLeaf(dense);
        let slot = self.slot_for_terminal(capacity.bytes(), old, &site.parent, site.level)?;
        let parent = site.parent.upgrade()?;
        let locked = LockedShared::upgrade(seen)?;
        let (heat, value) = (dense.heat().load(Relaxed), insert.made());
        let larger = Fresh::dense(slot, self.base, dense.least(), capacity, heat, |larger| {
            larger.take_over(&locked);
            larger.insert(at, value);
        });
        self.swap(
            parent,
            LockedTerminal::DenseLeaf(locked),
            larger,
            site.guard,
        );
        Ok(None)
    }

    /// Replaces a terminal node by one with one record more.
    fn swap(
        &self,
        parent: LockedParent<'_, R>,
        old: LockedTerminal<'_>,
        new: Fresh<'_>,
        guard: &Guard,
    ) {
        let link = self.replace(parent, old, new, guard);
        self.store.count(1);
        self.note_at(link, Access::Insert, guard);
    }

    /// Replaces a terminal node. Nothing here panics.
    pub(super) fn replace<'g>(
        &self,
        parent: LockedParent<'g, R>,
        old: LockedTerminal<'_>,
        new: impl Linkable,
        guard: &Guard,
    ) -> Link<'g> {
        let (link, retired) = parent.replace(old, self.base, new);
        retired.reclaim(&self.store, guard);
        link
    }
}
