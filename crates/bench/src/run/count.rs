//! What the oracle is told: how often each leaf will be accessed, counted in a first pass over the same
//! requests.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use timberline_placement::{KeyBytes, Placed};

use super::source::Requests;
use crate::workload::Op;

/// Counts the accesses of `passes` requests to each leaf, as pairs of lower fence and count. `per_leaf`
/// is how many records a leaf holds, for requests that run over several. Ends early once `interrupted`.
pub fn leaf_accesses(
    tree: &dyn Placed,
    requests: &Requests,
    seed: u64,
    threads: usize,
    passes: u64,
    per_leaf: usize,
    interrupted: &AtomicBool,
) -> Vec<(KeyBytes, u64)> {
    let mut fences: Vec<KeyBytes> = Vec::new();
    tree.each_leaf(&mut |leaf| {
        fences.push(leaf.fence.to_bytes());
        ControlFlow::Continue(())
    });
    fences.dedup();
    let count = |thread: usize| {
        let mut counts = vec![0u64; fences.len()];
        let mut source = requests.source(seed, thread, threads);
        for pass in 0..passes / threads as u64 {
            if pass % 4096 == 0 && interrupted.load(Relaxed) {
                break;
            }
            let request = source.next();
            let first = fences
                .partition_point(|fence| **fence <= request.key.to_be_bytes()[..])
                .saturating_sub(1);
            let leaves = match request.op {
                Op::Scan(records) => 1 + records as usize / per_leaf.max(1),
                _ => 1,
            };
            for count in counts.iter_mut().skip(first).take(leaves) {
                *count += 1;
            }
        }
        counts
    };
    let partial: Vec<Vec<u64>> = std::thread::scope(|scope| {
        let counters: Vec<_> = (0..threads)
            .map(|thread| scope.spawn(move || count(thread)))
            .collect();
        counters
            .into_iter()
            .map(|counter| counter.join().expect("counting"))
            .collect()
    });
    let sum = |leaf: usize| -> u64 { partial.iter().map(|counts| counts[leaf]).sum() };
    let sums: Vec<u64> = (0..fences.len()).map(sum).collect();
    fences.into_iter().zip(sums).collect()
}
