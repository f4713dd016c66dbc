//! The memory of the process, as far as clients take it.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use crate::outbox;

/// Bytes of a reply, of a client's messages, or of what a command needs besides, that are never
/// refused: a client who needs no more goes on while others take all the memory.
pub(crate) const UNCOUNTED: usize = 64 << 10;
/// What the allocator and its owner need for a value besides its bytes, about.
pub(crate) const OVERHEAD: usize = 48;

/// What the process may take, and what clients take of it.
#[derive(Debug)]
pub(crate) struct Memory {
    /// Bytes for all of the process.
    pub limit: AtomicU64,
    /// Bytes of all connections' buffers, and of values on their way to them.
    pub buffers: AtomicUsize,
    /// What a subscriber may leave unread.
    pub unread: outbox::Limit,
    /// Clients that were disconnected since their buffers took too much.
    pub disconnected: AtomicU64,
}

impl Memory {
    pub fn new(limit: u64) -> Memory {
        Memory {
            limit: AtomicU64::new(limit),
            buffers: AtomicUsize::new(0),
            unread: outbox::Limit::default(),
            disconnected: AtomicU64::new(0),
        }
    }

    /// Whether clients take more than they may: a quarter. Five eighths are the store's.
    pub fn is_full(&self) -> bool {
        self.buffers.load(Relaxed) as u64 > self.limit.load(Relaxed) / 4
    }

    /// Whether clients take less than half of what they may, so that there is some for what can be
    /// done without.
    pub fn is_ample(&self) -> bool {
        (self.buffers.load(Relaxed) as u64) < self.limit.load(Relaxed) / 8
    }

    /// Whether clients take three quarters of what they may.
    pub fn is_short(&self) -> bool {
        self.buffers.load(Relaxed) as u64 > self.limit.load(Relaxed) / 16 * 3
    }

    /// So many bytes for a client, until what is returned is dropped.
    pub fn take(self: &Arc<Memory>, bytes: usize) -> Result<Room, NoRoom> {
        let mut room = Room::new(self);
        room.try_grow(bytes).then_some(room).ok_or(NoRoom)
    }

    /// Counts so many bytes more, if there are so many. What does not fit is never counted: others
    /// would take the memory for used up.
    fn try_add(&self, bytes: usize) -> bool {
        let most = self.limit.load(Relaxed) / 4;
        let more = |now: usize| {
            let sum = now.checked_add(bytes)?;
            (sum as u64 <= most).then_some(sum)
        };
        self.buffers.fetch_update(Relaxed, Relaxed, more).is_ok()
    }
}

/// Clients take all the memory that they may.
#[derive(Debug)]
pub(crate) struct NoRoom;

/// Memory of something that may grow, counted as long as this is there.
#[derive(Debug, Default)]
pub(crate) struct Room {
    /// None: it is not counted.
    memory: Option<Arc<Memory>>,
    bytes: usize,
}

impl Room {
    pub fn new(memory: &Arc<Memory>) -> Room {
        Room {
            memory: Some(Arc::clone(memory)),
            bytes: 0,
        }
    }

    /// Room for something else, of the same memory.
    pub fn another(&self) -> Room {
        Room {
            memory: self.memory.clone(),
            bytes: 0,
        }
    }

    /// Bytes that are counted.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Counts this many bytes in all, more than before, if there is memory for them.
    pub fn try_grow(&mut self, bytes: usize) -> bool {
        let more = bytes.saturating_sub(self.bytes);
        let fits = self.memory.as_ref().is_none_or(|it| it.try_add(more));
        if fits {
            self.bytes += more;
        }
        fits
    }

    /// Counts this many bytes in all, whether there is memory for them or not.
    pub fn resize(&mut self, bytes: usize) {
        if let Some(memory) = &self.memory {
            let more = bytes.wrapping_sub(self.bytes);
            memory.buffers.fetch_add(more, Relaxed);
        }
        self.bytes = bytes;
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.resize(0);
    }
}

/// What a command has in memory besides its reply. It borrows the memory's account, so that no
/// command counts a reference to it.
#[derive(Debug)]
pub(crate) struct Held<'a> {
    memory: &'a Memory,
    bytes: Cell<usize>,
    /// What of them is counted.
    counted: Cell<usize>,
}

impl Held<'_> {
    pub fn new(memory: &Memory) -> Held<'_> {
        Held {
            memory,
            bytes: Cell::new(0),
            counted: Cell::new(0),
        }
    }

    /// Keeps something of so many bytes until the command ends, if there is memory for it.
    pub fn keep(&self, bytes: usize) -> Result<(), NoRoom> {
        self.bytes.set(self.bytes.get() + bytes + OVERHEAD);
        let more = self.bytes.get().saturating_sub(self.counted.get());
        if more > UNCOUNTED {
            // A quarter more, so that it is not counted piece by piece.
            let more = more + self.bytes.get() / 4;
            if !self.memory.try_add(more) {
                return Err(NoRoom);
            }
            self.counted.set(self.counted.get() + more);
        }
        Ok(())
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if self.counted.get() > 0 {
            let buffers = &self.memory.buffers;
            buffers.fetch_sub(self.counted.get(), Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_is_given_back() {
        let memory = Arc::new(Memory::new(4 << 20));
        let counted = || memory.buffers.load(Relaxed);
        let mut room = Room::new(&memory);
        assert!(room.try_grow(1 << 20));
        assert!(!room.try_grow((1 << 20) + 1));
        assert_eq!((room.bytes(), counted()), (1 << 20, 1 << 20));
        room.resize(2 << 20);
        assert_eq!(counted(), 2 << 20);
        room.resize(10);
        let held = Held::new(&memory);
        assert_eq!(counted(), 10);
        while held.keep(1000).is_ok() {}
        assert!(counted() > 500 << 10 && !memory.is_full());
        drop((room, held));
        assert_eq!(counted(), 0);
    }
}
