//! One limit of memory for the index, snapshots, the cache of values and the log's window.

use std::sync::atomic::Ordering::Relaxed;

use smallvec::SmallVec;

use crate::store::Inner;
use crate::window::Chunk;
use crate::{Error, Options, Store};

/// The most bytes of the log's window.
const MAX_WINDOW: u64 = 256 << 20;

impl Store {
    /// Changes [`Options::memory_bytes`]. When this returns, the cache has given back what is too
    /// much, and snapshots have; an index that takes more stays, and puts of new keys fail. Where
    /// there is more than before, the cache grows as it is used.
    ///
    /// # Errors
    /// [`Error::Configuration`] for fewer bytes than [`Options::LEAST_MEMORY`].
    pub fn set_memory_bytes(&self, bytes: u64) -> Result<(), Error> {
        Options::check_memory(bytes)?;
        let inner = &self.inner;
        inner.memory_bytes.store(bytes, Relaxed);
        inner.most_keys.forget();
        inner.fit_cache();
        inner.window.shrink();
        // What the window gave back is the cache's.
        inner.fit_cache();
        inner.look_at_index();
        Ok(())
    }

    /// As [`Options::memory_bytes`] says now.
    pub fn memory_bytes(&self) -> u64 {
        self.inner.memory_bytes.load(Relaxed)
    }
}

impl Inner {
    /// Bytes that the index, snapshots, the cache and the log's window may take together.
    fn shared_bytes(&self) -> u64 {
        Options::index_bytes(self.memory_bytes.load(Relaxed))
    }

    /// Bytes that the index takes, with the times at which keys expire, and the places of pieces.
    pub fn index_bytes(&self) -> u64 {
        self.index.bytes() + self.deadlines.bytes() + self.large.bytes()
    }

    /// Whether the index has all the memory that it may. As it grows, the cache shrinks, and then
    /// snapshots are given up.
    pub fn is_index_full(&self) -> bool {
        let most = self.shared_bytes();
        loop {
            let (index, snapshots) = (self.index_bytes(), self.moments.bytes());
            if self.fitted.swap(index + snapshots, Relaxed) != index + snapshots {
                self.fit_cache();
            }
            if index + snapshots < most {
                self.most_keys.forget();
                return false;
            }
            if index >= most || !self.moments.give_up_memory() {
                let is_cache = self.log.options().evict;
                return !is_cache || self.most_keys.are_there(self.index.len(), index, most);
            }
        }
    }

    /// Gives up snapshots that have noted more than they may.
    pub fn bound_snapshots(&self) {
        if self.moments.len() == 0 {
            return;
        }
        let most = self.log.options().snapshot_memory;
        while self.moments.bytes() > most && self.moments.give_up_memory() {}
        self.is_index_full();
    }

    /// Gives the cache the memory that the index leaves, and the log's window a quarter of it as
    /// far as it is used.
    pub fn fit_cache(&self) {
        let options = self.log.options();
        let others = self.index_bytes() + self.moments.bytes();
        let left = self.shared_bytes().saturating_sub(others);
        // Values come and go in all sizes, so the allocator has holes.
        let most = left - left / 16;
        let window = (options.cache_bytes.min(most) / 4).min(MAX_WINDOW);
        // When the window takes memory from a full cache, both are there at once: what leaves the
        // cache lies in pages with other values, of which the allocator gives few back.
        let bytes = options.cache_bytes.min(most - 2 * window / 3);
        self.window.set_limit(window);
        // In large steps: for the cache, each is work.
        let used = self.window.bytes().next_multiple_of((window / 4).max(1));
        self.cache.set_bytes(bytes.saturating_sub(used));
    }

    /// Caches the values of a chunk that still count, while there is room: if all data fit into
    /// memory, all stay there.
    pub fn cache_current(&self, chunk: &Chunk) {
        // Where few keys are overwritten again and again, all of it has been.
        let segment = self.log.segment(chunk.segment());
        if segment.is_none_or(|it| it.is_empty()) {
            return;
        }
        let puts: Vec<_> = chunk.puts().collect();
        for puts in puts.chunks(16) {
            if !self.cache.has_room() {
                return;
            }
            let keys: SmallVec<[&[u8]; 16]> = puts.iter().map(|it| it.1.key).collect();
            for ((location, record), word) in puts.iter().zip(self.words(&keys)) {
                if word == Some(location.to_word()) {
                    self.cache.insert(*location, record.expires, record.value);
                }
            }
        }
    }
}
