//! The link to a node: the root pointer, or an entry of an inner node.
//!
//! All structure modifications go through a [`LockedParent`]. Each stores a link to a new node, or
//! to a child of the old one, and retires the nodes that it unlinks. So exactly one link leads to
//! each node of the tree, and none to a retired one.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use timberline_sync::epoch::Pinned;
use timberline_sync::{Exclusive, Restart, Snapshot, Versioned};

use super::base::Base;
use super::body::Position;
use super::dense::LockedDense;
use super::direct::Entry;
use super::fresh::{FreshInner, Linkable};
use super::inner::Inner;
use super::link::{Link, StoredLink};
use super::locked_inner::LockedInner;
use super::reach::Reach;
use super::terminal::{LockedTerminal, Removed};
use crate::node::retired::Retired;

/// The root pointer. It has a version and a lock like a node's, and is the topmost node's parent.
#[repr(align(128))]
pub struct Root(Versioned<Top>);

#[derive(Debug)]
pub struct Top {
    link: AtomicU64,
}

// `inline` because it is not generic: without it, other crates call it in every operation.
impl Top {
    #[inline(always)]
    fn link(&self) -> StoredLink {
        StoredLink::from_word(self.link.load(Relaxed))
    }

    #[inline(always)]
    fn set(&self, link: StoredLink) {
        self.link.store(link.word(), Relaxed);
    }
}

impl Root {
    /// The root pointer of an empty tree.
    pub fn new() -> Root {
        let link = AtomicU64::new(StoredLink::NONE.word());
        Root(Versioned::new(Top { link }))
    }

    /// The topmost node's parent, and the link there.
    ///
    /// # Errors
    /// The root pointer changed meanwhile.
    #[inline(always)]
    pub fn read<'g, R>(
        &'g self,
        _pinned: impl Into<Pinned<'g>>,
    ) -> Result<(Parent<'g, R>, Link<'g>), Restart> {
        let top = self.0.read()?;
        let link = top.get(Top::link)?;
        // SAFETY: it led to the topmost node when the guard existed and the version was valid.
        Ok((Parent::Root(top), unsafe { link.alive() }))
    }
}

