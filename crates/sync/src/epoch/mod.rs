//! Reclamation: a node is freed only when no reader can still have a pointer to it.
//!
//! Readers [`pin`](Domain::pin) a [`Domain`] before they load their first pointer, and keep no
//! pointer beyond the [`Guard`]. A thread that unlinks a node passes [`Guard::defer`] a call that
//! frees it; the call runs once every thread that was pinned then has unpinned. Every operation
//! pins, so pinning must be cheap: a dozen instructions and no barrier. The scheme is epochs
//! (Fraser: "Practical lock-freedom", 2004) with the barrier moved to the reclaimer (`barrier.rs`;
//! the same trade as in Desnoyers et al.: "User-level implementations of read-copy update", 2012).
//!
//! Each map has a domain of its own, unless it was told to share one. So a slow reader or a
//! forgotten guard holds back the memory of one map.
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
//! the thread is pinned in e, increment a count in its slot; there is one for even epochs and one
//! for odd ones. Any thread decrements it to unpin (`Release`).
//!
//! **To retire** a node: make it unreachable, then put the call that frees it into the thread's
//! bag. When the thread unpins, it *seals* a full bag: under the lock of the garbage it marks the
//! bag with the domain's epoch.
//!
//! **To advance** the epoch from e to e + 1: under that lock, cross the *heavy* barrier, then check
//! that every slot holds zero or e, and *then*, in each slot, that no owned guard is left from
//! epochs of the other parity than e. **To free** a bag marked e: wait until the domain's epoch is
//! e + 2.
//!
//! # Why it works
//!
//! Take a node that was unlinked, then sealed under e; a reader R that might have a pointer to it;
//! and the advances A1 to e + 1 and A2 to e + 2. The lock puts the sealing before all of A1, and A1
//! before A2. Of R's light barrier and A1's heavy one, one comes first:
//!
//! - *Heavy first.* R reads after it and finds the node unlinked: it never gets the pointer.
//! - *Light first.* A1 sees R's slot as R stored it or later. If R is still pinned, the slot holds
//!   e (otherwise A1 fails). Then A2 fails until R has unpinned. R unpins by a `Release` store.
//!   A2's load of the slot (`Acquire`) sees that store or a later one, and all stores to slots are
//!   `Release`: R's reads happened before A2, and so before the freeing.
//!
//! *If R makes an owned guard*, also in e as its slot says, and unpins: a thread that sees the slot
//! after R's store sees the guard counted, as the store is a `Release`. So A1 and A2 see one of the
//! two. If A1 succeeds, R's epoch and the node's have the same parity, and A2's has the other: A2
//! fails until the guard is dropped. The thread that drops it does so with a `Release`, as above.
//!
//! R may have loaded a *stale* epoch. This changes nothing above: either an advance sees it in R's
//! slot and fails until R has unpinned, or R comes after the heavy barrier. Nor can R be *early*: a
//! reader that loads e + 1 loads the value that A1 stored after its heavy barrier, so heavy comes
//! first.
//!
//! R's slot may be in a bucket that R has just allocated. The pointer to the bucket is stored
//! before the slot, so an advance that has to see the slot sees the bucket.
//!
//! One advance is not enough, as readers of the node may be in e after it. After the second there
//! are none. So there are three kinds of garbage at a time: of this epoch, of the one before, and
//! free memory.
//!
//! The same holds for everything else that is deferred, such as an address that must not be reused.
//!
//! # When calls are made
//!
//! - When a thread pins that was not pinned already, if its last bag got full: some of those that
//!   have waited long enough.
//! - In [`Guard::flush`]: all of those. [`Guard::flush_at_end`] puts that off until the thread
//!   unpins.
//! - When the last handle of the domain is dropped: all that are left.
//!
//! The first thread that comes makes them, pinned and without a lock of this module: they may pin,
//! defer, and drop anything. A thread that pins or unpins holds no node of the map, as guards
//! outlive all that was reached under them. So a call may read and write the map that deferred it.
//! A call that panics ends the operation that made it; the others wait for the next time.
//!
//! A bag waits until it is full, by the bytes that its calls free. A thread that needs memory back
//! (a full tier, a worker that has just demoted) calls [`Domain::collect`]. A thread that ends
//! seals its bag. If it is still pinned then, [`Domain::stuck`] counts it.

// The models leave out the parts that only threads of the system need.
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
    guard::{Guard, OwnedGuard, Pinned, UNKNOWN_BYTES},
};

#[cfg(all(test, loom))]
pub(crate) use self::{barrier::light, core::Core, deferred::Deferred, index::Indices};

#[cfg(all(test, not(loom)))]
mod tests;
