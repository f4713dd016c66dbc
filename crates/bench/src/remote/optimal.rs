//! The fewest reads that a cache of whole nodes can have, knowing all requests beforehand.
//!
//! A cache of nodes of one size does best if it drops the node whose next use is furthest away,
//! which may be the one just read (Belady: "A study of replacement algorithms for a virtual-storage
//! computer", IBM Systems Journal 1966). Lookups only, so nodes are as they were loaded.

use std::collections::{BTreeSet, HashMap};

use timberline_remote::{LOAD_FILL, NODE_BYTES, NODE_ENTRIES};

use super::requests::Requests;
use super::{Setting, Workload};
use crate::workload::Rng;

/// Reads a request, of all compute servers with caches of nodes alone.
pub fn optimal_reads(setting: &Setting) -> f64 {
    let requests = Requests::new(setting, Workload::ReadOnly);
    let servers = u64::from(setting.compute_servers);
    let [warmup, counted] = [setting.warmup, setting.requests].map(|all| all / servers);
    let frames = setting.cache_bytes() / NODE_BYTES;
    let mut reads = 0;
    for server in 0..setting.compute_servers {
        let partition = setting.partition(server);
        let mut draws = Rng::new(setting.seed, u64::from(server));
        let keys = (0..warmup + counted).map(|_| requests.key(&partition, &mut draws));
        let nodes: Vec<Vec<Node>> = keys.map(|key| way_to(key / setting.stride())).collect();
        reads += misses(&nodes, frames, warmup as usize);
    }
    reads as f64 / (counted * servers).max(1) as f64
}

/// A node by its height and its number from the left.
type Node = (u8, u64);

/// Entries of a node after loading.
fn loaded_entries() -> u64 {
    (NODE_ENTRIES as f64 * LOAD_FILL) as u64
}

/// The nodes below the root on the way to a record of this number.
fn way_to(record: u64) -> Vec<Node> {
    let entries = loaded_entries();
    let mut number = record / entries;
    let mut way = Vec::new();
    while number > 0 || way.is_empty() {
        way.push((way.len() as u8, number));
        number /= entries;
    }
    way
}

/// How many nodes the requests from `first` on miss.
fn misses(requests: &[Vec<Node>], frames: usize, first: usize) -> u64 {
    const NEVER: usize = usize::MAX;
    // For each use, the request of the next one.
    let mut next_uses = Vec::new();
    let mut later = HashMap::new();
    for (number, nodes) in requests.iter().enumerate().rev() {
        for &node in nodes.iter().rev() {
            next_uses.push(later.insert(node, number).unwrap_or(NEVER));
        }
    }
    let mut cached: HashMap<Node, usize> = HashMap::new();
    let mut by_next_use: BTreeSet<(usize, Node)> = BTreeSet::new();
    let mut missed = 0;
    for (number, nodes) in requests.iter().enumerate() {
        for &node in nodes {
            let next = next_uses.pop().expect("one for each use");
            match cached.insert(node, next) {
                Some(this) => {
                    by_next_use.remove(&(this, node));
                }
                None => missed += u64::from(number >= first),
            }
            by_next_use.insert((next, node));
            if cached.len() > frames
                && let Some((_, furthest)) = by_next_use.pop_last()
            {
                cached.remove(&furthest);
            }
        }
    }
    missed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_node_that_is_needed_last_goes() {
        let of = |numbers: &[u64]| -> Vec<Vec<Node>> {
            numbers.iter().map(|&number| vec![(0, number)]).collect()
        };
        // A textbook's sequence. With three frames it has nine misses if what is read has to be
        // kept, eight if not.
        let uses = of(&[7, 0, 1, 2, 0, 3, 0, 4, 2, 3, 0, 3, 2, 1, 2, 0, 1, 7, 0, 1]);
        assert_eq!([6, 3].map(|frames| misses(&uses, frames, 0)), [6, 8]);
        assert_eq!(misses(&uses, 6, 5), 2);
        // One that is used once is not kept in place of one that is used again.
        assert_eq!(misses(&of(&[1, 2, 1, 3, 1, 4, 1]), 1, 0), 4);
        assert_eq!(misses(&[], 1, 0), 0);
    }

    #[test]
    fn a_way_has_a_node_of_each_height() {
        let entries = loaded_entries();
        assert_eq!(way_to(0), [(0, 0)]);
        assert_eq!(way_to(entries - 1), [(0, 0)]);
        assert_eq!(way_to(entries * entries), [(0, entries), (1, 1)]);
    }
}
