//! Code that a map calls panics: closures, and its placement, which is called in the middle of
//! splits and moves, with nodes locked. An operation that is ended so was done, or was not; no lock
//! stays held, no record is lost, and no memory either.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use timberline_placement::workers::Workers;
use timberline_placement::{Access, LeafRef, NewNode, NodeKey, Placement};
use timberline_tier::TierId;

use crate::map::Map;
use crate::model::{KEYS, Model, Op, ask_both, ends_well, look_at_all, same};
use crate::starved::{loaded, policies, warm};
use crate::suite::draw::{Draw, seed};
use crate::suite::{arenas, check, placing};

/// Operations of a run.
const STEPS: u64 = 250;

/// Unwinds as a panic does, without printing one.
fn panic() -> ! {
    resume_unwind(Box::new("as the test wants"))
}

/// Whether `call` panicked.
fn panics<R>(call: impl FnOnce() -> R) -> bool {
    catch_unwind(AssertUnwindSafe(call)).is_err()
}

/// Another placement, of which the nth call panics.
struct Shaky {
    inner: Arc<dyn Placement>,
    /// Calls until then; 0: none does.
    panics_in: AtomicU64,
    /// Whether only calls count that tell of a leaf that moved.
    when_moving: bool,
}

impl Shaky {
    fn new(inner: Arc<dyn Placement>, when_moving: bool) -> Arc<Self> {
        let panics_in = AtomicU64::new(0);
        Arc::new(Shaky {
            inner,
            panics_in,
            when_moving,
        })
    }

    fn shake(&self) {
        if !self.when_moving {
            self.shake_now();
        }
    }

    fn shake_now(&self) {
        let left = self.panics_in.load(Relaxed);
        if left > 0 {
            self.panics_in.store(left - 1, Relaxed);
            if left == 1 {
                panic();
            }
        }
    }
}

impl Placement for Shaky {
    fn place(&self, node: NewNode) -> TierId {
        self.shake();
        self.inner.place(node)
    }

    fn on_access(&self, leaf: LeafRef<'_>, access: Access) -> u32 {
        self.shake();
        let pass = self.inner.on_access(leaf, access);
        if self.when_moving { pass } else { 1 }
    }

    fn leaf_split(&self, left: LeafRef<'_>, right: LeafRef<'_>) {
        self.shake();
        self.inner.leaf_split(left, right);
    }

    fn leaf_moved(&self, from: LeafRef<'_>, to: LeafRef<'_>) {
        self.shake_now();
        self.inner.leaf_moved(from, to);
    }

    fn leaf_freed(&self, address: usize) {
        self.shake();
        self.inner.leaf_freed(address);
    }

    fn boundary_broken(&self, node: NodeKey, fastest: TierId) {
        self.shake();
        self.inner.boundary_broken(node, fastest);
    }
}

/// Room for a few dozen fast nodes: some inner nodes are slow above fast ones.
fn make<T: Map>(placement: Arc<dyn Placement>) -> T {
    T::make(arenas::two(4 * arenas::CHUNK, 2 * arenas::AMPLE), placement)
}

/// Whichever call of its placement panics in an operation, for the first, the second, and on until
/// the operation gets through.
pub fn a_placement_that_panics_takes_no_record_with_it<T: Map>() {
    let seed = seed();
    let shaky = Shaky::new(placing::shuffle(seed).placement, false);
    let map: T = make(shaky.clone());
    let (mut draw, mut model) = (Draw::new(seed, 0), Model::new());
    let mut panicked = 0;
    for _ in 0..STEPS {
        let op = Op::draw::<T>(&mut draw, &model);
        for nth in 1.. {
            shaky.panics_in.store(nth, Relaxed);
            let answer = catch_unwind(AssertUnwindSafe(|| op.ask(&map)));
            let through = shaky.panics_in.swap(0, Relaxed) > 0;
            match answer {
                Ok(answer) => {
                    assert_eq!(answer.expect("room"), op.tell(&mut model), "{op:?}");
                    if through {
                        break;
                    }
                }
                Err(_) => {
                    panicked += 1;
                    let now: Model = map.all().into_iter().collect();
                    let stage = op.stages(&model).into_iter().find(|stage| *stage == now);
                    model = stage.unwrap_or_else(|| panic!("{op:?}: {now:?}\n{model:?}"));
                    same(&map, &model);
                }
            }
        }
    }
    assert!(panicked > STEPS, "{panicked}");
    ends_well(&map, &mut model, &mut draw);
}

/// Closures of every operation that takes one: the record is what it was.
pub fn a_closure_that_panics_changes_nothing<T: Map>() {
    let seed = seed();
    let map: T = make(placing::shuffle(seed).placement);
    let (mut draw, mut model) = (Draw::new(seed, 1), Model::new());
    for _ in 0..STEPS {
        ask_both(&Op::draw::<T>(&mut draw, &model), &map, &mut model);
        for _ in 0..4 {
            let key = &T::key(draw.below(KEYS));
            let there = model.contains_key(key);
            assert!(panics(|| map.upsert_with(key, |_| panic())));
            assert_eq!(panics(|| map.modify(key, |_| panic())), there);
            assert_eq!(panics(|| map.lend(key, &mut || panic())), there);
            let shown = model.range(key.clone()..).next().is_some();
            assert_eq!(panics(|| map.show(key, &mut || panic())), shown);
            assert_eq!(map.get(key), model.get(key).copied());
        }
        same(&map, &model);
    }
    look_at_all(&map, &mut model);
    ends_well(&map, &mut model, &mut draw);
}

/// A worker panics in the middle of a move, with nodes locked: that is told, no worker moves
/// anything any more, nobody waits for any, and the map goes on.
pub fn a_worker_that_panics_leaves_a_map_in_which_nothing_moves<T: Map>() {
    for (make, nth) in policies::<T>()
        .into_iter()
        .flat_map(|make| [(make, 1), (make, 7)])
    {
        let (arenas, mut policy) = make();
        let shaky = Shaky::new(policy.placement.clone(), true);
        policy.placement = shaky.clone();
        let (map, mut model): (T, _) = loaded(arenas, &policy);
        shaky.panics_in.store(nth, Relaxed);
        let mut workers = Workers::start((policy.workers)(), map.placed()).unwrap();
        let mut round = 0;
        check::eventually("a panic", || {
            round += 1;
            warm(&map, &model, round / 10);
            workers.panicked().is_some()
        });
        let panic = workers.panicked().unwrap();
        assert!(panic.ends_with(": as the test wants"), "{panic}");
        // Nobody is in a step any more.
        workers.pause();
        workers.resume();
        let moves = || (map.stats().promoted, map.stats().demoted);
        let before = moves();
        for (name, _) in workers.cpu_time() {
            assert!(workers.wake(name));
        }
        warm(&map, &model, 3);
        look_at_all(&map, &mut model);
        workers.stop();
        assert_eq!(moves(), before);
        assert_eq!(workers.panicked(), Some(panic));
        ends_well(&map, &mut model, &mut Draw::new(seed(), 7));
    }
}
