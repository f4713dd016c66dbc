//! Lookups that overlap, on memory that takes a microsecond: counted, not timed. And nothing is
//! allocated for them.

use std::cell::Cell;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use timberline_placement::{AllSlow, Placed};
use timberline_tier::emulator::{
    Base, CacheSize, Emulated, LineCounts, Profile, set_thread_cache, thread_counts,
};
use timberline_tier::{Arenas, ArenasConfig, TierId};
use timberline_tree::traverse::{DEPTH, MAX_DEPTH};
use timberline_tree::{Art, BTree, Masstree};

const RECORDS: u64 = 200_000;
const LOOKUPS: usize = 2_000;
/// The modelled cache holds a third of the tree, and what is in flight.
const CACHE: usize = 1 << 20;

type Map = BTree<u64, u64, Emulated>;

/// A map all of whose nodes are a microsecond away.
fn far_away() -> Map {
    let arenas = Arenas::new(&ArenasConfig::two_tiers(1 << 20, 16 << 20)).unwrap();
    let memory = Emulated::new(arenas, Profile::parse("us1").unwrap(), Base::default());
    memory.set_charging(false);
    let map = Map::in_memory(memory, Arc::new(AllSlow)).unwrap();
    map.bulk_load((0..RECORDS).map(|key| (2 * key, !key)))
        .unwrap();
    map.memory().set_charging(true);
    map
}

/// Keys all over the map, every other one of which is there.
fn keys() -> Vec<u64> {
    (0..LOOKUPS as u64)
        .map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (2 * RECORDS))
        .collect()
}

fn expected(key: u64) -> Option<u64> {
    key.is_multiple_of(2).then_some(!(key / 2))
}

/// What `work` reads from memory when the cache is empty.
fn counted(work: impl FnOnce()) -> LineCounts {
    set_thread_cache(CacheSize::new(CACHE).unwrap());
    let before = thread_counts();
    work();
    thread_counts() - before
}

/// The tasks of an executor: each takes the next key, looks it up, and goes on until there are
/// none.
fn tasks<'a>(
    map: &'a Map,
    keys: &'a [u64],
    next: &'a Cell<usize>,
    values: &'a [Cell<Option<u64>>],
) -> Vec<Pin<Box<dyn Future<Output = ()> + 'a>>> {
    let task = |_| -> Pin<Box<dyn Future<Output = ()>>> {
        Box::pin(async {
            while next.get() < keys.len() {
                let index = next.replace(next.get() + 1);
                values[index].set(map.get_async(&keys[index]).await);
            }
        })
    };
    (0..DEPTH).map(task).collect()
}

/// Polls tasks in turn until all are done.
fn execute<F: Future + ?Sized>(tasks: &mut [Pin<Box<F>>]) {
    let mut context = Context::from_waker(Waker::noop());
    let mut live = tasks.len();
    while live > 0 {
        for at in (0..live).rev() {
            if tasks[at].as_mut().poll(&mut context).is_ready() {
                live -= 1;
                tasks.swap(at, live);
            }
        }
    }
}

/// Whether hardly a lookup waited for a line that it had not asked for. Only the root's are never
/// asked for; others are missing again if the small cache lost them before their use.
fn hidden(map: &Map, counts: &LineCounts) -> Result<(), LineCounts> {
    let latencies = counts.charged_ps / map.memory().extra(TierId::SLOW).latency_ps;
    let few = latencies < LOOKUPS as u64 / 20;
    few.then_some(()).ok_or(*counts)
}

#[test]
fn no_lookup_waits_for_a_line_that_nobody_asked_for() {
    let (map, keys) = (far_away(), keys());
    let alone = counted(|| {
        for &key in &keys {
            assert_eq!(map.get(&key), expected(key));
        }
    });
    let latency_ps = map.memory().extra(TierId::SLOW).latency_ps;
    let latencies = alone.charged_ps / latency_ps;
    assert!(latencies > LOOKUPS as u64 / 2, "{alone:?}");
    for depth in [1, 5, DEPTH, MAX_DEPTH] {
        let mut values = vec![None; keys.len()];
        let together = counted(|| map.get_many_deep(&keys, &mut values, depth));
        let right: Vec<_> = keys.iter().map(|&key| expected(key)).collect();
        assert_eq!(values, right, "depth {depth}");
        assert_eq!(hidden(&map, &together), Ok(()), "depth {depth}");
        // A leaf is 16 lines; of most, half are asked for.
        assert!(
            together.slow < 10 * LOOKUPS as u64,
            "depth {depth}: {together:?}"
        );
    }
}

#[test]
fn an_executor_interleaves_lookups_and_nothing_is_allocated() {
    let (map, keys) = (far_away(), keys());
    let (next, values) = (Cell::new(0), vec![Cell::new(None); keys.len()]);
    // The thread's own parts of the epoch, the emulator and the placement are made at first use.
    map.get_many(&keys, &mut vec![None; keys.len()]);
    let mut tasks = tasks(&map, &keys, &next, &values);
    let mut counts = LineCounts::default();
    let allocations = allocation_counter::measure(|| {
        let before = thread_counts();
        execute(&mut tasks);
        counts = thread_counts() - before;
    });
    assert_eq!(allocations.count_total, 0, "{allocations:?}");
    assert_eq!(hidden(&map, &counts), Ok(()));
    for (&key, value) in keys.iter().zip(&values) {
        assert_eq!(value.get(), expected(key), "key {key}");
    }
}

#[test]
fn a_ring_allocates_nothing() {
    let (map, keys) = (far_away(), keys());
    let mut values = vec![None; keys.len()];
    map.get_many(&keys, &mut values);
    let allocations = allocation_counter::measure(|| map.get_many(&keys, &mut values));
    assert_eq!(allocations.count_total, 0, "{allocations:?}");
}

/// Found by a profile of SIDLE's trigger: of 320 ns a leaf, most was one cache miss after another.
#[test]
fn a_walk_over_leaves_prefetches_them() {
    let memory = || {
        let arenas = Arenas::new(&ArenasConfig::two_tiers(1 << 20, 64 << 20)).unwrap();
        Emulated::new(arenas, Profile::parse("us1").unwrap(), Base::default())
    };
    let masstree = Masstree::<[u8], u64, _>::in_memory(memory(), Arc::new(AllSlow)).unwrap();
    let art = Art::<[u8], u64, _>::in_memory(memory(), Arc::new(AllSlow)).unwrap();
    masstree.memory().set_charging(false);
    art.memory().set_charging(false);
    for i in 0..RECORDS / 4 {
        // Two slices: nodes of a first layer lead to many small layers, or to records.
        let key = [(i / 5).to_be_bytes(), (i % 5).to_be_bytes()].concat();
        masstree.insert(&key, i).unwrap();
        art.insert(&key, i).unwrap();
    }
    masstree.memory().set_charging(true);
    art.memory().set_charging(true);
    let btree = far_away();
    let latency_ps = btree.memory().extra(TierId::SLOW).latency_ps;
    let walks: [(&str, Arc<dyn Placed>); 3] = [
        ("btree", btree.placed()),
        ("art", art.placed()),
        ("masstree", masstree.placed()),
    ];
    for (name, placed) in walks {
        let mut leaves = 0;
        let counts = counted(|| {
            placed.each_leaf(&[], &mut |_| {
                leaves += 1;
                ControlFlow::Continue(())
            });
        });
        // Latencies that nothing hid: those of parents.
        let latencies = counts.charged_ps / latency_ps;
        assert!(leaves > 1_000, "{name}: {leaves}");
        assert!(10 * latencies < leaves, "{name}: {leaves}, {counts:?}");
    }
}
