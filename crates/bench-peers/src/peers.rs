//! The subjects: the operations of ours and of each peer. `README.md` of this crate lists those
//! left out, with reasons.
//!
//! To add one, add a `subject!` here and a row to `subjects.rs`.

pub mod masstree_cpp;

use std::collections::BTreeMap;
use std::hint::black_box;
use std::ops::Bound::{Included, Unbounded};
use std::ops::ControlFlow::{Break, Continue};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bf_tree::{BfTree, LeafInsertResult, LeafReadResult, ScanReturnField};
use bplustree::BPlusTree;
use concurrent_map::Minimum;
use congee::Congee;
use crossbeam_skiplist::SkipMap;
use ferntree::OptimisticRead;
use indexset::concurrent::map::BTreeMap as IndexSet;
use masstree::{MassTree, RangeBound};
use parking_lot::RwLock;
use scc::TreeIndex;
use timberline_tree::{Art, BTree, Masstree};

use crate::index::{BigEndian, Index, LONGEST_SCAN, Owned, Scanned, Setting};

/// Implements [`Index`] for a handle: its generics, its key type, and an expression for each
/// operation. Without `update`, an insert replaces; without `insert_many`, records are inserted one
/// by one.
macro_rules! subject {
    (
        [$($generics:tt)*] $handle:ty: Index<$key:ty>, $(const $name:ident = $value:expr;)?
        new |$setting:pat_param| $new:expr;
        insert |$at:ident, $insert_key:pat_param, $inserted:pat_param| $insert:expr;
        $(insert_many |$into:ident, $records:pat_param| $insert_many:expr;)?
        get |$from:ident, $get_key:pat_param| $get:expr;
        $(update |$in:ident, $update_key:pat_param, $updated:pat_param| $update:expr;)?
        scan |$of:ident, $first:pat_param, $limit:pat_param| $scan:expr;
    ) => {
        impl<$($generics)*> Index<$key> for $handle {
            $(const $name: bool = $value;)?

            fn new($setting: &Setting) -> Result<Self, String> {
                $new
            }

            #[inline]
            fn insert(&self, $insert_key: &$key, $inserted: u64) -> bool {
                let $at = self;
                $insert
            }

            $(#[inline]
            fn insert_many<'k>(&self, $records: impl Iterator<Item = (&'k $key, u64)>) -> bool {
                let $into = self;
                $insert_many
            })?

            #[inline]
            fn get(&self, $get_key: &$key) -> Option<u64> {
                let $from = self;
                $get
            }

            $(#[inline]
            fn update(&self, $update_key: &$key, $updated: u64) -> bool {
                let $in = self;
                $update
            })?

            #[inline]
            fn scan(&self, $first: &$key, $limit: usize) -> Scanned {
                let $of = self;
                $scan
            }
        }
    };
}
pub(crate) use subject;

/// `empty`: does nothing. Its figures are the benchmark's own cost.
#[derive(Clone)]
pub struct Empty;

subject! {
    [K: ?Sized] Empty: Index<K>, const STORES = false;
    new |_| Ok(Empty);
    insert |_map, key, value| { black_box((key, value)); true };
    get |_map, key| { black_box(key); Some(0) };
    update |_map, key, value| { black_box((key, value)); true };
    scan |_map, from, count| { black_box(from); Scanned { count, ..Scanned::default() } };
}

/// One of our maps in two tiers, with its workers; all of it fits in the fast one.
#[derive(Clone)]
pub struct InTiers<M>(M);

