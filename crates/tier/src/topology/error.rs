//! Errors in a machine's description, or in a user's choice of nodes: one line each, which says
//! what was wrong and what is possible.

use std::fmt;
use std::path::PathBuf;

use super::NodeList;

/// Which of the two lists of an override is meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// The nodes asked to be tier 0.
    Fast,
    /// The nodes asked to be tier 1.
    Slow,
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Side::Fast => "fast nodes",
            Side::Slow => "slow nodes",
        })
    }
}

/// Why there is no topology. `Display` is one line. In every variant about a user's choice, `nodes`
/// are the nodes that would have been possible.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TopologyError {
    /// A file that nothing works without is not there or cannot be read.
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        reason: String,
    },
    /// A file that nothing works without holds something else.
    Malformed {
        /// The file.
        path: PathBuf,
        /// What it holds, shortened.
        found: String,
        /// What belongs there.
        expected: &'static str,
    },
    /// No node has memory that this process may use.
    NoMemory {
        /// The nodes there are.
        nodes: NodeList,
    },
    /// Memory cannot be judged from a node without CPUs.
    NoCpus {
        /// The node asked for.
        node: u32,
        /// The nodes with CPUs.
        nodes: NodeList,
    },
    /// A named node is not online.
    NoSuchNode {
        /// The list that names it.
        side: Side,
        /// The node named.
        node: u32,
        /// The possible ones.
        nodes: NodeList,
    },
    /// A named node has no memory.
    WithoutMemory {
        /// The list that names it.
        side: Side,
        /// The node named.
        node: u32,
        /// The possible ones.
        nodes: NodeList,
    },
    /// A named node is outside this process's cpuset.
    NotAllowed {
        /// The list that names it.
        side: Side,
        /// The node named.
        node: u32,
        /// The possible ones.
        nodes: NodeList,
    },
    /// A node is named in both lists.
    InBoth {
        /// The node named.
        node: u32,
        /// The possible ones.
        nodes: NodeList,
    },
    /// Every node is named slow.
    NothingFast {
        /// The possible ones.
        nodes: NodeList,
    },
}

impl fmt::Display for TopologyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use TopologyError::*;
        match self {
            Unreadable { path, reason } => write!(f, "cannot read {}: {reason}", path.display()),
            Malformed {
                path,
                found,
                expected,
            } => {
                write!(
                    f,
                    "{} holds \"{found}\": expected {expected}",
                    path.display()
                )
            }
            NoMemory { nodes } => {
                write!(
                    f,
                    "no NUMA node has memory that this process may use (online: {nodes})"
                )
            }
            NoCpus { node, nodes } => {
                write!(
                    f,
                    "NUMA node {node} has no CPUs to judge memory from: choose one of {nodes}"
                )
            }
            NoSuchNode { side, node, nodes } => {
                write!(
                    f,
                    "{side}: there is no NUMA node {node}: choose from {nodes}"
                )
            }
            WithoutMemory { side, node, nodes } => {
                write!(
                    f,
                    "{side}: NUMA node {node} has no memory: choose from {nodes}"
                )
            }
            NotAllowed { side, node, nodes } => write!(
                f,
                "{side}: this process's cpuset does not allow NUMA node {node}: choose from {nodes}"
            ),
            InBoth { node, nodes } => write!(
                f,
                "NUMA node {node} is named both fast and slow: share out the nodes {nodes}"
            ),
            NothingFast { nodes } => {
                write!(
                    f,
                    "every node is named slow: leave at least one of {nodes} fast"
                )
            }
        }
    }
}

impl std::error::Error for TopologyError {}
