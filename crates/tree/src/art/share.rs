//! Records that come to share a node: a leaf that is met becomes a pack, a pack that is full is spread below an inner node, and a
//! node of 48 leaves whose keys differ in the last byte only does not grow, but becomes a row. Packs and rows that are left
//! by their records are `shrink.rs`'s.

use std::sync::atomic::Ordering::Relaxed;

use timberline_placement::{Access, NewNode};
use timberline_sync::Snapshot;
use timberline_sync::epoch::Guard;
use timberline_tier::Memory;

use super::grow::{Again, Insert, Put};
use super::node::{
    AT_END, Few, Held, Kind, Leaf, PACKED, Pack, Position, ROW_DEPTH, Reach, Record, Tip, number,
};
use super::tree::{Inner, Parent, Tree, common};
use crate::value::Change;

/// A pack that has no room, as of a version.
struct Full<'g> {
    pack: Pack<'g>,
    seen: Snapshot<'g, Few>,
    held: Held,
}

impl<M: Memory, R: Reach> Tree<M, R> {
    /// Puts a pack in the place of a leaf, for its record and the new one.
    pub(super) fn pair_up<C: Change>(
        &self,
        insert: &mut Insert<'_, C>,
        parent: Parent<'_, R>,
        leaf: Leaf<'_>,
        depth: usize,
        level: u8,
        guard: &Guard,
    ) -> Result<Put, Again> {
        if common(leaf.key(), insert.key) < depth {
            return Err(Again::Carefully);
        }
        let new = NewNode {
            height: 0,
            level,
            parent: self.tier_of_parent(&parent),
            twin: self.store.arenas().tier_of(leaf.address()),
        };
        let fresh = match self.fresh_pack(new) {
            Ok(fresh) => fresh,
            Err(full) => return Ok(Err(full.into())),
        };
        let parent = parent.upgrade()?;
        let locked = leaf.lock()?;
        let mut records = [
            (number(leaf.key()), leaf.value()),
            (number(insert.key), self.made(insert)),
        ];
        records.sort_unstable();
        let heat = leaf.heat().load(Relaxed);
        let pack = fresh.link.claim_pack(self.base, &records, heat, guard);
        let tip = Tip::Pack(pack.pack());
        drop(pack);
        parent.set(fresh.link);
        drop(parent);
        locked.retire();
        fresh.keep();
        self.reclaim_tip(Tip::Leaf(leaf), guard);
        self.store.count(1);
        self.note(tip, Access::Insert);
        Ok(Ok(None))
    }

    /// The path ends at a pack, where the record is or belongs.
    pub(super) fn meet_pack<C: Change>(
        &self,
        insert: &mut Insert<'_, C>,
        parent: Parent<'_, R>,
        pack: Pack<'_>,
        depth: usize,
        level: u8,
        guard: &Guard,
    ) -> Result<Put, Again> {
        let seen = pack.read()?;
        parent.validate()?;
        self.visit_pack(pack);
        let (key, held) = (number(insert.key), seen.get(Few::all)?);
        if held.iter().any(|&(other, _)| other == key) {
            let before = self.change_in_pack(pack, insert.key, insert.change)?;
            return Ok(Ok(Some(before)));
        }
        if common(&pack.key().to_be_bytes(), insert.key) < depth {
            return Err(Again::Carefully);
        }
        if held.len() == PACKED {
            let full = Full { pack, seen, held };
            return self.spread(insert, parent, full, depth, level, guard);
        }
        let locked = pack.upgrade(seen)?;
        locked.set(key, self.made(insert));
        drop(locked);
        self.store.count(1);
        self.note(Tip::Pack(pack), Access::Insert);
        Ok(Ok(None))
    }

