//! Reclamation: memory that readers may still look at is freed only after all of them have gone.
//!
//! Readers [`pin`] before they take their first pointer and keep no pointer beyond the [`Guard`]. Whoever
//! unlinks a node hands the freeing of it to [`Guard::defer`], which runs it once every thread that was pinned then
//! has unpinned. Every operation pins, so [`pin`] costs a dozen instructions and no barrier: epochs (Fraser:
//! "Practical lock-freedom", 2004) with the barrier moved to those who reclaim (`barrier.rs`; the same trade as in
//! Desnoyers et al.: "User-level implementations of read-copy update", 2012).
//!
//! # The protocol
//!
//! There is one global epoch, and a slot for each thread.
//!
//! **To pin:** load the global epoch, store it in the thread's slot, cross the *light* barrier. **To unpin:** store
//! zero in the slot (`Release`).
//!
//! **To retire** a node: make it unreachable, then put the call that frees it into the thread's bag. A full bag is
//! *sealed* when the thread unpins: under the lock of the garbage it is marked with the global epoch.
//!
//! **To advance** the epoch from e to e + 1: under that lock, cross the *heavy* barrier, then see that every slot holds zero
//! or e. **To free** a bag marked e: wait until the global epoch is e + 2.
//!
//! # Why it works
//!
//! Take a node that was unlinked, then sealed under e; a reader R that might have a pointer to it; and the advances A1 to
//! e + 1 and A2 to e + 2. The lock puts the sealing before all of A1, and A1 before A2. Of R's light barrier and A1's
//! heavy one, one comes first:
//!
//! - *Heavy first.* R reads after it and finds the node unlinked: it never gets the pointer.
//! - *Light first.* A1 sees R's slot as R stored it, or as R left it later. If R is still there, its slot holds e
//!   (with anything else A1 gives up). Then A2 gives up until R is gone. R's leaving is a `Release` store, which the
//!   look at the slot (`Acquire`) sees, or sees one after it, as all stores to slots are `Release`: what R read
//!   happened before A2, and so before the freeing.
//!
//! R may have loaded a global epoch that is *stale*. This changes nothing above: either an advance sees it in R's slot, and
//! gives up until R has left, or R comes after the heavy barrier. Nor can R be *early*: who loads e + 1 loads what A1
//! stored after its heavy barrier, so heavy comes first.
//!
//! One advance is not enough, as readers of the node may be in e after it; after the second, they are gone. So there are
//! three kinds of garbage at a time: of this epoch, of the one before, and what is free.
//!
//! What holds for nodes holds for whatever else is deferred until no one looks, like an address that must not be used again.
//!
//! # When calls are made
//!
//! In [`pin`], if the thread's last bag got full and it was not pinned already, and in [`Guard::flush`]; by whichever
//! thread comes first. They are made with no lock of this module held, and pinned: they may pin, defer, and drop anything.
//! A bag waits until it is full. Whoever counts on getting memory back (a full tier, a worker that just demoted) calls
//! [`collect`]. A thread that ends seals what it has.

// The models do without what only `local` calls.
#[cfg_attr(loom, allow(dead_code))]
mod barrier;
#[cfg_attr(loom, allow(dead_code))]
mod deferred;
#[cfg_attr(loom, allow(dead_code))]
mod domain;
#[cfg(not(loom))]
mod local;

#[cfg(not(loom))]
pub use local::{Guard, is_pinned, pin};

#[cfg(all(test, loom))]
pub(crate) use {barrier::light, deferred::Deferred, domain::Domain};

/// Frees what can be freed by now. The calling thread must not be pinned, or it holds back what it waits for.
///
/// Garbage is freed when the epoch has moved on twice since it was made, and one call of `flush` moves it on
/// once at most.
#[cfg(not(loom))]
pub fn collect() {
    for _ in 0..3 {
        pin().flush();
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
