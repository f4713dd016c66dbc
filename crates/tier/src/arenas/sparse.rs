//! Places that little lies in: chunks that would be gone if that went elsewhere.

use std::ops::Range;

/// Addresses of chunks whose slots in use have room in other chunks of their class. What stays in them keeps memory from
/// slots of other sizes. Found by [`Arenas::sparse`](crate::Arenas::sparse).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Sparse {
    /// In order.
    ranges: Vec<Range<usize>>,
}

impl Sparse {
    /// Nowhere.
    pub const NOWHERE: Sparse = Sparse { ranges: Vec::new() };

    pub(super) fn new(ranges: impl Iterator<Item = Range<usize>>) -> Self {
        let mut ranges: Vec<_> = ranges.collect();
        ranges.sort_unstable_by_key(|range| range.start);
        Sparse { ranges }
    }

    /// Whether an address is in one of the chunks. O(log chunks).
    #[inline]
    pub fn contains(&self, address: usize) -> bool {
        let behind = self.ranges.partition_point(|it| it.start <= address);
        behind > 0 && address < self.ranges[behind - 1].end
    }

    /// Whether there is no such chunk.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Bytes that come free when nothing is left in them.
    pub fn bytes(&self) -> usize {
        self.ranges.iter().map(Range::len).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_looked_up_by_range() {
        let sparse = Sparse::new([50..60, 10..20, 20..30].into_iter());
        let inside = (0..70).filter(|&address| sparse.contains(address));
        assert!(inside.eq((10..30).chain(50..60)));
        assert_eq!(sparse.bytes(), 30);
        assert!(!Sparse::NOWHERE.contains(0) && Sparse::NOWHERE.is_empty());
    }
}