/// `btree`, `art`, `masstree-ours`: our maps as users make them, in plain memory; and the same in
/// two tiers.
macro_rules! ours {
    ($map:ident<$key:ty>, $scan:ident($($with_key:ident)?)) => {
        subject! {
            [] InTiers<$map<$key, u64>>: Index<$key>,
            new |_| {
                let builder = $map::builder().fast_memory(4 << 30).slow_memory(1 << 30);
                builder.build().map(InTiers).map_err(|error| error.to_string())
            };
            insert |map, key, value| Index::insert(&map.0, key, value);
            insert_many |map, records| Index::insert_many(&map.0, records);
            get |map, key| Index::get(&map.0, key);
            update |map, key, value| Index::update(&map.0, key, value);
            scan |map, from, limit| Index::scan(&map.0, from, limit);
        }
        subject! {
            [] $map<$key, u64>: Index<$key>,
            new |_| Ok($map::new());
            insert |map, key, value| $map::insert(map, key, value).is_ok();
            insert_many |map, records| $map::insert_many(map, records).is_ok();
            get |map, key| $map::get(map, key);
            update |map, key, value| $map::update(map, key, value).is_some();
            scan |map, from, limit| {
                let mut scanned = Scanned::default();
                map.$scan(from, limit, |$($with_key,)? value| {
                    scanned.take(value, limit);
                    Continue(())
                });
                scanned
            };
        }
    };
}

ours!(BTree<u64>, scan(_key));
ours!(BTree<[u8]>, scan_values());
ours!(Art<u64>, scan_values());
ours!(Art<[u8]>, scan_values());
ours!(Masstree<u64>, scan_values());
ours!(Masstree<[u8]>, scan_values());

/// `arctic-map`: a lock-free adaptive radix tree (Ni et al., OSDI 2026).
pub type Arctic = Arc<arctic::ConcurrentMap<u64, u64>>;
/// Its type without zero bytes, since our keys have none. The crate checks that on each operation.
/// (Skipping the check needs unsafe code.)
pub type ArcticBytes = Arc<arctic::ConcurrentMap<arctic::key::BoxedSlice<NonNull>, u64>>;
type NonNull = arctic::key::NonNull;

#[inline]
fn checked(key: &[u8]) -> &arctic::key::Slice<NonNull> {
    arctic::key::Slice::new(key).expect("a key without a zero byte")
}

/// From the form of a key, and a reference to that.
macro_rules! arctic_map {
    ($map:ty, $key:ty, $key_of:expr, $lend:expr) => {
        subject! {
            [] $map: Index<$key>,
            new |_| Ok(Arc::default());
            insert |map, key, value| {
                arctic::ConcurrentMap::insert(map, $key_of(key), value).is_ok()
            };
            get |map, key| arctic::ConcurrentMap::get(map, $lend(key)).map(|value| *value);
            update |map, key, value| {
                arctic::ConcurrentMap::update(map, $lend(key), value).is_ok()
            };
            scan |map, from, limit| {
                let range = map.range($key_of(from)..);
                let mut scanned = Scanned::default();
                let _ = range.values(arctic::Order::Ascend).try_fold((), |(), value| {
                    match scanned.take(*value, limit) {
                        true => Continue(()),
                        false => Break(()),
                    }
                });
                scanned
            };
        }
    };
}

arctic_map!(Arctic, u64, |key: &u64| *key, std::convert::identity);
arctic_map!(ArcticBytes, [u8], checked, checked);

/// `congee`: ART with optimistic lock coupling, for keys of 8 bytes.
pub type CongeeWords = Arc<Congee<usize, usize>>;

subject! {
    [] CongeeWords: Index<u64>,
    new |_| Ok(Arc::default());
    insert |map, key, value| {
        Congee::insert(map, *key as usize, value as usize, &map.pin()).is_ok()
    };
    get |map, key| Congee::get(map, &(*key as usize), &map.pin()).map(|value| value as u64);
    update |map, key, value| {
        let new = |_| Some(value as usize);
        map.compute_if_present(&(*key as usize), new, &map.pin()).is_some()
    };
    // Its ranges end at a key, not after a number of records. So the range is unbounded, and the
    // scan stops when the buffer is full.
    scan |map, from, limit| {
        let mut buffer = [(0, 0); LONGEST_SCAN];
        let from = *from as usize;
        let count = map.range(&from, &usize::MAX, &mut buffer[..limit], &map.pin());
        Scanned::of(buffer[..count].iter().map(|pair| pair.1 as u64), limit)
    };
}

/// `scc::TreeIndex`: a B+tree whose readers take no lock. Its values are read in place, so they are
/// atomics.
pub type Scc<K> = Arc<TreeIndex<K, AtomicU64>>;

