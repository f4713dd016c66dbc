//! Addresses on which an operation is under way.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::task::{Poll, Waker};

use timberline_tree::btree::page::Page;

use crate::address::Address;

/// The addresses that this compute server reads from, or writes to, right now. So a node is
/// fetched once at a time, and not while an older image of it is being written.
#[derive(Default)]
pub(crate) struct Flights(Mutex<HashMap<Address, Vec<Waiter>>>);

/// An operation that waits for the end of another one.
struct Waiter {
    waker: Waker,
    seen: Arc<OnceLock<Arc<Page>>>,
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
        let seen = Arc::new(OnceLock::new());
        let mut waited = false;
        poll_fn(|context| match self.lock().get_mut(&address) {
            Some(waiters) if !waited => {
                waited = true;
                waiters.push(Waiter {
                    waker: context.waker().clone(),
                    seen: Arc::clone(&seen),
                });
                Poll::Pending
            }
            _ => Poll::Ready(()),
        })
        .await;
        seen.get().cloned()
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

    fn lock(&self) -> MutexGuard<'_, HashMap<Address, Vec<Waiter>>> {
        self.0.lock().unwrap_or_else(|it| it.into_inner())
    }
}

impl Flight<'_> {
    /// Lets those that wait for the end of this have the node. It must be the node as it is until
    /// then.
    pub fn share(&self, page: &Arc<Page>) {
        let _ = self.shared.set(Arc::clone(page));
    }
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        let shared = self.shared.take();
        let waiters = self.flights.lock().remove(&self.address);
        for Waiter { waker, seen } in waiters.into_iter().flatten() {
            if let Some(page) = &shared {
                let _ = seen.set(Arc::clone(page));
            }
            waker.wake();
        }
    }
}
