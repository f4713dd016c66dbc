//! The memory that placements are compared on.

use timberline_bench::run::{self, Budget, MemoryTiers};
use timberline_tier::tiering::KernelTiering;
use timberline_tier::topology::Topology;

use crate::Failure;
use crate::known::known;
use crate::setup::Emulation;
use crate::tiers::Nodes;

#[derive(clap::Args)]
#[command(next_help_heading = "Memory")]
// By itself, the group of arguments with others flattened into them is empty.
#[group(args = [
    "budget",
    "tiers",
    "cpu_cache",
    "overlap",
    "native",
    "kernel_tiering",
    "page_costs",
])]
pub struct MemoryArgs {
    /// Fast memory: a fraction of the tree's bytes (`20%`) or bytes (`64M`)
    #[arg(long, default_value = "20%", value_name = "BUDGET")]
    budget: String,
    /// More than two tiers, instead of --budget and --profile: the fast tier's size, then profile
    /// and size of each slower one, such as `10%,cxl:20%,us1:rest`; with --native sizes only
    #[arg(
        long,
        conflicts_with_all = ["budget", "profile"],
        value_name = "TIERS"
    )]
    tiers: Option<String>,
    #[command(flatten)]
    pub emulation: Emulation,
    /// Size of the emulated CPU cache of each thread [default: 1M; quick: 128K]
    #[arg(long, value_name = "BYTES")]
    cpu_cache: Option<String>,
    /// Overlap the requests of a thread in emulated slow memory, up to the profile's prefetches in
    /// flight: an upper bound of what a core can overlap. The default, none, is the lower bound
    #[arg(long)]
    pub overlap: bool,
    /// Use this machine's own memory tiers instead of the emulator
    #[arg(long)]
    pub native: bool,
    #[command(flatten)]
    pub nodes: Nodes,
    /// Kernel tiering during the run: none, autonuma, damon; restored afterwards [default:
    /// unchanged]
    #[arg(
        long,
        value_parser = known(KernelTiering::NAMES.map(|(name, _)| name)),
        hide_possible_values = true,
        value_name = "NAME"
    )]
    pub kernel_tiering: Option<String>,
    /// Costs of page placements, ns, such as `fault=1000,copy=5500` [default: as published]
    #[arg(
        long,
        default_value = "",
        hide_default_value = true,
        value_name = "COSTS"
    )]
    pub page_costs: String,
}

impl MemoryArgs {
    /// The tiers: those of --tiers, or two.
    pub fn tiers(&self) -> Result<MemoryTiers, Failure> {
        let tiers = match (&self.tiers, self.native) {
            (None, _) => Ok(MemoryTiers {
                fast: Budget::parse(&self.budget).map_err(Failure::impossible)?,
                middle: Vec::new(),
                profile: self.emulation.profile.clone(),
            }),
            (Some(tiers), true) => MemoryTiers::native(tiers),
            (Some(tiers), false) => MemoryTiers::emulated(tiers),
        };
        tiers.map_err(Failure::impossible)
    }

    /// The requested tiering mode of the kernel.
    pub fn tiering(&self) -> Result<Option<KernelTiering>, Failure> {
        let Some(name) = &self.kernel_tiering else {
            return Ok(None);
        };
        if !self.native {
            let line = "--kernel-tiering needs real memory: give --native, too";
            return Err(Failure::Impossible(line.into()));
        }
        let known = KernelTiering::NAMES.map(|(name, _)| name).join(", ");
        let unknown = || format!("unknown kernel tiering `{name}`; possible: {known}");
        let tiering = KernelTiering::parse(name).ok_or_else(|| Failure::Impossible(unknown()))?;
        if self.tiers()?.count() > 2 {
            let line =
                "--kernel-tiering is of two tiers: leave out one of --kernel-tiering and --tiers";
            return Err(Failure::Impossible(line.into()));
        }
        Ok(Some(tiering))
    }

    /// Refuses memory of more tiers than this machine has.
    pub fn check(&self, topology: &Topology) -> Result<(), Failure> {
        if !self.native {
            return Ok(());
        }
        let (given, there) = (self.tiers()?.count(), topology.tiers().len());
        if topology.tier_nodes(1).is_empty() {
            return Err(Failure::Impossible(
                "--native needs two memory tiers and this machine has one (see `timberline tiers`): run without \
                 --native for emulated slow memory, or name them with --fast-nodes and --slow-nodes"
                    .into(),
            ));
        }
        match given > there {
            true => Err(Failure::Impossible(format!(
                "--tiers gives {given} tiers and this machine has {there} (see `timberline tiers`): give fewer, or \
                 run without --native for emulated memory"
            ))),
            false => Ok(()),
        }
    }

    /// The size of the emulated CPU cache, bytes; `usual` if none is given.
    pub fn cpu_cache(&self, usual: &str) -> Result<usize, Failure> {
        let given = self.cpu_cache.as_deref().unwrap_or(usual);
        Ok(run::cpu_cache(given).map_err(Failure::impossible)?.bytes())
    }

    /// The NUMA nodes of so many tiers; none of emulated ones.
    pub fn nodes_of(&self, topology: &Topology, tiers: usize) -> Vec<Vec<u32>> {
        let of_tier = |tier| match self.native {
            true => topology.tier_nodes(tier).to_vec(),
            false => Vec::new(),
        };
        (0..tiers).map(of_tier).collect()
    }
}
