//! Values of maps: words in the node, byte strings in blocks beside it, or `Arc`s.
//!
//! A string is an immutable block: written before the leaf refers to it, replaced as a whole, and
//! then retired to the epoch. So a reader of the leaf's word under a validated version reads the
//! string without further checks while its thread is pinned, and copies nothing.
//!
//! A block lies in the tier of its leaf, or in a slower one if that was full, and moves with the
//! leaf.
//!
//! | file | noun |
//! |---|---|
//! | `block.rs` | a string in a slot of an arena |
//! | `counted.rs` | an `Arc`, and whose its count is |
//! | `change.rs` | changes of a value, prepared before any lock is taken |
//! | `copy.rs` | a copy of a block in another tier |
//! | `fetched.rs` | lookups that also prefetch the block |
//! | `representation.rs` | the value representations |
//! | `loan.rs` | a word that a leaf has, or had |
//! | `postcard.rs` | values of every type that serde knows |

mod block;
mod change;
mod copy;
mod counted;
mod fetched;
mod loan;
#[cfg(feature = "postcard")]
mod postcard;
mod representation;

pub(crate) use block::{NewBlock, ValueBlock};
pub(crate) use change::{Change, write_block};
pub(crate) use copy::ValueCopy;
pub use counted::Counted;
pub(crate) use fetched::{fetch, fetch_each};
pub use loan::Loan;
pub(crate) use loan::{Dispose, RetiredValue, dispose_of_all};
#[cfg(feature = "postcard")]
pub use postcard::{Postcard, PostcardRef};
pub(crate) use representation::inner::Represent;
pub use representation::{Bytes, Representation, Word};

use timberline_tier::Memory;

/// The stored form of a value: a word for [`Word`], `&[u8]` for [`Bytes`], `&Arc<T>` for
/// [`Counted`].
pub type Stored<'a, V> = <<V as Value>::Representation as Represent>::Stored<'a>;

/// What [`Map::update`](crate::Map::update) and [`Map::modify`](crate::Map::modify) return: the
/// previous value, `None` where there is no such record. Only strings need memory for a new one,
/// and may be too long:
///
/// | values | `Replaced<V>` |
/// |---|---|
/// | words, `Arc`s | `Option<V>` |
/// | strings, `Postcard<T>` | `Result<Option<V>, Error>` |
///
/// [`Representation::result`] makes a `Result` of either.
pub type Replaced<V> = <<V as Value>::Representation as Represent>::Replaced<V>;

