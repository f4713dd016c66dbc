//! The bytes of records in the pool, and where they lie.
//!
//! | what | words |
//! |---|---|
//! | [`Block`] | its place; its length in bytes and their checksum; records |
//! | a record | lengths of key and value, 32 bits each, the highest one a mark; key; value |
//! | [`Word`] | the block's address, a multiple of 32; below it, flags and the size |
//!
//! A block has the records of one place, of which there are several only where two keys share it.
//! It is never changed: a change writes another block. What reads one while its memory is used
//! again sees that by the place and the checksum.

use crate::address::Address;

/// Bytes of the smallest block.
const LEAST: usize = 32;
/// Sizes of blocks: each twice the one before. The largest is a node.
pub(super) const SIZES: u8 = 6;
/// The size of a block that is in several nodes.
const LONG: u8 = SIZES;
/// Words before the records.
const HEAD: usize = 2;

const SIZE_MASK: u64 = 0b111;
const MARKED: u64 = 1 << 3;
const SEVERAL: u64 = 1 << 4;
const FLAGS: u64 = LEAST as u64 - 1;
/// Of the length of a value.
const MARK: u32 = 1 << 31;

/// The bytes of a block of this size.
pub(super) const fn bytes_of(size: u8) -> usize {
    LEAST << size
}

/// A block, as the tree has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Word(u64);

impl Word {
    /// A block at an address, of a size or in several nodes, with what the tree is to know of it.
    pub fn new(at: Address, size: Option<u8>, block: &Block) -> Word {
        let mut flags = u64::from(size.unwrap_or(LONG));
        if block.records.iter().any(|it| it.marked) {
            flags |= MARKED;
        }
        if block.records.len() > 1 {
            flags |= SEVERAL;
        }
        Word(at.word() | flags)
    }

    pub fn of_word(word: u64) -> Word {
        Word(word)
    }

    pub fn word(self) -> u64 {
        self.0
    }

    /// Where it begins.
    pub fn address(self) -> Address {
        Address::of_word(self.0 & !FLAGS)
    }

    /// Its size; `None` if it is in several nodes, of which the first says where the others are.
    pub fn size(self) -> Option<u8> {
        Some((self.0 & SIZE_MASK) as u8).filter(|&size| size < LONG)
    }

    /// Whether any of its records is marked.
    pub fn is_marked(self) -> bool {
        self.0 & MARKED != 0
    }

    /// Whether it has several records.
    pub fn has_several(self) -> bool {
        self.0 & SEVERAL != 0
    }
}

/// A record of bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// Its key.
    pub key: Vec<u8>,
    /// Its value.
    pub value: Vec<u8>,
    /// Whether it is listed among the marked ones.
    pub marked: bool,
}

/// The records of a place, in the order in which they came.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Block {
    pub records: Vec<Record>,
}

impl Block {
    /// Bytes that it takes.
    pub fn bytes(&self) -> usize {
        let records = self.records.iter();
        let bytes: usize = records.map(|it| 8 + it.key.len() + it.value.len()).sum();
        (8 * HEAD + bytes).next_multiple_of(8)
    }

    /// The smallest size that it fits into; `None` if it needs several nodes.
    pub fn size(&self) -> Option<u8> {
        let bytes = self.bytes();
        (0..SIZES).find(|&size| bytes <= bytes_of(size))
    }

    /// Its words, at a place. The lengths were checked.
    pub fn words(&self, place: u64) -> Vec<u64> {
        let mut bytes = Vec::with_capacity(self.bytes());
        for Record { key, value, marked } in &self.records {
            let mark = if *marked { MARK } else { 0 };
            bytes.extend((key.len() as u32).to_le_bytes());
            bytes.extend((value.len() as u32 | mark).to_le_bytes());
            bytes.extend_from_slice(key);
            bytes.extend_from_slice(value);
        }
        let head = bytes.len() as u64 | u64::from(crc32c::crc32c(&bytes)) << 32;
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        let payload = bytes.as_chunks().0.iter();
        let payload = payload.map(|word| u64::from_le_bytes(*word));
        [place, head].into_iter().chain(payload).collect()
    }

    /// The block of these words and what may follow them; `None` if it is none of this place.
    pub fn of_words(words: &[u64], place: u64) -> Option<Block> {
        let (&[found, head], payload) = words.split_first_chunk::<HEAD>()?;
        let (length, checksum) = (head as u32 as usize, (head >> 32) as u32);
        let payload = payload.get(..length.div_ceil(8))?;
        let bytes: Vec<u8> = payload.iter().flat_map(|it| it.to_le_bytes()).collect();
        let mut bytes = &bytes[..length];
        if found != place || checksum != crc32c::crc32c(bytes) {
            return None;
        }
        let mut records = Vec::new();
        while !bytes.is_empty() {
            let key = number(&mut bytes)? as usize;
            let value = number(&mut bytes)?;
            let marked = value & MARK != 0;
            let key = bytes.split_off(..key)?.to_vec();
            let value = bytes.split_off(..(value & !MARK) as usize)?.to_vec();
            records.push(Record { key, value, marked });
        }
        Some(Block { records })
    }
}

/// Takes a number from the front.
fn number(bytes: &mut &[u8]) -> Option<u32> {
    let (number, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(u32::from_le_bytes(*number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(records: &[(&[u8], &[u8], bool)]) -> Block {
        let records = records.iter().map(|&(key, value, marked)| Record {
            key: key.into(),
            value: value.into(),
            marked,
        });
        Block {
            records: records.collect(),
        }
    }

    #[test]
    fn a_block_is_read_as_it_was_written_or_not_at_all() {
        let long = vec![7; 5_000];
        for block in [
            block(&[(b"", b"", false)]),
            block(&[(b"key", b"value", true)]),
            block(&[(b"key", b"", false), (b"other", &long, true)]),
        ] {
            let words = block.words(99);
            assert_eq!(8 * words.len(), block.bytes());
            assert_eq!(Block::of_words(&words, 99), Some(block.clone()));
            let more = [&words[..], &[1, 2]].concat();
            assert_eq!(Block::of_words(&more, 99), Some(block.clone()));
            assert_eq!(Block::of_words(&words, 98), None);
            for index in 0..words.len() {
                let mut damaged = words.clone();
                damaged[index] ^= 1;
                assert_eq!(Block::of_words(&damaged, 99), None, "word {index}");
                assert_eq!(Block::of_words(&words[..index], 99), None);
            }
        }
    }

    #[test]
    fn a_word_says_what_the_tree_has_to_know() {
        let at = Address::new(7, 3 * 32);
        for (block, size) in [
            (block(&[(b"key", b"value", false)]), Some(0)),
            (block(&[(b"key", &[1; 30], true)]), Some(1)),
            (
                block(&[(b"key", &[1; 1_000], false), (b"", b"", false)]),
                None,
            ),
            (block(&[(b"", &[1; 1_000], true)]), Some(5)),
        ] {
            assert_eq!(block.size(), size);
            let word = Word::new(at, size, &block);
            assert_eq!(Word::of_word(word.word()), word);
            assert_eq!((word.address(), word.size()), (at, size));
            assert_eq!(word.is_marked(), block.records[0].marked);
            assert_eq!(word.has_several(), block.records.len() > 1);
        }
    }
}
