//! Model-checked with loom: every interleaving (and every allowed reordering) of small programs
//! over the lock, the epoch and copies of records. `RUSTFLAGS="--cfg loom" cargo test -p
//! timberline-sync --release --lib`.

mod copies;
mod epoch;

use std::sync::atomic::Ordering::Relaxed;

use loom::sync::Arc;
use loom::sync::atomic::AtomicU64;
use loom::thread;

use crate::{Restart, Versioned};

struct Pair(AtomicU64, AtomicU64);

impl Pair {
    fn new(value: u64) -> Self {
        Pair(AtomicU64::new(value), AtomicU64::new(value))
    }

    fn load(&self) -> (u64, u64) {
        (self.0.load(Relaxed), self.1.load(Relaxed))
    }

    fn store(&self, value: u64) {
        self.0.store(value, Relaxed);
        self.1.store(value, Relaxed);
    }
}

/// Two words written together are never believed apart.
#[test]
fn a_reader_never_believes_a_torn_pair() {
    loom::model(|| {
        let pair = Arc::new(Versioned::new(Pair::new(0)));
        let writer = thread::spawn({
            let pair = pair.clone();
            move || pair.lock().unwrap().store(1)
        });
        if let Ok((first, second)) = pair.read().and_then(|seen| seen.get(Pair::load)) {
            assert_eq!(first, second);
        }
        writer.join().unwrap();
    });
}

/// Increments under the lock are not lost, whether locked outright or by upgrade.
#[test]
fn writers_exclude_each_other() {
    loom::model(|| {
        let count = Arc::new(Versioned::new(AtomicU64::new(0)));
        let other = thread::spawn({
            let count = count.clone();
            move || {
                let held = count.lock().unwrap();
                held.store(held.load(Relaxed) + 1, Relaxed);
            }
        });
        let upgraded = count.read().unwrap().upgrade();
        let added = upgraded
            .map(|held| held.store(held.load(Relaxed) + 1, Relaxed))
            .is_ok();
        other.join().unwrap();
        let total = count
            .read()
            .unwrap()
            .get(|count| count.load(Relaxed))
            .unwrap();
        assert_eq!(total, 1 + u64::from(added));
    });
}

/// Slots of a tiny tree: a parent word that says which of two nodes is the child.
struct Tree {
    parent: Versioned<AtomicU64>,
    nodes: [Versioned<Pair>; 2],
}

impl Tree {
    fn new() -> Self {
        Tree {
            parent: Versioned::new(AtomicU64::new(0)),
            nodes: [Versioned::new(Pair::new(7)), Versioned::new(Pair::new(0))],
        }
    }

    /// The step of the protocol: child pointer, child's snapshot, then the parent again.
    fn get(&self) -> Result<(u64, u64), Restart> {
        let parent = self.parent.read()?;
        let child = parent.get(|child| child.load(Relaxed))?;
        let child = self.nodes[child as usize].read()?;
        parent.validate()?;
        child.get(Pair::load)
    }

    /// A migration: copy to the other place, swing the parent, retire the old place.
    #[allow(unsafe_code)]
    fn migrate(&self) -> Result<(), Restart> {
        let parent = self.parent.read()?.upgrade()?;
        let from = parent.load(Relaxed);
        let node = self.nodes[from as usize].lock()?;
        let to = &self.nodes[1 - from as usize];
        // SAFETY: not linked yet.
        unsafe { to.claim() }.store(node.load().0);
        parent.store(1 - from, Relaxed);
        node.retire();
        Ok(())
    }

    fn update(&self, value: u64) -> Result<(), Restart> {
        let parent = self.parent.read()?;
        let child = parent.get(|child| child.load(Relaxed))?;
        let child = self.nodes[child as usize].read()?;
        parent.validate()?;
        child.upgrade()?.store(value);
        Ok(())
    }
}

/// A read beside a migration restarts or sees the value; nothing else.
#[test]
fn a_read_while_the_node_migrates_sees_the_value() {
    loom::model(|| {
        let tree = Arc::new(Tree::new());
        let mover = thread::spawn({
            let tree = tree.clone();
            move || tree.migrate().unwrap()
        });
        if let Ok(value) = tree.get() {
            assert_eq!(value, (7, 7));
        }
        mover.join().unwrap();
        assert_eq!(tree.get(), Ok((7, 7)));
    });
}

/// An update beside a migration restarts or lands in the node that stays: it is never lost.
#[test]
fn an_update_while_the_node_migrates_is_not_lost() {
    loom::model(|| {
        let tree = Arc::new(Tree::new());
        let mover = thread::spawn({
            let tree = tree.clone();
            move || tree.migrate().is_ok()
        });
        let updated = tree.update(9).is_ok();
        assert!(mover.join().unwrap());
        let expected = if updated { 9 } else { 7 };
        assert_eq!(tree.get(), Ok((expected, expected)));
    });
}
