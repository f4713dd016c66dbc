//! Where the kernel put the pages of a tier.

use std::io;
use std::ops::Range;

use super::Arenas;
use crate::TierId;
use crate::os::{self, PAGE};

/// Where the kernel put a tier's pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PageCensus {
    /// Committed pages.
    pub pages: usize,
    /// Of these, pages on another NUMA node than the tier is bound to.
    pub misplaced: usize,
    /// Of these, pages without memory behind them (yet).
    pub absent: usize,
}

impl Arenas {
    /// Asks the kernel where a tier's committed pages are.
    ///
    /// # Errors
    /// The kernel has no `move_pages`, or refuses it.
    pub fn census(&self, tier: TierId) -> io::Result<PageCensus> {
        let this = &self.tiers[tier.index()];
        let mut census = PageCensus::default();
        for nodes in self.nodes_of_chunks(tier, 1)? {
            census.pages += nodes.len();
            census.absent += nodes.iter().filter(|&&node| node < 0).count();
            let elsewhere = |&&node: &&i32| node >= 0 && !this.nodes.contains(&(node as u32));
            if !this.nodes.is_empty() {
                census.misplaced += nodes.iter().filter(elsewhere).count();
            }
        }
        Ok(census)
    }

    /// The NUMA node of the page at an address of these arenas, as the kernel says now; `None` if
    /// there is no memory behind it (yet).
    ///
    /// # Errors
    /// The kernel has no `move_pages`, or refuses it.
    pub fn numa_node_of(&self, address: usize) -> io::Result<Option<u32>> {
        let nodes = os::nodes_of_pages(&[address & !(PAGE - 1)])?;
        Ok(nodes.first().and_then(|&node| u32::try_from(node).ok()))
    }

    /// Estimates the bytes of a tier that lie on one of `nodes` now, from one page in `one_in`, and
    /// at least one page of each chunk.
    ///
    /// # Errors
    /// The kernel has no `move_pages`, or refuses it.
    pub fn bytes_on(&self, tier: TierId, nodes: &[u32], one_in: usize) -> io::Result<usize> {
        let is_there = |&&node: &&i32| u32::try_from(node).is_ok_and(|node| nodes.contains(&node));
        let asked = self.nodes_of_chunks(tier, one_in)?.concat();
        let there = asked.iter().filter(is_there).count();
        let committed: usize = self.committed(tier).iter().map(Range::len).sum();
        Ok(there * (committed / PAGE) / asked.len().max(1) * PAGE)
    }

    /// The NUMA nodes of one page in `one_in` of each chunk of a tier; negative for an absent page.
    fn nodes_of_chunks(&self, tier: TierId, one_in: usize) -> io::Result<Vec<Vec<i32>>> {
        let chunks = self.committed(tier).into_iter();
        let nodes = chunks.map(|chunk| {
            let pages: Vec<usize> = chunk.step_by(PAGE * one_in.max(1)).collect();
            os::nodes_of_pages(&pages)
        });
        nodes.collect()
    }
}