/// The place of a link.
pub enum Parent<'g, R> {
    /// The root pointer.
    Root(Snapshot<'g, Top>),
    /// The entry of an inner node at this position.
    Node(Inner<'g, R>, Position),
    /// An entry that was read without a version, and led to no inner node.
    Entry(Entry<'g, R>),
}

impl<R> Clone for Parent<'_, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for Parent<'_, R> {}

impl<'g, R: Reach> Parent<'g, R> {
    /// Locks the parent.
    ///
    /// # Errors
    /// The parent changed, or a writer holds the lock.
    #[inline(always)]
    pub fn upgrade(self) -> Result<LockedParent<'g, R>, Restart> {
        Ok(match self {
            Parent::Root(root) => LockedParent::Root(root.upgrade()?),
            Parent::Node(inner, at) => LockedParent::Node(inner.upgrade()?, at),
            Parent::Entry(entry) => {
                let (held, at) = entry.lock()?;
                LockedParent::Node(held, at)
            }
        })
    }

    /// The node's address, if it is not the root pointer.
    #[inline(always)]
    pub fn address(&self) -> Option<usize> {
        match self {
            Parent::Root(_) => None,
            Parent::Node(inner, _) => Some(inner.address()),
            Parent::Entry(entry) => Some(entry.address()),
        }
    }

    /// Validates the version, if it was read at one.
    ///
    /// # Errors
    /// The parent changed.
    #[inline(always)]
    pub fn validate(&self) -> Result<(), Restart> {
        match self {
            Parent::Root(root) => root.validate(),
            Parent::Node(inner, _) => inner.validate(),
            Parent::Entry(_) => Ok(()),
        }
    }
}

/// A locked parent, to replace the link in it.
pub enum LockedParent<'g, R> {
    /// The root pointer.
    Root(Exclusive<'g, Top>),
    /// An inner node.
    Node(LockedInner<'g, R>, Position),
}

impl<'g, R: Reach> LockedParent<'g, R> {
    /// The link in it.
    fn child(&self) -> StoredLink {
        match self {
            LockedParent::Root(root) => root.link(),
            LockedParent::Node(node, at) => node.at(*at),
        }
    }

    fn set(&self, link: StoredLink) {
        match self {
            LockedParent::Root(root) => root.set(link),
            LockedParent::Node(node, at) => node.replace(*at, link),
        }
    }

    /// Replaces the link, which must be `old`, by one to a new node.
    fn swap(self, old: StoredLink, new: impl Linkable) -> Link<'g> {
        let child = self.child();
        assert!(child.leads_where(old), "a node is replaced where it hangs");
        let link = new.keep();
        self.set(link);
        // SAFETY: it is complete, and linked.
        unsafe { link.alive() }
    }

    /// Stores a link where there is none; a node has room for it.
    #[inline(always)]
    pub fn hang(self, new: impl Linkable) -> Link<'g> {
        match self {
            LockedParent::Root(_) => self.swap(StoredLink::NONE, new),
            LockedParent::Node(node, at) => node.insert(at, new),
        }
    }

    /// Inserts a new inner node above the present child, which becomes its child at position `at`.
    pub fn put_between(self, new: FreshInner<'_, R>, at: Position) -> Link<'g> {
        let old = self.child();
        new.put(at, old);
        self.swap(old, new)
    }

    /// Replaces a node of records by a new node.
    pub fn replace(
        self,
        old: LockedTerminal<'_>,
        base: Base<R>,
        new: impl Linkable,
    ) -> (Link<'g>, Retired) {
        let link = self.swap(*old.link(base), new);
        // SAFETY: this parent had the only link to it.
        (link, unsafe { old.retire() })
    }

    /// Tells those that come here whether a dense leaf has all its records. Unlocks the parent.
    pub fn tell_full(self, dense: &LockedDense<'_>, base: Base<R>, is_full: bool) {
        let link = StoredLink::to_dense(base, dense.node().address(), is_full);
        assert!(self.child().leads_where(link), "it hangs here");
        self.set(link);
    }

    /// Replaces a node by its copy.
    pub fn replace_inner(self, mut new: FreshInner<'_, R>) -> Retired {
        let old = new.original();
        self.swap(**old.link(), new);
        // SAFETY: this parent had the only link to it.
        unsafe { old.retire() }
    }

    /// Replaces a node by a copy without the node of records at one position. Retires both.
    pub fn replace_without<'v>(
        self,
        at: Position,
        last: LockedTerminal<'v>,
        mut new: FreshInner<'_, R>,
        base: Base<R>,
    ) -> (Retired, Removed<'v>) {
        let old = new.original();
        assert!(old.at(at) == *last.link(base) && new.at(at).is_none());
        self.swap(**old.link(), new);
        // SAFETY: this parent had the only link to the old node, which had the only link to the
        // other.
        unsafe { (old.retire(), last.remove()) }
    }

    /// Replaces an inner node of two children by one of them. Retires the inner node and its other
    /// child, the node of records at one position.
    pub fn collapse<'v>(
        self,
        old: LockedInner<'_, R>,
        at: Position,
        last: LockedTerminal<'v>,
        base: Base<R>,
    ) -> (Retired, Removed<'v>) {
        let (_, other) = old.other(at);
        assert!(old.at(at) == *last.link(base) && old.count() == 2);
        assert!(
            self.child() == **old.link(),
            "a node is replaced where it hangs"
        );
        // If it is an inner node, its prefix is longer now.
        self.set(other.with_prefix());
        drop(self);
        // SAFETY: as for `replace_without`.
        unsafe { (old.retire(), last.remove()) }
    }

    /// Unlinks a node of records and leaves no link.
    pub fn unlink<'v>(self, old: LockedTerminal<'v>, base: Base<R>) -> Removed<'v> {
        assert!(self.child() == *old.link(base), "it hangs here");
        match &self {
            LockedParent::Root(root) => root.set(StoredLink::NONE),
            LockedParent::Node(node, at) => node.remove(*at),
        }
        drop(self);
        // SAFETY: this parent had the only link to it.
        unsafe { old.remove() }
    }
}

#[cfg(test)]
mod tests {
    use timberline_sync::epoch::Domain;
    use timberline_tier::{Arenas, ArenasConfig, Slot, TierId};

    use super::super::{AT_END, Fresh, FreshLeaf, Kind, Near, PACK_BYTES, leaf_bytes, position};
    use super::*;

    fn arenas() -> Arenas {
        Arenas::new(&ArenasConfig::one_tier(4 << 20)).unwrap()
    }

