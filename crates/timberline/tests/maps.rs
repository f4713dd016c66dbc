//! Maps as a user makes them: plain or in tiers, and what is told where that can't be.

use std::time::Duration;

use timberline::placement::workers::{Next, Worker};
use timberline::placement::{AllFast, Placed};
use timberline::{Art, BTree, Builder, Error, Masstree};

const FAST: usize = 4 << 20;
const SLOW: usize = 64 << 20;

/// Settings of two tiers.
fn tiers<M>(builder: Builder<M>) -> Builder<M> {
    builder.fast_memory(FAST).slow_memory(SLOW)
}

/// The line of a map that can't be made.
fn line(builder: Builder<BTree<u64, u64>>) -> String {
    let error = builder.build().unwrap_err();
    assert!(matches!(error, Error::Configuration(_)), "{error:?}");
    let line = error.to_string();
    assert!(!line.contains('\n'), "{line}");
    line
}

#[test]
fn a_new_map_is_in_plain_memory_and_grows() {
    let btree = BTree::<u64, u64>::new();
    let art = Art::<u64, u64>::new();
    let masstree = Masstree::<str, u64>::new();
    for key in 0..100_000 {
        btree.insert(&key, !key).unwrap();
        art.insert(&key, !key).unwrap();
        masstree.insert(&format!("{key:08}"), !key).unwrap();
    }
    for key in (0..100_000).step_by(7) {
        let values = [
            btree.get(&key),
            art.get(&key),
            masstree.get(&format!("{key:08}")),
        ];
        assert_eq!(values, [Some(!key); 3]);
    }
    let tiered = [btree.is_tiered(), art.is_tiered(), masstree.is_tiered()];
    assert_eq!(tiered, [false; 3]);
    for (fast, slow) in [btree.committed(), art.committed(), masstree.committed()] {
        assert!(100_000 * 8 < fast && slow == 0, "{fast}");
    }
}

#[test]
fn any_map_can_be_in_tiers_and_keeps_the_budget() {
    let btree = tiers(BTree::<u64, u64>::builder()).build().unwrap();
    let art = tiers(Art::<u64, u64>::builder()).build().unwrap();
    let masstree = tiers(Masstree::<str, u64>::builder()).build().unwrap();
    for key in 0..50_000 {
        btree.insert(&key, !key).unwrap();
        art.insert(&key, !key).unwrap();
        masstree.insert(&format!("{key:08}"), !key).unwrap();
    }
    for key in (0..50_000).step_by(7) {
        let values = [
            btree.get(&key),
            art.get(&key),
            masstree.get(&format!("{key:08}")),
        ];
        assert_eq!(values, [Some(!key); 3]);
    }
    for (fast, slow) in [btree.committed(), art.committed(), masstree.committed()] {
        assert!(0 < fast && fast <= FAST && slow <= SLOW);
    }
    assert!(btree.is_tiered());
    assert_eq!(art.memory_limits(), (FAST, SLOW));
    let failures = [
        btree.worker_failure(),
        art.worker_failure(),
        masstree.worker_failure(),
    ];
    assert_eq!(failures, [const { None }; 3]);
}

#[test]
fn a_limit_of_fast_memory_alone_takes_slow_memory_as_needed() {
    let map = BTree::<u64, u64>::builder()
        .fast_memory(FAST)
        .build()
        .unwrap();
    for key in 0..1_000_000 {
        map.insert(&key, !key).unwrap();
    }
    let (fast, slow) = map.committed();
    assert!(fast <= FAST && slow > 8 << 20, "{fast}, {slow}");
}

/// The heat table took 5.3 GB of fast memory for such limits, before there was a record.
#[test]
fn limits_cost_nothing_before_memory_is_needed() {
    for fast in [4096, FAST, 1 << 40] {
        let btree = BTree::<u64, u64>::builder().fast_memory(fast);
        let btree = btree.slow_memory(1 << 40).build().unwrap();
        let art = Art::<u64, u64>::builder().fast_memory(fast);
        let art = art.slow_memory(1 << 40).build().unwrap();
        for key in 0..100 {
            btree.insert(&key, !key).unwrap();
            art.insert(&key, !key).unwrap();
        }
        for (fast_bytes, slow_bytes) in [btree.committed(), art.committed()] {
            assert!(
                fast_bytes + slow_bytes <= 128 << 10,
                "{fast_bytes}, {slow_bytes}"
            );
            assert!(fast_bytes <= fast);
        }
    }
}

