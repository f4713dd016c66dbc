//! Keys of several parts.
//!
//! A part of fixed length is written as it is. One of variable length ends with two zero bytes, and
//! each zero byte in it is followed by 255, so that a shorter part sorts before its extensions
//! whatever comes next. FoundationDB's tuple layer encodes strings so.

use smallvec::SmallVec;

use super::Key;

/// Bytes of a key of several parts, on the stack up to 32 bytes. It sorts by the first part, then
/// by the second, and so on.
///
/// ```
/// use timberline::{Composite, Parts};
///
/// let bytes = Composite::new().with::<str>("a\0").with::<u16>(&7);
/// assert_eq!(bytes.as_ref(), b"a\0\xff\0\0\0\x07");
/// let mut parts = Parts::of(bytes.as_ref());
/// assert_eq!((parts.take::<str>(), parts.take::<u16>()), ("a\0".to_string(), 7));
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub struct Composite(SmallVec<[u8; 32]>);

/// The byte after a zero byte within a part.
const ESCAPED: u8 = u8::MAX;

impl Composite {
    /// A key without parts.
    pub fn new() -> Self {
        Self::default()
    }

    /// The key with one more part.
    #[inline]
    #[must_use]
    pub fn with<K: Key + ?Sized>(mut self, part: &K) -> Self {
        self.add(part.to_bytes().as_ref(), K::LEN);
        self
    }

    /// The length of a key of parts of these lengths, if it is fixed: [`Key::LEN`] of it.
    pub const fn fixed_len(parts: &[Option<usize>]) -> Option<usize> {
        let (mut sum, mut at) = (0, 0);
        while at < parts.len() {
            let Some(len) = parts[at] else { return None };
            (sum, at) = (sum + len, at + 1);
        }
        Some(sum)
    }

    #[inline]
    fn add(&mut self, part: &[u8], len: Option<usize>) {
        if len.is_some() {
            return self.0.extend_from_slice(part);
        }
        for &byte in part {
            self.0.push(byte);
            if byte == 0 {
                self.0.push(ESCAPED);
            }
        }
        self.0.extend_from_slice(&[0, 0]);
    }
}

impl AsRef<[u8]> for Composite {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// The parts of a [`Composite`], taken in the order in which they were added.
#[derive(Clone, Debug)]
pub struct Parts<'a>(&'a [u8]);

impl<'a> Parts<'a> {
    /// The parts that are in these bytes.
    pub fn of(bytes: &'a [u8]) -> Self {
        Parts(bytes)
    }

    /// The next part.
    ///
    /// # Panics
    /// The next bytes are no part of this type.
    pub fn take<K: Key + ?Sized>(&mut self) -> K::Owned {
        if let Some(len) = K::LEN {
            let (part, rest) = self.0.split_at(len);
            self.0 = rest;
            return K::from_bytes(part);
        }
        let mut part = SmallVec::<[u8; 64]>::new();
        loop {
            let zero = self.0.iter().position(|&byte| byte == 0);
            let zero = zero.expect("a part ends with a zero byte");
            let (before, rest) = self.0.split_at(zero);
            part.extend_from_slice(before);
            self.0 = &rest[2..];
            if rest[1] != ESCAPED {
                return K::from_bytes(&part);
            }
            part.push(0);
        }
    }
}

macro_rules! tuple {
    ($($part:ident),*) => {
        impl<$($part: Key<Owned = $part>),*> Key for ($($part,)*) {
            const LEN: Option<usize> = Composite::fixed_len(&[$($part::LEN),*]);
            type Borrowed = Self;
            type Owned = Self;
            type Bytes<'a> = Composite;

            #[inline]
            #[allow(non_snake_case, reason = "a part is called as its type")]
            fn to_bytes(&self) -> Composite {
                let ($($part,)*) = self;
                Composite::new()$(.with($part))*
            }

            #[inline]
            fn from_bytes(bytes: &[u8]) -> Self {
                let mut parts = Parts::of(bytes);
                ($(parts.take::<$part>(),)*)
            }
        }
    };
}

tuple!(A, B);
tuple!(A, B, C);
tuple!(A, B, C, D);
tuple!(A, B, C, D, E);
tuple!(A, B, C, D, E, F);

/// `None` sorts before all others.
impl<K: Key<Owned = K>> Key for Option<K> {
    const LEN: Option<usize> = Composite::fixed_len(&[Some(1), K::LEN]);
    type Borrowed = Self;
    type Owned = Self;
    type Bytes<'a> = Composite;

    #[inline]
    fn to_bytes(&self) -> Composite {
        let mut bytes = Composite::new().with(&self.is_some());
        match self {
            Some(key) => bytes.0.extend_from_slice(key.to_bytes().as_ref()),
            None => bytes.0.resize(1 + K::LEN.unwrap_or(0), 0),
        }
        bytes
    }

    #[inline]
    fn from_bytes(bytes: &[u8]) -> Self {
        (bytes[0] != 0).then(|| K::from_bytes(&bytes[1..]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Debug;

    /// All pairs compare as their bytes do.
    fn keeps_order<K: Key<Owned = K> + Ord + Debug>(keys: &[K]) {
        for one in keys {
            let bytes = one.to_bytes();
            assert_eq!(&K::from_bytes(bytes.as_ref()), one);
            assert!(K::LEN.is_none_or(|len| len == bytes.as_ref().len()));
            for two in keys {
                let (order, two) = (one.cmp(two), two.to_bytes());
                assert_eq!(bytes.as_ref().cmp(two.as_ref()), order, "{one:?}");
            }
        }
    }

    #[test]
    fn a_part_sorts_before_the_next_one_counts() {
        const STRINGS: [&str; 8] = ["", "\0", "\0\0", "\0\u{1}", "a", "a\0", "a\0b", "ab"];
        let mut keys = Vec::new();
        for one in STRINGS {
            for two in STRINGS {
                keys.extend([-1i16, 0, 7].map(|n| (one.to_string(), n, two.to_string())));
            }
        }
        keeps_order(&keys);
        let bytes: Vec<_> = [vec![], vec![0], vec![0, 255], vec![255], vec![255, 0]].into();
        let pairs = bytes
            .iter()
            .flat_map(|one| [(one.clone(), 1u8), (one.clone(), 0)]);
        keeps_order(&pairs.collect::<Vec<_>>());
    }

    #[test]
    fn options_and_tuples_nest() {
        keeps_order(&[None, Some(0u32), Some(1), Some(u32::MAX)]);
        keeps_order(&[
            None,
            Some(String::new()),
            Some("\0".into()),
            Some("a".into()),
        ]);
        keeps_order(&[
            ((String::from("a"), 1u8), None),
            ((String::from("a"), 1), Some('x')),
            ((String::from("a\0"), 0), Some('a')),
            ((String::from("b"), 0), None),
        ]);
        keeps_order(&[
            (1u64, 2u64, 3u64, 4u64, true, [1u8, 2]),
            (1, 2, 3, 5, false, [0, 0]),
        ]);
        assert_eq!(<(u32, bool, Option<u16>)>::LEN, Some(8));
        assert_eq!(<(u32, String)>::LEN, None);
    }
}
