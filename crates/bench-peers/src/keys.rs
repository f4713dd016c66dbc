//! Keys of records by id, in the form that a map takes.
//!
//! Requests come as ids from `timberline_bench::workload`: `0..records` is loaded, inserts follow
//! from `records` on. The key of an id depends on `--keys`:
//!
//! - `random`: 64 pseudo-random bits; a bijection of the id, so all keys differ.
//! - `dense`: the id.
//! - `urls`, `words`: a line of the file; after the last line, each line with `#1` appended, then
//!   `#2`, …
//!
//! Invariant: different ids have different keys, for any number of ids.

pub use timberline_bench::workload::Lines;

/// Keys of one type, and blocks of them that a request thread prepares outside the timed part.
pub trait Keys: Send + Sync + 'static {
    /// The key type of the maps.
    type Key: ?Sized;
    /// A block of keys, stored contiguously.
    type Block: Block<Self::Key>;

    /// Appends the key of `id` to `block`.
    fn push(&self, block: &mut Self::Block, id: u64);

    /// The longest key, bytes.
    fn longest(&self) -> usize;

    /// A key as bytes with the same order.
    fn bytes(key: &Self::Key) -> Vec<u8>;
}

/// A block of prepared keys.
pub trait Block<K: ?Sized>: Default + Send {
    /// Removes all keys.
    fn clear(&mut self);
    /// The key at a position.
    fn key(&self, at: usize) -> &K;
}

/// 64-bit keys.
#[derive(Clone, Copy, Debug)]
pub enum Words {
    /// See [`crate::keys`].
    Random,
    /// See [`crate::keys`].
    Dense,
}

impl Words {
    /// The key of `id`.
    #[inline]
    pub fn key(self, id: u64) -> u64 {
        match self {
            Words::Dense => id,
            Words::Random => scatter(id),
        }
    }
}

/// A bijection of 64 bits: the finalizer of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
#[inline]
fn scatter(id: u64) -> u64 {
    let x = id.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

impl Keys for Words {
    type Key = u64;
    type Block = Vec<u64>;

    #[inline]
    fn push(&self, block: &mut Vec<u64>, id: u64) {
        block.push(self.key(id));
    }

    fn longest(&self) -> usize {
        8
    }

    fn bytes(key: &u64) -> Vec<u8> {
        key.to_be_bytes().to_vec()
    }
}

impl Block<u64> for Vec<u64> {
    fn clear(&mut self) {
        Vec::clear(self);
    }

    #[inline]
    fn key(&self, at: usize) -> &u64 {
        &self[at]
    }
}

impl Keys for Lines {
    type Key = [u8];
    type Block = Packed;

    #[inline]
    fn push(&self, block: &mut Packed, id: u64) {
        self.push_key(id, &mut block.bytes);
        block.ends.push(block.bytes.len());
    }

    fn longest(&self) -> usize {
        self.longest_key()
    }

    fn bytes(key: &[u8]) -> Vec<u8> {
        key.to_vec()
    }
}

/// Byte strings, stored contiguously.
#[derive(Default)]
pub struct Packed {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Block<[u8]> for Packed {
    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    #[inline]
    fn key(&self, at: usize) -> &[u8] {
        let from = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.bytes[from..self.ends[at]]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::ops::Range;
    use std::path::Path;

    use super::*;

    fn keys_of<T: Keys>(keys: &T, ids: Range<u64>) -> Vec<Vec<u8>> {
        let mut block = T::Block::default();
        let key = |id| {
            block.clear();
            keys.push(&mut block, id);
            T::bytes(block.key(0))
        };
        ids.map(key).collect()
    }

    #[test]
    fn no_two_ids_have_the_same_key() {
        let lines = Lines::of(b"a\nb\na1\na#\n");
        for keys in [
            keys_of(&Words::Random, 0..10_000),
            keys_of(&Words::Dense, 0..10_000),
            keys_of(&lines, 0..10_000),
        ] {
            assert_eq!(keys.iter().collect::<HashSet<_>>().len(), 10_000);
        }
    }

    #[test]
    fn random_keys_use_all_bits() {
        let keys = || (0..10_000).map(|id| Words::Random.key(id));
        assert_eq!(keys().fold(0, |bits, key| bits | key), !0);
        assert_eq!(keys().fold(!0, |bits, key| bits & key), 0);
    }

    #[test]
    fn a_block_holds_keys_of_any_length() {
        let lines = Lines::of(b"a\nlonger\n");
        let mut block = Packed::default();
        (0..4).for_each(|id| lines.push(&mut block, id));
        let keys: Vec<_> = (0..4).map(|at| block.key(at)).collect();
        let expected: [&[u8]; 4] = [b"a", b"longer", b"a#1", b"longer#1"];
        assert_eq!(keys, expected);
    }

    #[test]
    fn a_file_that_is_missing_or_empty_is_named() {
        let error = Lines::read(Path::new("/nonexistent/urls.txt")).unwrap_err();
        let named = "can't read the keys in /nonexistent/urls.txt: ";
        assert!(error.starts_with(named), "{error}");
        let error = Lines::read(Path::new("/dev/null")).unwrap_err();
        assert_eq!(error, "/dev/null has no line usable as a key");
    }
}
