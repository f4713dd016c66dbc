//! Inserting records, and the structure modifications that make room for them.
//!
//! A new record goes into a pack or a dense leaf. Otherwise it needs a leaf and one of: an entry in
//! the node where its path ends, a larger such node, or a new inner node above a leaf or inside a
//! compressed prefix, where two keys differ. `share.rs` handles records that share a node.
//!
//! Locks are taken parent first. Memory is allocated before any lock is taken.

use timberline_placement::Access;
use timberline_sync::Restart;
use timberline_sync::epoch::Guard;
use timberline_tier::{Memory, TierId};

use super::find::{Cursor, End, Miss};
use super::fresh::leaf_below;
use super::node::{
    DenseLeaf, FreshInner, FreshLeaf, Inner, Kind, Leaf, Link, Parent, Position, Reach, Step,
    StoredLink, Terminal, leaf_bytes, position,
};
use super::tree::Tree;
use crate::abort::{Abort, attempt};
use crate::error::Refused;
use crate::key::common;
use crate::value::{Change, Loan};

/// The outcome of an attempt: the previous value, lent while the thread stays pinned.
pub(super) type Put<'g> = Result<Option<Loan<'g>>, Abort>;

/// An attempt to insert one record.
pub(super) struct Insert<'a, C> {
    pub key: &'a [u8],
    pub change: &'a mut C,
    /// Whether the descent compares whole prefixes, with the help of leaves.
    careful: bool,
}

impl<'a, C: Change> Insert<'a, C> {
    fn new(key: &'a [u8], change: &'a mut C) -> Self {
        Insert {
            key,
            change,
            careful: false,
        }
    }

    /// The value of a new record, computed when nothing can keep it from being linked.
    pub fn made(&mut self) -> u64 {
        let value = self.change.change(None);
        value.expect("a record is made of nothing")
    }

    /// Bytes of a prefix that the descent did not compare differ from the key's: the next attempt
    /// compares all.
    pub fn carefully(&mut self) -> Put<'static> {
        self.careful = true;
        Err(Abort::Restart)
    }
}

/// The node where an insert ends.
pub(super) struct Site<'g, R> {
    pub parent: Parent<'g, R>,
    /// The number of key bytes that lead here.
    pub depth: usize,
    /// The number of inner nodes above.
    pub level: u8,
    pub guard: &'g Guard<'g>,
}

