//! Finds closures that use the map whose method calls them, in debug builds: they may wait for a
//! lock that their own call holds.

use std::cell::Cell;

thread_local! {
    /// The address of the store whose map calls a closure just now.
    static CALLING: Cell<usize> = const { Cell::new(0) };
}

/// Ends a call, whether the closure returns or panics.
struct Call {
    before: usize,
}

impl Drop for Call {
    fn drop(&mut self) {
        CALLING.set(self.before);
    }
}

/// Calls a closure that must not use the map of the store at this address.
#[inline(always)]
pub fn call<R>(store: usize, closure: impl FnOnce() -> R) -> R {
    let _call = cfg!(debug_assertions).then(|| Call {
        before: CALLING.replace(store),
    });
    closure()
}

/// Panics in a closure that must not use the map of the store at this address.
#[inline(always)]
pub fn check(store: usize) {
    if cfg!(debug_assertions) && CALLING.get() == store {
        panic!("a closure uses the map whose method calls it");
    }
}
