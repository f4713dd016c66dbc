//! The placements that maps are tested under.

use std::sync::{Arc, Mutex};

use timberline_placement::{AllSlow, NewNode, NodeKey, Placed, Placement};
use timberline_research::sidle::Technique;
use timberline_research::{InnerFast, Interleave};
use timberline_tier::{Arenas, TierId};

use super::draw::Draw;
use super::{TestMap, arenas, moving};

/// A placement, and how it treats the single boundary.
pub struct Placing {
    pub placement: Arc<dyn Placement>,
    /// What its workers do to restore the boundary once the map is quiet; `None` for a placement
    /// that keeps none.
    pub settle: Option<Settle>,
}

type Settle = Box<dyn Fn(&dyn Placed) + Send + Sync>;

/// What a placement is made for.
pub struct Setup {
    pub seed: u64,
    /// Bytes for nodes in fast memory.
    pub fast: usize,
    /// Bytes for nodes in slow memory.
    pub slow: usize,
    pub node_bytes: usize,
}

/// Makes a placement and the arenas it is for.
pub type Make = fn(&Setup) -> (Arenas, Placing);

/// All placements that maps are tested under.
pub const ALL: &[Make] = &[
    |setup| (setup.arenas(), shuffle(setup.seed)),
    |setup| (setup.arenas(), copied(setup.seed)),
    |setup| (setup.arenas(), interleave(setup.seed)),
    |setup| (setup.arenas(), inner_fast(setup.seed)),
    |setup| (setup.arenas(), moving::random(setup.seed).placing()),
    |setup| (setup.arenas(), unmoved(Technique::Layering)),
    |setup| (setup.arenas(), unmoved(Technique::Tracking)),
    |setup| {
        let policy = moving::sidle_up_to(Technique::Migration);
        (setup.arenas(), policy.placing())
    },
    |setup| {
        let policy = moving::sidle_up_to(Technique::Histogram);
        (setup.arenas(), policy.placing())
    },
    |setup| (setup.arenas(), moving::sidle().placing()),
    |setup| {
        let (arenas, policy) = moving::timberline(setup);
        (arenas, policy.placing())
    },
];

/// Those that threads who use a map can tell apart. The other steps of SIDLE's ablation differ in
/// what their workers do, and these run when all threads are done.
pub const FOR_THREADS: &[Make] = &[
    ALL[0], ALL[1], ALL[2], ALL[3], ALL[4], ALL[6], ALL[9], ALL[10],
];

/// Those under which records may have copies, in a map that makes any.
#[allow(dead_code, reason = "not every program that has the suite asks")]
pub const COPYING: &[Make] = &[
    |setup| (setup.arenas(), shuffle(setup.seed)),
    |setup| (setup.arenas(), copied(setup.seed)),
];

/// A map under a placement, with this many bytes for its nodes.
pub fn map<T: TestMap>(make: Make, seed: u64, fast: usize, slow: usize) -> (T, Placing) {
    let node_bytes = T::APART;
    let setup = Setup {
        seed,
        fast: fast * T::SIZES,
        slow,
        node_bytes,
    };
    let (arenas, placing) = make(&setup);
    (T::make(arenas, placing.placement.clone()).unwrap(), placing)
}

impl Setup {
    pub fn arenas(&self) -> Arenas {
        arenas::two(self.fast, self.slow)
    }
}

/// The one for tests that need just any: new nodes go to random tiers.
pub fn shuffle(seed: u64) -> Placing {
    Shuffle::placing(seed, 2)
}

/// New nodes are slow, and records may have copies.
fn copied(seed: u64) -> Placing {
    Shuffle::placing(seed, 1)
}

/// New nodes stay fast as long as there is room.
pub fn fast_first(seed: u64) -> Placing {
    Shuffle::placing(seed, u64::MAX)
}

/// New nodes are slow, whatever is above them.
pub fn all_slow(_: u64) -> Placing {
    Placing {
        placement: Arc::new(AllSlow),
        settle: None,
    }
}

/// Every other new node is slow, whatever is above it.
fn interleave(_: u64) -> Placing {
    Placing {
        placement: Arc::new(Interleave::new(0.5)),
        settle: None,
    }
}

/// Leaves are slow. Once fast memory ends among the inner nodes, nobody mends the boundary.
fn inner_fast(_: u64) -> Placing {
    Placing {
        placement: Arc::new(InnerFast),
        settle: None,
    }
}

/// A step of SIDLE's ablation that moves nothing. Once fast memory ends among the inner nodes,
/// nobody mends the boundary.
fn unmoved(technique: Technique) -> Placing {
    Placing {
        settle: None,
        ..moving::sidle_up_to(technique).placing()
    }
}

/// Puts new nodes anywhere that keeps the single boundary: one in `slow_once_in` goes slow
/// although it might be fast.
struct Shuffle {
    draw: Mutex<Draw>,
    slow_once_in: u64,
    broken: Mutex<Vec<NodeKey>>,
}

impl Shuffle {
    fn placing(seed: u64, slow_once_in: u64) -> Placing {
        let this = Arc::new(Shuffle {
            draw: Mutex::new(Draw::new(seed, 0x5f)),
            slow_once_in,
            broken: Mutex::default(),
        });
        let placement = this.clone();
        let settle = move |placed: &dyn Placed| {
            let broken = std::mem::take(&mut *this.broken.lock().unwrap());
            for node in broken {
                placed.demote_subtree(&node);
            }
        };
        Placing {
            placement,
            settle: Some(Box::new(settle)),
        }
    }
}

impl Placement for Shuffle {
    fn place(&self, node: NewNode) -> TierId {
        // An inner node takes over children of the node it is split from, which may be fast.
        let children_may_be_fast = node.height > 0 && node.split_from.is_fast();
        if !node.parent.is_fast() {
            return TierId::SLOW;
        }
        if !children_may_be_fast && self.draw.lock().unwrap().once_in(self.slow_once_in) {
            return TierId::SLOW;
        }
        TierId::FAST
    }

    /// So few that those that come and go hold most of a small map's copies. Another number each
    /// time, as if the limit of fast memory had changed.
    fn record_pages(&self, nodes: usize) -> usize {
        let most = 1 + self.draw.lock().unwrap().below(8) as usize;
        (nodes / 4).min(most)
    }

    fn on_copy_access(&self, _: usize) -> u32 {
        1
    }

    fn boundary_broken(&self, node: NodeKey, _: TierId) {
        self.broken.lock().unwrap().push(node);
    }
}
