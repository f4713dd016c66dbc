//! Futures of the maps: on one thread, on the threads of an executor, and dropped anywhere on their
//! way.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll, Waker};

use timberline_placement::{AllSlow, Placed};
use timberline_tier::{Arenas, ArenasConfig, Memory, Native, TierId};
use timberline_tree::btree::NODE_256;
use timberline_tree::{Art, BTree, Masstree, Stats};

/// Small nodes, so that a few thousand records make levels.
type Words = BTree<u64, u64, Native, NODE_256>;
type Strings = BTree<u64, Vec<u8>, Native, NODE_256>;
type Tries = Art<str, u64>;
type Layers = Masstree<str, Vec<u8>, Native, NODE_256>;

const RECORDS: u64 = 3_000;

fn memory() -> Native {
    Native(Arenas::new(&ArenasConfig::two_tiers(4 << 20, 16 << 20)).unwrap())
}

/// What the tests need of a map, whatever its types are. A record's value follows from its number,
/// of which only even ones are there.
trait Subject: Clone + Send + Sync + 'static {
    fn new() -> Self;
    fn insert(&self, number: u64);
    fn remove(&self, number: u64);
    /// Whether the record is there. Its value is checked.
    fn get(self, number: u64) -> impl Future<Output = bool> + Send;
    /// The numbers of the records in a range, whose values are checked.
    fn range(self, from: u64, to: u64) -> impl Future<Output = Vec<u64>> + Send;
    fn clear(&self);
    fn stats(&self) -> Stats;
    fn placed(&self) -> Arc<dyn Placed>;
    fn used(&self) -> usize;
    fn collect(&self);
    fn owned_guards(&self) -> usize;

    fn filled() -> Self {
        let map = Self::new();
        (0..RECORDS).for_each(|at| map.insert(2 * at));
        map
    }

    /// Bytes that are neither in the map nor free: all of it is awaited by nobody.
    fn left_over(&self) -> usize {
        self.clear();
        self.collect();
        self.used() - self.stats().bytes_in_nodes
    }
}

fn word(number: u64) -> u64 {
    !number
}

fn string(number: u64) -> Vec<u8> {
    number.to_string().repeat(number as usize % 9).into_bytes()
}

fn number(number: u64) -> u64 {
    number
}

/// Keys with long common parts, for layers, in the order of their numbers.
fn text(number: u64) -> String {
    format!("{:03}/a common part/{number:06}", number / 100)
}

macro_rules! subjects {
    ($($map:ty, $key:expr, $lend:expr, $value:expr, $of:expr;)*) => {$(
        impl Subject for $map {
            fn new() -> Self {
                <$map>::in_memory(memory(), Arc::new(AllSlow)).unwrap()
            }
            fn insert(&self, number: u64) {
                let value = $value(number);
                self.insert(&$lend(&$key(number)), timberline_tree::Value::lend(&value)).unwrap();
            }
            fn remove(&self, number: u64) {
                self.remove(&$lend(&$key(number)));
            }
            async fn get(self, number: u64) -> bool {
                let found = self.get_async(&$lend(&$key(number))).await;
                assert!(found.is_none() || found == Some($value(number)), "{number}");
                found.is_some()
            }
            async fn range(self, from: u64, to: u64) -> Vec<u64> {
                let (from, to) = ($key(from), $key(to));
                let mut range = self.range_async($lend(&from)..$lend(&to));
                let mut numbers = Vec::new();
                while let Some((key, value)) = range.next().await {
                    let number = $of(key);
                    assert_eq!(value, $value(number));
                    numbers.push(number);
                }
                numbers
            }
            fn clear(&self) {
                self.clear();
            }
            fn stats(&self) -> Stats {
                self.stats()
            }
            fn placed(&self) -> Arc<dyn Placed> {
                self.placed()
            }
            fn used(&self) -> usize {
                let arenas = self.memory().arenas();
                (0..arenas.tiers()).map(|tier| arenas.used(TierId(tier as u8))).sum()
            }
            fn collect(&self) {
                self.domain().collect();
            }
            fn owned_guards(&self) -> usize {
                self.domain().owned_guards()
            }
        }
    )*};
}

fn of_text(text: String) -> u64 {
    text[text.len() - 6..].parse().unwrap()
}

subjects! {
    Words, number, |key: &u64| *key, word, number;
    Strings, number, |key: &u64| *key, string, number;
    Tries, text, String::as_str, word, of_text;
    Layers, text, String::as_str, string, of_text;
}

fn poll<F: Future>(future: &mut Pin<Box<F>>) -> Poll<F::Output> {
    future
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()))
}

fn finish<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    loop {
        let mut context = Context::from_waker(Waker::noop());
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
    }
}

/// Moves a leaf up or down, so that readers of it meet a copy.
fn move_a_leaf(placed: &dyn Placed, turn: u64) {
    let mut leaf = None;
    let mut left = turn % 50;
    placed.each_leaf(&[], &mut |seen| {
        leaf = Some((seen.fence.to_bytes(), seen.tier.is_fast()));
        left = left.saturating_sub(1);
        match left {
            0 => std::ops::ControlFlow::Break(()),
            _ => std::ops::ControlFlow::Continue(()),
        }
    });
    match leaf {
        Some((key, true)) => placed.demote(&timberline_placement::NodeKey::leaf(key)),
        Some((key, false)) => placed.promote_path(key),
        None => return,
    };
}

