//! Values of every type that serde knows, as byte strings in postcard's format.

use std::fmt;
use std::marker::PhantomData;

use serde::de::DeserializeOwned;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Bytes, Stored, Value};

/// A value of any type with serde's traits, encoded in the [postcard](https://docs.rs/postcard)
/// format, of up to [`MAX_VALUE`](crate::MAX_VALUE) bytes. It is encoded when it is made, and
/// decoded when it is asked for: a map copies and compares bytes.
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use timberline::{BTree, Postcard};
///
/// #[derive(Serialize, Deserialize, PartialEq, Debug)]
/// struct User {
///     name: String,
///     cities: Vec<String>,
/// }
///
/// let users: BTree<u64, Postcard<User>> = BTree::new();
/// let ada = User { name: "Ada".into(), cities: vec!["London".into()] };
/// users.insert(&17, Postcard::new(&ada)?.lend())?;
/// assert_eq!(users.get(&17).unwrap().decode()?, ada);
/// // Without a copy of the bytes:
/// let name = users.get_with(&17, |user| user.decode().map(|user| user.name));
/// assert_eq!(name.unwrap()?, "Ada");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Postcard<T> {
    bytes: Box<[u8]>,
    of: PhantomData<fn() -> T>,
}

/// A [`Postcard`] that is lent by a map.
pub struct PostcardRef<'a, T> {
    bytes: &'a [u8],
    of: PhantomData<fn() -> T>,
}

impl<T: Serialize> Postcard<T> {
    /// Encodes a value. O(its bytes).
    ///
    /// # Errors
    /// The type's `Serialize` fails, or does not say how long a sequence is.
    pub fn new(value: &T) -> Result<Self, postcard::Error> {
        let bytes = postcard::to_allocvec(value)?.into();
        let of = PhantomData;
        Ok(Postcard { bytes, of })
    }
}

impl<T> Postcard<T> {
    /// Lends the encoded value, as methods of maps take it.
    pub fn lend(&self) -> PostcardRef<'_, T> {
        let (bytes, of) = (&*self.bytes, PhantomData);
        PostcardRef { bytes, of }
    }
}

impl<T: DeserializeOwned> Postcard<T> {
    /// The value. O(its bytes).
    ///
    /// # Errors
    /// The type's `Deserialize` does not read what its `Serialize` wrote.
    pub fn decode(&self) -> Result<T, postcard::Error> {
        self.lend().decode()
    }
}

impl<'a, T> PostcardRef<'a, T> {
    /// The value in postcard's format.
    pub fn bytes(self) -> &'a [u8] {
        self.bytes
    }
}

impl<T: DeserializeOwned> PostcardRef<'_, T> {
    /// The value, as [`Postcard::decode`] returns it.
    ///
    /// # Errors
    /// As there.
    pub fn decode(self) -> Result<T, postcard::Error> {
        postcard::from_bytes(self.bytes)
    }
}

impl<T: 'static> Value for Postcard<T> {
    type Ref<'a> = PostcardRef<'a, T>;
    type Representation = Bytes;

    fn lend(&self) -> Self::Ref<'_> {
        self.lend()
    }
    fn own(value: Self::Ref<'_>) -> Self {
        value.into()
    }
    fn to_stored(value: Self::Ref<'_>) -> Stored<'_, Self> {
        value.bytes
    }
    fn from_stored(bytes: Stored<'_, Self>) -> Self::Ref<'_> {
        let of = PhantomData;
        PostcardRef { bytes, of }
    }
}

impl<T> From<PostcardRef<'_, T>> for Postcard<T> {
    fn from(PostcardRef { bytes, of }: PostcardRef<'_, T>) -> Self {
        let bytes = bytes.into();
        Postcard { bytes, of }
    }
}

impl<T> Clone for PostcardRef<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for PostcardRef<'_, T> {}

impl<T> Clone for Postcard<T> {
    fn clone(&self) -> Self {
        self.lend().into()
    }
}

/// Two are equal if their bytes are.
impl<T> PartialEq for Postcard<T> {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl<T> Eq for Postcard<T> {}

/// The value; its bytes where they can't be decoded.
impl<T: DeserializeOwned + fmt::Debug> fmt::Debug for Postcard<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.decode() {
            Ok(value) => value.fmt(f),
            Err(_) => self.bytes.fmt(f),
        }
    }
}

impl<T: DeserializeOwned + fmt::Debug> fmt::Debug for PostcardRef<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Postcard::from(*self).fmt(f)
    }
}

/// As the value, whatever the format is.
impl<T: Serialize + DeserializeOwned> Serialize for Postcard<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let value = self.decode().map_err(S::Error::custom)?;
        value.serialize(serializer)
    }
}

impl<'de, T: Serialize + DeserializeOwned> Deserialize<'de> for Postcard<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = T::deserialize(deserializer)?;
        Postcard::new(&value).map_err(serde::de::Error::custom)
    }
}
