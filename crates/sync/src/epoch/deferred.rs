//! A deferred call, stored in place if its captures are small.
#![allow(unsafe_code)]

use std::mem::{MaybeUninit, align_of, size_of};

/// Words that a closure may capture without an allocation: those that free nodes capture the store,
/// an address, and one or two words.
const WORDS: usize = 4;

type Storage = MaybeUninit<[usize; WORDS]>;

/// A closure that is called once, or leaks: dropping a `Deferred` without [`Deferred::call`] frees
/// nothing.
pub struct Deferred {
    call: unsafe fn(*mut Storage),
    storage: Storage,
}

// SAFETY: `new` takes only closures that are `Send`.
unsafe impl Send for Deferred {}

impl Deferred {
    pub fn new<F: FnOnce() + Send + 'static>(closure: F) -> Self {
        /// Calls the closure in the storage.
        ///
        /// # Safety
        /// An `F` was written there, and it is not read again.
        unsafe fn call<F: FnOnce()>(storage: *mut Storage) {
            // SAFETY: as above; `new` checked that it fits.
            let closure = unsafe { storage.cast::<F>().read() };
            closure();
        }
        if size_of::<F>() > size_of::<Storage>() || align_of::<F>() > align_of::<Storage>() {
            let boxed: Box<dyn FnOnce() + Send> = Box::new(closure);
            return Deferred::new(boxed);
        }
        let mut storage = Storage::uninit();
        // SAFETY: it fits, in size and alignment.
        unsafe { storage.as_mut_ptr().cast::<F>().write(closure) };
        Deferred {
            call: call::<F>,
            storage,
        }
    }

    pub fn call(mut self) {
        // SAFETY: `new` wrote the closure that `call` expects; `self` is gone afterwards, so it is
        // read once.
        unsafe { (self.call)(&mut self.storage) }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn small_large_and_overaligned_closures_are_called_once_and_drop_what_they_captured() {
        #[derive(Clone)]
        #[repr(align(64))]
        struct Aligned(u64);

        let total = Arc::new(std::sync::atomic::AtomicU64::new(0));
        let add = |sum: u64, to: &Arc<std::sync::atomic::AtomicU64>| {
            to.fetch_add(sum, std::sync::atomic::Ordering::Relaxed);
        };
        let (small, large, aligned) = ([1_u64; 3], [10_u64; 30], Aligned(1000));
        let (a, b, c) = (total.clone(), total.clone(), total.clone());
        let calls = [
            Deferred::new(move || add(small.iter().sum(), &a)),
            Deferred::new(move || add(large.iter().sum(), &b)),
            Deferred::new(move || {
                assert_eq!(std::ptr::from_ref(&aligned).addr() % 64, 0);
                add(aligned.0, &c);
            }),
        ];
        calls.into_iter().for_each(Deferred::call);
        assert_eq!(total.load(std::sync::atomic::Ordering::Relaxed), 1303);
        assert_eq!(Arc::strong_count(&total), 1);
    }
}
