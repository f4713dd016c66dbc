//! How many keys a cache may have, once its index has all the memory that it may.
//!
//! Keys that go leave room for others in the index's memory, which is given back in large pieces
//! only. So what the index takes does not tell that there is room again. The number of keys does:
//! there was not enough for so many.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

pub(crate) struct MostKeys {
    keys: AtomicUsize,
    /// Bytes of the index when that was found out. If it grows further, they are fewer.
    index: AtomicU64,
}

impl Default for MostKeys {
    fn default() -> MostKeys {
        MostKeys {
            keys: AtomicUsize::new(usize::MAX),
            index: AtomicU64::new(0),
        }
    }
}

impl MostKeys {
    /// Whether an index of so many bytes, `most` at least, and of so many keys has no room for
    /// another key.
    pub fn are_there(&self, keys: usize, index: u64, most: u64) -> bool {
        let noted = self.index.load(Relaxed);
        // A little more is no reason: times at which keys expire come and go.
        if index > noted + noted / 64 && self.index.fetch_max(index, Relaxed) == noted {
            let fit = keys as u128 * u128::from(most) / u128::from(index.max(1));
            // Fewer, so that not each key that comes has another one go.
            self.keys.store(fit as usize / 16 * 15, Relaxed);
        }
        keys >= self.keys.load(Relaxed)
    }

    /// The index takes less than it may, or may take another number of bytes.
    pub fn forget(&self) {
        if self.index.load(Relaxed) > 0 {
            self.index.store(0, Relaxed);
            self.keys.store(usize::MAX, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_for_fewer_keys_than_were_too_many() {
        let most = MostKeys::default();
        assert!(most.are_there(1_600, 1_000, 1_000));
        assert!(most.are_there(1_500, 1_000, 1_000));
        // The index keeps its memory, in which there is room.
        assert!(!most.are_there(1_499, 1_000, 1_000));
        assert!(!most.are_there(1_499, 1_010, 1_000));
        // It was not enough: other keys need more.
        assert!(most.are_there(1_499, 1_100, 1_000));
        assert!(!most.are_there(1_200, 1_100, 1_000));
        most.forget();
        assert!(most.are_there(3_200, 2_000, 1_000));
        assert!(most.are_there(1_500, 2_000, 1_000));
        assert!(!most.are_there(1_499, 2_000, 1_000));
    }
}
