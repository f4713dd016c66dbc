//! Ranking NUMA nodes into tiers, as seen from the CPUs of one node, the initiator.
//!
//! The order of belief: measured read latency, if every node has it; otherwise memory with CPUs
//! before memory without, then distance from the initiator, then the kernel's memory tiers where
//! they differ. The kernel comes last because it often puts every node into one tier, although one
//! of them is a CXL expander. Values within 10 % of a tier's fastest node are the same tier.
//!
//! The kernel gives one latency a node, valid for its *nearest* initiators: another socket's DRAM
//! reports what its own CPUs see. For other initiators it is scaled by the ratio of distances.

use std::fmt;
use std::ops::Range;

use serde::Serialize;

use super::why::Sentence;
use super::{NodeList, NumaNode};

/// The reason for a node's rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// Nothing is faster.
    Fastest,
    /// Its read latency is higher than that of the tier before.
    Latency,
    /// It has no CPUs, and the tier before has.
    NoCpus,
    /// It is farther from the initiator than the tier before.
    Distance,
    /// The kernel puts it in a slower memory tier than the tier before.
    KernelTier,
    /// The user chose its tier.
    Override,
    /// In no tier: the user named it in neither list.
    LeftOut,
    /// In no tier: it has no memory.
    NoMemory,
    /// In no tier: this process's cpuset excludes it.
    NotAllowed,
}

/// Where a node is ranked, and why. `Display` is one line.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Ranking {
    /// The NUMA node.
    pub node: u32,
    /// Its tier; `None` if its memory is not used.
    pub tier: Option<usize>,
    /// Read latency from the initiator, in ns, if known.
    pub latency_ns: Option<u64>,
    /// Whether that latency is scaled from another initiator's.
    pub latency_estimated: bool,
    /// Distance from the initiator; 10 is local.
    pub distance: Option<u32>,
    /// What decided.
    pub basis: Basis,
    /// The same as a sentence.
    pub why: String,
}

impl fmt::Display for Ranking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {}: {}", self.node, self.why)
    }
}

impl Ranking {
    /// The ranking once the user has chosen. Nodes that could not be used stay as they are.
    pub(super) fn overridden(&self, fast: &NodeList, slow: &NodeList) -> Ranking {
        let Some(was) = self.tier else {
            return self.clone();
        };
        let (tier, basis, what) = if fast.contains(self.node) {
            (Some(0), Basis::Override, "chosen as fast")
        } else if slow.contains(self.node) {
            // Fast nodes are never empty, so slow ones are always tier 1.
            (Some(1), Basis::Override, "chosen as slow")
        } else {
            (
                None,
                Basis::LeftOut,
                "left out: chosen neither as fast nor as slow",
            )
        };
        let why = format!("{what}; found to be tier {was}: {}", self.why);
        Ranking {
            tier,
            basis,
            why,
            ..self.clone()
        }
    }
}

/// A usable node as the initiator sees it.
pub struct View<'a> {
    pub node: &'a NumaNode,
    pub distance: Option<u32>,
    pub latency: Option<Latency>,
}

impl View<'_> {
    fn is_estimated(&self) -> bool {
        self.latency.is_some_and(|latency| latency.scaled.is_some())
    }
}

/// Read latency from the initiator.
#[derive(Clone, Copy)]
pub struct Latency {
    pub ns: u64,
    /// What it was scaled from; `None` if it was measured from the initiator.
    pub scaled: Option<Scaled>,
}

/// A latency that holds for another initiator.
#[derive(Clone, Copy)]
pub struct Scaled {
    pub ns: u64,
    pub from: u32,
    /// The memory's distance from our initiator.
    pub far: u32,
    /// The memory's distance from the other initiator.
    pub near: u32,
}

/// The tiers, fastest first, and the ranking of every node in the order of `nodes`. Only nodes
/// with usable memory are in tiers.
pub fn rank(nodes: &[NumaNode], initiator: u32) -> (Vec<NodeList>, Vec<Ranking>) {
    let mut views: Vec<View> = nodes
        .iter()
        .filter(|node| node.is_usable())
        .map(|node| View {
            node,
            distance: distance(nodes, initiator, node.id),
            latency: latency(nodes, initiator, node),
        })
        .collect();
    let tiers = if views.iter().all(|view| view.latency.is_some()) {
        tiers_by_latency(&mut views)
    } else {
        tiers_by_place(&mut views)
    };
    let sentence = Sentence {
        initiator,
        views: &views,
        tiers: &tiers,
    };
    let ranking = |node: &NumaNode| {
        let distance = distance(nodes, initiator, node.id);
        match views.iter().position(|view| view.node.id == node.id) {
            Some(at) => ranked(&sentence, at),
            None => unused(node, distance),
        }
    };
    let rankings = nodes.iter().map(ranking).collect();
    let ids = |run: &Run| {
        views[run.range.clone()]
            .iter()
            .map(|view| view.node.id)
            .collect()
    };
    (tiers.iter().map(ids).collect(), rankings)
}

