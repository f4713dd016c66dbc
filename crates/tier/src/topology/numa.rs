//! NUMA nodes as the kernel describes them (Linux `Documentation/admin-guide/mm/numaperf.rst` and
//! `ABI/stable/sysfs-devices-node`).
//!
//! Invariant: nodes are in ascending order, and at least one is returned. A kernel without NUMA
//! has one node with all CPUs and all memory.

use std::collections::BTreeMap;

use serde::Serialize;

use super::sysfs::Tree;
use super::{CpuList, NodeList, TopologyError};

const NODES: &str = "sys/devices/system/node";
const MEMORY_TIERS: &str = "sys/devices/virtual/memory_tiering";
const MEMINFO: &str = "proc/meminfo";

/// One online NUMA node.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct NumaNode {
    /// Its number.
    pub id: u32,
    /// Its CPUs; empty for memory without CPUs, like a CXL expander.
    pub cpus: CpuList,
    /// Its memory, in bytes; 0 for CPUs without memory.
    pub total_bytes: u64,
    /// Its free memory when it was read, in bytes.
    pub free_bytes: u64,
    /// ACPI distance from this node to each node: 10 is local, 21 takes 2.1 times as long. Empty
    /// if unknown.
    pub distances: BTreeMap<u32, u32>,
    /// What firmware or the CXL driver says of its speed, if anything.
    pub performance: Option<Performance>,
    /// N of the kernel's `memory_tierN` that it is in, if the kernel has tiers.
    pub kernel_tier: Option<u32>,
    /// Whether this process's cpuset lets it use this memory.
    pub allowed: bool,
}

/// The speed of a node's memory, as seen from its nearest initiators.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize)]
pub struct Performance {
    /// The nodes these values hold for; empty if the kernel does not say.
    pub initiators: NodeList,
    /// Nanoseconds a read takes.
    pub read_latency_ns: Option<u64>,
    /// Nanoseconds a write takes.
    pub write_latency_ns: Option<u64>,
    /// MB/s of reads.
    pub read_bandwidth_mbs: Option<u64>,
    /// MB/s of writes.
    pub write_bandwidth_mbs: Option<u64>,
}

impl NumaNode {
    /// Whether it has CPUs.
    pub fn has_cpus(&self) -> bool {
        !self.cpus.is_empty()
    }

    /// Whether it has memory that this process may use.
    pub fn is_usable(&self) -> bool {
        self.total_bytes > 0 && self.allowed
    }
}

/// The nodes that are online, and the numbers that could come online.
pub struct Nodes {
    pub nodes: Vec<NumaNode>,
    pub possible: NodeList,
}

pub fn read(tree: &mut Tree) -> Result<Nodes, TopologyError> {
    if !tree.exists(NODES) {
        let node = node_without_numa(tree)?;
        return Ok(Nodes {
            possible: [node.id].into_iter().collect(),
            nodes: vec![node],
        });
    }
    let path = format!("{NODES}/online");
    let text = tree.required(&path)?;
    let online: NodeList = text
        .parse()
        .ok()
        .filter(|list: &NodeList| !list.is_empty())
        .ok_or_else(|| tree.malformed(&path, &text, "a list of NUMA nodes like 0-1,3"))?;
    let possible = tree
        .list(&format!("{NODES}/possible"))
        .unwrap_or_else(|| online.clone());
    let kernel_tiers = kernel_tiers(tree);
    let allowed = tree
        .line_after("proc/self/status", "Mems_allowed_list:")
        .and_then(|list| list.parse::<NodeList>().ok());
    let mut nodes: Vec<NumaNode> = online
        .iter()
        .map(|id| {
            let directory = format!("{NODES}/node{id}");
            let (total_bytes, free_bytes) = node_memory(tree, &directory);
            NumaNode {
                id,
                cpus: tree
                    .list(&format!("{directory}/cpulist"))
                    .unwrap_or_default(),
                total_bytes,
                free_bytes,
                distances: distances(tree, &directory, &online),
                performance: performance(tree, &directory),
                kernel_tier: kernel_tiers.get(&id).copied(),
                allowed: allowed.as_ref().is_none_or(|list| list.contains(id)),
            }
        })
        .collect();
    if let [node] = nodes.as_mut_slice() {
        complete_only_node(tree, node);
    }
    Ok(Nodes { nodes, possible })
}

/// Without NUMA every byte and CPU is in one place.
fn node_without_numa(tree: &mut Tree) -> Result<NumaNode, TopologyError> {
    let text = tree.required(MEMINFO)?;
    let (total_bytes, free_bytes) = memory(&text)
        .ok_or_else(|| tree.malformed(MEMINFO, &text, "lines with MemTotal and MemFree in kB"))?;
    tree.note("the kernel knows no NUMA nodes: all memory is taken as one node".to_owned());
    Ok(NumaNode {
        id: 0,
        cpus: tree
            .list("sys/devices/system/cpu/online")
            .unwrap_or_default(),
        total_bytes,
        free_bytes,
        distances: BTreeMap::new(),
        performance: None,
        kernel_tier: None,
        allowed: true,
    })
}

