//! Copies of records apart from their leaves, as in `timberline_tree`: a record in a leaf, its copy
//! in a bucket, and a directory with the bucket's number. A thread that makes a copy locks the
//! bucket, then checks whether the leaf is locked. A writer locks the leaf, then looks for a copy.
//! If half of either is left out, a stale copy stays.
//!
//! A writer that finds a copy makes it dirty and marks the leaf as stale: the next one changes the
//! copy alone. Who needs the leaf writes the copy back first. If one who has to does not, a value
//! is lost or an old one seen.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};

use loom::model::Builder;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicU64};
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
    /// A scan reads a stale leaf.
    MarkOverlooked,
    /// A lookup reads the leaf without having looked for a copy.
    LeafReadFirst,
    /// A page goes with its dirty copies.
    DirtyDropped,
    /// A page that goes takes dirty copies until it is gone.
    LeftOpen,
}

const NO_COPY: u64 = u64::MAX;
const NO_PAGE: u64 = 0;

/// A slow leaf with one record, whose values ascend from 0.
struct Leaf {
    record: AtomicU64,
    is_stale: AtomicBool,
}

struct Bucket {
    copy: AtomicU64,
    is_dirty: AtomicBool,
    is_closed: AtomicBool,
}

impl Bucket {
    fn new() -> Versioned<Bucket> {
        Versioned::new(Bucket {
            copy: AtomicU64::new(NO_COPY),
            is_dirty: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
        })
    }

    fn copy(&self) -> Option<u64> {
        Some(self.copy.load(Relaxed)).filter(|&copy| copy != NO_COPY)
    }

    fn has_dirty(&self) -> bool {
        self.copy().is_some() && self.is_dirty.load(Relaxed)
    }
}

struct World {
    mistake: Mistake,
    /// Not loom's: a thread that finds something stale goes on, so that none ends with a lock.
    has_seen_stale: std::sync::atomic::AtomicBool,
    leaf: Versioned<Leaf>,
    /// The number, from 1, of the bucket for the record's copy.
    directory: AtomicU64,
    buckets: [Versioned<Bucket>; 2],
}

impl World {
    fn new(mistake: Mistake) -> Arc<World> {
        Arc::new(World {
            mistake,
            has_seen_stale: Default::default(),
            leaf: Versioned::new(Leaf {
                record: AtomicU64::new(0),
                is_stale: AtomicBool::new(false),
            }),
            directory: AtomicU64::new(1),
            buckets: [Bucket::new(), Bucket::new()],
        })
    }

    fn bucket(&self) -> Option<&Versioned<Bucket>> {
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
        if self.mistake != Mistake::LeafReadFirst
            && let Some(bucket) = self.bucket()
            && let Some(copy) = bucket.try_read().ok()?.get(Bucket::copy).ok()?
        {
            return Some(copy);
        }
        let leaf = self.leaf.try_read().ok()?;
        leaf.get(|leaf| leaf.record.load(Relaxed)).ok()
    }

    /// A scan. `None` if it would have to start over.
    fn scan(&self) -> Option<u64> {
        let leaf = self.leaf.try_read().ok()?;
        let read = |leaf: &Leaf| (leaf.record.load(Relaxed), leaf.is_stale.load(Relaxed));
        let (record, is_stale) = leaf.get(read).ok()?;
        if !is_stale || self.mistake == Mistake::MarkOverlooked {
            return Some(record);
        }
        let leaf = leaf.upgrade().ok()?;
        self.write_back(&leaf);
        leaf.is_stale.store(false, Relaxed);
        Some(leaf.record.load(Relaxed))
    }

    /// Has the locked leaf take over what its dirty copy has.
    fn write_back(&self, leaf: &Exclusive<'_, Leaf>) {
        if let Some(copy) = self.bucket().and_then(Self::dirty) {
            copy.is_dirty.store(false, Relaxed);
            leaf.record.store(copy.copy.load(Relaxed), Relaxed);
        }
    }

