//! Where records were found that were read.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use timberline_tier::Striped;

/// Counts for each thread: what is read from memory is so fast that threads which write to one line
/// for it would slow one another down.
#[derive(Default)]
pub(crate) struct Reads(Striped<Counts>);

#[derive(Default)]
struct Counts {
    in_memory: AtomicU64,
    on_disk: AtomicU64,
}

impl Reads {
    /// A record was in memory.
    pub fn note_memory(&self) {
        add_one(&self.0.assigned().in_memory);
    }

    /// A record was read from the disk.
    pub fn note_disk(&self) {
        add_one(&self.0.assigned().on_disk);
    }

    pub fn found_in_memory(&self) -> u64 {
        self.0.iter().map(|it| it.in_memory.load(Relaxed)).sum()
    }

    pub fn read_from_disk(&self) -> u64 {
        self.0.iter().map(|it| it.on_disk.load(Relaxed)).sum()
    }
}

/// Without the processor's lock on the line, which costs more than the rest: no other thread counts
/// here, unless there are more than stripes.
fn add_one(count: &AtomicU64) {
    count.store(count.load(Relaxed) + 1, Relaxed);
}
