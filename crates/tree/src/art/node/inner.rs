//! An inner node that is being read, as of one version.
//!
//! Links that come out of it can be followed: the node was reached under a guard, and was not
//! retired when the read was validated. So what it led to was linked then, and is there as long as
//! the guard.

use timberline_sync::{Restart, Snapshot};

use super::body::{AT_END, Body, Position, Step};
use super::link::{InnerLink, Kind, Link, StoredLink};
use super::locked_inner::LockedInner;
use super::reach::Reach;
use crate::range::Way;

/// An inner node, as of one version.
#[derive(Debug)]
pub struct Inner<'g, R> {
    link: InnerLink<'g>,
    node: Snapshot<'g, Body<R>>,
}

impl<R> Clone for Inner<'_, R> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for Inner<'_, R> {}

impl<'g, R: Reach> Inner<'g, R> {
    #[inline(always)]
    pub(super) fn new(link: InnerLink<'g>, node: Snapshot<'g, Body<R>>) -> Self {
        Inner { link, node }
    }

    /// The link that led here.
    #[inline(always)]
    pub fn link(&self) -> InnerLink<'g> {
        self.link
    }

    /// Its address.
    #[inline(always)]
    pub fn address(&self) -> usize {
        std::ptr::from_ref(self.node.of()).addr()
    }

    /// The kind of node.
    #[inline(always)]
    pub fn kind(&self) -> Kind {
        self.link.kind()
    }

    /// Computes something from the node: [`Snapshot::get`].
    ///
    /// # Errors
    /// It changed.
    #[inline(always)]
    pub fn get<T>(&self, compute: impl FnOnce(&Body<R>) -> T) -> Result<T, Restart> {
        self.node.get(compute)
    }

    /// Whether the node is as it was.
    ///
    /// # Errors
    /// It is not.
    #[inline(always)]
    pub fn validate(&self) -> Result<(), Restart> {
        self.node.validate()
    }

    /// Locks the node.
    ///
    /// # Errors
    /// It changed, or a writer holds the lock.
    #[inline(always)]
    pub fn upgrade(self) -> Result<LockedInner<'g, R>, Restart> {
        let Inner { link, node } = self;
        node.upgrade().map(|held| LockedInner::new(link, held))
    }

    #[inline(always)]
    fn child_by(&self, read: impl FnOnce(&Body<R>) -> StoredLink) -> Result<Link<'g>, Restart> {
        let child = self.get(read)?;
        // SAFETY: the read is validated, as this module's text says.
        Ok(unsafe { child.alive() })
    }

    /// The child at a position, or none.
    ///
    /// # Errors
    /// The node changed.
    pub fn child(&self, at: Position) -> Result<Link<'g>, Restart> {
        self.child_by(|body| body.get(self.kind(), at))
    }

    /// The first child.
    ///
    /// # Errors
    /// The node changed.
    pub fn first(&self) -> Result<Link<'g>, Restart> {
        self.child_by(Body::first)
    }

    /// The next child from a position on, and where it hangs.
    ///
    /// # Errors
    /// The node changed.
    pub fn next(&self, from: Position) -> Result<Option<(Position, Link<'g>)>, Restart> {
        let mut next = None;
        self.get(|body| {
            body.each(from, |at, child| {
                next = Some((at, child));
                false
            });
        })?;
        // SAFETY: the read is validated.
        Ok(next.map(|(at, child)| (at, unsafe { child.alive() })))
    }

    /// The children that are `wanted`, in order, and where they hang.
    ///
    /// # Errors
    /// The node changed.
    pub fn children(
        &self,
        wanted: impl Fn(StoredLink) -> bool,
    ) -> Result<Vec<(Position, Link<'g>)>, Restart> {
        let mut children = Vec::new();
        self.get(|body| {
            body.each(AT_END, |at, child| {
                if wanted(child) {
                    children.push((at, child));
                }
                true
            });
        })?;
        // SAFETY: the read is validated.
        let alive = |(at, child): (Position, StoredLink)| (at, unsafe { child.alive() });
        Ok(children.into_iter().map(alive).collect())
    }

    /// The child on the way of a key: [`Body::child_for`].
    ///
    /// # Errors
    /// The node changed.
    #[inline(always)]
    pub fn child_for(&self, key: &[u8], depth: usize) -> Result<(Link<'g>, usize, bool), Restart> {
        let kind = self.kind();
        // Said of the closure, too, or it would be a function of all callers.
        let (child, below, trusts) = self.get(
            #[inline(always)]
            |body| body.child_for(kind, key, depth),
        )?;
        // SAFETY: the read is validated.
        Ok((unsafe { child.alive() }, below, trusts))
    }

    /// Where a key goes on from here.
    ///
    /// # Errors
    /// The node changed.
    #[inline(always)]
    pub fn step(&self, key: &[u8], depth: usize) -> Result<Step<Link<'g>>, Restart> {
        let step = self.get(|body| body.step(self.kind(), key, depth))?;
        // SAFETY: the read is validated.
        Ok(step.map(|child| unsafe { child.alive() }))
    }

    /// Takes links out of the node, from `from` on, until `links` is full. Returns how many, and
    /// where the next is if there is one.
    ///
    /// # Errors
    /// The node changed. No link was taken.
    #[inline(always)]
    pub fn take(
        &self,
        way: Way,
        from: Position,
        links: &mut [Link<'g>],
    ) -> Result<(usize, Option<Position>), Restart> {
        // SAFETY: a link is nothing but what is stored. Until the read is validated nothing is
        // done with what it puts there, and it does not stay there otherwise.
        let stored = unsafe { &mut *(std::ptr::from_mut(links) as *mut [StoredLink]) };
        // As in `child_for`.
        let taken = self.node.get(
            #[inline(always)]
            |body| match way {
                Way::Forward => body.take(self.kind(), from, stored),
                Way::Backward => body.take_back(from, stored),
            },
        );
        if taken.is_err() {
            links.fill(Link::NONE);
        }
        taken
    }
}