subject! {
    [K: ?Sized + Ord, O: Owned<K>] Scc<O>: Index<K>,
    new |_| Ok(Arc::new(TreeIndex::new()));
    insert |map, key, value| map.insert_sync(O::copy(key), AtomicU64::new(value)).is_ok();
    get |map, key| map.peek_with(key, |_, value| value.load(Relaxed));
    update |map, key, value| map.peek_with(key, |_, old| old.store(value, Relaxed)).is_some();
    scan |map, from, limit| {
        let guard = scc::Guard::new();
        let range = map.range::<K, _>((Included(from), Unbounded), &guard);
        Scanned::of(range.map(|(_, value)| value.load(Relaxed)), limit)
    };
}

/// `bplustree`: a B+tree with optimistic lock coupling.
pub type BPlus<K> = Arc<BPlusTree<K, u64>>;

subject! {
    [K: ?Sized + Ord, O: Owned<K>] BPlus<O>: Index<K>,
    new |_| Ok(Arc::new(BPlusTree::new()));
    insert |map, key, value| BPlusTree::insert(map, O::copy(key), value).is_none();
    get |map, key| map.lookup(key, |value| *value);
    scan |map, from, limit| {
        let mut records = map.raw_iter();
        records.seek(from);
        let mut scanned = Scanned::default();
        while let Some((_, value)) = records.next() && scanned.take(*value, limit) {}
        scanned
    };
}

/// `ferntree`: a B+tree with optimistic lock coupling. Lookups use its optimistic reads, which take
/// no lock.
pub type Fern<K> = Arc<ferntree::Tree<K, u64>>;

subject! {
    [K: ?Sized + Ord, O: Owned<K> + OptimisticRead] Fern<O>: Index<K>,
    new |_| Ok(Arc::new(ferntree::Tree::new()));
    insert |map, key, value| ferntree::Tree::insert(map, O::copy(key), value).is_none();
    get |map, key| map.get_optimistic(key);
    scan |map, from, limit| {
        let mut records = map.raw_iter();
        records.seek(from);
        let mut scanned = Scanned::default();
        while let Some((_, value)) = records.next() && scanned.take(*value, limit) {}
        scanned
    };
}

/// `concurrent-map`: a lock-free B+tree. Each thread has its own clone of the handle.
pub type Concurrent<K> = concurrent_map::ConcurrentMap<K, u64>;

subject! {
    [K: ?Sized + Ord + PartialEq, O: Owned<K> + Minimum] Concurrent<O>: Index<K>,
    new |_| Ok(Concurrent::default());
    insert |map, key, value| Concurrent::insert(map, O::copy(key), value).is_none();
    get |map, key| Concurrent::get(map, key);
    scan |map, from, limit| {
        let range = map.range::<K, _>((Included(from), Unbounded));
        Scanned::of(range.map(|(_, value)| value), limit)
    };
}

/// `masstree`: a trie of B+trees over byte strings.
///
/// Its scans of byte strings skip the record at the start key (version 0.9.5, in every scan API),
/// so we do not measure them. Scans of keys of 8 bytes, which end in its first layer, are correct.
pub type MassBytes = Arc<MassTree<u64>>;
/// The same, of words.
pub type MassWords = BigEndian<MassBytes>;

subject! {
    [] MassBytes: Index<[u8]>, const SCANS = false;
    new |_| Ok(Arc::new(MassTree::new()));
    insert |map, key, value| MassTree::insert(map, key, value).is_none();
    get |map, key| MassTree::get(map, key);
    scan |map, from, limit| {
        let mut scanned = Scanned::default();
        let take = |_: &[u8], value| scanned.take(value, limit);
        let (from, to) = (RangeBound::Included(from), RangeBound::Unbounded);
        MassTree::scan(map, from, to, take, &map.guard());
        scanned
    };
}

/// `indexset`: a two-level B-tree. Its byte strings are `String`s, because it looks up no other
/// owned type by a borrowed form. The adapter checks on each operation that they are UTF-8.
pub type Set<K> = Arc<IndexSet<K, u64>>;

#[inline]
fn text(key: &[u8]) -> &str {
    std::str::from_utf8(key).expect("a key of text")
}

