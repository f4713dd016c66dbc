//! The memory of the process, as far as clients take it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// What the process may take, and what clients take of it.
#[derive(Debug)]
pub(crate) struct Memory {
    /// Bytes for all of the process.
    pub limit: AtomicU64,
    /// Bytes of all connections' buffers, and of values on their way to them.
    pub buffers: AtomicUsize,
}

impl Memory {
    pub fn new(limit: u64) -> Memory {
        Memory {
            limit: AtomicU64::new(limit),
            buffers: AtomicUsize::new(0),
        }
    }

    /// Whether clients take more than they may: a quarter. Five eighths are the store's.
    pub fn is_full(&self) -> bool {
        self.buffers.load(Relaxed) as u64 > self.limit.load(Relaxed) / 4
    }

    /// So many bytes for a client, until what is returned is dropped; `None` if there are not so
    /// many.
    pub fn take(self: &Arc<Memory>, bytes: usize) -> Option<Taken> {
        self.buffers.fetch_add(bytes, Relaxed);
        let taken = Taken {
            memory: Arc::clone(self),
            bytes,
        };
        (!self.is_full()).then_some(taken)
    }
}

/// Memory that is counted as long as this is there.
#[derive(Debug)]
pub(crate) struct Taken {
    memory: Arc<Memory>,
    bytes: usize,
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.memory.buffers.fetch_sub(self.bytes, Relaxed);
    }
}
