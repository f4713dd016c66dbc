//! Every operation of every map, written once: keys are strings of bytes, values are numbers,
//! whatever a map makes of them.

use std::ops::{Bound, ControlFlow};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use timberline_placement::{HeatIn, NodeKey, Placed, Placement};
use timberline_sync::epoch::Domain;
use timberline_tier::{Arenas, Memory, Native};
use timberline_tree::{Art, BTree, Error, Masstree, Representation, Stats, Value};

use crate::bytes::some_key;
use crate::suite::draw::Draw;

pub type Key = Vec<u8>;
pub type Record = (Key, u64);

/// A map with all that it offers.
pub trait Map: Sized + Send + Sync + 'static {
    /// Where a placement would keep heat.
    const HEAT: HeatIn;

    fn make(arenas: Arenas, placement: Arc<dyn Placement>) -> Self;
    /// The bytes of one of many keys; there may be others like it.
    fn key(number: u64) -> Key;
    /// The name of the leaf that covers a key.
    fn leaf_of(key: &[u8]) -> NodeKey {
        NodeKey::leaf(key.into())
    }
    fn arenas(&self) -> &Arenas;
    fn domain(&self) -> &Domain;
    fn placed(&self) -> Arc<dyn Placed>;
    fn stats(&self) -> Stats;
    fn len(&self) -> usize;
    fn clear(&self);

    fn insert(&self, key: &[u8], value: u64) -> Result<Option<u64>, Error>;
    fn update(&self, key: &[u8], value: u64) -> Result<Option<u64>, Error>;
    fn modify(
        &self,
        key: &[u8],
        change: impl FnMut(u64) -> Option<u64>,
    ) -> Result<Option<u64>, Error>;
    fn upsert_with(&self, key: &[u8], value: impl FnMut(Option<u64>) -> u64) -> Result<u64, Error>;
    fn compare_and_set(
        &self,
        key: &[u8],
        expected: u64,
        new: u64,
    ) -> Result<Result<(), Option<u64>>, Error>;
    fn bulk_load(&self, records: &[Record]) -> Result<usize, Error>;
    fn remove(&self, key: &[u8]) -> Option<u64>;
    fn pop_first(&self) -> Option<Record>;
    fn pop_last(&self) -> Option<Record>;
    fn get(&self, key: &[u8]) -> Option<u64>;

    /// Has `read` called with the value of a key lent, and `visit` with records from there on.
    fn lend(&self, key: &[u8], read: &mut dyn FnMut());
    fn show(&self, from: &[u8], visit: &mut dyn FnMut());

    /// What each way to look up keys finds.
    fn look_up(&self, keys: &[Key]) -> Vec<Vec<Option<u64>>>;
    /// What each way to go through the records from `low` to before `high` shows, in ascending
    /// order.
    fn walk(&self, low: &[u8], high: &[u8]) -> Vec<Vec<Record>>;
    /// The first and the last record.
    fn ends(&self) -> [Option<Record>; 2];
    fn all(&self) -> Vec<Record>;
}

/// A value that stands for a number.
pub trait Number: Value {
    fn of(number: u64) -> Self;
    fn number(self) -> u64;
}

impl Number for u64 {
    fn of(number: u64) -> Self {
        number
    }
    fn number(self) -> u64 {
        self
    }
}

/// Strings of all sizes, from none to the longest.
impl Number for Vec<u8> {
    fn of(number: u64) -> Self {
        let len = match number % 32 {
            _ if number == 0 => 0,
            31 => timberline_tree::MAX_VALUE,
            30 => 5_000,
            few => 8 + 3 * few as usize,
        };
        let mut bytes = vec![number as u8; len];
        bytes
            .iter_mut()
            .zip(number.to_le_bytes())
            .for_each(|(at, byte)| *at = byte);
        bytes
    }
    fn number(self) -> u64 {
        let number = self
            .first_chunk()
            .map_or(0, |bytes| u64::from_le_bytes(*bytes));
        assert_eq!(self.len(), Self::of(number).len(), "a string of one piece");
        assert!(
            self.last()
                .is_none_or(|&last| last == number as u8 || self.len() == 8)
        );
        number
    }
}

/// Polls a lookup to its end.
fn wait<T>(lookup: impl Future<Output = T>) -> T {
    let (mut lookup, mut context) = (pin!(lookup), Context::from_waker(Waker::noop()));
    loop {
        if let Poll::Ready(found) = lookup.as_mut().poll(&mut context) {
            return found;
        }
    }
}

fn word(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(bytes.try_into().expect("eight bytes"))
}

fn number<V: Number>(value: V::Ref<'_>) -> u64 {
    V::own(value).number()
}

