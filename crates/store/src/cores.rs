//! Work that all cores share.

use std::panic::resume_unwind;
use std::thread::{self, ScopedJoinHandle};

/// How many threads have a core each.
pub(crate) fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Does work on so many threads, this one among them, but at most one for each core. Each of them
/// takes parts of it until none is left; where the system gives no thread, the others do it all.
pub(crate) fn on_cores<E: Send>(
    most: usize,
    work: impl Fn() -> Result<(), E> + Sync,
) -> Result<(), E> {
    thread::scope(|scope| {
        let named = || thread::Builder::new().name("timberline-open".into());
        let helpers = (1..cores().min(most))
            .map_while(|_| named().spawn_scoped(scope, &work).ok())
            .collect::<Vec<_>>();
        let own = work();
        let ended = helpers.into_iter().map(ScopedJoinHandle::join);
        ended.fold(own, |all, ended| {
            all.and(ended.unwrap_or_else(|panic| resume_unwind(panic)))
        })
    })
}
