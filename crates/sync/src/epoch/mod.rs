//! Reclamation: memory that readers may still look at is freed only after all of them have gone.
//!
//! Readers [`pin`](Domain::pin) a [`Domain`] before they take their first pointer and keep no
//! pointer beyond the [`Guard`]. A thread that unlinks a node hands the freeing of it to
//! [`Guard::defer`], which runs it once every thread that was pinned then has unpinned. Every
//! operation pins, so pinning costs a dozen instructions and no barrier: epochs (Fraser: "Practical
//! lock-freedom", 2004) with the barrier moved to the reclaimer (`barrier.rs`; the same trade
//! as in Desnoyers et al.: "User-level implementations of read-copy update", 2012).
//!
//! Each map has a domain of its own, unless it was told to share another's. So a reader that stays
//! long, or a guard that was forgotten, holds back the memory of one map.
//!
//! # The protocol
//!
//! A domain has an epoch, and a slot for each thread. A thread has the same *index* in all domains,
//! by which its slot is found (`slots.rs`, `thread.rs`).
//!
//! **To pin:** load the domain's epoch, store it in the thread's slot, cross the *light* barrier.
//! **To unpin:** store zero in the slot (`Release`).
//!
//! **To pin without a thread** (an *owned* guard, which a future keeps from poll to poll): while
//! the thread is pinned, in e, count one more in its slot, for even epochs or for odd ones as e is.
//! Any thread counts one less to unpin (`Release`).
//!
//! **To retire** a node: make it unreachable, then put the call that frees it into the thread's
//! bag. A full bag is *sealed* when the thread unpins: under the lock of the garbage it is marked
//! with the domain's epoch.
//!
//! **To advance** the epoch from e to e + 1: under that lock, cross the *heavy* barrier, then see
//! that every slot holds zero or e, and *then*, in each, that no owned guard is left from epochs
//! that are odd where e is even, or even where e is odd. **To free** a bag marked e: wait until the
//! domain's epoch is e + 2.
//!
//! # Why it works
//!
//! Take a node that was unlinked, then sealed under e; a reader R that might have a pointer to it;
//! and the advances A1 to e + 1 and A2 to e + 2. The lock puts the sealing before all of A1, and A1
//! before A2. Of R's light barrier and A1's heavy one, one comes first:
//!
//! - *Heavy first.* R reads after it and finds the node unlinked: it never gets the pointer.
//! - *Light first.* A1 sees R's slot as R stored it, or as R left it later. If R is still there,
//!   its slot holds e (with anything else A1 gives up). Then A2 gives up until R is gone. R's
//!   leaving is a `Release` store, which the look at the slot (`Acquire`) sees, or sees one after
//!   it, as all stores to slots are `Release`: what R read happened before A2, and so before the
//!   freeing.
//!
//! *If R makes an owned guard*, in e too as its slot says, and leaves: a thread that sees R's slot
//! as R left it sees the guard counted, as the store is a `Release`. So A1 and A2 see one of the
//! two: where A1 goes through, R's epoch and the node's are both even or both odd, and A2's is not;
//! it gives up until the guard is gone. The thread that lowers it does so with a `Release`, as
//! above.
//!
//! R may have loaded an epoch that is *stale*. This changes nothing above: either an advance sees
//! it in R's slot, and gives up until R has left, or R comes after the heavy barrier. Nor can R be
//! *early*: a reader that loads e + 1 loads what A1 stored after its heavy barrier, so heavy comes
//! first.
//!
//! R's slot may be in a bucket that R made just before. The pointer to the bucket is stored before
//! the slot, so an advance that has to see the slot sees the bucket.
//!
//! One advance is not enough, as readers of the node may be in e after it; after the second, they
//! are gone. So there are three kinds of garbage at a time: of this epoch, of the one before, and
//! what is free.
//!
//! What holds for nodes holds for whatever else is deferred until no one looks, like an address
//! that must not be used again.
//!
//! # When calls are made
//!
//! - When a thread pins that was not pinned already, if its last bag got full: some of those that
//!   have waited long enough.
//! - In [`Guard::flush`]: all of those. [`Guard::flush_at_end`] puts that off until the thread
//!   unpins.
//! - When the last handle of the domain is dropped: all that are left.
//!
//! They are made by whichever thread comes first, with no lock of this module held, and pinned:
//! they may pin, defer, and drop anything. A thread that pins or unpins holds no node of the map:
//! guards outlive what was reached by them. So a call may read and write the map that it was
//! deferred by. A call that panics ends the operation that happened to make it; the others wait for
//! the next time.
//!
//! A bag waits until it is full. A thread that counts on getting memory back (a full tier, a worker
//! that just demoted) calls [`Domain::collect`]. A thread that ends seals what it has. If it is
//! still pinned then, [`Domain::stuck`] counts it.

// The models do without what only threads of the system need.
#[cfg_attr(loom, allow(dead_code))]
mod barrier;
#[cfg_attr(loom, allow(dead_code))]
mod core;
#[cfg_attr(loom, allow(dead_code))]
mod deferred;
#[cfg(not(loom))]
mod domain;
#[cfg(not(loom))]
mod guard;
mod index;
#[cfg_attr(loom, allow(dead_code))]
mod slot;
#[cfg_attr(loom, allow(dead_code))]
mod slots;
#[cfg(not(loom))]
mod thread;

#[cfg(not(loom))]
pub use self::{
    domain::Domain,
    guard::{Guard, OwnedGuard, Pinned},
};

#[cfg(all(test, loom))]
pub(crate) use self::{barrier::light, core::Core, deferred::Deferred, index::Indices};

#[cfg(all(test, not(loom)))]
mod tests;
