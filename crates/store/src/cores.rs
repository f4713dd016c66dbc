//! Work that all cores share.

use std::panic::resume_unwind;
use std::sync::{Mutex, PoisonError};
use std::thread::{self, ScopedJoinHandle};

/// How many threads have a core each.
pub(crate) fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Does all parts of some work, on so many threads, this one among them, but at most one for each
/// core. Where the system gives no thread, the others do it all. A thread ends with its first
/// error.
pub(crate) fn on_cores<T, E: Send>(
    most: usize,
    parts: impl Iterator<Item = T> + Send,
    work: impl Fn(T) -> Result<(), E> + Sync,
) -> Result<(), E> {
    let parts = Mutex::new(parts);
    let next = || parts.lock().unwrap_or_else(PoisonError::into_inner).next();
    let work = || {
        while let Some(part) = next() {
            work(part)?;
        }
        Ok(())
    };
    thread::scope(|scope| {
        let named = || thread::Builder::new().name("timberline-open".into());
        let helpers = (1..cores().min(most))
            .map_while(|_| named().spawn_scoped(scope, work).ok())
            .collect::<Vec<_>>();
        let own = work();
        let ended = helpers.into_iter().map(ScopedJoinHandle::join);
        ended.fold(own, |all, ended| {
            all.and(ended.unwrap_or_else(|panic| resume_unwind(panic)))
        })
    })
}