/// A run of the sorted views.
pub struct Run {
    pub range: Range<usize>,
    pub basis: Basis,
}

fn tiers_by_latency(views: &mut [View]) -> Vec<Run> {
    let ns = |view: &View| view.latency.map_or(u64::MAX, |latency| latency.ns);
    views.sort_by_key(|view| (ns(view), !view.node.has_cpus(), view.distance, view.node.id));
    runs(views, |first, last, view| {
        // An estimate is too coarse to call memory with and without CPUs equal.
        let coarse = [last, view].iter().any(|view| view.is_estimated());
        let apart = coarse && last.node.has_cpus() != view.node.has_cpus();
        (apart || !close(ns(first), ns(view))).then_some(Basis::Latency)
    })
}

fn tiers_by_place(views: &mut [View]) -> Vec<Run> {
    let far = |view: &View| u64::from(view.distance.unwrap_or(u32::MAX));
    let kernel = |view: &View| view.node.kernel_tier;
    views.sort_by_key(|view| (!view.node.has_cpus(), far(view), kernel(view), view.node.id));
    runs(views, |first, last, view| {
        if last.node.has_cpus() != view.node.has_cpus() {
            Some(Basis::NoCpus)
        } else if !close(far(first), far(view)) {
            Some(Basis::Distance)
        } else if kernel(last)
            .zip(kernel(view))
            .is_some_and(|(before, after)| before < after)
        {
            Some(Basis::KernelTier)
        } else {
            None
        }
    })
}

/// Cuts sorted views where `cut` gives a reason, from the run's first view, its last, and the next.
fn runs<'a>(
    views: &[View<'a>],
    cut: impl Fn(&View<'a>, &View<'a>, &View<'a>) -> Option<Basis>,
) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for (at, view) in views.iter().enumerate() {
        let reason = match runs.last() {
            None => Some(Basis::Fastest),
            Some(run) => cut(&views[run.range.start], &views[at - 1], view),
        };
        match (reason, runs.last_mut()) {
            (None, Some(run)) => run.range.end = at + 1,
            (reason, _) => {
                let basis = reason.unwrap_or(Basis::Fastest);
                runs.push(Run {
                    range: at..at + 1,
                    basis,
                });
            }
        }
    }
    runs
}

/// Whether `value` is at most 10 % over `fastest`.
fn close(fastest: u64, value: u64) -> bool {
    u128::from(value) * 10 <= u128::from(fastest) * 11
}

fn distance(nodes: &[NumaNode], from: u32, to: u32) -> Option<u32> {
    nodes
        .iter()
        .find(|node| node.id == from)?
        .distances
        .get(&to)
        .copied()
}

fn latency(nodes: &[NumaNode], initiator: u32, node: &NumaNode) -> Option<Latency> {
    let performance = node.performance.as_ref()?;
    let ns = performance.read_latency_ns?;
    let measured = Some(Latency { ns, scaled: None });
    if performance.initiators.contains(initiator) {
        return measured;
    }
    let nearest = performance
        .initiators
        .iter()
        .filter_map(|id| Some((distance(nodes, id, node.id)?, id)))
        .min();
    match (nearest, distance(nodes, initiator, node.id)) {
        (Some((near, from)), Some(far)) if near > 0 && far > near => {
            let scaled = u128::from(ns) * u128::from(far) / u128::from(near);
            Some(Latency {
                ns: u64::try_from(scaled).unwrap_or(u64::MAX),
                scaled: Some(Scaled {
                    ns,
                    from,
                    far,
                    near,
                }),
            })
        }
        // Without initiators or distances the plain value is the best there is.
        _ => measured,
    }
}

fn ranked(sentence: &Sentence, at: usize) -> Ranking {
    let view = &sentence.views[at];
    let mut runs = sentence.tiers.iter();
    let tier = runs.position(|run| run.range.contains(&at)).unwrap_or(0);
    let basis = sentence.tiers[tier].basis;
    Ranking {
        node: view.node.id,
        tier: Some(tier),
        latency_ns: view.latency.map(|latency| latency.ns),
        latency_estimated: view.is_estimated(),
        distance: view.distance,
        basis,
        why: sentence.why(at, tier, basis),
    }
}

fn unused(node: &NumaNode, distance: Option<u32>) -> Ranking {
    let (basis, why) = if node.total_bytes == 0 {
        (Basis::NoMemory, "no memory")
    } else {
        (Basis::NotAllowed, "this process's cpuset does not allow it")
    };
    Ranking {
        node: node.id,
        tier: None,
        latency_ns: None,
        latency_estimated: false,
        distance,
        basis,
        why: why.to_owned(),
    }
}