    fn slot(arenas: &Arenas, bytes: usize) -> Slot<'_> {
        arenas.slot(TierId::FAST, bytes).unwrap()
    }

    fn leaf<'a>(arenas: &'a Arenas, key: &[u8]) -> Fresh<'a> {
        let slot = slot(arenas, leaf_bytes(key.len()));
        FreshLeaf::new(slot, Base::<Near>::of(arenas), key, 0).with(7)
    }

    fn inner<'g>(arenas: &'g Arenas, pinned: Pinned<'g>) -> FreshInner<'g, Near> {
        let slot = slot(arenas, Kind::N3.bytes::<Near>());
        FreshInner::new(slot, Base::of(arenas), Kind::N3, b"tim", pinned)
    }

    fn locked<'g>(root: &'g Root, pinned: Pinned<'g>) -> LockedParent<'g, Near> {
        let (parent, _) = root.read(pinned).unwrap();
        parent.upgrade().unwrap()
    }

    #[test]
    fn what_is_not_linked_is_freed() {
        let (arenas, domain) = (arenas(), Domain::new());
        let guard = domain.pin();
        let pack_slot = slot(&arenas, PACK_BYTES);
        let pack = Fresh::pack(pack_slot, Base::<Near>::of(&arenas), 6, &[(1, 2)], 0);
        let nodes = (
            leaf(&arenas, b"timber"),
            pack,
            inner(&arenas, guard.pinned()),
        );
        assert!(arenas.used(TierId::FAST) > 0);
        drop(nodes);
        assert_eq!(arenas.used(TierId::FAST), 0);
    }

    #[test]
    fn nodes_come_between_and_go_again() {
        let (arenas, domain, root) = (arenas(), Domain::new(), Root::new());
        let (guard, base) = (domain.pin(), Base::<Near>::of(&arenas));
        let pinned = guard.pinned();
        let short = locked(&root, pinned).hang(leaf(&arenas, b"tim"));
        let new = inner(&arenas, pinned);
        let at = position(b"timber", 3);
        let long = new.insert(at, leaf(&arenas, b"timber"));
        let top = locked(&root, pinned).put_between(new, AT_END);

        let top = top.inner().unwrap().read(base).unwrap();
        assert_eq!((top.child(AT_END), top.child(at)), (Ok(short), Ok(long)));
        let other = top.upgrade().unwrap().other(AT_END);
        assert_eq!(other, (at, long));

        let (_, link) = root.read::<Near>(pinned).unwrap();
        let old = link.inner().unwrap().lock(base).unwrap();
        let last = short.terminal(base).unwrap().lock().unwrap();
        let (_, gone) = locked(&root, pinned).collapse(old, AT_END, last, base);
        assert_eq!(gone.value.map(|value| value.loan().word()), Some(7));
        assert_eq!(root.read::<Near>(pinned).unwrap().1, long);
        assert!(top.validate().is_err() && short.terminal(base).unwrap().is_obsolete());

        let last = long.terminal(base).unwrap().lock().unwrap();
        drop(locked(&root, pinned).unlink(last, base));
        assert!(root.read::<Near>(pinned).unwrap().1.is_none());
    }

    #[test]
    #[should_panic(expected = "a node is replaced where it hangs")]
    fn a_node_is_not_replaced_elsewhere() {
        let (arenas, domain) = (arenas(), Domain::new());
        let (guard, base) = (domain.pin(), Base::<Near>::of(&arenas));
        let (here, there) = (Root::new(), Root::new());
        locked(&here, guard.pinned()).hang(leaf(&arenas, b"here"));
        let other = locked(&there, guard.pinned()).hang(leaf(&arenas, b"there"));
        let old = other.terminal(base).unwrap().lock().unwrap();
        drop(locked(&here, guard.pinned()).replace(old, base, leaf(&arenas, b"new")));
    }

    #[test]
    #[should_panic(expected = "a copy takes the place of its original")]
    fn a_copy_hangs_nowhere_else() {
        let (arenas, domain, root) = (arenas(), Domain::new(), Root::new());
        let guard = domain.pin();
        let pinned = guard.pinned();
        let top = locked(&root, pinned).hang(inner(&arenas, pinned));
        let mut copy = inner(&arenas, pinned);
        let old = top.inner().unwrap().lock(Base::of(&arenas)).unwrap();
        copy.take_over(old, None);
        let elsewhere = Root::new();
        locked(&elsewhere, pinned).hang(copy);
    }

    #[test]
    #[should_panic(expected = "a slot for this kind")]
    fn a_slot_is_as_large_as_its_node() {
        let (arenas, domain) = (arenas(), Domain::new());
        let (guard, slot) = (domain.pin(), slot(&arenas, 64));
        let base = Base::<Near>::of(&arenas);
        drop(FreshInner::new(slot, base, Kind::N256, &[], &guard));
    }
}
