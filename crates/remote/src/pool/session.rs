//! A compute server's operations on one memory server, until it is fenced.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

use crate::error::{Error, Result};

/// What a memory server knows of a compute server: whether it may do anything.
#[derive(Default, Debug)]
pub struct Session {
    is_fenced: AtomicBool,
    /// Shared by what is under way. Only [`fence`](Self::fence) waits for it.
    under_way: RwLock<()>,
    /// Held by the connection whose operations are carried out.
    turn: Mutex<()>,
}

impl Session {
    /// Does something for the compute server. Nobody can fence it meanwhile.
    ///
    /// # Errors
    /// [`Error::Fenced`]; nothing is done.
    pub(super) fn within<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let under_way = self.under_way.read();
        let _under_way = under_way.unwrap_or_else(PoisonError::into_inner);
        match self.is_fenced() {
            true => Err(Error::Fenced),
            false => work(),
        }
    }

    /// Lets nothing begin any more, and waits for what is under way.
    pub(super) fn fence(&self) {
        self.is_fenced.store(true, Relaxed);
        // What began before this has the lock until it ends; what begins after it sees the flag.
        drop(self.under_way.write());
    }

    /// Whether it is fenced.
    pub(crate) fn is_fenced(&self) -> bool {
        self.is_fenced.load(Relaxed)
    }

    /// Waits until no other connection of this compute server is served. So what an old connection
    /// has brought is done before anything of a new one is.
    pub(crate) fn take_turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
