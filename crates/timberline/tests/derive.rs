//! Keys by `#[derive(Key)]`: they sort as `#[derive(Ord)]` has it, and come back as they were.

use std::fmt::Debug;

use proptest::collection::vec;
use proptest::prelude::*;
use timberline::{Art, BTree, Key, Masstree};

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Key)]
struct Visit {
    host: String,
    second: i64,
    raw: Vec<u8>,
    referrer: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Key)]
struct Spot(i16, u32, Colour);

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Key)]
enum Colour {
    Red = -3,
    Green,
    Blue = 900,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Key)]
enum Place {
    Nowhere,
    At(Spot),
    Named { name: String, number: u8 },
    Within(String, [u8; 2]),
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Key)]
struct Pair<A, B, const N: usize>
where
    A: Clone,
{
    first: A,
    second: Option<B>,
    last: [u8; N],
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Key)]
struct Unit;

/// Strings that are often the beginning of one another, with zero bytes.
fn string() -> impl Strategy<Value = String> {
    vec(prop_oneof!["\0", "\u{1}", "a", "\u{ff}"], 0..4).prop_map(|parts| parts.concat())
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    vec(prop_oneof![Just(0u8), Just(1), Just(254), Just(255)], 0..4)
}

fn spot() -> impl Strategy<Value = Spot> {
    let colour = prop_oneof![Just(Colour::Red), Just(Colour::Green), Just(Colour::Blue)];
    (-2i16..2, 0u32..3, colour).prop_map(|(x, y, colour)| Spot(x, y, colour))
}

fn visit() -> impl Strategy<Value = Visit> {
    let parts = (string(), -2i64..2, bytes(), proptest::option::of(string()));
    parts.prop_map(|(host, second, raw, referrer)| Visit {
        host,
        second,
        raw,
        referrer,
    })
}

fn place() -> impl Strategy<Value = Place> {
    prop_oneof![
        Just(Place::Nowhere),
        spot().prop_map(Place::At),
        (string(), 0u8..3).prop_map(|(name, number)| Place::Named { name, number }),
        (string(), any::<[u8; 2]>()).prop_map(|(name, code)| Place::Within(name, code)),
    ]
}

fn pair() -> impl Strategy<Value = Pair<String, Place, 2>> {
    let parts = (string(), proptest::option::of(place()), any::<[u8; 2]>());
    parts.prop_map(|(first, second, last)| Pair {
        first,
        second,
        last,
    })
}

/// The bytes of two keys compare as the keys do, and each key comes back.
fn keeps_order<K: Key<Owned = K> + Ord + Debug>(one: &K, two: &K) {
    let (first, second) = (one.to_bytes(), two.to_bytes());
    assert_eq!(
        first.as_ref().cmp(second.as_ref()),
        one.cmp(two),
        "{one:?} {two:?}"
    );
    assert_eq!(&K::from_bytes(first.as_ref()), one);
    assert!(K::LEN.is_none_or(|len| len == first.as_ref().len()));
}

proptest! {
    #[test]
    fn bytes_sort_as_the_derived_order(
        visits in [visit(), visit()],
        spots in [spot(), spot()],
        places in [place(), place()],
        pairs in [pair(), pair()],
    ) {
        keeps_order(&visits[0], &visits[1]);
        keeps_order(&spots[0], &spots[1]);
        keeps_order(&places[0], &places[1]);
        keeps_order(&pairs[0], &pairs[1]);
    }

    #[test]
    fn maps_are_in_the_derived_order(visits in vec(visit(), 0..40), spots in vec(spot(), 0..40)) {
        let sorted: std::collections::BTreeSet<_> = visits.iter().cloned().collect();
        let art: Art<Visit, u64> = visits.iter().map(|visit| (visit, 1)).collect();
        let masstree: Masstree<Visit, u64> = visits.iter().map(|visit| (visit, 1)).collect();
        prop_assert!(art.keys().eq(sorted.iter().cloned()));
        prop_assert!(masstree.keys().rev().eq(sorted.iter().rev().cloned()));
        let btree: BTree<Visit, u64> = visits.iter().map(|visit| (visit, 1)).collect();
        prop_assert!(btree.keys().eq(sorted.iter().cloned()));
        let sorted: std::collections::BTreeSet<_> = spots.iter().copied().collect();
        let btree: BTree<Spot, u64> = spots.iter().map(|spot| (spot, 1)).collect();
        prop_assert!(btree.keys().eq(sorted));
    }
}

#[test]
fn lengths_are_fixed_where_all_fields_are() {
    assert_eq!(
        (Spot::LEN, Colour::LEN, Unit::LEN),
        (Some(7), Some(1), Some(0))
    );
    assert_eq!((Visit::LEN, Place::LEN), (None, None));
    assert_eq!(
        (Pair::<u8, u16, 3>::LEN, Pair::<u8, String, 3>::LEN),
        (Some(7), None)
    );
    keeps_order(&Unit, &Unit);
}
