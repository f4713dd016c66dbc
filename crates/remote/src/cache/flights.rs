//! Addresses on which an operation is under way.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::task::{Poll, Waker};

use timberline_tree::btree::page::Page;

use crate::address::Address;

/// The addresses that this compute server reads from, or writes to, right now. So a node is
/// fetched once at a time, and not while an older image of it is being written.
#[derive(Default)]
pub(crate) struct Flights(Mutex<HashMap<Address, Vec<Arc<End>>>>);

/// The end of an operation that another one waits for.
struct End {
    is_over: AtomicBool,
    seen: OnceLock<Arc<Page>>,
    /// Of who waits. It may be polled by another task than before, and for other reasons.
    waker: Mutex<Waker>,
}

impl End {
    fn waker(&self) -> MutexGuard<'_, Waker> {
        self.waker.lock().unwrap_or_else(|it| it.into_inner())
    }
}

/// An operation on an address; others that want to begin one wait until this is dropped.
pub(crate) struct Flight<'a> {
    flights: &'a Flights,
    address: Address,
    shared: OnceLock<Arc<Page>>,
}

impl Flights {
    /// Begins an operation, unless one is under way.
    pub fn try_begin(&self, address: Address) -> Option<Flight<'_>> {
        let mut flights = self.lock();
        if flights.contains_key(&address) {
            return None;
        }
        flights.insert(address, Vec::new());
        Some(Flight {
            flights: self,
            address,
            shared: OnceLock::new(),
        })
    }

    /// Begins an operation when no other is under way.
    pub async fn begin(&self, address: Address) -> Flight<'_> {
        loop {
            if let Some(flight) = self.try_begin(address) {
                return flight;
            }
            self.end_of(address).await;
        }
    }

    /// Waits until the operation that is under way has ended, if there is one. Returns the node
    /// as it was then, if that operation has shared it.
    pub async fn end_of(&self, address: Address) -> Option<Arc<Page>> {
        let mut end: Option<Arc<End>> = None;
        poll_fn(|context| {
            let Some(end) = &end else {
                let mut flights = self.lock();
                let Some(ends) = flights.get_mut(&address) else {
                    return Poll::Ready(());
                };
                let waits = Arc::new(End {
                    is_over: AtomicBool::new(false),
                    seen: OnceLock::new(),
                    waker: Mutex::new(context.waker().clone()),
                });
                ends.push(Arc::clone(&waits));
                end = Some(waits);
                return Poll::Pending;
            };
            end.waker().clone_from(context.waker());
            match end.is_over.load(SeqCst) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        })
        .await;
        end.and_then(|end| end.seen.get().cloned())
    }

    /// Waits until all operations have ended that are under way now, but for one.
    pub async fn drain(&self, but: Address) {
        let mut under_way: Vec<Address> = self.lock().keys().copied().collect();
        // What a simulation does must be determined by its seed.
        under_way.sort();
        for address in under_way.into_iter().filter(|&it| it != but) {
            self.end_of(address).await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Address, Vec<Arc<End>>>> {
        self.0.lock().unwrap_or_else(|it| it.into_inner())
    }
}

impl Flight<'_> {
    /// Whether another operation waits for the end of this.
    pub fn is_awaited(&self) -> bool {
        let flights = self.flights.lock();
        flights.get(&self.address).is_some_and(|it| !it.is_empty())
    }

    /// Lets those that wait for the end of this have the node. It must be the node as it is until
    /// then.
    pub fn share(&self, page: &Arc<Page>) {
        let _ = self.shared.set(Arc::clone(page));
    }
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        let shared = self.shared.take();
        let ends = self.flights.lock().remove(&self.address);
        for end in ends.into_iter().flatten() {
            if let Some(page) = &shared {
                let _ = end.seen.set(Arc::clone(page));
            }
            end.is_over.store(true, SeqCst);
            // No lock is held while it wakes.
            let waker = end.waker().clone();
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::Context;

    use super::*;

    /// A task that waits is polled for other reasons, too: that is no end.
    #[test]
    fn who_waits_is_not_misled_by_a_poll() {
        let flights = Flights::default();
        let [one, other] = [1, 2].map(|number| Address::new(0, number << 10));
        let (first, kept) = (flights.try_begin(one), flights.try_begin(other));
        let mut context = Context::from_waker(Waker::noop());
        let mut drained = pin!(flights.drain(other));
        for _ in 0..3 {
            assert!(drained.as_mut().poll(&mut context).is_pending());
        }
        drop(first);
        assert!(drained.as_mut().poll(&mut context).is_ready());
        drop(kept);
    }
}
