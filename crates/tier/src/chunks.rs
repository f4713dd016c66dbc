//! Which slots of a tier's committed chunks are free: the allocator's central part.
//!
//! A chunk holds slots of one size. Invariants: a chunk in `partial` has a free slot; a chunk
//! whose slots are all free is given back at once; offsets are relative to the tier's start.

/// Log2 of the smallest slot.
const SMALLEST: u32 = 6;
/// Slot sizes: powers of two from 64 bytes to 64 KiB.
pub const CLASSES: usize = 11;

/// The class of a slot size.
///
/// # Panics
/// On a size that is no power of two from 64 to 65,536.
pub fn class_of(size: usize) -> usize {
    assert!(
        size.is_power_of_two() && (64..=64 << 10).contains(&size),
        "no slots of {size} bytes"
    );
    (size.trailing_zeros() - SMALLEST) as usize
}

/// Bytes of a slot of this class.
pub const fn size_of_class(class: usize) -> usize {
    1 << (class as u32 + SMALLEST)
}

#[derive(Default)]
struct Chunk {
    class: usize,
    /// Committed bytes; fewer than the chunk's address range where the budget ended. 0: none.
    bytes: usize,
    free: usize,
    /// One bit a slot, set while it is free.
    bits: Vec<u64>,
}

impl Chunk {
    fn slots(&self) -> usize {
        self.bytes / size_of_class(self.class)
    }
}

/// All chunks of one tier.
pub struct Chunks {
    chunk_bytes: usize,
    chunks: Vec<Chunk>,
    vacant: Vec<usize>,
    partial: [Vec<usize>; CLASSES],
}

impl Chunks {
    /// Room for `count` chunks of `chunk_bytes` each, none committed.
    pub fn new(chunk_bytes: usize, count: usize) -> Self {
        Chunks {
            chunk_bytes,
            chunks: std::iter::repeat_with(Chunk::default).take(count).collect(),
            vacant: (0..count).rev().collect(),
            partial: Default::default(),
        }
    }

    /// Takes a free slot of a committed chunk.
    pub fn take(&mut self, class: usize) -> Option<usize> {
        let &index = self.partial[class].last()?;
        let chunk = &mut self.chunks[index];
        let word = chunk.bits.iter().position(|&word| word != 0)?;
        let bit = chunk.bits[word].trailing_zeros() as usize;
        chunk.bits[word] &= chunk.bits[word] - 1;
        chunk.free -= 1;
        if chunk.free == 0 {
            self.partial[class].pop();
        }
        Some(index * self.chunk_bytes + (word * 64 + bit) * size_of_class(class))
    }

    /// The offset at which the next chunk would be committed.
    pub fn next_vacant(&self) -> Option<usize> {
        self.vacant.last().map(|index| index * self.chunk_bytes)
    }

    /// The chunk at [`Chunks::next_vacant`] now has `bytes` committed, for slots of `class`.
    pub fn add(&mut self, class: usize, bytes: usize) {
        let index = self.vacant.pop().expect("a vacant chunk was offered");
        let chunk = &mut self.chunks[index];
        let slots = bytes / size_of_class(class);
        *chunk = Chunk {
            class,
            bytes,
            free: slots,
            bits: vec![u64::MAX; slots.div_ceil(64)],
        };
        if !slots.is_multiple_of(64) {
            *chunk.bits.last_mut().expect("slots > 0") = (1 << (slots % 64)) - 1;
        }
        self.partial[class].push(index);
    }

    /// Puts a slot back. Returns `(offset, bytes)` of its chunk if that is empty now, for the
    /// caller to give back.
    pub fn put(&mut self, offset: usize) -> Option<(usize, usize)> {
        let index = offset / self.chunk_bytes;
        let chunk = &mut self.chunks[index];
        let slot = offset % self.chunk_bytes / size_of_class(chunk.class);
        assert!(
            chunk.bits[slot / 64] >> (slot % 64) & 1 == 0,
            "slot {offset:#x} freed twice"
        );
        chunk.bits[slot / 64] |= 1 << (slot % 64);
        chunk.free += 1;
        if chunk.free == 1 {
            self.partial[chunk.class].push(index);
        }
        if chunk.free < chunk.slots() {
            return None;
        }
        let bytes = std::mem::take(&mut chunk.bytes);
        self.partial[chunk.class].retain(|&other| other != index);
        self.vacant.push(index);
        Some((index * self.chunk_bytes, bytes))
    }

    /// The committed chunks, as `(offset, bytes)`.
    pub fn committed(&self) -> impl Iterator<Item = (usize, usize)> {
        let indexed = self.chunks.iter().enumerate();
        indexed
            .filter(|(_, c)| c.bytes > 0)
            .map(|(i, c)| (i * self.chunk_bytes, c.bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn slots_of_a_chunk_are_distinct_and_come_back() {
        let mut chunks = Chunks::new(4096, 2);
        let class = class_of(256);
        assert_eq!(chunks.take(class), None);
        assert_eq!(chunks.next_vacant(), Some(0));
        chunks.add(class, 4096);
        let slots: BTreeSet<_> = std::iter::from_fn(|| chunks.take(class)).collect();
        assert_eq!(slots, (0..16).map(|slot| slot * 256).collect());
        for &slot in slots.iter().skip(1) {
            assert_eq!(chunks.put(slot), None);
        }
        assert_eq!(
            chunks.put(0),
            Some((0, 4096)),
            "the last one empties the chunk"
        );
        assert_eq!(chunks.take(class), None);
        assert_eq!(chunks.committed().count(), 0);
    }

    #[test]
    fn a_partly_committed_chunk_has_fewer_slots() {
        let mut chunks = Chunks::new(1 << 20, 1);
        let class = class_of(1024);
        chunks.add(class, 8192);
        assert_eq!(std::iter::from_fn(|| chunks.take(class)).count(), 8);
        assert_eq!(chunks.next_vacant(), None);
    }

    #[test]
    #[should_panic(expected = "freed twice")]
    fn a_double_free_is_caught() {
        let mut chunks = Chunks::new(4096, 1);
        chunks.add(class_of(1024), 4096);
        let slot = chunks.take(class_of(1024)).unwrap();
        let _other = chunks.take(class_of(1024)).unwrap();
        chunks.put(slot);
        chunks.put(slot);
    }
}
