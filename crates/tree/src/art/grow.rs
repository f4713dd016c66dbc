//! Inserting records, and the structure modifications that make room for them.
//!
//! A record that is not there needs one leaf, and one of: a place in the node where its path ends; a larger such node; an inner
//! node between that and a leaf, or inside a compressed prefix, where two keys part.
//!
//! Locks are taken parent first. Memory is taken before any lock.

use timberline_placement::{Access, NewNode};
use timberline_sync::Restart;
use timberline_sync::epoch::{self, Guard};
use timberline_tier::{Memory, OutOfMemory};

use super::node::{Kind, Leaf, Link, Position, Reach, Step, position};
use super::tree::{Inner, Parent, Root, Tree, common};

/// What became of an attempt: the value before, or no memory.
type Put = Result<Option<u64>, OutOfMemory>;

/// An attempt to insert one record.
struct Insert<'a> {
    key: &'a [u8],
    value: u64,
    /// Whether a record that is there is left alone.
    only_new: bool,
    /// Whether prefixes are compared as a whole on the way down, with the help of leaves.
    careful: bool,
}

/// Why an attempt starts over.
enum Again {
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
    /// Inserts or replaces. Returns the value before.
    pub fn insert(&self, key: &[u8], value: u64) -> Put {
        self.insert_if(key, value, false)
    }

    /// Inserts a record unless there is one. Returns whether there was none.
    pub fn insert_new(&self, key: &[u8], value: u64) -> Result<bool, OutOfMemory> {
        self.insert_if(key, value, true)
            .map(|before| before.is_none())
    }

    fn insert_if(&self, key: &[u8], value: u64, only_new: bool) -> Put {
        loop {
            let outcome = self.try_insert(key, value, only_new, &epoch::pin());
            if outcome.is_ok() || !self.store.reclaimed() {
                return outcome;
            }
        }
    }

    fn try_insert(&self, key: &[u8], value: u64, only_new: bool, guard: &Guard) -> Put {
        let mut insert = Insert {
            key,
            value,
            only_new,
            careful: false,
        };
        self.retry(|| {
            self.descend(&insert, guard).map_err(|again| {
                insert.careful |= matches!(again, Again::Carefully);
                Restart
            })
        })
    }

    fn descend(&self, insert: &Insert<'_>, guard: &Guard) -> Result<Put, Again> {
        let root = self.root.read()?;
        let mut parent = Parent::Root(root);
        let mut link = root.get(Root::link)?;
        let (mut depth, mut level, mut on_trust) = (0, 0u8, false);
        loop {
            if link.is_none() {
                return self.hang(insert, parent, guard);
            }
            if link.is_leaf() {
                let leaf = self.leaf_at(link, guard);
                return self.meet(insert, parent, leaf, depth, level, guard);
            }
            let inner = self.enter(link, &parent, guard)?;
            self.visit(link, insert.key, depth);
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
    fn leaf_for(
        &self,
        insert: &Insert<'_>,
        below: timberline_tier::TierId,
        level: u8,
    ) -> Result<super::tree::Fresh<'_, M, R>, OutOfMemory> {
        let new = NewNode {
            height: 0,
            level,
            parent: below,
            twin: below,
        };
        self.fresh_leaf(new, insert.key, insert.value)
    }

    fn inserted(&self, leaf: Link, level: u8, guard: &Guard) {
        self.store.count(1);
        self.reaches(level);
        self.note(self.leaf_at(leaf, guard), Access::Insert);
    }

    /// Hangs the first leaf below the root.
    fn hang(
        &self,
        insert: &Insert<'_>,
        parent: Parent<'_, R>,
        guard: &Guard,
    ) -> Result<Put, Again> {
        let leaf = match self.leaf_for(insert, self.tier_of_parent(&parent), 0) {
            Ok(leaf) => leaf,
            Err(full) => return Ok(Err(full)),
        };
        let link = leaf.link;
        parent.upgrade()?.set(link);
        leaf.keep();
        self.inserted(link, 0, guard);
        Ok(Ok(None))
    }

    /// The path ends at a leaf: that of the key, or one to part from.
    fn meet(
        &self,
        insert: &Insert<'_>,
        parent: Parent<'_, R>,
        leaf: Leaf<'_>,
        depth: usize,
        level: u8,
        guard: &Guard,
    ) -> Result<Put, Again> {
        let (key, other) = (insert.key, leaf.key());
        self.visit_leaf(leaf);
        if other == key {
            if insert.only_new {
                return Ok(Ok(Some(leaf.value())));
            }
            let held = leaf.lock()?;
            return Ok(Ok(Some(self.put(held, insert.value))));
        }
        let same = common(other, key);
        if same < depth {
            return Err(Again::Carefully);
        }
        let old = Link::to_leaf(self.base, leaf.address());
        let fork = Fork {
            prefix: &key[depth..same],
            path: &key[..same],
            old,
            old_at: position(other, same),
            new_at: position(key, same),
        };
        self.fork(insert, parent, fork, level, guard, || Ok(()))
    }

    /// The key leaves a node's prefix after `same` bytes of it.
    #[allow(clippy::too_many_arguments)]
    fn part(
        &self,
        insert: &Insert<'_>,
        parent: Parent<'_, R>,
        inner: Inner<'_, R>,
        depth: usize,
        same: usize,
        level: u8,
        guard: &Guard,
    ) -> Result<Put, Again> {
        let (key, split) = (insert.key, depth + same);
        let below = self.leaf_below(inner, guard)?.key();
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
            old_at: position(below, split),
            new_at: position(key, split),
        };
        let cut = || {
            let held = inner.node.upgrade()?;
            held.set_prefix(rest.len(), rest.iter().copied());
            Ok(())
        };
        self.fork(insert, parent, fork, level, guard, cut)
    }

