//! Copies of hot records beside any placement of nodes, so that what the record cache gains is told
//! apart from what a placement gains.
//!
//! A fixed half of fast memory is for the cache, and nodes have the other half. `all-fast+copies`
//! is the roof of such rows: both tiers are equally fast, and nodes lie in the second one, because
//! only records there have copies.

use std::sync::Arc;
use std::time::Duration;

use timberline_placement::workers::{Next, Worker};
use timberline_placement::{
    Access, AllSlow, LeafRef, MAX_SAMPLE_INTERVAL, NewNode, NodeKey, Placed, Placement, View,
};
use timberline_tier::TierId;

use crate::table::{Kind, Made, Make, Row, Setup, Tiers};
use crate::{fixed, sidle};

/// The fraction of fast memory for copies.
const SHARE: f64 = 0.5;

pub(crate) const ALL_FAST: Row = Row {
    tiers: Tiers::BothFast,
    ..beside(
        fixed::ALL_FAST,
        "all-fast+copies",
        "all-fast with copies of hot records: the roof where records are copied",
        |setup| with_copies(setup, MAX_SAMPLE_INTERVAL, |_| Made::fixed(AllSlow)),
    )
};

pub(crate) const INTERLEAVE: Row = beside(
    fixed::INTERLEAVE,
    "interleave+copies",
    "interleave in half of fast memory, copies of hot records in the other half",
    |setup| with_copies(setup, MAX_SAMPLE_INTERVAL, nodes(&fixed::INTERLEAVE)),
);

pub(crate) const SIDLE: Row = beside(
    sidle::ROW,
    "sidle+copies",
    "SIDLE in half of fast memory, copies of hot records in the other half",
    // SIDLE counts every access to a leaf.
    |setup| with_copies(setup, 1, nodes(&sidle::ROW)),
);

/// How a row of a placement of nodes makes it.
fn nodes(row: &Row) -> fn(&Setup<'_>) -> Result<Made, String> {
    match row.make {
        Make::Nodes(make) => make,
        Make::Pages(_) | Make::Kernel => unreachable!("{} places pages", row.name),
    }
}

/// A row like another one. The cache adapts, whatever the placement does.
const fn beside(
    row: Row,
    name: &'static str,
    about: &'static str,
    make: fn(&Setup<'_>) -> Result<Made, String>,
) -> Row {
    Row {
        name,
        about,
        more_tiers: false,
        kind: Kind::Adaptive,
        style: row.style.pale(60),
        make: Make::Nodes(make),
        ..row
    }
}

/// A placement in the fast memory that copies leave, with the cache. After an access to a copy, the
/// placement is told of the `next`th access from there.
fn with_copies(
    setup: &Setup<'_>,
    next: u32,
    make: fn(&Setup<'_>) -> Result<Made, String>,
) -> Result<Made, String> {
    let mut made = make(&Setup {
        fast_ratio: setup.fast_ratio * (1.0 - SHARE),
        ..*setup
    })?;
    made.placement = Arc::new(WithCopies {
        nodes: made.placement,
        next,
    });
    made.workers.push(Box::new(Filler));
    Ok(made)
}

/// A placement that lets a record cache have its share.
struct WithCopies {
    nodes: Arc<dyn Placement>,
    /// The distance from an access to a copy to the next sample. The tree has one countdown for
    /// both kinds of accesses, so a longer one would hide leaves' accesses from the placement.
    next: u32,
}

impl Placement for WithCopies {
    fn place(&self, node: NewNode) -> TierId {
        self.nodes.place(node)
    }

    fn on_access(&self, leaf: LeafRef<'_>, access: Access) -> u32 {
        self.nodes.on_access(leaf, access)
    }

    fn leaf_split(&self, left: LeafRef<'_>, right: LeafRef<'_>) {
        self.nodes.leaf_split(left, right);
    }

    fn leaf_moved(&self, from: LeafRef<'_>, to: LeafRef<'_>) {
        self.nodes.leaf_moved(from, to);
    }

    fn leaf_freed(&self, address: usize) {
        self.nodes.leaf_freed(address);
    }

    fn boundary_broken(&self, node: NodeKey, fastest: TierId) {
        self.nodes.boundary_broken(node, fastest);
    }

    fn record_pages(&self, nodes: usize) -> usize {
        (nodes as f64 * SHARE) as usize
    }

    fn on_copy_access(&self, _page: usize) -> u32 {
        self.next
    }

    fn view(&self) -> Option<View> {
        self.nodes.view()
    }
}

/// Gives the cache its pages, as soon as there is room for them.
struct Filler;

impl Worker for Filler {
    fn name(&self) -> &'static str {
        "copies"
    }

    fn step(&mut self, tree: &dyn Placed, _: Duration) -> Next {
        let (pages, most) = tree.record_pages();
        let added = (pages..most).take_while(|_| tree.add_record_page()).count();
        match pages + added == most {
            true => Next::After(Duration::from_secs(1)),
            false => Next::After(Duration::from_millis(10)),
        }
    }
}
