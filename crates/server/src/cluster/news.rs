//! Tells what became of a cluster.

use std::net::SocketAddr;

use timberline_remote::ComputeId;
use tracing::{info, warn};

use super::{Map, name_of};

/// Tells how two maps differ: nodes that came or went, and the slots of this node.
pub(super) fn tell(before: &Map, now: &Map, this: ComputeId) {
    let is_in = |map: &Map, node: ComputeId| map.nodes.iter().any(|it| it.0 == node);
    let shown = |address: Option<SocketAddr>| address.map(|it| it.to_string());
    for &(node, address) in now.nodes.iter().filter(|it| !is_in(before, it.0)) {
        info!(
            node = name_of(node),
            address = shown(address),
            "a node is there"
        );
    }
    for &(node, address) in before.nodes.iter().filter(|it| !is_in(now, it.0)) {
        warn!(
            node = name_of(node),
            address = shown(address),
            "a node is gone"
        );
    }
    let (had, has) = (before.ranges_of(this), now.ranges_of(this));
    if had != has {
        let ranges = has.iter().map(|it| format!("{}-{}", it.start(), it.end()));
        let slots = ranges.collect::<Vec<_>>().join(",");
        info!(slots, "this node has these slots");
    }
}
