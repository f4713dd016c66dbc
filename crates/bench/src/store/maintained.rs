//! Maintenance of a store on a thread of its own.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::thread::JoinHandle;

use futures_util::future::{FutureExt, RemoteHandle};
use timberline_store::{Error, Store};

/// Maintains a store, as the one does that [`Store::open`] begins, until it was closed. The thread
/// that drives the disk waits for this, or drops it, which ends maintenance as a kill would.
pub struct Maintained {
    ended: Option<RemoteHandle<Result<(), Error>>>,
    thread: Option<JoinHandle<()>>,
}

impl Maintained {
    /// Begins it.
    ///
    /// # Errors
    /// One line: the system gives no thread, or no driver for it.
    pub fn begin(store: &Store) -> Result<Maintained, String> {
        let driver = store.disk().another_driver(Store::MAINTENANCE_DEPTH);
        let mut driver = driver.map_err(|error| format!("no driver for maintenance: {error}"))?;
        let store = store.clone();
        let maintain = async move { store.maintain().await };
        let (maintain, ended) = maintain.remote_handle();
        let thread = std::thread::Builder::new()
            .name("timberline-maintenance".into())
            .spawn(move || driver.block_on(maintain))
            .map_err(|error| format!("no thread for maintenance: {error}"))?;
        Ok(Maintained {
            ended: Some(ended),
            thread: Some(thread),
        })
    }
}

impl Future for Maintained {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let ended = self.ended.as_mut().expect("it is there until the drop");
        ended.poll_unpin(context)
    }
}

impl Drop for Maintained {
    /// Its clone of the store is gone afterwards.
    fn drop(&mut self) {
        drop(self.ended.take());
        // A panic was printed, and whoever waits for the store has its error.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
