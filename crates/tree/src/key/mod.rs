//! Keys: types with an encoding as bytes that sorts as they do.
//!
//! | file | noun |
//! |---|---|
//! | `bytes.rs` | byte strings and strings as keys |
//! | `composite.rs` | keys of several parts: tuples, `Option`, your structs |
//! | `fixed.rs` | keys of a fixed length: integers, `char`, `bool`, addresses, arrays |
//! | `range.rs` | ranges of keys, as methods take them |
//! | `word.rs` | keys that fit a word |

mod bytes;
mod composite;
mod fixed;
mod range;
mod word;

pub(crate) use bytes::common;
pub use composite::{Composite, Parts};
pub use range::KeyRange;
pub(crate) use word::{bytes_of_word, fits, from_word, to_word};

/// A key of a map: a type with an encoding as bytes that preserves the order. `a < b` exactly if
/// `a.to_bytes() < b.to_bytes()`, compared byte by byte, where the beginning of a string sorts
/// before the string.
///
/// A [`BTree`](crate::BTree) has nodes of words for keys of a fixed length of up to eight bytes,
/// and nodes of byte strings for all others.
///
/// | keys | bytes |
/// |---|---|
/// | integers | their size, big-endian; the sign bit flipped |
/// | `char`, `bool` | 4, 1 |
/// | `[u8; N]`, `Ipv4Addr`, `Ipv6Addr`, `IpAddr` | N, 4, 16, 17 |
/// | `[u8]`, `Vec<u8>`, `str`, `String` | theirs |
/// | `Option<K>`, tuples of up to six keys | see [`Composite`] |
///
/// `Vec<u8>` and `[u8]` are the same keys, as are `String` and `str`: the methods of both take
/// `&[u8]` and `&str`, and iterators yield `Vec<u8>` and `String`.
///
/// Your own type joins with `#[derive(Key)]` (feature `derive`), by an encoding of its own, or by
/// that of its fields:
///
/// ```
/// use timberline::{Composite, Key, Parts};
///
/// struct Visit {
///     host: String,
///     second: u64,
/// }
///
/// impl Key for Visit {
///     type Borrowed = Visit;
///     type Owned = Visit;
///     type Bytes<'a> = Composite;
///
///     fn to_bytes(&self) -> Composite {
///         Composite::new().with::<String>(&self.host).with::<u64>(&self.second)
///     }
///     fn from_bytes(bytes: &[u8]) -> Visit {
///         let mut parts = Parts::of(bytes);
///         Visit {
///             host: parts.take::<String>(),
///             second: parts.take::<u64>(),
///         }
///     }
/// }
///
/// let visit = |host: &str, second| Visit { host: host.into(), second };
/// let sorted = [visit("a", 9), visit("a", 10), visit("a\0", 1), visit("ab", 0)];
/// assert!(sorted.iter().map(|visit| visit.to_bytes()).is_sorted());
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no key of a map",
    note = "implement `Key`: an encoding as bytes that sorts as the type does"
)]
pub trait Key: Send + Sync + 'static {
    /// The length of every key in bytes, if it is fixed.
    const LEN: Option<usize> = None;
    /// What methods take by reference: `str` for `String`, else mostly the type itself.
    type Borrowed: Key<Borrowed = Self::Borrowed, Owned = Self::Owned> + ?Sized;
    /// What iterators yield: `String` for `str`, else mostly the type itself.
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
