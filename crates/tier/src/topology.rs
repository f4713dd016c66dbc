//! Which memory this machine has, and which of it is fast.
//!
//! Everything is read below a root directory that is a parameter: `/` is this machine, and the
//! recorded tree of another server is that server. NUMA nodes, CPUs, distances, measured latency
//! and bandwidth, the kernel's memory tiers and the process's memory limit are collected first;
//! then nodes are ranked into tiers, each with a sentence that says why.
//!
//! Invariants:
//! - tier 0 is the fastest, and no tier is empty;
//! - a NUMA node is in at most one tier; it is in none only if it has no memory, this process may
//!   not use it, or the user left it out; its [`Ranking`] says which;
//! - what is optional and unreadable becomes a note, never a guess that looks like a reading.
//!
//! Testbeds like those of SIDLE §5 (a CPU-less CXL node beside DRAM) are what
//! the ranking has to get right without being told.

mod cgroup;
mod error;
mod id_list;
mod kernel;
mod numa;
mod rank;
mod report;
mod sysfs;
mod why;

use std::path::Path;

use serde::Serialize;

pub use cgroup::MemoryLimit;
pub use error::{Side, TopologyError};
pub use id_list::{CpuList, IdList, IdListError, NodeList};
pub use kernel::KernelSettings;
pub use numa::{NumaNode, Performance};
pub use rank::{Basis, Ranking};

/// The memory of one machine, ranked into tiers.
///
/// `Display` is a report for people; `Serialize` holds the same facts for programs.
#[derive(Clone, Debug, Serialize)]
pub struct Topology {
    initiator: u32,
    tiers: Vec<Tier>,
    nodes: Vec<NumaNode>,
    rankings: Vec<Ranking>,
    possible: NodeList,
    memory_limit: Option<MemoryLimit>,
    kernel: KernelSettings,
    notes: Vec<String>,
}

/// NUMA nodes that are equally fast.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Tier {
    /// The NUMA nodes, never empty.
    pub nodes: NodeList,
    /// Memory of these nodes, in bytes.
    pub total_bytes: u64,
    /// Free memory of these nodes when it was read, in bytes.
    pub free_bytes: u64,
}

impl Topology {
    /// Reads the machine whose `/sys` and `/proc` are below `root`, and ranks its nodes as seen
    /// from the lowest NUMA node that has CPUs.
    ///
    /// # Errors
    ///
    /// When it cannot be known which nodes there are or how much memory they have. Anything else
    /// that is missing or malformed is left out; if malformed, a note says so.
    pub fn discover(root: &Path) -> Result<Topology, TopologyError> {
        let mut tree = sysfs::Tree::new(root);
        let numa::Nodes { nodes, possible } = numa::read(&mut tree)?;
        let memory_limit = cgroup::memory_limit(&mut tree);
        let kernel = KernelSettings::read(&mut tree);
        let initiator = nodes
            .iter()
            .find(|node| node.has_cpus())
            .or(nodes.first())
            .map_or(0, |node| node.id);
        let topology = Topology {
            initiator,
            tiers: Vec::new(),
            nodes,
            rankings: Vec::new(),
            possible,
            memory_limit,
            kernel,
            notes: tree.into_notes(),
        };
        if topology.usable().next().is_none() {
            return Err(TopologyError::NoMemory {
                nodes: topology.nodes.iter().map(|n| n.id).collect(),
            });
        }
        Ok(topology.ranked())
    }

    /// The same machine as seen from the CPUs of another NUMA node.
    ///
    /// # Errors
    ///
    /// When there is no such node, or it has no CPUs.
    pub fn seen_from(&self, initiator: u32) -> Result<Topology, TopologyError> {
        if !self.node(initiator).is_some_and(NumaNode::has_cpus) {
            let nodes = self
                .nodes
                .iter()
                .filter(|node| node.has_cpus())
                .map(|node| node.id)
                .collect();
            return Err(TopologyError::NoCpus {
                node: initiator,
                nodes,
            });
        }
        Ok(Topology {
            initiator,
            ..self.clone()
        }
        .ranked())
    }

