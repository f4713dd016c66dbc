//! How many threads may do something at a time.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// A number of permits; who finds none waits for one.
#[derive(Debug)]
pub(super) struct Permits {
    left: Mutex<usize>,
    returned: Condvar,
}

/// A permit, until it is dropped.
pub(super) struct Permit<'a>(&'a Permits);

impl Permits {
    pub fn new(permits: usize) -> Permits {
        Permits {
            left: Mutex::new(permits),
            returned: Condvar::new(),
        }
    }

    /// Takes one.
    pub fn take(&self) -> Permit<'_> {
        let none = |left: &mut usize| *left == 0;
        let left = self.returned.wait_while(self.left(), none);
        *left.unwrap_or_else(PoisonError::into_inner) -= 1;
        Permit(self)
    }

    fn left(&self) -> MutexGuard<'_, usize> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        *self.0.left() += 1;
        self.0.returned.notify_one();
    }
}
