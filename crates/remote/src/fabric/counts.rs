//! How many operations a compute server has begun.

use std::iter::Sum;
use std::ops::{Add, Sub};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::fabric::Operation;

/// Operations, and the bytes of data in them.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counts {
    /// One-sided reads.
    pub reads: u64,
    /// One-sided writes.
    pub writes: u64,
    /// Compare-and-swap, fetch-and-add.
    pub atomics: u64,
    /// Calls of a memory server's processor.
    pub calls: u64,
    /// Bytes of data in both directions, without headers.
    pub bytes: u64,
}

impl Add for Counts {
    type Output = Counts;

    fn add(self, other: Counts) -> Counts {
        Counts {
            reads: self.reads + other.reads,
            writes: self.writes + other.writes,
            atomics: self.atomics + other.atomics,
            calls: self.calls + other.calls,
            bytes: self.bytes + other.bytes,
        }
    }
}

impl Sum for Counts {
    fn sum<I: Iterator<Item = Counts>>(counts: I) -> Counts {
        counts.fold(Counts::default(), Add::add)
    }
}

impl Sub for Counts {
    type Output = Counts;

    /// What came after `earlier`.
    fn sub(self, earlier: Counts) -> Counts {
        Counts {
            reads: self.reads - earlier.reads,
            writes: self.writes - earlier.writes,
            atomics: self.atomics - earlier.atomics,
            calls: self.calls - earlier.calls,
            bytes: self.bytes - earlier.bytes,
        }
    }
}

/// Counters that any thread may add to. An operation takes microseconds, so one line is enough.
#[derive(Default, Debug)]
pub(super) struct Counters {
    reads: AtomicU64,
    writes: AtomicU64,
    atomics: AtomicU64,
    calls: AtomicU64,
    bytes: AtomicU64,
}

impl Counters {
    pub fn count(&self, operation: &Operation) {
        let (counter, count) = match operation {
            Operation::Read(..) => (&self.reads, 1),
            Operation::Write(..) => (&self.writes, 1),
            Operation::WriteInOrder(writes) => (&self.writes, writes.len() as u64),
            Operation::CompareExchange { .. } | Operation::FetchAdd(..) => (&self.atomics, 1),
            Operation::Call(..) => (&self.calls, 1),
        };
        counter.fetch_add(count, Relaxed);
        self.bytes.fetch_add(operation.bytes() as u64, Relaxed);
    }

    pub fn read(&self) -> Counts {
        Counts {
            reads: self.reads.load(Relaxed),
            writes: self.writes.load(Relaxed),
            atomics: self.atomics.load(Relaxed),
            calls: self.calls.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
        }
    }
}
