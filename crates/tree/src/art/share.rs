//! Records that come to share a node: a leaf that is met becomes a pack; a pack that is full
//! becomes a dense leaf if its keys differ in the last byte only, and is spread below an inner node
//! otherwise; a dense leaf that is full becomes a larger one. Packs and dense leaves that records
//! leave are `remove.rs`'s.

use std::sync::atomic::Ordering::Relaxed;

use timberline_placement::{Access, NewNode};
use timberline_sync::Snapshot;
use timberline_sync::epoch::Guard;
use timberline_tier::Memory;

use super::fresh::{Fresh, leaf_below};
use super::insert::{Insert, Put, Site};
use super::node::{
    DENSE_DEPTH, DenseCapacity, DenseLeaf, Held, Kind, Leaf, LockedTerminal, PACKED, Pack,
    PackedRecords, Position, Reach, Record, Records, Terminal, number,
};
use super::tree::{LockedParent, Parent, Tree, common};
use crate::value::Change;

/// A pack that can't take a new record, as of a version.
struct Full<'g> {
    pack: Pack<'g>,
    seen: Snapshot<'g, PackedRecords>,
    held: Held,
}

impl<M: Memory, R: Reach> Tree<M, R> {
    /// Puts a pack in the place of a leaf, for its record and the new one.
    pub(super) fn pair_up<C: Change>(
        &self,
        insert: &mut Insert<'_, C>,
        site: Site<'_, R>,
        leaf: Leaf<'_>,
    ) -> Put {
        if common(leaf.key(), insert.key) < site.depth {
            return insert.carefully();
        }
        let Site {
            parent,
            depth,
            level,
            guard,
        } = site;
        let fresh = self.fresh_pack(self.new_terminal(&parent, Terminal::Leaf(leaf), level))?;
        let parent = parent.upgrade()?;
        let locked = leaf.lock()?;
        let mut records = [
            (number(leaf.key()), leaf.value()),
            (number(insert.key), insert.made()),
        ];
        records.sort_unstable();
        let heat = leaf.heat().load(Relaxed);
        let link = fresh.link;
        drop(link.claim_pack(self.base, depth, &records, heat, guard));
        self.swap(parent, LockedTerminal::Leaf(locked), fresh, guard);
        Ok(None)
    }

    /// The path ends at a pack, where the record is or belongs.
    pub(super) fn meet_pack<C: Change>(
        &self,
        insert: &mut Insert<'_, C>,
        site: Site<'_, R>,
        pack: Pack<'_>,
    ) -> Put {
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
        if same < seen.get(PackedRecords::depth)? {
            return self.take_in(insert, site, Full { pack, seen, held });
        }
        let locked = pack.upgrade(seen)?;
        locked.insert(key, insert.made());
        drop(locked);
        self.store.count(1);
        self.note(Terminal::Pack(pack), Access::Insert, site.guard);
        Ok(None)
    }

    /// Puts a pack in the place of one that has room, but not for a key that does not share all the
    /// bytes that led to it at first.
    #[cold]
    fn take_in<C: Change>(
        &self,
        insert: &mut Insert<'_, C>,
        Site {
            parent,
            depth,
            level,
            guard,
        }: Site<'_, R>,
        old: Full<'_>,
    ) -> Put {
        let terminal = Terminal::Pack(old.pack);
        let fresh = self.fresh_pack(self.new_terminal(&parent, terminal, level))?;
        let parent = parent.upgrade()?;
        let locked = old.pack.upgrade(old.seen)?;
        let new = (number(insert.key), insert.made());
        let mut records = [new; PACKED];
        records[1..=old.held.len()].copy_from_slice(&old.held);
        let records = &mut records[..=old.held.len()];
        records.sort_unstable();
        let (link, heat) = (fresh.link, old.pack.heat().load(Relaxed));
        drop(link.claim_pack(self.base, depth, records, heat, guard));
        self.swap(parent, LockedTerminal::Pack(locked), fresh, guard);
        Ok(None)
    }

