//! Leaves that stay in the pool: each operation reads its leaf there, and writes it there at once.
//! So work the designs that are compared: Sherman and SMART, which cache inner nodes alone (Wang
//! et al.: "Sherman", SIGMOD 2022; Luo et al.: "SMART", OSDI 2023), and a tree without any cache.
//!
//! | file | noun |
//! |---|---|
//! | `read.rs` | the way to a leaf, and reading it |
//! | `change.rs` | changes of records, under the leaf's lock |
//! | `turns.rs` | operations of one compute server on the same leaf |
//! | `split.rs` | splits of leaves |
//! | `mend.rs` | what a dead compute server left half done |
//!
//! **Leaves that several compute servers write.** Each has a lock in the pool, and a checksum.
//! - Who changes a leaf takes its lock, reads it, writes what changed, then the checksum, then
//!   releases the lock; the writes and the release are one round trip.
//! - Readers take no lock. A mixture of two images fails the checksum, and is read again.
//! - An operation may go to a leaf by an old copy of its parent. The leaf's fences tell if its key
//!   is there no more: then the way is fetched again.
//! - A split holds the locks of both leaves from before the parent leads to the right one until the
//!   left one is shortened. In between, who comes by an old parent reads of the left leaf what the
//!   right one has, too.
//! - Leaves are not merged, so that no address of one ever has another node.

mod change;
mod mend;
mod read;
mod split;
mod turns;

pub(super) use turns::LeafTurns;

/// Who writes a leaf, and how a reader knows that it has read a whole one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Check {
    /// The compute server whose keys it has, alone: nothing has to be known.
    Owner,
    /// All compute servers. The leaf's checksum tells: one read.
    Checksum,
    /// All compute servers. The node's checksum is read before and after it, too, and has to be
    /// the same: three reads, of inner nodes too. DEX's authors have their Sherman read a version
    /// so (Lu et al.: "DEX", VLDB 2024, section 8.1).
    Versions,
}

/// How operations of one compute server on the same leaf take turns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turns {
    /// Changes wait for each other; each takes the leaf's lock. Readers wait for nobody.
    Alone,
    /// As [`Alone`](Self::Alone), but who waits gets the lock handed, up to eight times in a row
    /// (Sherman's hierarchical locks).
    HandedOver,
    /// All changes that wait are done by the first of them, and all reads by the first of these
    /// (SMART's read delegation and write combining).
    Together,
}

/// How leaves are used that stay in the pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Direct {
    /// Who writes them.
    pub check: Check,
    /// How operations of this compute server take turns.
    pub turns: Turns,
    /// Whether inner nodes are cached. If not, every operation reads its way from the root.
    pub cached_ways: bool,
}

impl Direct {
    /// Whether several compute servers write the same leaves.
    pub(crate) fn is_shared(self) -> bool {
        self.check != Check::Owner
    }
}