/// Implements [`Map`]: of a key's bytes, a key of one's own, and how it is handed over; the bytes
/// of a key that the map hands out.
macro_rules! every_operation {
    (
        [$($generics:tt)*] $map:ty, $owned:expr, |$key:ident| $by:expr, $bytes:expr, { $($more:tt)* }
    ) => {
        impl<$($generics)* V: Number> Map for $map {
            $($more)*

            fn arenas(&self) -> &Arenas {
                self.memory().arenas()
            }
            fn domain(&self) -> &Domain {
                self.domain()
            }
            fn placed(&self) -> Arc<dyn Placed> {
                <$map>::placed(self)
            }
            fn stats(&self) -> Stats {
                <$map>::stats(self)
            }
            fn len(&self) -> usize {
                <$map>::len(self)
            }
            fn clear(&self) {
                <$map>::clear(self);
            }
            fn insert(&self, key: &[u8], value: u64) -> Result<Option<u64>, Error> {
                let $key = $owned(key);
                let before = <$map>::insert(self, $by, V::of(value).lend())?;
                Ok(before.map(V::number))
            }
            fn update(&self, key: &[u8], value: u64) -> Result<Option<u64>, Error> {
                let $key = $owned(key);
                let before = <$map>::update(self, $by, V::of(value).lend());
                Ok(V::Representation::result(before)?.map(V::number))
            }
            fn modify(
                &self,
                key: &[u8],
                mut change: impl FnMut(u64) -> Option<u64>,
            ) -> Result<Option<u64>, Error> {
                let $key = $owned(key);
                let change = |now: V::Ref<'_>| change(number::<V>(now)).map(V::of);
                let before = <$map>::modify(self, $by, change);
                Ok(V::Representation::result(before)?.map(V::number))
            }
            fn upsert_with(
                &self,
                key: &[u8],
                mut value: impl FnMut(Option<u64>) -> u64,
            ) -> Result<u64, Error> {
                let $key = $owned(key);
                let value = |now: Option<V::Ref<'_>>| V::of(value(now.map(number::<V>)));
                <$map>::upsert_with(self, $by, value).map(V::number)
            }
            fn compare_and_set(
                &self,
                key: &[u8],
                expected: u64,
                new: u64,
            ) -> Result<Result<(), Option<u64>>, Error> {
                let $key = $owned(key);
                let (expected, new) = (V::of(expected), V::of(new));
                let (expected, new) = (Some(expected.lend()), Some(new.lend()));
                let set = <$map>::compare_exchange(self, $by, expected, new)?;
                Ok(set.map(drop).map_err(|other| other.map(V::number)))
            }
            fn bulk_load(&self, records: &[Record]) -> Result<usize, Error> {
                let records = records.iter().map(|(key, value)| ($owned(key), V::of(*value)));
                <$map>::bulk_load(self, records)
            }
            fn remove(&self, key: &[u8]) -> Option<u64> {
                let $key = $owned(key);
                <$map>::remove(self, $by).map(V::number)
            }
            fn pop_first(&self) -> Option<Record> {
                <$map>::pop_first(self).map(|(key, value)| ($bytes(key), value.number()))
            }
            fn pop_last(&self) -> Option<Record> {
                <$map>::pop_last(self).map(|(key, value)| ($bytes(key), value.number()))
            }
            fn get(&self, key: &[u8]) -> Option<u64> {
                let $key = $owned(key);
                <$map>::get(self, $by).map(V::number)
            }

            fn lend(&self, key: &[u8], read: &mut dyn FnMut()) {
                let $key = $owned(key);
                self.get_with($by, |_| read());
            }
            fn show(&self, from: &[u8], visit: &mut dyn FnMut()) {
                let $key = $owned(from);
                <$map>::scan(self, $by, 10, |_, _| {
                    visit();
                    ControlFlow::Continue(())
                });
            }

            fn look_up(&self, keys: &[Key]) -> Vec<Vec<Option<u64>>> {
                let owned: Vec<_> = keys.iter().map(|key| $owned(key)).collect();
                let one_by_one = |get: &dyn Fn(&[u8]) -> Option<u64>| keys.iter().map(|key| get(key)).collect();
                let together = |depth: usize| {
                    let mut values: Vec<Option<V>> = owned.iter().map(|_| None).collect();
                    match depth {
                        0 => self.get_many(&owned, &mut values),
                        _ => self.get_many_deep(&owned, &mut values, depth),
                    }
                    values.into_iter().map(|value| value.map(V::number)).collect()
                };
                vec![
                    one_by_one(&|key| Map::get(self, key)),
                    one_by_one(&|key| {
                        let $key = $owned(key);
                        self.get_with($by, number::<V>)
                    }),
                    one_by_one(&|key| {
                        let $key = $owned(key);
                        let there = self.contains_key($by);
                        there.then(|| Map::get(self, key).expect("it is there"))
                    }),
                    one_by_one(&|key| {
                        let $key = $owned(key);
                        wait(self.get_async($by)).map(V::number)
                    }),
                    together(0),
                    together(3),
                ]
            }
            fn walk(&self, low: &[u8], high: &[u8]) -> Vec<Vec<Record>> {
                let record = |(key, value): (_, V)| ($bytes(key), value.number());
                let range = || {
                    let $key = $owned(low);
                    let from = Bound::Included($by);
                    let $key = $owned(high);
                    <$map>::range(self, (from, Bound::Excluded($by)))
                };
                let mut backward: Vec<_> = range().rev().map(record).collect();
                backward.reverse();
                let mut scanned = Vec::new();
                let $key = $owned(low);
                <$map>::scan(self, $by, usize::MAX, |key, value| {
                    let key = $bytes(key);
                    if &key[..] >= high {
                        return ControlFlow::Break(());
                    }
                    scanned.push((key, number::<V>(value)));
                    ControlFlow::Continue(())
                });
                vec![range().map(record).collect(), backward, scanned]
            }
            fn ends(&self) -> [Option<Record>; 2] {
                [self.first_key_value(), self.last_key_value()].map(|end| end.map(|(key, value)| ($bytes(key), value.number())))
            }
            fn all(&self) -> Vec<Record> {
                self.iter().map(|(key, value)| ($bytes(key), value.number())).collect()
            }
        }
    };
}

