//! Threads that run side by side and end together, on a system that may refuse one.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc;
use std::thread;

/// Address space that a thread may take when it begins: its stack, its signal stack, and the
/// allocator's arena for it, which is the largest by far.
const SPACE: usize = 64 << 20;

/// Whether there is address space for one more thread.
///
/// The standard library aborts the process when a thread has begun and finds none for its signal
/// stack. So each thread begins before the next is asked for, and not without some to spare.
fn has_space() -> io::Result<()> {
    Vec::<u8>::new().try_reserve_exact(SPACE)?;
    Ok(())
}

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
            let (begun, begins) = mpsc::sync_channel(1);
            let work = move || {
                // The thread that made it waits for this.
                let _ = begun.send(());
                work(item)
            };
            let spawned =
                has_space().and_then(|()| thread::Builder::new().spawn_scoped(scope, work));
            match spawned {
                Ok(thread) => {
                    // An error means that it panicked, which joining it reports.
                    let _ = begins.recv();
                    threads.push(thread);
                }
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
