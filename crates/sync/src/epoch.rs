//! Reclamation: memory that readers may still look at is freed only after all of them have gone.
//!
//! Readers [`pin`] before they take their first pointer and keep no pointer beyond the [`Guard`]. Whoever
//! unlinks a node hands the freeing of it to [`Guard::defer`], which runs it once every thread that was pinned then
//! has unpinned. The epochs are `crossbeam-epoch`'s: one global epoch, a list of
//! participants, garbage in per-thread bags (Fraser: "Practical lock-freedom", 2004).
//!
//! A bag waits until it is full. Whoever counts on getting memory back (a full tier, a worker that just
//! demoted) calls [`collect`].

pub use crossbeam_epoch::{Guard, is_pinned, pin};

/// Frees what can be freed by now. The calling thread must not be pinned, or it waits for itself.
///
/// Garbage is freed when the epoch has moved on twice since it was made, and one call of `flush` moves it on
/// once at most.
pub fn collect() {
    for _ in 0..3 {
        pin().flush();
    }
}
