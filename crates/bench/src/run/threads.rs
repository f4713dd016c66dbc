//! Threads that run side by side and end together, on a system that may refuse one.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

/// Runs `work` on each item, one thread an item, and calls `meanwhile` beside them. Returns the
/// results in the order of the items.
///
/// # Errors
/// One line: the system refused a thread. Then `stop` is set, for `work` to watch, and `meanwhile`
/// is not called.
pub fn side_by_side<T: Send, R: Send>(
    items: impl IntoIterator<Item = T>,
    stop: &AtomicBool,
    work: impl Fn(T) -> R + Sync,
    meanwhile: impl FnOnce(),
) -> Result<Vec<R>, String> {
    thread::scope(|scope| {
        let work = &work;
        let mut threads = Vec::new();
        for item in items {
            match thread::Builder::new().spawn_scoped(scope, move || work(item)) {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    stop.store(true, Relaxed);
                    return Err(format!(
                        "the system refused thread {}: {error}; give fewer --threads, or raise the limit (ulimit -u, -v)",
                        threads.len() + 1
                    ));
                }
            }
        }
        meanwhile();
        let joined = threads.into_iter().map(|thread| thread.join());
        Ok(joined.map(|it| it.expect("no thread panics")).collect())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_the_order_of_the_items() {
        let stop = AtomicBool::new(false);
        let wait = |n: u64| {
            while !stop.load(Relaxed) {
                thread::yield_now();
            }
            n * n
        };
        assert_eq!(
            side_by_side(1..4, &stop, wait, || stop.store(true, Relaxed)),
            Ok(vec![1, 4, 9])
        );
    }
}
