//! Keys whose bytes have a fixed length.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::Key;

/// A key of `$len` bytes: the array made of it, and the key made of the array.
macro_rules! fixed {
    ($key:ty: $len:expr, |$self:ident| $to:expr, |$bytes:ident| $from:expr) => {
        impl Key for $key {
            const LEN: Option<usize> = Some($len);
            type Borrowed = $key;
            type Owned = $key;
            type Bytes<'a> = [u8; $len];

            #[inline(always)]
            fn to_bytes(&self) -> [u8; $len] {
                let $self = *self;
                $to
            }

            #[inline(always)]
            fn from_bytes(bytes: &[u8]) -> $key {
                let $bytes: [u8; $len] = bytes.try_into().expect("a key of this length");
                $from
            }
        }
    };
}

macro_rules! unsigned {
    ($($int:ty),*) => {$(
        fixed!($int: size_of::<$int>(), |int| int.to_be_bytes(), |bytes| <$int>::from_be_bytes(bytes));
    )*};
}

macro_rules! signed {
    ($($int:ty),*) => {$(
        // Flipping the sign bit sorts negative numbers first.
        fixed!(
            $int: size_of::<$int>(),
            |int| (int ^ <$int>::MIN).to_be_bytes(),
            |bytes| <$int>::from_be_bytes(bytes) ^ <$int>::MIN
        );
    )*};
}

unsigned!(u8, u16, u32, u64, u128, usize);
signed!(i8, i16, i32, i64, i128, isize);

fixed!(bool: 1, |bit| [u8::from(bit)], |bytes| bytes != [0]);
fixed!(
    char: 4,
    |char| u32::from(char).to_be_bytes(),
    |bytes| char::from_u32(u32::from_be_bytes(bytes)).expect("the bytes of a `char`")
);
fixed!(Ipv4Addr: 4, |address| address.octets(), |bytes| bytes.into());
fixed!(Ipv6Addr: 16, |address| address.octets(), |bytes| bytes.into());
fixed!(
    IpAddr: 17,
    // All of version 4 sort before all of version 6.
    |address| {
        let mut bytes = [0; 17];
        match address {
            IpAddr::V4(address) => bytes[1..5].copy_from_slice(&address.octets()),
            IpAddr::V6(address) => {
                bytes[0] = 1;
                bytes[1..].copy_from_slice(&address.octets());
            }
        }
        bytes
    },
    |bytes| match bytes {
        [0, a, b, c, d, ..] => [a, b, c, d].into(),
        [_, octets @ ..] => octets.into(),
    }
);

impl<const N: usize> Key for [u8; N] {
    const LEN: Option<usize> = Some(N);
    type Borrowed = [u8; N];
    type Owned = [u8; N];
    type Bytes<'a> = &'a [u8];

    #[inline(always)]
    fn to_bytes(&self) -> &[u8] {
        self
    }

    #[inline(always)]
    fn from_bytes(bytes: &[u8]) -> [u8; N] {
        bytes.try_into().expect("a key of this length")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Debug;

    fn keeps_order<K: Key<Owned = K> + Ord + Debug>(sorted: &[K]) {
        for pair in sorted.windows(2) {
            assert!(pair[0] < pair[1], "{pair:?}");
            let bytes = [pair[0].to_bytes(), pair[1].to_bytes()];
            assert!(bytes[0].as_ref() < bytes[1].as_ref(), "{pair:?}");
        }
        for key in sorted {
            let bytes = key.to_bytes();
            assert_eq!(K::LEN, Some(bytes.as_ref().len()));
            assert_eq!(&K::from_bytes(bytes.as_ref()), key);
        }
    }

    #[test]
    fn bytes_keep_the_order_of_keys() {
        keeps_order(&[0u64, 1, 255, 256, 0x0102_0304_0506_0708, u64::MAX]);
        keeps_order(&[0u128, 1, 1 << 64, u128::MAX]);
        keeps_order(&[i128::MIN, -1, 0, i128::MAX]);
        keeps_order(&[i32::MIN, -5, -1, 0, 1, i32::MAX]);
        keeps_order(&[isize::MIN, 0, isize::MAX]);
        keeps_order(&[usize::MIN, usize::MAX]);
        keeps_order(&[i8::MIN, -1, 0, i8::MAX]);
        keeps_order(&[false, true]);
        keeps_order(&['\0', 'a', 'ä', '\u{d7ff}', '\u{e000}', char::MAX]);
        keeps_order(&[[0, 0, 0], [0, 0, 1], [1, 0, 0], [255; 3]]);
        let v4 = |last| IpAddr::from([10, 0, 0, last]);
        let v6 = |last| IpAddr::from([0, 0, 0, 0, 0, 0, 0, last]);
        keeps_order(&[v4(0), v4(255), v6(0), v6(1), v6(u16::MAX)]);
        keeps_order(&[Ipv4Addr::LOCALHOST, Ipv4Addr::BROADCAST]);
        keeps_order(&[Ipv6Addr::UNSPECIFIED, Ipv6Addr::LOCALHOST]);
    }
}