/// Some virtual machines with ballooned or hot-plugged memory count it for the machine but not for
/// its node. If there is
/// one node only, all of the machine's memory is its.
fn complete_only_node(tree: &mut Tree, node: &mut NumaNode) {
    let Some((total, free)) = tree.text(MEMINFO).and_then(|text| memory(&text)) else {
        return;
    };
    if total / 11 > node.total_bytes / 10 {
        tree.note(format!(
            "node {} counts {} MiB of memory but the machine has {} MiB: all of it is taken as \
             this node's",
            node.id,
            node.total_bytes >> 20,
            total >> 20,
        ));
        (node.total_bytes, node.free_bytes) = (total, free);
    }
}

fn node_memory(tree: &mut Tree, directory: &str) -> (u64, u64) {
    let path = format!("{directory}/meminfo");
    let read = tree.text(&path).and_then(|text| memory(&text));
    if read.is_none() {
        let shown = tree.at(&path);
        tree.note(format!(
            "no MemTotal and MemFree in {}: the node is taken as having no memory",
            shown.display()
        ));
    }
    read.unwrap_or_default()
}

/// Total and free bytes in a `meminfo`, the machine's or a node's.
fn memory(meminfo: &str) -> Option<(u64, u64)> {
    let field = |name: &str| -> Option<u64> {
        let mut values = meminfo.lines().filter_map(|line| {
            let mut words = line
                .split_whitespace()
                .skip_while(|&word| word != name)
                .skip(1);
            words.next()?.parse::<u64>().ok()?.checked_mul(1024)
        });
        values.next()
    };
    Some((field("MemTotal:")?, field("MemFree:")?))
}

/// One column for each *online* node, so that columns are not node numbers where there are gaps.
fn distances(tree: &mut Tree, directory: &str, online: &NodeList) -> BTreeMap<u32, u32> {
    let path = format!("{directory}/distance");
    let Some(text) = tree.text(&path) else {
        return BTreeMap::new();
    };
    let columns: Result<Vec<u32>, _> = text.split_whitespace().map(str::parse).collect();
    match columns {
        Ok(columns) if columns.len() == online.len() => online.iter().zip(columns).collect(),
        _ => {
            let error = tree.malformed(&path, &text, "a distance for each online node");
            tree.note(format!("ignored: {error}"));
            BTreeMap::new()
        }
    }
}

/// Access class 1 counts only CPUs as initiators, class 0 also devices that read memory; kernels
/// before 5.19 and many descriptions have class 0 alone.
fn performance(tree: &mut Tree, directory: &str) -> Option<Performance> {
    ["access1", "access0"].into_iter().find_map(|class| {
        let directory = format!("{directory}/{class}/initiators");
        if !tree.exists(&directory) {
            return None;
        }
        let mut value = |name: &str, expected: &'static str| {
            // The kernel writes 0 for what firmware left out.
            tree.value(&format!("{directory}/{name}"), expected)
                .filter(|&value: &u64| value > 0)
        };
        let read = Performance {
            read_latency_ns: value("read_latency", "nanoseconds"),
            write_latency_ns: value("write_latency", "nanoseconds"),
            read_bandwidth_mbs: value("read_bandwidth", "MB/s"),
            write_bandwidth_mbs: value("write_bandwidth", "MB/s"),
            initiators: NodeList::default(),
        };
        let says_something = read != Performance::default();
        says_something.then(|| Performance {
            initiators: tree.numbered(&directory, "node"),
            ..read
        })
    })
}

fn kernel_tiers(tree: &mut Tree) -> BTreeMap<u32, u32> {
    let mut tier_of = BTreeMap::new();
    for tier in tree.numbered(MEMORY_TIERS, "memory_tier").iter() {
        let nodes = tree.list(&format!("{MEMORY_TIERS}/memory_tier{tier}/nodelist"));
        tier_of.extend(
            nodes
                .iter()
                .flat_map(|nodes| nodes.iter())
                .map(|node| (node, tier)),
        );
    }
    tier_of
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_a_machine_and_of_a_node() {
        let machine = "MemTotal:       24684096 kB\nMemFree:        23728396 kB\n";
        assert_eq!(memory(machine), Some((24_684_096 << 10, 23_728_396 << 10)));
        let node = "Node 3 MemTotal:  5073112 kB\nNode 3 MemFree: 0 kB\nNode 3 MemUsed: 7 kB";
        assert_eq!(memory(node), Some((5_073_112 << 10, 0)));
        for broken in ["", "MemTotal: 7 kB", "MemTotal: lots kB\nMemFree: 1 kB"] {
            assert_eq!(memory(broken), None, "{broken:?}");
        }
    }
}