    /// Puts a new inner node between a parent and what hangs there, and a new leaf beside that. `cut` runs while the parent is
    /// locked, and changes nothing if it fails.
    fn fork(
        &self,
        insert: &Insert<'_>,
        parent: Parent<'_, R>,
        fork: Fork<'_>,
        level: u8,
        guard: &Guard,
        cut: impl FnOnce() -> Result<(), Restart>,
    ) -> Result<Put, Again> {
        let new = NewNode {
            height: 1,
            level,
            parent: self.tier_of_parent(&parent),
            twin: self.tier_of(fork.old),
        };
        let level = level.saturating_add(1);
        let inner = match self.fresh_inner(new, Kind::N3) {
            Ok(inner) => inner,
            Err(full) => return Ok(Err(full)),
        };
        let leaf = match self.leaf_for(insert, self.tier_of(inner.link), level) {
            Ok(leaf) => leaf,
            Err(full) => return Ok(Err(full)),
        };
        let parent = parent.upgrade()?;
        cut()?;
        let body = inner.link.claim::<R>(self.base, guard);
        body.reset(Kind::N3, fork.prefix);
        body.insert(fork.old_at, fork.old);
        body.insert(fork.new_at, leaf.link);
        self.check_boundary(inner.link, &body, fork.path);
        drop(body);
        parent.set(inner.link);
        drop(parent);
        let link = leaf.link;
        inner.keep();
        leaf.keep();
        self.inserted(link, level, guard);
        Ok(Ok(None))
    }

    /// Adds a leaf to the node where the key's path ends.
    #[allow(clippy::too_many_arguments)]
    fn add(
        &self,
        insert: &Insert<'_>,
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
                Err(full) => return Ok(Err(full)),
            };
            let link = leaf.link;
            inner.node.upgrade()?.insert(at, link);
            leaf.keep();
            self.inserted(link, level, guard);
            return Ok(Ok(None));
        }
        let kind = Kind::of(inner.link.kind().capacity() + 1);
        let new = NewNode {
            height: 1,
            level: level - 1,
            parent: self.tier_of_parent(&parent),
            twin: self.tier_of(inner.link),
        };
        let larger = match self.fresh_inner(new, kind) {
            Ok(larger) => larger,
            Err(full) => return Ok(Err(full)),
        };
        let leaf = match self.leaf_for(insert, self.tier_of(larger.link), level) {
            Ok(leaf) => leaf,
            Err(full) => return Ok(Err(full)),
        };
        let parent = parent.upgrade()?;
        let old = inner.node.upgrade()?;
        let body = larger.link.claim::<R>(self.base, guard);
        body.reset(kind, &key[branch - prefix_len..branch]);
        body.take_over(&old);
        body.insert(at, leaf.link);
        self.check_boundary(larger.link, &body, &key[..branch]);
        drop(body);
        parent.set(larger.link);
        drop(parent);
        old.retire();
        let link = leaf.link;
        larger.keep();
        leaf.keep();
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
        let below = self.leaf_below(inner, guard)?.key();
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
