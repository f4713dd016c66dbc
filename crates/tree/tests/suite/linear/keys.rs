//! The keys that histories are about: few enough to be contended, enough for several leaves.

use crate::suite::TestMap;
use crate::suite::draw::Draw;

/// All keys, ascending.
pub struct Keys(Vec<u64>);

impl Keys {
    /// Keys of one leaf or two, which every call and every move meets.
    const FEW: u64 = 8;
    /// About twice as many as a radix tree's third kind of node holds.
    const WIDE: u64 = 120;

    /// Those of a map: three leaves of a B+tree or more, and what a radix tree's nodes of all kinds
    /// hold. Every other group's are in clusters, which for a trie are nodes and layers that come
    /// and go. Every fourth group has few; and every fourth's differ in the first byte, of which
    /// about half are there: a radix tree's topmost node is of 256 or of 48, from time to time.
    pub fn of<T: TestMap>(group: u64) -> Keys {
        let some = (T::NODE_BYTES as u64 / 16 * 3).max(96);
        let count = match group % 4 {
            2 => Self::WIDE,
            3 => Self::FEW,
            _ => some,
        };
        let key = |i: u64| match group % 4 {
            0 => i,
            2 => i << 56,
            _ => ((i / 5) << 8) | (i % 5),
        };
        Keys((0..count).map(key).collect())
    }

    pub fn all(&self) -> &[u64] {
        &self.0
    }

    pub fn any(&self, draw: &mut Draw) -> u64 {
        self.0[draw.below(self.0.len() as u64) as usize]
    }

    /// Those from `low` on.
    pub fn from(&self, low: u64) -> impl DoubleEndedIterator<Item = u64> {
        self.0.iter().copied().filter(move |&key| key >= low)
    }

    /// A few that lie side by side.
    pub fn neighbours(&self, count: usize, draw: &mut Draw) -> &[u64] {
        let start = draw.below((self.0.len() - count) as u64) as usize;
        &self.0[start..start + count]
    }
}
