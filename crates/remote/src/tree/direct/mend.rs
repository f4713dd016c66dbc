//! What a dead compute server left half done at a leaf.
//!
//! Changes of records are whole: they are one request, which a memory server carries out or does
//! not. A split is several. If its holder dies after the parent led to the right leaf and before
//! the left one was shortened, both locks are held, and the left leaf still has what the right one
//! has. Nobody may change either before the left one is shortened, or who comes there by an old
//! parent would find what is no longer so. So whoever takes a lock from the dead looks after both.

use super::turns::HeldLock;
use crate::address::Address;
use crate::cache::Flight;
use crate::error::Result;
use crate::image::{LOCK_BYTES, trim, written};
use crate::pool::{PoolLock, Writes};
use crate::tree::RemoteTree;

impl RemoteTree {
    /// Shortens a leaf whose lock was taken from the dead, if that is due, and the one before it;
    /// if the dead had that one's lock, too, the one before that, and so on.
    pub(super) async fn mend(&self, at: Address) -> Result<()> {
        let mut held = Vec::new();
        let mended = self.mend_row(at, &mut held).await;
        for (_flight, lock) in held {
            self.release_leaf(Some(lock), Writes::new()).await?;
        }
        mended
    }

    /// Keeps the flights and locks of the leaves before `at`.
    async fn mend_row<'a>(
        &'a self,
        mut at: Address,
        held: &mut Vec<(Flight<'a>, HeldLock)>,
    ) -> Result<()> {
        let mut lower = self.read_locked(at).await?.lock().lower();
        loop {
            self.shorten(at, lower).await?;
            let Some(before) = lower.checked_sub(1) else {
                return Ok(());
            };
            // From right to left, so that nobody waits for who waits for them.
            at = self.latest_place(before).await?.address;
            let flight = self.cache.flights.begin(at).await;
            let (lock, is_from_the_dead) = match self.turns.take_lock(at) {
                Some(lock) => (lock, false),
                None => {
                    let lock = PoolLock::take(&self.connection, at).await?;
                    let is_from_the_dead = lock.is_from_the_dead();
                    (HeldLock::new(lock), is_from_the_dead)
                }
            };
            held.push((flight, lock));
            lower = self.read_locked(at).await?.lock().lower();
            if !is_from_the_dead {
                return self.shorten(at, lower).await;
            }
        }
    }

    /// Cuts off what the next leaf has of a locked leaf that covers a key.
    async fn shorten(&self, at: Address, key: u64) -> Result<()> {
        let place = self.latest_place(key).await?;
        let page = self.read_locked(at).await?;
        let upper = page.lock().upper();
        if place.address != at || upper <= place.upper {
            return Ok(());
        }
        trim(&page, place.upper);
        let words = written(&self.image_of(&page.lock()));
        let write = async || {
            let at = at.add(LOCK_BYTES);
            self.connection.write(at, words.clone()).await
        };
        self.connection.insist(write).await
    }
}
