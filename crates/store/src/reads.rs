//! Where records were found that were read, and how many are being read from the disk.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use crossbeam_utils::CachePadded;
use timberline_tier::Striped;

/// Bytes that maintenance asks the disk for at once while records are read from it.
const BESIDE_READS: u64 = 64 << 10;

/// Of so many reads from the disk, one is said to be one of a few.
const FEW: u64 = 16;

#[derive(Default)]
pub(crate) struct Reads {
    /// For each thread: what is read from memory is so fast that threads which write to one line
    /// for it would slow one another down.
    counts: Striped<Counts>,
    /// Apart from what all threads read.
    under_way: CachePadded<AtomicUsize>,
}

#[derive(Default)]
struct Counts {
    in_memory: AtomicU64,
    on_disk: AtomicU64,
}

/// A record is being read from the disk.
pub(crate) struct UnderWay<'a>(&'a AtomicUsize);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

impl Reads {
    /// A record was in memory.
    pub fn note_memory(&self) {
        add_one(&self.counts.assigned().in_memory);
    }

    /// A record is read from the disk, until this is dropped.
    pub fn begin_disk(&self) -> UnderWay<'_> {
        self.under_way.fetch_add(1, Relaxed);
        UnderWay(&self.under_way)
    }

    /// Whether any record is being read from the disk.
    pub fn are_under_way(&self) -> bool {
        self.under_way.load(Relaxed) > 0
    }

    /// How many bytes maintenance asks the disk for at once, where it would ask for so many: few
    /// while records are read, which wait for it there.
    pub fn at_once(&self, otherwise: u64) -> u64 {
        match self.are_under_way() {
            true => BESIDE_READS,
            false => otherwise,
        }
    }

    /// A record was read from the disk. Says whether it is one of a few after which to look at what
    /// takes longer.
    pub fn note_disk(&self) -> bool {
        add_one(&self.counts.assigned().on_disk).is_multiple_of(FEW)
    }

    pub fn found_in_memory(&self) -> u64 {
        self.counts
            .iter()
            .map(|it| it.in_memory.load(Relaxed))
            .sum()
    }

    pub fn read_from_disk(&self) -> u64 {
        self.counts.iter().map(|it| it.on_disk.load(Relaxed)).sum()
    }
}

/// Without the processor's lock on the line, which costs more than the rest: no other thread counts
/// here, unless there are more than stripes. Returns the count.
fn add_one(count: &AtomicU64) -> u64 {
    let more = count.load(Relaxed) + 1;
    count.store(more, Relaxed);
    more
}