    /// Puts an inner node in the place of a full pack: leaves and packs below it hold its records
    /// and the new one.
    fn spread<C: Change>(
        &self,
        insert: &mut Insert<'_, C>,
        site: Site<'_, R>,
        full: Full<'_>,
    ) -> Put {
        let new_key = number(insert.key);
        let mut records = [(new_key, 0); PACKED + 1];
        records[..PACKED].copy_from_slice(&full.held);
        records.sort_unstable();
        let branch = (records[0].0 ^ records[PACKED].0).leading_zeros() as usize / 8;
        if branch == DENSE_DEPTH {
            return self.line_up(insert, site, full);
        }
        let Site {
            parent,
            depth,
            level,
            guard,
        } = site;
        let byte = |&(key, _): &Record| key.to_be_bytes()[branch];
        let groups = || records.chunk_by(|one, two| byte(one) == byte(two));
        let kind = Kind::of(groups().count());
        let old = self.link_to(Terminal::Pack(full.pack));
        let new = self.in_place_of(old, 1, &parent, level);
        let inner = self.fresh_inner(new, kind)?;
        let below = self.tier_of(inner.link);
        let level = level.saturating_add(1);
        let new = leaf_below(below, level);
        let mut terminals = [const { None }; PACKED + 1];
        for (terminal, group) in terminals.iter_mut().zip(groups()) {
            *terminal = Some(match group {
                [(key, _)] => self.fresh_leaf(new, &key.to_be_bytes())?,
                _ => self.fresh_pack(new)?,
            });
        }
        let parent = parent.upgrade()?;
        let locked = full.pack.upgrade(full.seen)?;
        let value = insert.made();
        let body = inner.link.claim::<R>(self.base, guard);
        body.reset(kind, &insert.key[depth..branch]);
        let (heat, mut noted) = (full.pack.heat().load(Relaxed), None);
        for (terminal, group) in terminals.iter().flatten().zip(groups()) {
            let value_of = |&(key, old): &Record| if key == new_key { value } else { old };
            let link = terminal.link;
            match group {
                [record] => {
                    let leaf = self.leaf_at(link, guard);
                    leaf.set_first(value_of(record));
                    leaf.heat().store(heat, Relaxed);
                }
                _ => {
                    let mut held = [(0, 0); PACKED];
                    for (to, record) in held.iter_mut().zip(group) {
                        *to = (record.0, value_of(record));
                    }
                    let held = &held[..group.len()];
                    drop(link.claim_pack(self.base, branch + 1, held, heat, guard));
                }
            }
            body.insert(1 + Position::from(byte(&group[0])), link);
            if group.iter().any(|&(key, _)| key == new_key) {
                noted = self.terminal_at(link, guard);
            }
        }
        self.check_boundary(inner.link, &body, &insert.key[..branch]);
        let count = body.count() as i64;
        drop(body);
        terminals
            .into_iter()
            .flatten()
            .for_each(|terminal| _ = terminal.keep());
        self.replace(parent, LockedTerminal::Pack(locked), inner, guard);
        self.store.count(1);
        self.store.count_leaves(count - 1);
        self.reaches(level);
        if let Some(terminal) = noted {
            self.note(terminal, Access::Insert, guard);
        }
        Ok(None)
    }

    /// Puts a dense leaf in the place of a full pack whose keys, and the new one, are neighbours.
    fn line_up<C: Change>(
        &self,
        insert: &mut Insert<'_, C>,
        Site {
            parent,
            level,
            guard,
            ..
        }: Site<'_, R>,
        full: Full<'_>,
    ) -> Put {
        let old = Terminal::Pack(full.pack);
        let fresh =
            self.fresh_dense(self.new_terminal(&parent, old, level), DenseCapacity::LEAST)?;
        let parent = parent.upgrade()?;
        let locked = full.pack.upgrade(full.seen)?;
        let (key, heat) = (number(insert.key), full.pack.heat().load(Relaxed));
        let dense = fresh.link.claim_dense(
            self.base,
            &key.to_be_bytes(),
            DenseCapacity::LEAST,
            heat,
            guard,
        );
        for &(key, value) in full.held.iter().chain([&(key, insert.made())]) {
            dense.set(key as u8, value);
        }
        drop(dense);
        self.swap(parent, LockedTerminal::Pack(locked), fresh, guard);
        Ok(None)
    }

    /// Puts a larger dense leaf in the place of a full one, with a new record at a place.
    pub(super) fn widen<C: Change>(
        &self,
        insert: &mut Insert<'_, C>,
        Site {
            parent,
            level,
            guard,
            ..
        }: Site<'_, R>,
        (dense, seen): (DenseLeaf<'_>, Snapshot<'_, Records>),
        at: u8,
    ) -> Put {
        let room = dense.room().larger();
        let fresh = self.fresh_dense(
            self.new_terminal(&parent, Terminal::DenseLeaf(dense), level),
            room,
        )?;
        let parent = parent.upgrade()?;
        let locked = dense.upgrade(seen)?;
        let heat = dense.heat().load(Relaxed);
        let larger = fresh
            .link
            .claim_dense(self.base, dense.least(), room, heat, guard);
        larger.take_over(locked.records());
        larger.set(at, insert.made());
        drop(larger);
        self.swap(parent, LockedTerminal::DenseLeaf(locked), fresh, guard);
        Ok(None)
    }

    /// What a placement is told of a terminal node that takes the place of another.
    pub(super) fn new_terminal(
        &self,
        parent: &Parent<'_, R>,
        old: Terminal<'_>,
        level: u8,
    ) -> NewNode {
        self.in_place_of(self.link_to(old), 0, parent, level)
    }

    /// Hangs a terminal node with one record more in the place of another.
    fn swap(
        &self,
        parent: LockedParent<'_, R>,
        old: LockedTerminal<'_>,
        fresh: Fresh<'_, M, R>,
        guard: &Guard,
    ) {
        let link = fresh.link;
        self.replace(parent, old, fresh, guard);
        self.store.count(1);
        if let Some(terminal) = self.terminal_at(link, guard) {
            self.note(terminal, Access::Insert, guard);
        }
    }

    /// Hangs a node in the place of a terminal node. Nothing here panics.
    pub(super) fn replace(
        &self,
        parent: LockedParent<'_, R>,
        old: LockedTerminal<'_>,
        fresh: Fresh<'_, M, R>,
        guard: &Guard,
    ) {
        parent.set(fresh.keep());
        drop(parent);
        let terminal = old.terminal();
        old.retire();
        self.reclaim_terminal(terminal, guard);
    }
}
