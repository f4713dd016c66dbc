//! Waiting until records are on the disk.

use std::sync::Arc;

use crate::Error;
use crate::log::State;
use crate::store::Inner;

impl Inner {
    /// Waits until all records up to this number are on the disk.
    pub async fn commit(&self, sequence: u64) -> Result<(), Error> {
        let committed = |state: &mut State| {
            if state.durable >= sequence {
                return Some(Ok(()));
            }
            if let Some(error) = &state.failed {
                return Some(Err(Error::ReadOnly(Arc::clone(error))));
            }
            if !state.commit_wanted {
                state.commit_wanted = true;
                state.changed();
            }
            None
        };
        self.log.wait(committed).await
    }

    /// Waits until all that was appended so far is on the disk, what cleaning moved too.
    pub async fn sync_all(&self) -> Result<(), Error> {
        let wanted = self.log.lock().want_sync();
        self.synced(wanted).await
    }

    /// Waits until the sync with this number is done.
    pub async fn synced(&self, wanted: u64) -> Result<(), Error> {
        let synced = self.log.wait(|state| {
            if state.synced >= wanted {
                return Some(Ok(()));
            }
            let failed = state.failed.clone();
            failed.map(|error| Err(Error::ReadOnly(error)))
        });
        synced.await
    }
}
