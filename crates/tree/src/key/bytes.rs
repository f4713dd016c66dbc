//! Byte strings and strings as keys.

use super::Key;

macro_rules! byte_strings {
    ($($string:ty),*) => {$(
        impl Key for $string {
            type Borrowed = [u8];
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
    )*};
}

byte_strings!([u8], Vec<u8>);

macro_rules! strings {
    ($($string:ty),*) => {$(
        impl Key for $string {
            type Borrowed = str;
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
    )*};
}

strings!(str, String);

/// The number of bytes that two strings begin with alike.
pub fn common(one: &[u8], two: &[u8]) -> usize {
    let bytes = one.iter().zip(two);
    bytes.take_while(|(one, two)| one == two).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_in_comes_out() {
        assert_eq!(str::from_bytes("naïve\0".to_bytes()), "naïve\0");
        assert_eq!(<[u8]>::from_bytes([0, 255].to_bytes()), [0, 255]);
    }
}