impl<M: Memory, R: Reach> Tree<M, R> {
    /// Inserts or replaces a record atomically: `change` computes the new value from the old one.
    /// Returns `out` of the old value.
    pub fn upsert<T>(
        &self,
        key: impl AsRef<[u8]>,
        mut change: impl Change,
        mut out: impl FnMut(Loan<'_>) -> T,
    ) -> Result<Option<T>, Refused> {
        let asked = &key;
        let key = key.as_ref();
        self.store.reclaiming(&mut change, |change| {
            let guard = self.store.pin();
            // In place of a record, or in a free slot for it, no node is built.
            let pinned = self.store.pinned(&guard);
            let there = self.find::<true, _, _>(
                asked,
                pinned,
                #[inline(always)]
                |found| match found {
                    Ok(Cursor::Leaf(leaf)) => self.change(leaf, change, &guard).map(Some),
                    Ok(Cursor::InPack(pack, _)) => {
                        let before = self.change_in_pack(pack, key, change, &guard);
                        before.map(Some).map_err(Abort::from)
                    }
                    Ok(Cursor::InDense(dense, at, _)) => {
                        let before = self.change_in_dense(dense, at, change, &guard);
                        before.map(Some).map_err(Abort::from)
                    }
                    Err(Miss::At(end)) => {
                        self.insert_at(&mut Insert::new(asked.as_ref(), change), end, &guard)
                    }
                    Err(Miss::Pack(pack, seen)) => {
                        self.put_in(&mut Insert::new(key, change), pack, seen, &guard)
                    }
                    Err(Miss::DenseLeaf(dense, at, seen)) => {
                        let insert = &mut Insert::new(key, change);
                        self.put_in_dense(insert, (dense, seen), at, &guard)
                    }
                    Err(Miss::Elsewhere) => Err(Abort::Restart),
                },
            );
            let there = there.unwrap_or(Err(Abort::Restart));
            let before = match there {
                Ok(before) => before,
                Err(Abort::Refused(refused)) => return Err(refused),
                Err(Abort::Restart) => self.try_upsert(key, change, &guard)?,
            };
            Ok(before.map(&mut out))
        })
    }

    fn try_upsert<'g, C: Change>(
        &'g self,
        key: &[u8],
        change: &mut C,
        guard: &'g Guard<'g>,
    ) -> Result<Option<Loan<'g>>, Refused> {
        let mut insert = Insert::new(key, change);
        attempt(|| self.descend(&mut insert, guard))
    }

    fn descend<'g, C: Change>(
        &'g self,
        insert: &mut Insert<'_, C>,
        guard: &'g Guard<'g>,
    ) -> Put<'g> {
        let (parent, mut link) = self.root.read(self.store.pinned(guard))?;
        let mut site = Site {
            parent,
            depth: 0,
            level: 0,
            guard,
        };
        let mut on_trust = false;
        loop {
            match link.terminal(self.base) {
                Some(Terminal::Leaf(leaf)) => return self.meet(insert, site, leaf),
                Some(Terminal::Pack(pack)) => return self.meet_pack(insert, site, pack),
                Some(Terminal::DenseLeaf(dense)) => return self.meet_dense(insert, site, dense),
                None => {}
            }
            let Some(inner) = link.inner() else {
                return self.hang(insert, site);
            };
            let inner = self.enter(inner, &site.parent)?;
            self.charge_node(inner.link(), insert.key, site.depth);
            let (branch, at, child, trusted) = match inner.step(insert.key, site.depth)? {
                Step::Differs(same) => return self.part(insert, site, inner, same),
                Step::Goes {
                    depth,
                    at,
                    child,
                    trusted,
                } => (depth, at, child, trusted),
            };
            if trusted && insert.careful {
                let same = self.same(insert.key, inner, branch)?;
                if same < site.depth {
                    return Err(Abort::Restart);
                }
                if same < branch {
                    let same = same - site.depth;
                    return self.part(insert, site, inner, same);
                }
            }
            on_trust |= trusted;
            if child.is_none() {
                if on_trust && !insert.careful && self.same(insert.key, inner, branch)? < branch {
                    return insert.carefully();
                }
                return self.add(insert, site, inner, branch, at);
            }
            site.parent = Parent::Node(inner, at);
            site.level = site.level.saturating_add(1);
            (link, site.depth) = (child, branch + usize::from(at > 0));
        }
    }

    /// A new leaf below a node in this tier.
    #[inline(always)]
    fn leaf_for<C: Change>(
        &self,
        insert: &mut Insert<'_, C>,
        below: TierId,
        level: u8,
    ) -> Result<FreshLeaf<'_>, Refused> {
        let (new, bytes) = (leaf_below(below, level), leaf_bytes(insert.key.len()));
        let slot = self.store.allocate(new, bytes)?;
        let leaf = FreshLeaf::new(slot, self.base, insert.key, 0);
        if C::PREPARES {
            insert.change.prepare(None, leaf.tier())?;
        }
        Ok(leaf)
    }

    /// Counts and reports a new leaf, with everything unlocked.
    #[inline(always)]
    fn inserted(&self, leaf: Link<'_>, level: u8, guard: &Guard) -> Put<'static> {
        self.store.count(1);
        self.store.count_leaves(1);
        self.reaches(level);
        self.note_at(leaf, Access::Insert, guard);
        Ok(None)
    }

    /// Inserts a record at the end of its path.
    #[inline(always)]
    fn insert_at<'g, C: Change>(
        &self,
        insert: &mut Insert<'_, C>,
        end: End<'g, R>,
        guard: &'g Guard<'g>,
    ) -> Put<'g> {
        let End {
            parent,
            leaf,
            depth,
            level,
            trusts,
        } = end;
        let site = Site {
            parent,
            depth,
            level,
            guard,
        };
        match leaf {
            None if trusts && !self.leads(insert.key, &site)? => Err(Abort::Restart),
            None => self.hang(insert, site),
            // It knows the whole path.
            Some(leaf) => self.branch_off(insert, site, leaf),
        }
    }

    /// Whether a key begins with the whole path to the node's entry at which it ends.
    #[inline(never)]
    fn leads(&self, key: &[u8], site: &Site<'_, R>) -> Result<bool, Restart> {
        let Parent::Node(inner, _) = site.parent else {
            return Ok(false);
        };
        let branch = site.depth - 1;
        Ok(self.same(key, inner, branch)? == branch)
    }

    /// Links a leaf where no link is, if a node has room for it.
    #[inline(always)]
    fn hang<'g, C: Change>(&self, insert: &mut Insert<'_, C>, site: Site<'g, R>) -> Put<'g> {
        if let Parent::Node(inner, at) = site.parent
            && inner.get(|body| body.is_full_for(at))?
        {
            return Err(Abort::Restart);
        }
        let leaf = self.leaf_for(insert, self.tier_of_parent(&site.parent), site.level)?;
        let held = site.parent.upgrade()?;
        let link = held.hang(leaf.with(insert.made()));
        self.inserted(link, site.level, site.guard)
    }

    /// The path ends at a leaf: of this key, or of one to branch from.
    fn meet<'g, C: Change>(
        &self,
        insert: &mut Insert<'_, C>,
        site: Site<'g, R>,
        leaf: Leaf<'g>,
    ) -> Put<'g> {
        self.visit_leaf(leaf);
        if leaf.key() == insert.key {
            return self.change(leaf, insert.change, site.guard).map(Some);
        }
        self.branch_off(insert, site, leaf)
    }

    /// The path ends at a leaf of another key.
    fn branch_off<'g, C: Change>(
        &self,
        insert: &mut Insert<'_, C>,
        site: Site<'g, R>,
        leaf: Leaf<'g>,
    ) -> Put<'g> {
        match self.shares {
            true => self.pair_up(insert, site, leaf),
            false => self.part_from(insert, site, Terminal::Leaf(leaf)),
        }
    }

    /// The path ends at a dense leaf: of this key, or of keys to branch from.
    fn meet_dense<'g, C: Change>(
        &self,
        insert: &mut Insert<'_, C>,
        site: Site<'g, R>,
        dense: DenseLeaf<'g>,
    ) -> Put<'g> {
        let Some(at) = dense.place_of(insert.key) else {
            return self.part_from(insert, site, Terminal::DenseLeaf(dense));
        };
        self.visit_dense(dense, at);
        let seen = dense.read()?;
        site.parent.validate()?;
        let (is_there, is_full) = seen.get(|it| (it.get(at).is_some(), it.is_full()))?;
        if is_there {
            let before = self.change_in_dense(dense, at, insert.change, site.guard)?;
            return Ok(Some(before));
        }
        if is_full {
            return self.widen(insert, site, (dense, seen), at);
        }
        self.put_in_dense(insert, (dense, seen), at, site.guard)
    }

    /// The path ends at a node with records of other keys.
    fn part_from<'g, C: Change>(
        &self,
        insert: &mut Insert<'_, C>,
        site: Site<'g, R>,
        terminal: Terminal<'_>,
    ) -> Put<'g> {
        let (key, other) = (insert.key, terminal.key());
        let same = common(&other, key);
        if same < site.depth {
            return insert.carefully();
        }
        let fork = Fork {
            prefix: &key[site.depth..same],
            path: &key[..same],
            old: *terminal.link(self.base),
            old_at: position(&other, same),
            new_at: position(key, same),
        };
        self.fork(insert, site, fork, None)
    }

    /// The key differs from a node's prefix after `same` bytes of it.
    fn part<'g, C: Change>(
        &self,
        insert: &mut Insert<'_, C>,
        site: Site<'g, R>,
        inner: Inner<'_, R>,
        same: usize,
    ) -> Put<'g> {
        let (key, split) = (insert.key, site.depth + same);
        let below = self.key_below(inner)?;
        // The prefixes above that were not compared.
        if below.get(..split) != key.get(..split) {
            return insert.carefully();
        }
        let len = inner.get(|body| body.prefix_len())?;
        let rest = &below[split + 1..site.depth + len];
        let fork = Fork {
            prefix: &key[site.depth..split],
            path: &key[..split],
            old: **inner.link(),
            old_at: position(&below, split),
            new_at: position(key, split),
        };
        self.fork(insert, site, fork, Some((inner, rest)))
    }

    /// Inserts a new inner node between a parent and its child, with a new leaf as the child's
    /// sibling. If the child is an inner node, its prefix is `cut` to its last bytes.
    fn fork<'g, C: Change>(
        &self,
        insert: &mut Insert<'_, C>,
        site: Site<'g, R>,
        fork: Fork<'_>,
        cut: Option<(Inner<'_, R>, &[u8])>,
    ) -> Put<'g> {
        let slot = self.slot_for_inner(Kind::N3, fork.old, &site.parent, site.level)?;
        let level = site.level.saturating_add(1);
        let leaf = self.leaf_for(insert, slot.tier(), level)?;
        let parent = site.parent.upgrade()?;
        let held = cut.map(|(inner, _)| inner.upgrade()).transpose()?;
        let new = FreshInner::new(slot, self.base, Kind::N3, fork.prefix, site.guard);
        // Foreign code, which may panic, runs before anything changes.
        let beside = leaf.tier().min(self.tier_of(fork.old));
        self.check_boundary(&new, beside, fork.path);
        let link = new.insert(fork.new_at, leaf.with(insert.made()));
        if let (Some(held), Some((_, rest))) = (held, cut) {
            held.set_prefix(rest.len(), rest.iter().copied());
        }
        parent.put_between(new, fork.old_at);
        self.inserted(link, level, site.guard)
    }

    /// Adds a leaf to the node where the key's path ends.
    fn add<'g, C: Change>(
        &self,
        insert: &mut Insert<'_, C>,
        site: Site<'g, R>,
        inner: Inner<'g, R>,
        branch: usize,
        at: Position,
    ) -> Put<'g> {
        let (key, level) = (insert.key, site.level);
        let below = level.saturating_add(1);
        let (full, prefix_len) = inner.get(|body| (body.is_full_for(at), body.prefix_len()))?;
        if !full {
            let site = Site {
                parent: Parent::Node(inner, at),
                level: below,
                ..site
            };
            return self.hang(insert, site);
        }
        let kind = Kind::of(inner.kind().capacity() + 1);
        let slot = self.slot_for_inner(kind, **inner.link(), &site.parent, level)?;
        let leaf = self.leaf_for(insert, slot.tier(), below)?;
        let parent = site.parent.upgrade()?;
        let prefix = &key[branch - prefix_len..branch];
        let mut larger = FreshInner::new(slot, self.base, kind, prefix, site.guard);
        larger.take_over(inner.upgrade()?, None);
        // Foreign code, which may panic, runs before anything changes.
        self.check_boundary(&larger, leaf.tier(), &key[..branch]);
        let link = larger.insert(at, leaf.with(insert.made()));
        parent
            .replace_inner(larger)
            .reclaim(&self.store, site.guard);
        self.inserted(link, below, site.guard)
    }

    /// How many bytes of its path, which ends at `branch`, a node has in common with a key.
    pub(super) fn same(
        &self,
        key: &[u8],
        inner: Inner<'_, R>,
        branch: usize,
    ) -> Result<usize, Restart> {
        let below = self.key_below(inner)?;
        Ok(common(&below[..branch], key))
    }
}

/// The point where two paths branch.
struct Fork<'a> {
    /// The bytes between the parent's branch and this one.
    prefix: &'a [u8],
    /// All bytes up to this one.
    path: &'a [u8],
    /// The former child.
    old: StoredLink,
    old_at: Position,
    new_at: Position,
}