fn bytes_of(word: u64) -> Key {
    word.to_be_bytes().to_vec()
}

/// Neighbours in several places, and some keys that have none.
fn key_of_eight_bytes(number: u64) -> Key {
    bytes_of(match number % 5 {
        0 => number.wrapping_mul(0x9e37_79b9_7f4a_7c15),
        _ => ((number / 60) << 24) | (number % 60),
    })
}

fn key_of_any_length(number: u64) -> Key {
    some_key(&mut Draw::new(number, 0))
}

every_operation!([const WORDS: usize,] BTree<u64, V, Native, WORDS>, word, |key| &key, bytes_of, {
    const HEAT: HeatIn = HeatIn::Table { node_bytes: Self::NODE_BYTES };

    fn make(arenas: Arenas, placement: Arc<dyn Placement>) -> Self {
        BTree::in_memory(Native(arenas), placement).expect("room for a root")
    }
    fn key(number: u64) -> Key {
        key_of_eight_bytes(number)
    }
});

every_operation!([] Art<u64, V>, word, |key| &key, bytes_of, {
    const HEAT: HeatIn = HeatIn::Leaf { leaf_bytes: 24 };

    fn make(arenas: Arenas, placement: Arc<dyn Placement>) -> Self {
        Art::in_memory(Native(arenas), placement).expect("small arenas")
    }
    fn key(number: u64) -> Key {
        key_of_eight_bytes(number)
    }
});

every_operation!([] Art<[u8], V>, <[u8]>::to_vec, |key| &key[..], |key: Key| key, {
    const HEAT: HeatIn = HeatIn::Leaf { leaf_bytes: 24 };

    fn make(arenas: Arenas, placement: Arc<dyn Placement>) -> Self {
        Art::in_memory(Native(arenas), placement).expect("small arenas")
    }
    fn key(number: u64) -> Key {
        key_of_any_length(number)
    }
});

every_operation!([const WORDS: usize,] Masstree<u64, V, Native, WORDS>, word, |key| &key, bytes_of, {
    const HEAT: HeatIn = HeatIn::Leaf { leaf_bytes: Self::NODE_BYTES };

    fn make(arenas: Arenas, placement: Arc<dyn Placement>) -> Self {
        Masstree::in_memory(Native(arenas), placement).expect("room for a root")
    }
    fn key(number: u64) -> Key {
        key_of_eight_bytes(number)
    }
    fn leaf_of(key: &[u8]) -> NodeKey {
        crate::masstree_of_words::leaf_of(key)
    }
});

every_operation!([const WORDS: usize,] Masstree<[u8], V, Native, WORDS>, <[u8]>::to_vec, |key| &key[..], |key: Key| key, {
    const HEAT: HeatIn = HeatIn::Leaf { leaf_bytes: Self::NODE_BYTES };

    fn make(arenas: Arenas, placement: Arc<dyn Placement>) -> Self {
        Masstree::in_memory(Native(arenas), placement).expect("room for a root")
    }
    fn key(number: u64) -> Key {
        key_of_any_length(number)
    }
    fn leaf_of(key: &[u8]) -> NodeKey {
        crate::masstree_of_words::leaf_of(key)
    }
});
