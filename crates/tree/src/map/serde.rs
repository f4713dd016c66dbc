//! Maps as serde's maps: written from a copy of their records, read into plain memory.

use std::borrow::Borrow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Core, Map};
use crate::{Key, Value};

/// As a map, in the order of keys. Other threads may write meanwhile, and many formats begin with
/// the number of records, so it copies all records first.
impl<T: Core<K, V>, K: Key<Owned: Serialize> + ?Sized, V: Value + Serialize> Serialize
    for Map<T, K, V>
{
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let records: Vec<_> = self.iter().collect();
        serializer.collect_map(records)
    }
}

/// A map in plain memory. A record that can't be inserted is an error, with the line of
/// [`insert`](Map::insert); of records with one key, the last stays.
impl<'de, T, K, V> Deserialize<'de> for Map<T, K, V>
where
    T: Core<K, V>,
    K: Key<Owned: Deserialize<'de> + Borrow<K::Borrowed>> + ?Sized,
    V: Value + Deserialize<'de>,
    Self: Default,
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Records(PhantomData))
    }
}

/// Makes a map of records as they are read.
struct Records<M>(PhantomData<M>);

impl<'de, T, K, V> Visitor<'de> for Records<Map<T, K, V>>
where
    T: Core<K, V>,
    K: Key<Owned: Deserialize<'de> + Borrow<K::Borrowed>> + ?Sized,
    V: Value + Deserialize<'de>,
    Map<T, K, V>: Default,
{
    type Value = Map<T, K, V>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut records: A) -> Result<Self::Value, A::Error> {
        let map = Map::default();
        while let Some((key, value)) = records.next_entry::<K::Owned, V>()? {
            let inserted = map.insert(key.borrow(), value.lend());
            inserted.map_err(A::Error::custom)?;
        }
        Ok(map)
    }
}
