//! Inner nodes that several compute servers write: those whose keys are of several partitions.
//!
//! Such a node is written under a lock in the pool, after what others wrote of it was fetched.
//! Readers take no lock. A cached copy that is older than the node in the pool still leads right:
//! others change it where their own keys are. That it leads wrong, after partitions have changed,
//! is seen at the child's fences; then the way is fetched again from the root.

use std::collections::HashMap;
use std::future::poll_fn;
use std::task::Poll;

use timberline_tree::btree::page::{Page, PageBody};

use super::RemoteTree;
use super::structure::{Place, Split};
use super::walk::Found;
use crate::address::Address;
use crate::cache::{Child, FrameId, State};
use crate::error::Result;
use crate::pool::{SUPERBLOCK, Superblock};

/// Bits of a lock's word that name its holder; the others count its releases.
const HOLDER_BITS: u32 = 17;

/// The keys and the height of a cached node that has other keys in the pool.
struct Outdated {
    lower: u64,
    upper: u64,
    height: u8,
}

/// A lock in the pool that this server holds, and the word that it becomes.
#[must_use = "it has to be unlocked"]
pub(super) struct SharedLock {
    at: Address,
    released: u64,
}

impl RemoteTree {
    /// Locks those nodes of a split that are shared, and fetches what others wrote of them. `None`:
    /// one of them is not what this server thought, so that the split has to be planned again.
    pub(super) async fn lock_shared(&self, split: Split) -> Result<Option<Vec<SharedLock>>> {
        let mut locks = Vec::new();
        let mut is_fresh = true;
        if split.above.is_none() {
            locks.push(self.lock(SUPERBLOCK).await?);
            let root = Superblock::read(&self.connection).await?.root;
            is_fresh = root == split.node.address;
        }
        for place in split.above.into_iter().chain([split.node]) {
            let (lower, upper, height) =
                self.read_page(place.id, |body| (body.lower(), body.upper(), body.height()));
            if is_fresh && height > 0 && self.is_shared(lower, upper) {
                locks.push(self.lock(place.address).await?);
                let fresh = self.read_node(place.address, height).await?;
                is_fresh = self.reconcile(place, &fresh).is_ok();
            }
        }
        if is_fresh {
            return Ok(Some(locks));
        }
        self.unlock_shared(locks).await?;
        Ok(None)
    }

    /// Releases locks.
    pub(super) async fn unlock_shared(&self, locks: Vec<SharedLock>) -> Result<()> {
        for lock in locks.into_iter().rev() {
            self.connection.write(lock.at, vec![lock.released]).await?;
        }
        Ok(())
    }

    async fn lock(&self, at: Address) -> Result<SharedLock> {
        let holder = u64::from(self.options.id) + 1;
        let mut free = 0;
        loop {
            let found = self
                .connection
                .compare_exchange(at, free, free | holder)
                .await?;
            if found == free {
                return Ok(SharedLock {
                    at,
                    released: (found >> HOLDER_BITS).wrapping_add(1) << HOLDER_BITS,
                });
            }
            free = found >> HOLDER_BITS << HOLDER_BITS;
            if found != free {
                yield_now().await;
            }
        }
    }

    /// Fetches the way to a key again: it led to a node that it should not lead to.
    pub(super) async fn refresh(&self, key: u64) -> Result<()> {
        let _structure = self.cache.flights.begin(SUPERBLOCK).await;
        self.refresh_locked(key).await
    }

    /// The same, by the operation that may change the structure.
    pub(super) async fn refresh_locked(&self, key: u64) -> Result<()> {
        let root = Superblock::read(&self.connection).await?.root;
        if root != self.cache.frame(self.cache.root()).address() {
            return self.take_new_root(root).await;
        }
        let Ok(Ok(mut height)) = self.at_root().map(|at| at.view.get(|body| body.height())) else {
            return Ok(());
        };
        while height > 0 {
            // A node that is missing is fetched as it is now.
            let Ok(Found::Here(at)) = self.walk(key, height) else {
                return Ok(());
            };
            let place = Place {
                id: at.id,
                address: at.frame.address(),
            };
            let Ok(fences) = at.view.get(|body| (body.lower(), body.upper())) else {
                return Ok(());
            };
            if !self.is_shared(fences.0, fences.1) {
                return Ok(());
            }
            let fresh = self.read_node(place.address, height).await?;
            if let Err(outdated) = self.reconcile(place, &fresh) {
                let Outdated {
                    lower,
                    upper,
                    height,
                } = outdated;
                return self.expel(lower, upper, height).await;
            }
            height -= 1;
        }
        Ok(())
    }

    /// Makes a cached node what the pool has.
    ///
    /// # Errors
    /// It, or one of its cached children, has other keys there. It is unchanged: what is outdated
    /// has to leave the cache first, while the way there is still the old one.
    fn reconcile(&self, node: Place, fresh: &Page) -> std::result::Result<(), Outdated> {
        let frame = self.cache.frame(node.id);
        let (lock, new) = (frame.page().lock(), fresh.lock());
        let cached: HashMap<_, _> = lock
            .records()
            .filter_map(|(_, word)| match Child::of_word(word) {
                Child::Cached(id) => Some((self.cache.frame(id).address().word(), (word, id))),
                Child::Remote(_) => None,
            })
            .collect();
        let fences = |body: &PageBody| (body.lower(), body.upper(), body.height());
        let outdated = if frame.address() != node.address || fences(&new) != fences(&lock) {
            Some(fences(&lock))
        } else {
            let height = lock.height().saturating_sub(1);
            let expected: HashMap<_, _> = (0..new.count())
                .map(|index| (new.word(index), new.range_of(index)))
                .collect();
            let mut children = cached.iter().map(|(address, (_, id))| {
                let (lower, upper, _) = self.read_page(*id, fences);
                (expected.get(address) != Some(&(lower, upper))).then_some((lower, upper, height))
            });
            children.find_map(|outdated| outdated)
        };
        if let Some((lower, upper, height)) = outdated {
            lock.unchanged();
            return Err(Outdated {
                lower,
                upper,
                height,
            });
        }
        let image = new.image(|word| cached.get(&word).map_or(word, |(cached, _)| *cached));
        lock.load(&image).expect("it is a page's");
        Ok(())
    }

    /// Computes something from a cached page, at one moment.
    pub(super) fn read_page<R>(&self, id: FrameId, compute: impl Fn(&PageBody) -> R) -> R {
        loop {
            if let Ok(result) = self.at(id).view.get(&compute) {
                return result;
            }
        }
    }

    /// Begins again at another root: what is below the old one leaves the cache.
    async fn take_new_root(&self, root: Address) -> Result<()> {
        let (new, old) = (self.fetch_root(root).await?, self.cache.root());
        let frame = self.cache.frame(old);
        loop {
            let height = frame.page().lock().height();
            self.expel(0, u64::MAX, height).await?;
            let lock = frame.page().lock();
            // Another operation may have fetched a node meanwhile.
            if self.cached_child(&lock).is_none() {
                self.cache.set_root(new);
                frame.set_state(State::Free, &lock);
                break;
            }
        }
        self.cache.give_back(old);
        Ok(())
    }

    /// Fetches the root into a frame.
    pub(super) async fn fetch_root(&self, root: Address) -> Result<FrameId> {
        let page = self.read_node(root, 1).await?;
        let id = self.take_frame().await?;
        self.fill(id, root, &page, false);
        Ok(id)
    }
}

/// Lets other tasks go on.
async fn yield_now() {
    let mut yielded = false;
    poll_fn(|context| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
