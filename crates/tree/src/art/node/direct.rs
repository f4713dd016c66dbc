//! A link to a node of 256 without a prefix, whose entries may be read without its version.
//!
//! # Why no version is needed
//!
//! Each entry is one word, which a writer stores when what it leads to is complete. A node that is
//! replaced never changes again: its entries are those of the moment in which it was replaced. A
//! reader comes to such a node by a validated read, or from another such node; so it was at each of
//! them while that was in the tree, or has what it held at its end, and both after the reader had
//! pinned the epoch. What it reads was in the tree at some moment since then; and a leaf, a pack or
//! no link, with which the read ends, is the answer as of that moment. The bytes on the way to
//! where a node branches never change, so the key's next byte is the right one, even if the node
//! has got a prefix meanwhile. (The ROWEX protocol rests on the same: Leis, Scheibner, Kemper,
//! Neumann: "The ART of Practical Synchronization", DaMoN 2016.)
//!
//! A pack is read at a version, which is a later moment than that of the link. If it is still in
//! the tree then, the key still leads there: no node is ever put between a pack and its path, but
//! in its place, and then it is retired. A dense leaf tells by itself which keys are its.
//!
//! That is not so for an inner node of another kind below, whose prefix may have changed: to go
//! there, the reader takes a snapshot of this one.
//!
//! # Why a writer needs none either
//!
//! A writer that comes to no link, or to a leaf, locks the node ([`Entry::lock`]). If it was not
//! replaced, it is in the tree now, and the key still leads to the entry. If the entry is what the
//! writer read, that is what is to be changed: as long as the thread is pinned, no other node can
//! take the place of the leaf there, and a leaf hangs nowhere else.

use timberline_sync::Restart;
use timberline_sync::shim::step;

use super::base::Base;
use super::body::{Node, Position};
use super::link::{InnerLink, Kind, Link};
use super::locked_inner::LockedInner;
use super::reach::Reach;

/// A link to a node of 256 without a prefix. See the [module's text](self).
#[derive(Clone, Copy, Debug)]
pub struct Direct<'g>(InnerLink<'g>);

impl<'g> Direct<'g> {
    /// The link, which has the tag of such a node.
    #[inline(always)]
    pub(super) fn new(link: InnerLink<'g>) -> Self {
        Direct(link)
    }

    /// The link to the same node, as any inner node's.
    #[inline(always)]
    pub fn inner(self) -> InnerLink<'g> {
        self.0
    }

    /// The address of the entry for a byte.
    #[inline(always)]
    pub fn entry<R: Reach>(self, base: Base<R>, byte: u8) -> usize {
        self.0.direct_address(base) + Kind::N256.entry::<R>(byte)
    }

    /// The child for a byte, or none.
    #[inline(always)]
    pub fn child<R: Reach>(self, base: Base<R>, byte: u8) -> Link<'g> {
        step();
        let entry = std::ptr::with_exposed_provenance::<R>(self.entry(base, byte));
        // SAFETY: the link leads to a node of 256, which lives as long as `'g`.
        let child = unsafe { &*entry }.load_linked();
        // SAFETY: it was linked at some moment of `'g`, under a guard: see above.
        unsafe { child.alive() }
    }

    /// The place of the entry for a byte, which was read as this child.
    #[inline(always)]
    pub fn place<R: Reach>(self, base: Base<R>, byte: u8, child: Link<'g>) -> Entry<'g, R> {
        Entry {
            node: self.0.direct_node(base),
            link: self.0,
            at: 1 + Position::from(byte),
            child,
        }
    }
}

/// An entry of a node of 256 that was read without its version.
#[derive(Debug)]
pub struct Entry<'g, R> {
    node: &'g Node<R>,
    link: InnerLink<'g>,
    at: Position,
    child: Link<'g>,
}

impl<R> Clone for Entry<'_, R> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for Entry<'_, R> {}

impl<'g, R: Reach> Entry<'g, R> {
    /// The address of its node.
    #[inline(always)]
    pub(super) fn address(&self) -> usize {
        std::ptr::from_ref(self.node).addr()
    }

    /// Locks its node, if the entry is as it was read: so nobody needs to know what else changed
    /// there meanwhile. Waits while another thread holds the lock.
    ///
    /// # Errors
    /// The entry changed, or the node was replaced.
    #[inline(always)]
    pub(super) fn lock(self) -> Result<(LockedInner<'g, R>, Position), Restart> {
        let held = LockedInner::new(self.link, self.node.lock()?);
        match held.at(self.at).leads_where(*self.child) {
            true => Ok((held, self.at)),
            false => {
                held.unlock_unchanged();
                Err(Restart)
            }
        }
    }
}
