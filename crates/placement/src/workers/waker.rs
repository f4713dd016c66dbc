//! How a worker is woken.

use std::sync::atomic::{AtomicBool, Ordering::AcqRel, Ordering::Acquire};
use std::sync::{Arc, Mutex};

use super::lock;
use super::pool::{Shared, TaskId};

/// Wakes one worker. Clones wake the same one. It works before the worker is started, too.
#[derive(Clone, Default)]
pub struct Waker(Arc<Signal>);

#[derive(Default)]
struct Signal {
    /// Woken since the worker's last step began.
    woken: AtomicBool,
    /// The worker, while it is in a pool.
    worker: Mutex<Option<(Arc<Shared>, TaskId)>>,
}

impl Waker {
    /// A handle that wakes no worker yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes the worker take a step soon. Several wake-ups before that step count as one.
    pub fn wake(&self) {
        if self.0.woken.swap(true, AcqRel) {
            return;
        }
        if let Some((pool, id)) = &*lock(&self.0.worker) {
            pool.wake(*id);
        }
    }

    /// Whether there was a wake-up since the last step or the last call of this function; for code
    /// that calls steps itself.
    pub fn take(&self) -> bool {
        self.0.woken.swap(false, AcqRel)
    }

    pub(super) fn is_woken(&self) -> bool {
        self.0.woken.load(Acquire)
    }

    pub(super) fn attach(&self, pool: &Arc<Shared>, id: TaskId) {
        *lock(&self.0.worker) = Some((pool.clone(), id));
    }

    /// Unless it was attached to another pool since.
    pub(super) fn detach(&self, pool: &Arc<Shared>, id: TaskId) {
        let mut worker = lock(&self.0.worker);
        let same = |(to, of): &mut (Arc<Shared>, TaskId)| Arc::ptr_eq(to, pool) && *of == id;
        let detached = worker.take_if(same);
        drop(worker);
        drop(detached);
    }
}
