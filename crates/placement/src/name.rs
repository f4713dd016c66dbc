//! Names of nodes: the bytes of a key. So one seam serves trees of words and trees of byte strings,
//! and a name stays harmless when its node is split, merged, moved or freed.

use std::fmt;
use std::ops::Deref;

use smallvec::SmallVec;

/// A key's bytes, ordered as the tree orders its keys. Up to 16 bytes need no allocation.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct KeyBytes(SmallVec<[u8; 16]>);

impl KeyBytes {
    /// A key of a tree of words: big-endian, which keeps the order.
    pub fn of_word(word: u64) -> KeyBytes {
        KeyBytes::from(&word.to_be_bytes()[..])
    }

    /// Bytes that the key takes on the heap: none if it is short.
    pub(crate) fn heap_bytes(&self) -> usize {
        if self.0.spilled() {
            self.0.capacity()
        } else {
            0
        }
    }

    /// The key as a word: its first eight bytes, with zeros for those it lacks.
    pub fn word(&self) -> u64 {
        let mut bytes = [0; 8];
        let len = self.len().min(bytes.len());
        bytes[..len].copy_from_slice(&self[..len]);
        u64::from_be_bytes(bytes)
    }
}

impl From<&[u8]> for KeyBytes {
    fn from(bytes: &[u8]) -> KeyBytes {
        KeyBytes(SmallVec::from_slice(bytes))
    }
}

impl Deref for KeyBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for KeyBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.escape_ascii())
    }
}

/// A lower fence borrowed from the tree; [`Fence::to_bytes`] makes it a name that can be kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fence<'a> {
    /// What comes first.
    pub prefix: &'a [u8],
    /// Eight more bytes, big-endian.
    pub word: Option<u64>,
}

impl Fence<'_> {
    /// The fence of a tree of words.
    pub fn of_word(word: u64) -> Fence<'static> {
        Fence {
            prefix: &[],
            word: Some(word),
        }
    }

    /// The fence of a tree of byte strings.
    pub fn of_bytes(prefix: &[u8]) -> Fence<'_> {
        Fence { prefix, word: None }
    }

    /// The fence as a key.
    pub fn to_bytes(self) -> KeyBytes {
        let mut bytes = SmallVec::from_slice(self.prefix);
        if let Some(word) = self.word {
            bytes.extend_from_slice(&word.to_be_bytes());
        }
        KeyBytes(bytes)
    }
}

/// Names one node on the path to `key`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeKey {
    /// Any key the node covers; by convention its lower fence.
    pub key: KeyBytes,
    /// 0 for a leaf. What other numbers mean is the tree's own business; in a tree of one height
    /// they are steps above the leaves.
    pub height: u8,
}

impl NodeKey {
    /// The leaf that covers `key`.
    pub fn leaf(key: KeyBytes) -> NodeKey {
        NodeKey { key, height: 0 }
    }

    /// A node of a tree of words.
    pub fn of_word(word: u64, height: u8) -> NodeKey {
        NodeKey {
            key: KeyBytes::of_word(word),
            height,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_keep_their_order_as_bytes() {
        let words = [0, 1, 255, 256, u64::MAX / 2, u64::MAX];
        assert!(words.map(KeyBytes::of_word).is_sorted());
        assert_eq!(words.map(|word| KeyBytes::of_word(word).word()), words);
    }

    #[test]
    fn a_key_of_another_length_is_a_word_too() {
        assert_eq!(KeyBytes::from(&[1, 2][..]).word(), 0x0102 << 48);
        assert_eq!(KeyBytes::from(&[7; 20][..]).word(), 0x0707_0707_0707_0707);
        assert_eq!(KeyBytes::default().word(), 0);
    }

    #[test]
    fn a_fence_is_its_prefix_and_its_word() {
        let fence = Fence {
            prefix: b"http://",
            word: Some(0x6162),
        };
        assert_eq!(&*fence.to_bytes(), b"http://\0\0\0\0\0\0ab");
        assert_eq!(Fence::of_word(9).to_bytes(), KeyBytes::of_word(9));
        assert_eq!(format!("{:?}", KeyBytes::from(&b"a\0"[..])), r#""a\x00""#);
    }
}