    /// Puts an inner node in the place of a full pack: leaves and packs below it hold its records and the new one.
    fn spread<C: Change>(
        &self,
        insert: &mut Insert<'_, C>,
        parent: Parent<'_, R>,
        full: Full<'_>,
        depth: usize,
        level: u8,
        guard: &Guard,
    ) -> Result<Put, Again> {
        let new_key = number(insert.key);
        let mut records = [(new_key, 0); PACKED + 1];
        records[..PACKED].copy_from_slice(&full.held);
        records.sort_unstable();
        let branch = (records[0].0 ^ records[PACKED].0).leading_zeros() as usize / 8;
        let byte = |&(key, _): &Record| key.to_be_bytes()[branch];
        let groups = || records.chunk_by(|one, two| byte(one) == byte(two));
        let kind = Kind::of(groups().count());
        let new = NewNode {
            height: 1,
            level,
            parent: self.tier_of_parent(&parent),
            twin: self.store.arenas().tier_of(full.pack.address()),
        };
        let inner = match self.fresh_inner(new, kind) {
            Ok(inner) => inner,
            Err(full) => return Ok(Err(full.into())),
        };
        let below = self.tier_of(inner.link);
        let level = level.saturating_add(1);
        let new = NewNode {
            height: 0,
            level,
            parent: below,
            twin: below,
        };
        let mut tips = [const { None }; PACKED + 1];
        for (tip, group) in tips.iter_mut().zip(groups()) {
            let fresh = match group {
                [(key, _)] => self.fresh_leaf(new, &key.to_be_bytes()),
                _ => self.fresh_pack(new),
            };
            match fresh {
                Ok(fresh) => *tip = Some(fresh),
                Err(full) => return Ok(Err(full.into())),
            }
        }
        let parent = parent.upgrade()?;
        let locked = full.pack.upgrade(full.seen)?;
        let value = self.made(insert);
        let body = inner.link.claim::<R>(self.base, guard);
        body.reset(kind, &insert.key[depth..branch]);
        let (heat, mut noted) = (full.pack.heat().load(Relaxed), None);
        for (tip, group) in tips.into_iter().flatten().zip(groups()) {
            let value_of = |&(key, old): &Record| if key == new_key { value } else { old };
            let link = tip.link;
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
                    drop(link.claim_pack(self.base, &held[..group.len()], heat, guard));
                }
            }
            body.insert(1 + Position::from(byte(&group[0])), link);
            if group.iter().any(|&(key, _)| key == new_key) {
                noted = self.tip_at(link, guard);
            }
            tip.keep();
        }
        self.check_boundary(inner.link, &body, &insert.key[..branch]);
        let tips = body.count() as i64;
        drop(body);
        parent.set(inner.link);
        drop(parent);
        locked.retire();
        inner.keep();
        self.reclaim_tip(Tip::Pack(full.pack), guard);
        self.store.count(1);
        self.store.count_leaves(tips - 1);
        self.reaches(level);
        if let Some(tip) = noted {
            self.note(tip, Access::Insert);
        }
        Ok(Ok(None))
    }

    /// Puts a row in the place of an inner node whose leaves it covers, and the key too.
    pub(super) fn line_up<C: Change>(
        &self,
        insert: &mut Insert<'_, C>,
        parent: Parent<'_, R>,
        inner: Inner<'_, R>,
        level: u8,
        guard: &Guard,
    ) -> Result<Put, Again> {
        let key: &[u8; ROW_DEPTH + 1] = insert.key.try_into().expect("all keys have eight bytes");
        let new = NewNode {
            height: 0,
            level,
            parent: self.tier_of_parent(&parent),
            twin: self.tier_of(inner.link),
        };
        let fresh = match self.fresh_row(new) {
            Ok(fresh) => fresh,
            Err(full) => return Ok(Err(full.into())),
        };
        let parent = parent.upgrade()?;
        let old = inner.node.upgrade()?;
        let row = fresh.link.claim_row(self.base, key, guard);
        let value = insert
            .change
            .change(None)
            .expect("a record is made of nothing");
        row.set(key[ROW_DEPTH], value);
        let leaves = old.count() as i64;
        old.each(AT_END, |at, link| {
            let leaf = self.leaf_at(link, guard);
            // Who unlinks a leaf holds its parent.
            let locked = leaf.lock().expect("a leaf below a locked node is linked");
            row.set(at.saturating_sub(1) as u8, leaf.value());
            row.row().warm(leaf.heat());
            locked.retire();
            true
        });
        let tip = Tip::Row(row.row());
        drop(row);
        parent.set(fresh.link);
        drop(parent);
        fresh.keep();
        old.each(AT_END, |_, link| {
            self.reclaim_tip(Tip::Leaf(self.leaf_at(link, guard)), guard);
            true
        });
        old.retire();
        self.reclaim_inner(inner.link, guard);
        self.store.count(1);
        self.store.count_leaves(1 - leaves);
        self.reaches(level);
        self.note(tip, Access::Insert);
        Ok(Ok(None))
    }
}
