//! Copies of records apart from their leaves, as in `timberline_tree`: a record in a leaf, its copy
//! in a bucket, and a directory with the bucket's number. A thread that makes a copy locks the
//! bucket, then checks whether the leaf is locked. A writer locks the leaf, then looks for a copy.
//! If half of either is left out, a stale copy stays.
//!
//! In the B+tree and Masstree a lookup waits for a leaf's lock. In the radix tree it does not:
//! there the writer has the copy's bucket locked, too, while it writes the record's value.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};

use loom::model::Builder;
use loom::sync::Arc;
use loom::sync::atomic::AtomicU64;
use loom::thread;

use crate::shim::fence;
use crate::{Exclusive, Restart, Snapshot, Versioned};

/// The step that is left out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mistake {
    None,
    /// The maker has no fence between locking the bucket and checking the leaf.
    MakerWithoutFence,
    /// The writer has no fence between locking the leaf and reading the directory.
    WriterWithoutFence,
    /// The maker checks the leaf first, and then locks the bucket.
    LookedBeforeLocked,
    /// The writer writes the record first, and then locks the copy.
    WrittenBeforeLocked,
}

/// Whether lookups wait for the leaf's lock.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lookups {
    Wait,
    ReadLocked,
}

const NO_COPY: u64 = u64::MAX;
const NO_PAGE: u64 = 0;

struct World {
    mistake: Mistake,
    lookups: Lookups,
    /// The lock of a slow leaf with one record.
    leaf: Versioned<()>,
    /// The record. Its values ascend from 0.
    record: AtomicU64,
    /// The number, from 1, of the bucket for the record's copy.
    directory: AtomicU64,
    buckets: [Versioned<AtomicU64>; 2],
}

impl World {
    fn new(mistake: Mistake, lookups: Lookups) -> Arc<World> {
        let bucket = || Versioned::new(AtomicU64::new(NO_COPY));
        Arc::new(World {
            mistake,
            lookups,
            leaf: Versioned::new(()),
            record: AtomicU64::new(0),
            directory: AtomicU64::new(1),
            buckets: [bucket(), bucket()],
        })
    }

    fn bucket(&self) -> Option<&Versioned<AtomicU64>> {
        let number = self.directory.load(Acquire).checked_sub(1)?;
        Some(&self.buckets[number as usize])
    }

    fn fence_but_for(&self, mistake: Mistake) {
        if self.mistake != mistake {
            fence(SeqCst);
        }
    }

    /// A lookup that does not make a copy. `None` if it would have to start over.
    fn get(&self) -> Option<u64> {
        let copy = self.bucket().and_then(|bucket| {
            let seen = bucket.try_read().ok()?;
            seen.get(|copy| copy.load(Relaxed)).ok()
        });
        if let Some(value) = copy.filter(|&copy| copy != NO_COPY) {
            return Some(value);
        }
        self.read_leaf().ok()
    }

    /// The record's value.
    fn read_leaf(&self) -> Result<u64, Restart> {
        match self.lookups {
            Lookups::Wait => self.leaf.try_read()?.get(|()| self.record.load(Relaxed)),
            Lookups::ReadLocked => Ok(self.record.load(Acquire)),
        }
    }

    /// A lookup that found no copy, and makes one.
    fn make_copy(&self) {
        let Some(bucket) = self.bucket() else { return };
        let seen = self.leaf.try_read();
        let Ok(value) = self.read_leaf() else { return };
        let validate = || match self.lookups {
            Lookups::Wait => seen?.validate(),
            // Without a version: whether it is unlocked, and the value is this one.
            Lookups::ReadLocked => {
                self.leaf.try_read()?;
                let is_same = self.record.load(Relaxed) == value;
                is_same.then_some(()).ok_or(Restart)
            }
        };
        let early = (self.mistake == Mistake::LookedBeforeLocked).then(validate);
        let Ok(held) = bucket.try_read().and_then(Snapshot::upgrade) else {
            return;
        };
        self.fence_but_for(Mistake::MakerWithoutFence);
        match early.unwrap_or_else(validate) {
            Ok(()) => held.store(value, Relaxed),
            Err(_) => held.unchanged(),
        }
    }

    fn set(&self, value: u64) {
        let _leaf = self.leaf.lock().unwrap();
        if self.mistake == Mistake::WrittenBeforeLocked {
            self.record.store(value, Release);
        }
        let copy = self.lock_copy();
        self.record.store(value, Release);
        if let Some(copy) = copy {
            copy.store(value, Relaxed);
        }
    }

