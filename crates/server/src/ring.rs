//! A ring of each thread's own, driven by a task beside its connections.

use std::convert::Infallible;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

use timberline_io::TaskDriver;
use timberline_store::Store;
use tokio::io::{Interest, unix::AsyncFd};
use tracing::warn;

use crate::shared::Shared;

/// Drives the disk for this thread's connections. Where it can't, the store's own thread does.
pub(crate) async fn drive(shared: Arc<Shared>) {
    let driver = shared.keyspace.store().disk().task_driver(Store::DEPTH);
    let reason = match driver {
        Ok(None) => return,
        Ok(Some(driver)) => drive_by(driver).await.err(),
        Err(error) => Some(error),
    };
    let reason = reason.map(|it| it.to_string());
    warn!(reason, "a thread has no ring of its own");
}

async fn drive_by(driver: TaskDriver) -> io::Result<Infallible> {
    let ring = driver.as_fd().try_clone_to_owned()?;
    // What replaces it is unsafe, for types that may lend a closed descriptor. This one owns it.
    #[allow(deprecated)]
    let ended = AsyncFd::with_interest(ring, Interest::READABLE)?;
    let ended = async || {
        ended.readable().await?.clear_ready();
        Ok(())
    };
    driver.run(ended).await
}
