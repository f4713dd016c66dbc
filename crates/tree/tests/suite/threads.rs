//! Threads of a test.
//!
//! Not generic over what they do: the library's threads would be compiled again for each closure,
//! and so for each test of each map.

use std::thread;

/// Runs `work` on this many threads, which are told their numbers. The results are in that order.
pub fn each<R: Send>(threads: u64, work: &(dyn Fn(u64) -> R + Sync)) -> Vec<R> {
    thread::scope(|scope| {
        let threads: Vec<_> = (0..threads)
            .map(|thread| scope.spawn(move || work(thread)))
            .collect();
        let results = threads.into_iter().map(|thread| thread.join().unwrap());
        results.collect()
    })
}

/// Runs `other` on a thread of its own, and `here` on this one, whose result it returns.
pub fn beside<R>(other: &mut (dyn FnMut() + Send), here: impl FnOnce() -> R) -> R {
    fn run(other: &mut (dyn FnMut() + Send), here: &mut dyn FnMut()) {
        thread::scope(|scope| {
            scope.spawn(other);
            here();
        });
    }
    let (mut here, mut done) = (Some(here), None);
    run(other, &mut || done = here.take().map(|here| here()));
    done.expect("it was run, or a panic goes on")
}
