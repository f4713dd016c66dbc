//! Keys of the maps over byte strings.

/// A key that is a byte string, or can be written as one: `a < b` exactly if `a.to_bytes() <
/// b.to_bytes()`.
pub trait ByteKey {
    /// The length of every key in bytes, if it is fixed: [`Art`](crate::Art) then packs
    /// neighbouring integers.
    const LEN: Option<usize> = None;
    /// What an iterator yields.
    type Owned;
    /// The key's bytes, borrowed or on the stack.
    type Bytes<'a>: AsRef<[u8]>
    where
        Self: 'a;

    /// The key as bytes, in the same order.
    fn to_bytes(&self) -> Self::Bytes<'_>;
    /// The key that `bytes` were made from.
    fn from_bytes(bytes: &[u8]) -> Self::Owned;
}

impl ByteKey for [u8] {
    type Owned = Vec<u8>;
    type Bytes<'a> = &'a [u8];

    #[inline(always)]
    fn to_bytes(&self) -> &[u8] {
        self
    }

    fn from_bytes(bytes: &[u8]) -> Vec<u8> {
        bytes.to_vec()
    }
}

impl ByteKey for str {
    type Owned = String;
    type Bytes<'a> = &'a [u8];

    #[inline(always)]
    fn to_bytes(&self) -> &[u8] {
        self.as_bytes()
    }

    fn from_bytes(bytes: &[u8]) -> String {
        // A map of strings holds only what came from strings.
        String::from_utf8_lossy(bytes).into_owned()
    }
}

/// Big-endian, which keeps the order.
impl ByteKey for u64 {
    const LEN: Option<usize> = Some(8);
    type Owned = u64;
    type Bytes<'a> = [u8; 8];

    #[inline(always)]
    fn to_bytes(&self) -> [u8; 8] {
        self.to_be_bytes()
    }

    #[inline(always)]
    fn from_bytes(bytes: &[u8]) -> u64 {
        u64::from_be_bytes(bytes.try_into().expect("a key of eight bytes"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_in_comes_out() {
        for key in [0, 1, 0x0102_0304_0506_0708, u64::MAX] {
            assert_eq!(u64::from_bytes(&key.to_bytes()), key);
        }
        assert_eq!(str::from_bytes("naïve\0".to_bytes()), "naïve\0");
        assert_eq!(<[u8]>::from_bytes([0, 255].to_bytes()), [0, 255]);
    }

    #[test]
    fn numbers_are_ordered_as_bytes() {
        let keys = [0u64, 1, 255, 256, 1 << 32, u64::MAX];
        assert!(keys.map(|key| key.to_bytes()).is_sorted());
    }
}
