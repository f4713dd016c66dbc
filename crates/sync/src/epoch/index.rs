//! Small numbers for threads.

use std::collections::BTreeSet;

/// Numbers from 1 on. The least free one is given out, so that they stay small.
pub struct Indices {
    free: BTreeSet<usize>,
    /// All from here on were never given out.
    next: usize,
}

impl Indices {
    pub const fn new() -> Self {
        Indices {
            free: BTreeSet::new(),
            next: 1,
        }
    }

    pub fn take(&mut self) -> usize {
        self.free.pop_first().unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        })
    }

    pub fn give_back(&mut self, index: usize) {
        let was_taken = index < self.next && self.free.insert(index);
        debug_assert!(was_taken, "{index}");
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_least_free_index_is_next() {
        let mut indices = Indices::new();
        assert_eq!([(); 3].map(|()| indices.take()), [1, 2, 3]);
        indices.give_back(2);
        indices.give_back(1);
        assert_eq!([(); 3].map(|()| indices.take()), [1, 2, 4]);
    }
}
