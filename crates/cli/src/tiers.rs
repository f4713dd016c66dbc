//! `timberline tiers`: the machine's memory tiers, their ranking, and the reasons for it; or a
//! check of maps in them.

use std::path::PathBuf;

use timberline_bench::report::grid::{WIDTH, wrapped};
use timberline_bench::tier_check;
use timberline_tier::topology::{NodeList, Topology};

use crate::Failure;
use crate::say::say;

#[derive(clap::Args)]
pub struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Root of `/sys` and `/proc`; another root shows a recorded machine
    #[arg(long, default_value = "/", value_name = "DIR")]
    root: PathBuf,
    /// Make maps in these tiers, move their nodes, and ask the kernel where the pages are
    #[arg(long, conflicts_with = "root")]
    check: bool,
    #[command(flatten)]
    nodes: Nodes,
}

/// The user's choice of fast and slow NUMA nodes.
#[derive(clap::Args, Clone)]
#[command(next_help_heading = "Memory")]
pub struct Nodes {
    /// NUMA nodes to use as fast memory, e.g. `0` or `0-1`
    #[arg(
        long,
        value_name = "NODES",
        default_value = "",
        hide_default_value = true
    )]
    fast_nodes: String,
    /// NUMA nodes to use as slow memory, e.g. `2`
    #[arg(
        long,
        value_name = "NODES",
        default_value = "",
        hide_default_value = true
    )]
    slow_nodes: String,
}

impl Nodes {
    /// Whether the user chose some.
    pub fn are_named(&self) -> bool {
        !(self.fast_nodes.is_empty() && self.slow_nodes.is_empty())
    }

    /// This machine's tiers, as the user chose them.
    pub fn apply(&self, topology: Topology) -> Result<Topology, Failure> {
        let list = |text: &str| text.parse::<NodeList>().map_err(Failure::impossible);
        let (fast, slow) = (list(&self.fast_nodes)?, list(&self.slow_nodes)?);
        topology
            .with_override(&fast, &slow)
            .map_err(Failure::impossible)
    }
}

pub fn run(args: &Args) -> Result<(), Failure> {
    let found = Topology::discover(&args.root).map_err(Failure::impossible)?;
    let topology = args.nodes.apply(found)?;
    if args.check {
        return check(&topology, !args.nodes.are_named(), args.json);
    }
    if args.json {
        say(serde_json::to_string_pretty(&topology).map_err(Failure::failed)?)
    } else {
        let lines = topology.to_string();
        // Sentences; the table above them is narrower.
        let fits = |line: &str| line.chars().count() <= WIDTH;
        let text = lines.lines().map(|line| match fits(line) {
            true => format!("{line}\n"),
            false => wrapped(line, 2),
        });
        say(text.collect::<String>().trim_end())
    }
}

/// Checks maps in all tiers of this machine, as they were `found` or as the user named them.
fn check(topology: &Topology, found: bool, json: bool) -> Result<(), Failure> {
    let tiers = 0..topology.tiers().len();
    let nodes: Vec<Vec<u32>> = tiers
        .map(|tier| topology.tier_nodes(tier).to_vec())
        .collect();
    if nodes.len() < 2 {
        return Err(Failure::Impossible(
            "--check needs two memory tiers, and this machine has one".into(),
        ));
    }
    let result = tier_check::check(&nodes, found).map_err(Failure::Failed)?;
    match json {
        true => say(serde_json::to_string_pretty(&result).map_err(Failure::failed)?)?,
        false => say(result.table().trim_end())?,
    }
    match result.wrong() {
        wrong if wrong.is_empty() => Ok(()),
        wrong => Err(Failure::Failed(wrong.join("; "))),
    }
}