    /// Locks the copy of the record, whose leaf is locked, if there is one.
    fn lock_copy(&self) -> Option<Exclusive<'_, AtomicU64>> {
        self.fence_but_for(Mistake::WriterWithoutFence);
        let bucket = self.bucket()?;
        while let Ok(seen) = bucket.read() {
            // Without a copy, the bucket is only read; this is why the fences are there.
            match seen.get(|copy| copy.load(Relaxed)) {
                Ok(NO_COPY) => return None,
                Ok(_) => {
                    if let Ok(held) = seen.upgrade() {
                        return Some(held);
                    }
                }
                Err(Restart) => {}
            }
        }
        None
    }

    /// Removes the page.
    fn take(&self) {
        let taken = self.directory.compare_exchange(1, NO_PAGE, AcqRel, Relaxed);
        assert_eq!(taken, Ok(1));
        self.buckets[0].lock().unwrap().retire();
    }

    /// Adds another page with the same number.
    #[allow(unsafe_code)]
    fn add(&self) {
        // SAFETY: no other thread knows it yet.
        unsafe { self.buckets[1].claim() }.store(NO_COPY, Relaxed);
        self.directory.store(2, Release);
    }

    /// A value that was read once is not followed by an older one.
    fn look_twice(&self) {
        let (one, another) = (self.get(), self.get());
        if let (Some(one), Some(another)) = (one, another) {
            assert!(one <= another, "{another} is stale");
        }
    }
}

/// Runs each in a thread of its own. Afterwards, a lookup reads the value that was written.
fn check<const THREADS: usize>(
    mistake: Mistake,
    lookups: Lookups,
    preemptions: Option<usize>,
    parts: [fn(&World); THREADS],
) {
    let mut builder = Builder::new();
    builder.preemption_bound = preemptions;
    builder.check(move || {
        let world = World::new(mistake, lookups);
        let others = parts[1..].iter().map(|&part| {
            let world = world.clone();
            thread::spawn(move || part(&world))
        });
        let others: Vec<_> = others.collect();
        parts[0](&world);
        for other in others {
            other.join().unwrap();
        }
        assert_eq!(world.get(), Some(1), "stale");
    });
}

fn write(world: &World) {
    world.set(1);
    assert_ne!(world.get(), Some(0), "stale");
}

/// The page is removed, and another takes its place.
fn renew_and_write(world: &World) {
    world.take();
    world.add();
    write(world);
}

fn renew_and_make_copy(world: &World) {
    world.take();
    world.add();
    world.make_copy();
}

#[test]
fn a_copy_is_never_stale() {
    for lookups in [Lookups::Wait, Lookups::ReadLocked] {
        check(Mistake::None, lookups, None, [World::make_copy, write]);
    }
}

#[test]
fn a_copy_is_never_stale_for_a_reader() {
    for lookups in [Lookups::Wait, Lookups::ReadLocked] {
        let parts = [World::make_copy, write, World::look_twice];
        check(Mistake::None, lookups, Some(2), parts);
    }
}

/// The maker found its bucket before the page was removed; the writer sees the next page.
#[test]
fn a_copy_in_a_page_that_went_is_never_seen() {
    let parts = [World::make_copy, renew_and_write];
    check(Mistake::None, Lookups::Wait, None, parts);
}

/// The writer looks for a page while one is replaced by another, which has a copy at once.
#[test]
fn a_copy_in_a_page_that_came_is_never_stale() {
    for lookups in [Lookups::Wait, Lookups::ReadLocked] {
        let parts = [renew_and_make_copy, write];
        check(Mistake::None, lookups, Some(3), parts);
    }
}

#[test]
#[should_panic(expected = "stale")]
fn a_maker_without_a_fence_is_found() {
    let parts = [World::make_copy, write];
    check(Mistake::MakerWithoutFence, Lookups::Wait, None, parts);
}

#[test]
#[should_panic(expected = "stale")]
fn a_writer_without_a_fence_is_found() {
    let parts = [World::make_copy, write];
    check(Mistake::WriterWithoutFence, Lookups::Wait, None, parts);
}

/// The page's directory entry doubles as a flag.
#[test]
#[should_panic(expected = "stale")]
fn a_writer_that_misses_a_page_that_came_is_found() {
    let parts = [renew_and_make_copy, write];
    check(Mistake::WriterWithoutFence, Lookups::Wait, None, parts);
}

#[test]
#[should_panic(expected = "stale")]
fn a_maker_that_looks_before_it_locks_is_found() {
    let parts = [World::make_copy, write];
    check(Mistake::LookedBeforeLocked, Lookups::Wait, None, parts);
}

/// Another thread makes a copy of the old value meanwhile, and a lookup that has read the new one
/// finds it.
#[test]
#[should_panic(expected = "stale")]
fn a_writer_that_writes_before_it_locks_is_found() {
    let parts = [World::make_copy, write, World::look_twice];
    check(
        Mistake::WrittenBeforeLocked,
        Lookups::ReadLocked,
        Some(3),
        parts,
    );
}