    /// The bucket, locked, if it has a dirty copy.
    fn dirty(bucket: &Versioned<Bucket>) -> Option<Exclusive<'_, Bucket>> {
        while let Ok(seen) = bucket.read() {
            match seen.get(Bucket::has_dirty) {
                Ok(false) => return None,
                Ok(true) => {
                    if let Ok(held) = seen.upgrade() {
                        return Some(held);
                    }
                }
                Err(Restart) => {}
            }
        }
        None
    }

    /// A lookup that found no copy, and makes one.
    fn make_copy(&self) {
        let Some(bucket) = self.bucket() else { return };
        let Ok(leaf) = self.leaf.try_read() else {
            return;
        };
        let Ok(value) = leaf.get(|leaf| leaf.record.load(Relaxed)) else {
            return;
        };
        let early = (self.mistake == Mistake::LookedBeforeLocked).then(|| leaf.validate());
        let Ok(held) = bucket.try_read().and_then(Snapshot::upgrade) else {
            return;
        };
        self.fence_but_for(Mistake::MakerWithoutFence);
        let is_same = early.unwrap_or_else(|| leaf.validate()).is_ok();
        match is_same && held.copy().is_none() && !held.is_closed.load(Relaxed) {
            true => held.copy.store(value, Relaxed),
            false => held.unchanged(),
        }
    }

    fn set(&self, value: u64) {
        if let Some(copy) = self.bucket().and_then(Self::dirty) {
            return copy.copy.store(value, Relaxed);
        }
        let leaf = self.leaf.lock().unwrap();
        if leaf.is_stale.load(Relaxed) {
            self.write_back(&leaf);
        }
        leaf.record.store(value, Relaxed);
        self.fence_but_for(Mistake::WriterWithoutFence);
        let Some(bucket) = self.bucket() else { return };
        while let Ok(seen) = bucket.read() {
            // Without a copy, the bucket is only read; this is why the fences are there.
            match seen.get(Bucket::copy) {
                Ok(None) => return,
                Ok(Some(_)) => {
                    let Ok(held) = seen.upgrade() else { continue };
                    held.copy.store(value, Relaxed);
                    if !held.is_closed.load(Relaxed) {
                        held.is_dirty.store(true, Relaxed);
                        leaf.is_stale.store(true, Relaxed);
                    }
                    return;
                }
                Err(Restart) => {}
            }
        }
    }

    /// Removes the page.
    fn take(&self) {
        let bucket = &self.buckets[0];
        if self.mistake != Mistake::LeftOpen {
            let held = bucket.lock().unwrap();
            held.is_closed.store(true, Relaxed);
        }
        if self.mistake != Mistake::DirtyDropped {
            let leaf = self.leaf.lock().unwrap();
            self.write_back(&leaf);
        }
        let taken = self.directory.compare_exchange(1, NO_PAGE, AcqRel, Relaxed);
        assert_eq!(taken, Ok(1));
        bucket.lock().unwrap().retire();
    }

    /// Adds another page with the same number.
    #[allow(unsafe_code)]
    fn add(&self) {
        // SAFETY: no other thread knows it yet.
        let fresh = unsafe { self.buckets[1].claim() };
        fresh.copy.store(NO_COPY, Relaxed);
        fresh.is_dirty.store(false, Relaxed);
        drop(fresh);
        self.directory.store(2, Release);
    }

    /// A value that was read is not this old.
    fn expect(&self, value: Option<u64>, at_least: u64) {
        if value.is_some_and(|value| value < at_least) {
            self.has_seen_stale.store(true, Relaxed);
        }
    }

    /// A value that was read once is not followed by an older one.
    fn look_twice(&self) {
        let (one, another) = (self.get(), self.get());
        self.expect(another, one.unwrap_or(0));
    }
}

/// Runs each in a thread of its own. Afterwards, a lookup reads the value that was written.
fn check<const THREADS: usize>(
    mistake: Mistake,
    preemptions: Option<usize>,
    parts: [fn(&World); THREADS],
) {
    check_after(|_| (), (mistake, preemptions), parts, 1);
}

/// The same on a world that `before` prepared, with the value that was written last.
fn check_after<const THREADS: usize>(
    before: fn(&World),
    (mistake, preemptions): (Mistake, Option<usize>),
    parts: [fn(&World); THREADS],
    last: u64,
) {
    let mut builder = Builder::new();
    builder.preemption_bound = preemptions;
    builder.check(move || {
        let world = World::new(mistake);
        before(&world);
        let others = parts[1..].iter().map(|&part| {
            let world = world.clone();
            thread::spawn(move || part(&world))
        });
        let others: Vec<_> = others.collect();
        parts[0](&world);
        for other in others {
            other.join().unwrap();
        }
        assert!(!world.has_seen_stale.load(Relaxed), "stale");
        assert_eq!(world.get(), Some(last), "stale");
        assert_eq!(world.scan(), Some(last), "stale");
    });
}

