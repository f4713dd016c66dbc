//! The epoch: a node is replaced and freed beside a reader, which must never see it freed. Loom's
//! cells make the reading and the freeing of a node a race unless one happened before the other.
//! Both sides' barriers are `fence(SeqCst)` here.
#![allow(unsafe_code)]

use std::sync::atomic::Ordering::{Acquire, Release};

use loom::cell::UnsafeCell;
use loom::model::Builder;
use loom::sync::atomic::AtomicUsize;
use loom::sync::{Arc, Mutex};
use loom::thread;

use crate::epoch::{Core, Deferred, Indices, light};

const ALIVE: u64 = 7;
const FREED: u64 = 0;

struct World {
    domain: Core,
    /// The first two threads have their slots in the domain, or one of them has it in a bucket that
    /// it makes.
    indices: Mutex<Indices>,
    /// Which of the nodes is in use.
    link: AtomicUsize,
    nodes: [UnsafeCell<u64>; 2],
}

// SAFETY: loom checks each access of a cell.
unsafe impl Sync for World {}
// SAFETY: as above.
unsafe impl Send for World {}

impl World {
    fn new() -> Arc<Self> {
        Arc::new(World {
            domain: Core::new(),
            indices: Mutex::new(Indices::new()),
            link: AtomicUsize::new(0),
            nodes: [UnsafeCell::new(ALIVE), UnsafeCell::new(ALIVE)],
        })
    }

    /// What every operation does: pin, follow the link, look, unpin.
    fn read(&self, times: usize, barrier: impl Fn()) {
        let index = self.indices.lock().unwrap().take();
        let slot = self.domain.slots.of(index);
        for _ in 0..times {
            self.domain.enter(slot);
            barrier();
            let node = &self.nodes[self.link.load(Acquire)];
            // SAFETY: loom looks whether anybody writes meanwhile.
            node.with(|node| assert_eq!(unsafe { *node }, ALIVE));
            slot.leave();
        }
        self.indices.lock().unwrap().give_back(index);
    }

    /// What a future does: pins a thread to make an owned guard, and looks when that has unpinned.
    fn read_owned(&self) -> u64 {
        let index = self.indices.lock().unwrap().take();
        let slot = self.domain.slots.of(index);
        self.domain.enter(slot);
        light();
        // SAFETY: the index is this thread's.
        let epoch = unsafe { slot.mine() }.hold();
        slot.leave();
        let node = &self.nodes[self.link.load(Acquire)];
        // SAFETY: loom looks whether anybody writes meanwhile.
        node.with(|node| assert_eq!(unsafe { *node }, ALIVE));
        self.indices.lock().unwrap().give_back(index);
        epoch
    }

    /// Unlinks the first node and seals the freeing of it.
    fn replace(this: &Arc<Self>) {
        this.link.store(1, Release);
        let world = this.clone();
        let free = move || {
            // SAFETY: loom looks whether anybody reads meanwhile.
            world.nodes[0].with_mut(|node| unsafe { *node = FREED });
        };
        this.domain.garbage().seal(vec![Deferred::new(free)]);
    }

    /// Moves the epoch on and makes the calls that have waited long enough.
    fn collect(&self) {
        let free = {
            let mut garbage = self.domain.garbage();
            garbage.advance();
            garbage.take_free()
        };
        free.into_iter().flatten().for_each(Deferred::call);
    }

    /// Replaces the node while a second thread runs `reader`.
    fn replace_beside(reader: impl FnOnce(&World) + Send + 'static) {
        let world = World::new();
        let reader = thread::spawn({
            let world = world.clone();
            move || reader(&world)
        });
        World::replace(&world);
        world.collect();
        world.collect();
        reader.join().unwrap();
        world.settle();
    }

    /// Once all others have ended, nothing holds the node back any more.
    fn settle(&self) {
        self.collect();
        self.collect();
        // SAFETY: loom looks whether anybody writes meanwhile.
        let seen = self.nodes[0].with(|node| unsafe { *node });
        assert_eq!(seen, FREED);
    }
}

fn check(preemptions: Option<usize>, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = preemptions;
    builder.check(model);
}

/// The reader pins twice: what it read first is over when it is seen in a later epoch, even if it
/// never was seen unpinned.
#[test]
fn a_reader_never_sees_a_freed_node() {
    check(None, || World::replace_beside(|world| world.read(2, light)));
}

/// Nor does one with an owned guard, which has left its slot when it looks.
#[test]
fn an_owned_guard_never_sees_a_freed_node() {
    check(Some(3), || {
        World::replace_beside(|world| {
            let epoch = world.read_owned();
            world.domain.slots.of(1).release(epoch);
        });
    });
}

/// If it is over before the look, the model finds out.
#[test]
#[should_panic(expected = "Causality violation")]
fn an_owned_guard_that_ended_sees_one() {
    check(Some(3), || {
        World::replace_beside(|world| {
            let slot = world.domain.slots.of(1);
            world.domain.enter(slot);
            light();
            // SAFETY: no other thread has a slot here.
            let epoch = unsafe { slot.mine() }.hold();
            slot.leave();
            let node = &world.nodes[world.link.load(Acquire)];
            slot.release(epoch);
            // SAFETY: loom looks whether anybody writes meanwhile.
            node.with(|node| assert_eq!(unsafe { *node }, ALIVE));
        });
    });
}

/// Without its barrier it does: the model would find out.
#[test]
#[should_panic(expected = "Causality violation")]
fn a_reader_without_a_barrier_sees_one() {
    check(None, || World::replace_beside(|world| world.read(1, || ())));
}

/// One thread retires while another moves the epoch and frees what it finds.
#[test]
fn a_reader_never_sees_what_another_thread_freed() {
    check(Some(3), || {
        let world = World::new();
        let reader = thread::spawn({
            let world = world.clone();
            move || world.read(1, light)
        });
        let collector = thread::spawn({
            let world = world.clone();
            move || (0..3).for_each(|_| world.collect())
        });
        World::replace(&world);
        world.collect();
        reader.join().unwrap();
        collector.join().unwrap();
        world.settle();
    });
}

/// Two readers: the slot of one becomes the other's, or lies in a bucket that is made while others
/// look for pinned threads.
#[test]
fn slots_pass_from_thread_to_thread_and_are_made_beside_an_advance() {
    check(Some(3), || {
        let world = World::new();
        let readers: [_; 2] = std::array::from_fn(|_| {
            let world = world.clone();
            thread::spawn(move || world.read(1, light))
        });
        World::replace(&world);
        world.collect();
        world.collect();
        for reader in readers {
            reader.join().unwrap();
        }
        world.settle();
    });
}
