//! The sentence that says why a node is in its tier: its latency, its place, and what the kernel
//! claims, where that differs from the ranking.

use std::cmp::Ordering;

use super::Basis;
use super::rank::{Run, Scaled, View};

/// Everything that a node's sentence may mention.
pub struct Sentence<'a> {
    /// The node from whose CPUs memory is judged.
    pub initiator: u32,
    /// The usable nodes, sorted.
    pub views: &'a [View<'a>],
    /// The tiers, as runs of the views.
    pub tiers: &'a [Run],
}

impl Sentence<'_> {
    /// The sentence for the view at `at`, which `basis` put in `tier`.
    pub fn why(&self, at: usize, tier: usize, basis: Basis) -> String {
        if self.views.len() == 1 {
            return "the only node with memory".to_owned();
        }
        let facts = [self.latency_clause(at), self.place_clause(at)];
        let mut clauses: Vec<String> = facts.into_iter().flatten().collect();
        clauses.extend(self.kernel_clause(tier, basis, at));
        clauses.join("; ")
    }

    fn latency_clause(&self, at: usize) -> Option<String> {
        // Sorted by latency only if every node has one.
        if self.views.iter().any(|view| view.latency.is_none()) {
            return None;
        }
        let latency = self.views[at].latency?;
        let mut clause = match latency.scaled {
            None => format!("read latency {} ns", latency.ns),
            Some(Scaled {
                ns,
                from,
                far,
                near,
            }) => format!(
                "read latency about {} ns (node {from} measures {ns} ns, scaled by distance \
                 {far}/{near})",
                latency.ns
            ),
        };
        match self.views[0].latency {
            Some(fastest) if at > 0 => {
                clause += &format!(
                    " against node {}'s {} ns",
                    self.views[0].node.id, fastest.ns
                );
            }
            _ => clause += ", the lowest",
        }
        Some(clause)
    }

    fn place_clause(&self, at: usize) -> Option<String> {
        let view = &self.views[at];
        let distance = match view.distance {
            _ if view.node.id == self.initiator => Some("local to its CPUs".to_owned()),
            Some(distance) => Some(format!("distance {distance} from node {}", self.initiator)),
            None => None,
        };
        let cpus = (!view.node.has_cpus()).then(|| "no CPUs".to_owned());
        let parts: Vec<String> = [cpus, distance].into_iter().flatten().collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }

    /// What the kernel's tiers say of this node, where that is worth knowing.
    fn kernel_clause(&self, tier: usize, basis: Basis, at: usize) -> Option<String> {
        let own = self.views[at].node.kernel_tier?;
        let Run { range, .. } = &self.tiers[tier];
        for (position, view) in self.views[..range.end].iter().enumerate() {
            let Some(other) = view.node.kernel_tier else {
                continue;
            };
            let together = range.contains(&position);
            let peer = view.node.id;
            let claim = match own.cmp(&other) {
                Ordering::Equal if !together => format!("with node {peer}"),
                Ordering::Less => format!("before node {peer}'s memory_tier{other}"),
                Ordering::Greater if together => format!("behind node {peer}'s memory_tier{other}"),
                _ => continue,
            };
            return Some(format!(
                "kernel puts it in memory_tier{own} {claim}, overridden"
            ));
        }
        match (tier, basis) {
            (0, _) => None,
            (_, Basis::KernelTier) => {
                Some(format!("kernel puts it in memory_tier{own}, which decides"))
            }
            _ => Some(format!("kernel agrees (memory_tier{own})")),
        }
    }
}