/// Many tasks on the threads of an executor, which hands them from thread to thread, beside a
/// thread that inserts and removes odd numbers, and one that moves nodes.
fn can_be_spawned<S: Subject>() {
    let map = S::filled();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(4)
        .build()
        .unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for number in (1..).step_by(2).take_while(|_| !done.load(Relaxed)) {
                map.insert(number % (2 * RECORDS));
                map.remove((number + 1_000) % (2 * RECORDS));
            }
        });
        let mover = scope.spawn(|| {
            let placed = map.placed();
            (0..)
                .take_while(|_| !done.load(Relaxed))
                .for_each(|turn| move_a_leaf(&*placed, turn));
        });
        let tasks: Vec<_> = (0..32)
            .map(|task| {
                let map = map.clone();
                runtime.spawn(async move {
                    for at in 0..100 {
                        let number = (task * 7_919 + at * 104_729) % (2 * RECORDS);
                        let found = map.clone().get(number).await;
                        assert!(found || number % 2 == 1, "{number}");
                    }
                    let (from, to) = (20 * task, 20 * task + 2_000);
                    let range = map.clone().range(from, to).await;
                    assert!(range.is_sorted_by(|one, two| one < two), "{range:?}");
                    let even = range.iter().filter(|&&number| number % 2 == 0);
                    even.count()
                })
            })
            .collect();
        let counts: Vec<_> = tasks
            .into_iter()
            .map(|task| runtime.block_on(task))
            .collect();
        done.store(true, Relaxed);
        // A thread gives up what it retired when it ends, which is after its scope.
        writer.join().unwrap();
        mover.join().unwrap();
        for even in counts {
            assert_eq!(even.unwrap(), 1_000);
        }
    });
    drop(runtime);
    assert_eq!((map.owned_guards(), map.stats().live_futures), (0, 0));
    assert_eq!(map.left_over(), 0);
}

/// However far it came, a future that is dropped leaves nothing behind.
fn can_be_dropped_anywhere<S: Subject>() {
    let map = S::filled();
    let mut most = 0;
    for polls in 0.. {
        let mut lookup = Box::pin(map.clone().get(2_000));
        let mut scan = Box::pin(map.clone().range(1_000, 1_400));
        let got = (0..polls).find_map(|_| match poll(&mut lookup) {
            Poll::Ready(found) => Some(found),
            Poll::Pending => None,
        });
        let seen = (0..polls).find_map(|_| match poll(&mut scan) {
            Poll::Ready(seen) => Some(seen.len()),
            Poll::Pending => None,
        });
        most = most.max(map.owned_guards());
        drop((lookup, scan));
        assert_eq!(map.owned_guards(), 0, "{polls} polls");
        map.remove(1_998);
        map.insert(1_998);
        if let (Some(found), Some(seen)) = (got, seen) {
            assert!(found && seen > 0 && polls > 5, "{polls} polls");
            break;
        }
    }
    assert_eq!(most, 2, "both were on their way");
    assert_eq!(map.left_over(), 0);
}

/// Lookups that began before all records went, on one thread, end after that: each finds its record
/// or doesn't, and memory comes back when they have ended.
fn interleave_with_writers_on_one_thread<S: Subject>() {
    for begun in 0..6 {
        let map = S::filled();
        let mut lookups: Vec<_> = (0..200)
            .map(|at| Box::pin(map.clone().get(30 * at)))
            .collect();
        for _ in 0..begun {
            lookups.retain_mut(|lookup| match poll(lookup) {
                Poll::Ready(found) => {
                    assert!(found);
                    false
                }
                Poll::Pending => true,
            });
        }
        let begun = if begun == 0 { 0 } else { lookups.len() };
        assert_eq!(map.owned_guards(), begun);
        (0..RECORDS).for_each(|at| map.remove(2 * at));
        (0..RECORDS).for_each(|at| map.insert(2 * at + 1));
        map.collect();
        std::thread::scope(|scope| {
            // To another thread, on their way.
            scope.spawn(|| lookups.into_iter().for_each(|lookup| _ = finish(lookup)));
        });
        assert_eq!(map.owned_guards(), 0);
        assert_eq!(map.left_over(), 0);
    }
}

/// One that is forgotten keeps its map's memory from coming back, and no other map's.
fn holds_back_its_own_map_alone<S: Subject>() {
    let (map, other) = (S::filled(), S::filled());
    let mut lookup = Box::pin(map.clone().get(6));
    assert!(poll(&mut lookup).is_pending());
    std::mem::forget(lookup);
    let live = [&map, &other].map(|map| map.stats().live_futures);
    assert_eq!(live, [1, 0]);
    assert!(map.left_over() > 0, "nothing comes back");
    assert_eq!(other.left_over(), 0);
}

macro_rules! tests {
    ($($map:ident: $module:ident;)*) => {$(
        mod $module {
            use super::$map;

            #[test]
            fn can_be_spawned() {
                super::can_be_spawned::<$map>();
            }
            #[test]
            fn can_be_dropped_anywhere() {
                super::can_be_dropped_anywhere::<$map>();
            }
            #[test]
            fn interleave_with_writers_on_one_thread() {
                super::interleave_with_writers_on_one_thread::<$map>();
            }
            #[test]
            fn holds_back_its_own_map_alone() {
                super::holds_back_its_own_map_alone::<$map>();
            }
        }
    )*};
}

tests! {
    Words: words;
    Strings: strings;
    Tries: tries;
    Layers: layers;
}