/// There is a dirty copy, and so a stale leaf.
fn soil(world: &World) {
    world.make_copy();
    world.set(1);
    world.set(2);
}

/// Reads what it wrote.
fn change(world: &World) {
    world.set(3);
    world.expect(world.get(), 3);
    world.expect(world.scan(), 3);
}

fn change_twice(world: &World) {
    world.set(3);
    world.set(4);
}

/// None is older than the one before it.
fn look_and_scan(world: &World) {
    let mut before = 2;
    for look in [World::get, World::scan, World::get] {
        let value = look(world);
        world.expect(value, before);
        before = value.unwrap_or(before);
    }
}

fn write(world: &World) {
    world.set(1);
    world.expect(world.get(), 1);
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
    check(Mistake::None, None, [World::make_copy, write]);
}

#[test]
fn a_copy_is_never_stale_for_a_reader() {
    let parts = [World::make_copy, write, World::look_twice];
    check(Mistake::None, Some(2), parts);
}

/// The maker found its bucket before the page was removed; the writer sees the next page.
#[test]
fn a_copy_in_a_page_that_went_is_never_seen() {
    check(Mistake::None, None, [World::make_copy, renew_and_write]);
}

/// The writer looks for a page while one is replaced by another, which has a copy at once.
#[test]
fn a_copy_in_a_page_that_came_is_never_stale() {
    check(Mistake::None, Some(3), [renew_and_make_copy, write]);
}

#[test]
#[should_panic(expected = "stale")]
fn a_maker_without_a_fence_is_found() {
    check(Mistake::MakerWithoutFence, None, [World::make_copy, write]);
}

#[test]
#[should_panic(expected = "stale")]
fn a_writer_without_a_fence_is_found() {
    check(Mistake::WriterWithoutFence, None, [World::make_copy, write]);
}

/// The page's directory entry doubles as a flag.
#[test]
#[should_panic(expected = "stale")]
fn a_writer_that_misses_a_page_that_came_is_found() {
    let parts = [renew_and_make_copy, write];
    check(Mistake::WriterWithoutFence, None, parts);
}

#[test]
#[should_panic(expected = "stale")]
fn a_maker_that_looks_before_it_locks_is_found() {
    check(Mistake::LookedBeforeLocked, None, [World::make_copy, write]);
}

#[test]
fn a_dirty_copy_and_its_leaf_are_one_record() {
    let parts = [change, look_and_scan];
    check_after(soil, (Mistake::None, Some(3)), parts, 3);
}

/// While one changes it the other makes a copy, changes it twice, and writes it back.
#[test]
fn a_copy_that_becomes_dirty_is_not_overlooked() {
    let parts = [change_twice, look_and_scan];
    let make_copy = World::make_copy;
    let before = |world: &World| {
        world.set(1);
        world.set(2);
    };
    check_after(before, (Mistake::None, Some(3)), parts, 4);
    let parts = [change_twice, make_copy, look_and_scan];
    check_after(before, (Mistake::None, Some(1)), parts, 4);
}

#[test]
fn a_page_that_goes_loses_nothing() {
    let parts = [change, World::take];
    check_after(soil, (Mistake::None, Some(2)), parts, 3);
    let parts = [World::take, look_and_scan];
    check_after(soil, (Mistake::None, Some(3)), parts, 2);
}

#[test]
#[should_panic(expected = "stale")]
fn a_scan_that_overlooks_the_mark_is_found() {
    let parts = [change, look_and_scan];
    check_after(soil, (Mistake::MarkOverlooked, Some(3)), parts, 3);
}

#[test]
#[should_panic(expected = "stale")]
fn a_lookup_that_reads_the_leaf_first_is_found() {
    let parts = [change, look_and_scan];
    check_after(soil, (Mistake::LeafReadFirst, Some(3)), parts, 3);
}

#[test]
#[should_panic(expected = "stale")]
fn a_page_that_goes_with_a_dirty_copy_is_found() {
    let parts = [change, World::take];
    check_after(soil, (Mistake::DirtyDropped, Some(3)), parts, 3);
}

/// The copy was written back, becomes dirty once more, and is changed before the page goes.
#[test]
#[should_panic(expected = "stale")]
fn a_page_that_is_left_open_is_found() {
    let parts = [change_twice, World::take];
    check_after(soil, (Mistake::LeftOpen, Some(2)), parts, 4);
}
