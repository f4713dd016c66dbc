//! Addresses on which an operation is under way.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::{Mutex, MutexGuard};
use std::task::{Poll, Waker};

use crate::address::Address;

/// The addresses that this compute server reads from, or writes to, right now. So a node is
/// fetched once at a time, and not while an older image of it is being written.
#[derive(Default)]
pub(crate) struct Flights(Mutex<HashMap<Address, Vec<Waker>>>);

/// An operation on an address; others that want to begin one wait until this is dropped.
pub(crate) struct Flight<'a> {
    flights: &'a Flights,
    address: Address,
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

    /// Waits until the operation that is under way has ended, if there is one.
    pub async fn end_of(&self, address: Address) {
        let mut waited = false;
        poll_fn(|context| match self.lock().get_mut(&address) {
            Some(wakers) if !waited => {
                waited = true;
                wakers.push(context.waker().clone());
                Poll::Pending
            }
            _ => Poll::Ready(()),
        })
        .await;
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Address, Vec<Waker>>> {
        self.0.lock().unwrap_or_else(|it| it.into_inner())
    }
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        let wakers = self.flights.lock().remove(&self.address);
        for waker in wakers.into_iter().flatten() {
            waker.wake();
        }
    }
}