#[test]
fn without_slow_memory_a_map_is_plain_and_ends_at_its_limit() {
    let map = Art::<u64, u64>::builder()
        .fast_memory(1 << 20)
        .slow_memory(0)
        .build()
        .unwrap();
    assert!(!map.is_tiered());
    let full = (0..1_000_000).find_map(|key| map.insert(&key, key).err());
    assert!(matches!(full, Some(Error::OutOfMemory(full)) if full.limit == 1 << 20));
}

/// A step of a worker, by a function.
struct Clumsy<F>(F);

impl<F: FnMut() -> Next + Send> Worker for Clumsy<F> {
    fn name(&self) -> &'static str {
        "clumsy"
    }

    fn step(&mut self, _: &dyn Placed, _: Duration) -> Next {
        (self.0)()
    }
}

/// A map in two tiers whose one worker takes these steps.
fn with_worker(step: impl FnMut() -> Next + Send + 'static) -> BTree<u64, u64> {
    let workers: Vec<Box<dyn Worker>> = vec![Box::new(Clumsy(step))];
    let placing = |_: &_, _| Ok((std::sync::Arc::new(AllFast) as _, workers));
    let builder = tiers(BTree::builder()).custom_placement(placing);
    builder.build().unwrap()
}

#[test]
fn a_worker_that_panics_is_told_of_and_the_map_goes_on() {
    // Unwinds as a panic does, without printing one.
    let map = with_worker(|| std::panic::resume_unwind(Box::new("out of luck")));
    while map.worker_failure().is_none() {
        std::thread::yield_now();
    }
    assert_eq!(map.worker_failure().unwrap(), "clumsy: out of luck");
    for key in 0..50_000 {
        map.insert(&key, !key).unwrap();
    }
    assert_eq!(map.get(&1), Some(!1));
    assert!(map.committed().0 <= FAST);
}

#[test]
fn a_worker_ends_with_the_last_handle_or_iterator() {
    let (stepped, steps) = std::sync::mpsc::channel();
    let map = with_worker(move || {
        stepped.send(()).unwrap();
        Next::After(Duration::ZERO)
    });
    let next = || steps.try_iter().count() + usize::from(steps.recv().is_ok());
    let clone = map.clone();
    drop(map);
    assert!(next() > 0, "another handle");
    clone.insert(&1, 2).unwrap();
    let mut iterator = clone.range(..);
    drop(clone);
    assert!(next() > 0, "an iterator");
    assert_eq!(iterator.next(), Some((1, 2)));
    drop(iterator);
    while steps.try_recv().is_ok() {}
    assert!(steps.recv().is_err(), "the worker is gone");
}

#[test]
fn a_worker_may_drop_the_last_handle_of_another_map() {
    let (dropped, drops) = std::sync::mpsc::channel();
    let mut other = Some(with_worker(|| Next::WhenWoken));
    let map = with_worker(move || {
        drop(other.take());
        dropped.send(()).unwrap();
        Next::WhenWoken
    });
    drops.recv().unwrap();
    assert_eq!(map.worker_failure(), None);
}

#[test]
fn a_map_that_cannot_be_made_is_one_line() {
    let unlimited = line(BTree::builder().slow_memory(1 << 20));
    assert!(unlimited.contains("fast memory"), "{unlimited}");
    let nowhere = line(tiers(BTree::builder()).slow_nodes([4_000_000_000]));
    assert!(nowhere.contains("4000000000"), "{nowhere}");
}

#[test]
fn what_is_discovered_is_a_map() {
    let map = BTree::<u64, u64>::builder().discover().build().unwrap();
    map.insert(&1, 2).unwrap();
    assert_eq!(map.get(&1), Some(2));
    assert_eq!(map.is_tiered(), map.memory_limits().1 > 0);
}