/// From the map's keys, and how they are borrowed.
macro_rules! indexset {
    ($owned:ty, $key:ty, $borrowed:ty, $borrow:expr) => {
        subject! {
            [] Set<$owned>: Index<$key>,
            new |_| Ok(Arc::new(IndexSet::new()));
            insert |map, key, value| {
                IndexSet::insert(map, $borrow(key).to_owned(), value).is_none()
            };
            get |map, key| IndexSet::get(map, $borrow(key)).map(|found| found.get().value);
            scan |map, from, limit| {
                let range = map.range::<$borrowed, _>((Included($borrow(from)), Unbounded));
                Scanned::of(range.map(|(_, value)| *value), limit)
            };
        }
    };
}

indexset!(u64, u64, u64, std::convert::identity::<&u64>);
indexset!(String, [u8], str, text);

/// `crossbeam-skiplist`: a lock-free skip list. Its values are read in place, so they are atomics.
pub type Skip<K> = Arc<SkipMap<K, AtomicU64>>;

subject! {
    [K: ?Sized + Ord, O: Owned<K>] Skip<O>: Index<K>,
    new |_| Ok(Arc::new(SkipMap::new()));
    insert |map, key, value| {
        SkipMap::insert(map, O::copy(key), AtomicU64::new(value));
        true
    };
    get |map, key| SkipMap::get(map, key).map(|entry| entry.value().load(Relaxed));
    update |map, key, value| {
        let entry = SkipMap::get(map, key);
        entry.map(|entry| entry.value().store(value, Relaxed)).is_some()
    };
    scan |map, from, limit| {
        let range = map.range((Included(from), Unbounded));
        Scanned::of(range.map(|entry| entry.value().load(Relaxed)), limit)
    };
}

/// `bf-tree`: a B-tree with a page cache of variable-length pages. Here all pages are in memory and
/// the cache has its default size. Values are byte strings, too.
pub type BfBytes = Arc<BfTree>;
/// The same, of words.
pub type BfWords = BigEndian<BfBytes>;

/// A key of one byte and a value.
const SHORTEST_RECORD: usize = 9;

subject! {
    [] BfBytes: Index<[u8]>,
    new |&Setting { longest_key }| {
        let mut config = bf_tree::Config::default();
        config
            .cb_min_record_size(SHORTEST_RECORD)
            .cb_max_record_size(longest_key + 8)
            .cb_max_key_len(longest_key)
            .max_fence_len(2 * longest_key);
        let tree = BfTree::with_config(config, None).map_err(|error| format!("{error:?}"))?;
        Ok(Arc::new(tree))
    };
    insert |map, key, value| {
        BfTree::insert(map, key, &value.to_le_bytes()) == LeafInsertResult::Success
    };
    get |map, key| {
        let mut value = [0; 8];
        let found = map.read(key, &mut value) == LeafReadResult::Found(8);
        found.then(|| u64::from_le_bytes(value))
    };
    update |map, key, value| Index::insert(map, key, value);
    scan |map, from, limit| {
        let mut scanned = Scanned::default();
        let Ok(mut records) = map.scan_with_count(from, limit, ScanReturnField::Value) else {
            return scanned;
        };
        let mut value = [0; 8];
        while let Some((_, 8)) = records.next(&mut value)
            && scanned.take(u64::from_le_bytes(value), limit) {}
        scanned
    };
}

/// `locked-btreemap`: the standard library's B-tree under `parking_lot`'s reader-writer lock.
pub type Locked<K> = Arc<RwLock<BTreeMap<K, u64>>>;

subject! {
    [K: ?Sized + Ord, O: Owned<K>] Locked<O>: Index<K>,
    new |_| Ok(Arc::default());
    insert |map, key, value| map.write().insert(O::copy(key), value).is_none();
    get |map, key| map.read().get(key).copied();
    update |map, key, value| map.write().get_mut(key).map(|old| *old = value).is_some();
    scan |map, from, limit| {
        let map = map.read();
        let range = map.range((Included(from), Unbounded));
        Scanned::of(range.map(|(_, value)| *value), limit)
    };
}