/// A value of a map: up to eight bytes, which lie in the leaf; a string of up to
/// [`MAX_VALUE`](crate::MAX_VALUE) bytes, which lies beside the leaf in the same tier, and moves
/// with it; or an `Arc` of anything sized, whose pointer is in the leaf.
///
/// Integers of up to 64 bits, `f32`, `f64`, `bool`, `char` and `()` are words. `Vec<u8>`,
/// `Box<[u8]>` and `[u8; N]` are strings, which are lent as `&[u8]` and `&[u8; N]`; `String` and
/// `Box<str>` are lent as `&str`:
///
/// ```
/// use timberline::BTree;
///
/// let map: BTree<u64, Vec<u8>> = BTree::new();
/// assert_eq!(map.insert(&3, b"three")?, None);
/// assert_eq!(map.get(&3), Some(b"three".to_vec()));
/// // Without a copy:
/// assert_eq!(map.get_with(&3, |bytes| bytes.len()), Some(5));
/// map.upsert_with(&3, |now| [now.unwrap_or(b""), b"!"].concat())?;
/// assert_eq!(map.insert(&3, b"")?, Some(b"three!".to_vec()));
/// let refused = map.insert(&3, &vec![0; 65_537]).unwrap_err();
/// assert_eq!(refused.to_string(), "the value has 65537 bytes; at most 65536 are possible");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// An `Arc<T>` is lent as `&Arc<T>`. The map has one count of it, and drops that once the record is
/// removed or replaced and no thread reads it any more: a moment later, in any thread that uses the
/// map. So `T` is `Send` and `Sync`, and its `drop` should be brief. Two are equal to
/// `compare_exchange` if they are the same allocation. What an `Arc` points to is in the memory of
/// the global allocator, whatever tier its leaf is in:
///
/// ```
/// use std::sync::Arc;
/// use timberline::Art;
///
/// struct Session {
///     user: String,
/// }
///
/// let sessions: Art<str, Arc<Session>> = Art::new();
/// let ada = Arc::new(Session { user: "Ada".into() });
/// sessions.insert("token", &ada)?;
/// assert!(Arc::ptr_eq(&sessions.get("token").unwrap(), &ada));
/// // Without another count:
/// assert_eq!(sessions.get_with("token", |session| session.user.len()), Some(3));
/// let removed = sessions.remove("token");
/// assert_eq!(removed.unwrap().user, "Ada");
/// # Ok::<(), timberline::Error>(())
/// ```
///
/// An `Arc<str>`, an `Arc<[T]>` and an `Arc<dyn Trait>` are two words and don't fit a leaf; an
/// `Arc` of a `Box` of the same is one, as `Arc<Box<str>>` here:
///
/// ```
/// # use std::sync::Arc;
/// # use timberline::BTree;
/// let names: BTree<u64, Arc<Box<str>>> = BTree::new();
/// names.insert(&7, &Arc::new("seven".into()))?;
/// assert_eq!(&**names.get(&7).unwrap(), "seven");
/// # Ok::<(), timberline::Error>(())
/// ```
///
/// A type with serde's traits is a value as `Postcard<T>` (feature `postcard`). Your own type may
/// also choose one of the representations:
///
/// ```
/// use timberline::{Stored, Value, Word};
///
/// #[derive(Clone, Copy)]
/// struct Point(i32, i32);
///
/// impl Value for Point {
///     type Ref<'a> = Point;
///     type Representation = Word;
///
///     fn lend(&self) -> Point {
///         *self
///     }
///     fn own(value: Self::Ref<'_>) -> Point {
///         value
///     }
///     fn to_stored(Point(x, y): Self::Ref<'_>) -> Stored<'_, Self> {
///         u64::from(x as u32) << 32 | u64::from(y as u32)
///     }
///     fn from_stored(word: Stored<'_, Self>) -> Self::Ref<'_> {
///         Point((word >> 32) as i32, word as i32)
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no value of a map",
    note = "values are integers, floats, `bool`, `char`, `Vec<u8>`, `String`, `[u8; N]`, `Arc<T>` of sized types",
    note = "implement `Value` for `{Self}` if it fits eight bytes or is a byte string"
)]
pub trait Value: Sized + Send + Sync + 'static {
    /// A value that is lent: the value itself, or a reference to the map's own.
    type Ref<'a>: Copy;
    /// Its representation: [`Word`], [`Bytes`] or [`Counted`].
    type Representation: Representation;

    /// Lends the value.
    fn lend(&self) -> Self::Ref<'_>;
    /// An owned value.
    fn own(value: Self::Ref<'_>) -> Self;
    /// The value as the map stores it: a `u64`, `&[u8]`, or `&Arc<T>`.
    fn to_stored(value: Self::Ref<'_>) -> Stored<'_, Self>;
    /// The value that `stored` was made from.
    fn from_stored(stored: Stored<'_, Self>) -> Self::Ref<'_>;
}

/// Applies `read` to the value that a map's word refers to.
#[inline(always)]
pub(crate) fn lend<V: Value, R>(
    memory: &impl Memory,
    loan: Loan<'_>,
    read: impl FnOnce(V::Ref<'_>) -> R,
) -> R {
    V::Representation::open(memory, loan, |value| read(V::from_stored(value)))
}

/// A copy of the value that a map's word refers to.
#[inline(always)]
pub(crate) fn owned<V: Value>(memory: &impl Memory, loan: Loan<'_>) -> V {
    lend::<V, _>(memory, loan, V::own)
}

/// A value that fits a word, and its conversions to and from one.
macro_rules! words {
    ($($type:ty: |$value:pat_param| $to:expr, |$word:pat_param| $from:expr;)*) => {$(
        impl Value for $type {
            type Ref<'a> = $type;
            type Representation = Word;

            #[inline(always)]
            fn lend(&self) -> Self::Ref<'_> {
                *self
            }
            #[inline(always)]
            fn own(value: Self::Ref<'_>) -> Self {
                value
            }
            #[inline(always)]
            fn to_stored($value: Self::Ref<'_>) -> Stored<'_, Self> {
                $to
            }
            #[inline(always)]
            fn from_stored($word: Stored<'_, Self>) -> Self::Ref<'_> {
                $from
            }
        }
    )*};
}

macro_rules! numbers {
    ($($number:ty),*) => {
        words! { $($number: |value| value as u64, |word| word as $number;)* }
    };
}

numbers!(u8, u16, u32, u64, usize, i8, i16, i32, i64, isize);

words! {
    f32: |value| value.to_bits().into(), |word| f32::from_bits(word as u32);
    f64: |value| value.to_bits(), |word| f64::from_bits(word);
    bool: |value| value.into(), |word| word != 0;
    char: |value| value.into(), |word| char::from_u32(word as u32).expect("a `char`'s word");
    (): |_| 0, |_| ();
}

/// A value that is stored as a byte string, the type that it is lent as, and the conversion of
/// bytes to that.
macro_rules! strings {
    ($([$($generics:tt)*] $string:ty as $lent:ty: |$bytes:ident| $from:expr;)*) => {$(
        impl<$($generics)*> Value for $string {
            type Ref<'a> = &'a $lent;
            type Representation = Bytes;

            fn lend(&self) -> Self::Ref<'_> {
                self
            }
            fn own(value: Self::Ref<'_>) -> Self {
                value.to_owned().into()
            }
            fn to_stored(value: Self::Ref<'_>) -> Stored<'_, Self> {
                value.as_ref()
            }
            fn from_stored($bytes: Stored<'_, Self>) -> Self::Ref<'_> {
                $from
            }
        }
    )*};
}

strings! {
    [] Vec<u8> as [u8]: |bytes| bytes;
    [] Box<[u8]> as [u8]: |bytes| bytes;
    [] String as str: |bytes| str::from_utf8(bytes).expect("bytes that were a string");
    [] Box<str> as str: |bytes| str::from_utf8(bytes).expect("bytes that were a string");
    [const N: usize] [u8; N] as [u8; N]: |bytes| bytes.try_into().expect("bytes of this length");
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Debug;

    fn comes_back<V: Value + PartialEq + Debug + Clone>(values: &[V]) {
        for value in values {
            let back = V::own(V::from_stored(V::to_stored(value.lend())));
            assert_eq!(&back, value);
        }
    }

    #[test]
    fn values_come_back_as_they_were() {
        comes_back(&[i8::MIN, 0, i8::MAX]);
        comes_back(&[f32::MIN, -0.0, 0.5]);
        comes_back(&[f64::MAX, f64::NEG_INFINITY]);
        comes_back(&[false, true]);
        comes_back(&['\0', 'ß', char::MAX]);
        comes_back(&[()]);
        comes_back(&[String::new(), "ß\0".into()]);
        comes_back(&[Vec::new(), vec![0, 255]]);
        comes_back(&[[0u8, 1, 2]]);
        comes_back(&[[0u8; 0]]);
    }
}