    /// The same machine in at most two tiers that the user chose: `fast`, then `slow`. An empty
    /// list means every usable node that the other list does not name; two empty lists change
    /// nothing. A node that neither of two filled lists names is in no tier.
    ///
    /// # Errors
    ///
    /// When a named node does not exist, is in both lists, has no memory, or may not be used by
    /// this process, and when no fast node would be left.
    pub fn with_override(
        &self,
        fast: &NodeList,
        slow: &NodeList,
    ) -> Result<Topology, TopologyError> {
        if fast.is_empty() && slow.is_empty() {
            return Ok(self.clone());
        }
        self.check_choice(Side::Fast, fast)?;
        self.check_choice(Side::Slow, slow)?;
        if let Some(node) = fast.iter().find(|&node| slow.contains(node)) {
            return Err(TopologyError::InBoth {
                node,
                nodes: self.usable_ids(),
            });
        }
        let rest_of = |named: &NodeList| -> NodeList {
            self.usable_ids()
                .iter()
                .filter(|&node| !named.contains(node))
                .collect()
        };
        let fast = if fast.is_empty() {
            rest_of(slow)
        } else {
            fast.clone()
        };
        if fast.is_empty() {
            return Err(TopologyError::NothingFast {
                nodes: self.usable_ids(),
            });
        }
        let slow = if slow.is_empty() {
            rest_of(&fast)
        } else {
            slow.clone()
        };

        // From what was found, not from an earlier choice.
        let found = self.clone().ranked();
        let rankings = found
            .rankings
            .iter()
            .map(|ranking| ranking.overridden(&fast, &slow))
            .collect();
        let tiers = [fast, slow].into_iter().filter(|nodes| !nodes.is_empty());
        Ok(Topology {
            tiers: tiers.map(|nodes| self.tier_of(nodes)).collect(),
            rankings,
            ..self.clone()
        })
    }

    /// The NUMA nodes of a tier, to bind memory to. Empty if there is no such tier.
    pub fn tier_nodes(&self, tier: usize) -> &[u32] {
        self.tiers
            .get(tier)
            .map_or(&[], |tier| tier.nodes.as_slice())
    }

    /// The tiers, fastest first. There is at least one.
    pub fn tiers(&self) -> &[Tier] {
        &self.tiers
    }

    /// Every online NUMA node, by number.
    pub fn nodes(&self) -> &[NumaNode] {
        &self.nodes
    }

    /// Where each node of [`Topology::nodes`] was ranked, in the same order, and why.
    pub fn rankings(&self) -> &[Ranking] {
        &self.rankings
    }

    /// The NUMA node from whose CPUs memory is judged.
    pub fn initiator(&self) -> u32 {
        self.initiator
    }

    /// NUMA nodes that could come online, hot-plugged memory included.
    pub fn possible(&self) -> &NodeList {
        &self.possible
    }

    /// The tightest limit on this process's memory, if there is one.
    pub fn memory_limit(&self) -> Option<&MemoryLimit> {
        self.memory_limit.as_ref()
    }

    /// The free memory of each tier that this process may take, in bytes: faster tiers first, as
    /// far as the limit on its memory reaches. The whole limit counts: what is charged against it
    /// is in part page cache, which the kernel gives up.
    pub fn allowed_bytes(&self) -> Vec<u64> {
        let mut left = self.memory_limit.as_ref().map_or(u64::MAX, |it| it.bytes);
        let take = |tier: &Tier| {
            let bytes = tier.free_bytes.min(left);
            left -= bytes;
            bytes
        };
        self.tiers.iter().map(take).collect()
    }

    /// The kernel's own page placement.
    pub fn kernel(&self) -> &KernelSettings {
        &self.kernel
    }

    /// A line for each file that could not be read or looked wrong.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    fn node(&self, id: u32) -> Option<&NumaNode> {
        self.nodes.iter().find(|node| node.id == id)
    }

    fn usable(&self) -> impl Iterator<Item = &NumaNode> {
        self.nodes.iter().filter(|node| node.is_usable())
    }

    fn usable_ids(&self) -> NodeList {
        self.usable().map(|node| node.id).collect()
    }

    fn ranked(mut self) -> Topology {
        let (tiers, rankings) = rank::rank(&self.nodes, self.initiator);
        self.tiers = tiers.into_iter().map(|nodes| self.tier_of(nodes)).collect();
        self.rankings = rankings;
        self
    }

    fn tier_of(&self, nodes: NodeList) -> Tier {
        let sum = |bytes: fn(&NumaNode) -> u64| {
            let members = self.nodes.iter().filter(|node| nodes.contains(node.id));
            members.map(bytes).fold(0, u64::saturating_add)
        };
        Tier {
            total_bytes: sum(|node| node.total_bytes),
            free_bytes: sum(|node| node.free_bytes),
            nodes,
        }
    }

    fn check_choice(&self, side: Side, chosen: &NodeList) -> Result<(), TopologyError> {
        let nodes = self.usable_ids();
        for id in chosen.iter() {
            match self.node(id) {
                None => {
                    return Err(TopologyError::NoSuchNode {
                        side,
                        node: id,
                        nodes,
                    });
                }
                Some(node) if node.total_bytes == 0 => {
                    return Err(TopologyError::WithoutMemory {
                        side,
                        node: id,
                        nodes,
                    });
                }
                Some(node) if !node.allowed => {
                    return Err(TopologyError::NotAllowed {
                        side,
                        node: id,
                        nodes,
                    });
                }
                Some(_) => {}
            }
        }
        Ok(())
    }
}
