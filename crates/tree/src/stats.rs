//! Statistics of a map, which each tree collects.

/// The nodes of one level.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LevelFill {
    /// Nodes in the fast tier.
    pub fast: usize,
    /// Nodes in slower tiers.
    pub slow: usize,
}

/// Statistics of a map. Other threads may change it meanwhile; then the sums are approximate.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Records.
    pub records: usize,
    /// Levels from the root (0) to the leaves.
    pub levels: Vec<LevelFill>,
    /// Nodes with records, at whatever level.
    pub leaves: LevelFill,
    /// The size of a node in bytes; the average of leaves if they differ.
    pub node_bytes: usize,
    /// Pages with copies of hot records; they come and go.
    pub record_pages: usize,
    /// Bytes of these pages, in fast memory.
    pub copies_bytes: usize,
    /// Bytes of all nodes, and of values in blocks, ends of long keys, layers' prefixes, and pages
    /// of copies.
    pub bytes_in_nodes: usize,
    /// Bytes committed in the fast tier, tables included.
    pub fast_bytes: usize,
    /// Bytes committed in slower tiers.
    pub slow_bytes: usize,
    /// Nodes moved to faster memory so far.
    pub promoted: u64,
    /// Nodes moved to slower memory so far.
    pub demoted: u64,
    /// Nodes in a faster tier than their parent. It is 0 when a tree in two tiers is quiet, for
    /// placements that keep the single boundary.
    pub above_boundary: usize,
    /// Threads that ended while they were pinned in the map's epoch domain: they forgot a guard.
    /// From then on no memory is reclaimed as long as the map lives.
    pub stuck_threads: usize,
    /// Futures of the map that were polled and neither completed nor dropped. Meanwhile no memory
    /// is reclaimed. A future that was forgotten (`std::mem::forget`), or is never polled again,
    /// counts here.
    pub live_futures: usize,
}

impl Stats {
    /// Adds this many pages of copies of hot records, each of so many bytes.
    pub(crate) fn add_copies(&mut self, pages: usize, bytes: usize) {
        self.record_pages = pages;
        self.copies_bytes = pages * bytes;
        self.bytes_in_nodes += self.copies_bytes;
    }
}
