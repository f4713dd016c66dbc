//! Where a node hangs: below the root, or at a position of an inner node.
//!
//! All structure modifications go through a [`LockedParent`]. Each hangs a new node, or what hung
//! below the old one, and retires what nothing links to any more: so each node is linked from one
//! place, and what is retired from none.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use timberline_sync::epoch::Pinned;
use timberline_sync::{Exclusive, Restart, Snapshot, Versioned};

use super::body::Position;
use super::fresh::{FreshInner, Linkable};
use super::inner::Inner;
use super::link::{Base, Link, StoredLink};
use super::locked_inner::LockedInner;
use super::reach::Reach;
use super::terminal::{LockedTerminal, Removed};
use crate::node::retired::Retired;

/// The link to the topmost node, guarded like a node: it is that node's parent.
#[repr(align(128))]
pub struct Root(Versioned<Top>);

#[derive(Debug)]
pub struct Top {
    link: AtomicU64,
}

// Not generic, so a call from other crates if it is not said: one in each operation.
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
    /// That of an empty tree.
    pub fn new() -> Root {
        let link = AtomicU64::new(StoredLink::NONE.word());
        Root(Versioned::new(Top { link }))
    }

    /// The place of the topmost node, and the link that is there.
    ///
    /// # Errors
    /// It changed meanwhile.
    #[inline(always)]
    pub fn read<'g, R>(
        &'g self,
        _pinned: impl Into<Pinned<'g>>,
    ) -> Result<(Parent<'g, R>, Link<'g>), Restart> {
        let top = self.0.read()?;
        let link = top.get(Top::link)?;
        // SAFETY: it was the topmost node when this was validated, under the guard.
        Ok((Parent::Root(top), unsafe { link.alive() }))
    }
}

/// Where a node hangs.
pub enum Parent<'g, R> {
    /// Below no other.
    Root(Snapshot<'g, Top>),
    /// At this position of a node.
    Node(Inner<'g, R>, Position),
}

impl<R> Clone for Parent<'_, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for Parent<'_, R> {}

impl<'g, R: Reach> Parent<'g, R> {
    /// Locks it.
    ///
    /// # Errors
    /// It changed, or a writer holds the lock.
    pub fn upgrade(self) -> Result<LockedParent<'g, R>, Restart> {
        Ok(match self {
            Parent::Root(root) => LockedParent::Root(root.upgrade()?),
            Parent::Node(inner, at) => LockedParent::Node(inner.upgrade()?, at),
        })
    }

    /// Whether it is as it was.
    ///
    /// # Errors
    /// It is not.
    #[inline(always)]
    pub fn validate(&self) -> Result<(), Restart> {
        match self {
            Parent::Root(root) => root.validate(),
            Parent::Node(inner, _) => inner.validate(),
        }
    }
}

/// A locked parent, to hang another node there.
pub enum LockedParent<'g, R> {
    /// That of the topmost node.
    Root(Exclusive<'g, Top>),
    /// An inner node.
    Node(LockedInner<'g, R>, Position),
}

impl<'g, R: Reach> LockedParent<'g, R> {
    /// What hangs there.
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

    /// Hangs a new node in the place of what must be this.
    fn swap(self, old: StoredLink, new: impl Linkable) -> Link<'g> {
        assert!(self.child() == old, "a node is replaced where it hangs");
        let link = new.keep();
        self.set(link);
        // SAFETY: it is complete, and linked.
        unsafe { link.alive() }
    }

    /// Hangs the topmost node of an empty tree.
    pub fn hang(self, new: impl Linkable) -> Link<'g> {
        self.swap(StoredLink::NONE, new)
    }

    /// Hangs a new node between this and what hangs there, which comes to its position `at`.
    pub fn put_between(self, new: FreshInner<'_, R>, at: Position) -> Link<'g> {
        let old = self.child();
        new.put(at, old);
        self.swap(old, new)
    }

    /// Hangs a new node in the place of what held records.
    pub fn replace(
        self,
        old: LockedTerminal<'_>,
        base: Base<R>,
        new: impl Linkable,
    ) -> (Link<'g>, Retired) {
        let link = self.swap(*old.link(base), new);
        // SAFETY: nothing else than this parent led there.
        (link, unsafe { old.retire() })
    }

    /// Hangs a copy in the place of what it was made of.
    pub fn replace_inner(self, mut new: FreshInner<'_, R>) -> Retired {
        let old = new.original();
        self.swap(**old.link(), new);
        // SAFETY: nothing else than this parent led there.
        unsafe { old.retire() }
    }

    /// The same with a copy that lacks what held records at a position of the old node, which goes
    /// with it.
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
        // SAFETY: nothing else than this parent led to the one, and nothing else than that to the
        // other.
        unsafe { (old.retire(), last.remove()) }
    }

    /// Hangs the other one of two children in the place of their node, which goes with the one
    /// that held records at a position.
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
        self.set(*other);
        drop(self);
        // SAFETY: as for `replace_without`.
        unsafe { (old.retire(), last.remove()) }
    }

    /// Takes away what held records, and hangs nothing there.
    pub fn unlink<'v>(self, old: LockedTerminal<'v>, base: Base<R>) -> Removed<'v> {
        assert!(self.child() == *old.link(base), "it hangs here");
        match &self {
            LockedParent::Root(root) => root.set(StoredLink::NONE),
            LockedParent::Node(node, at) => node.remove(*at),
        }
        drop(self);
        // SAFETY: nothing else than this parent led there.
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
