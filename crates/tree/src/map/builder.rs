//! Makes maps in this machine's memory: plain, or two tiers with a placement and its workers.

use std::fmt;
use std::marker::PhantomData;
use std::path::Path;
use std::sync::Arc;

use timberline_placement::workers::{Worker, Workers};
use timberline_placement::{AllFast, HeatIn, Placement, Timberline, TimberlineConfig};
use timberline_sync::epoch::Domain;
use timberline_tier::topology::{NodeList, Topology};
use timberline_tier::{Arenas, ArenasConfig, NO_LIMIT, Native, TierConfig};

use super::make::Make;
use super::{Map, Shared};
use crate::Error;

/// A placement, and the workers that carry it out.
type Placing = (Arc<dyn Placement>, Vec<Box<dyn Worker>>);

/// Makes a placement for a tree in these arenas that keeps its heat there.
type MakePlacing = Box<dyn FnOnce(&Arenas, HeatIn) -> Result<Placing, Error>>;

/// Settings of a map `M`, which [`build`](Self::build) makes. By default the map is in plain memory
/// and grows. With a limit of fast memory it is in two tiers, and a worker moves its nodes between
/// them.
///
/// The workers of all maps share one thread, which runs while any map in tiers exists. A map's
/// worker ends with the last handle or iterator of the map.
///
/// ```
/// use timberline::BTree;
///
/// // 16 MiB of fast memory, 256 MiB of slow.
/// let builder = BTree::builder().fast_memory(16 << 20).slow_memory(256 << 20);
/// let map: BTree<u64, u64> = builder.build()?;
/// for key in 0..100_000 {
///     map.insert(&key, key * key)?;
/// }
/// assert_eq!(map.get(&300), Some(90_000));
/// assert!(map.committed().0 <= 16 << 20);
/// # Ok::<(), timberline::Error>(())
/// ```
pub struct Builder<M> {
    fast: TierSettings,
    slow: TierSettings,
    placing: Option<MakePlacing>,
    domain: Domain,
    /// The error of a failed discovery, which `build` returns.
    unknown: Option<Error>,
    map: PhantomData<fn() -> M>,
}

/// The settings of a tier.
#[derive(Clone, Default, Debug)]
struct TierSettings {
    limit: Option<usize>,
    nodes: Vec<u32>,
}

impl<M> Builder<M> {
    /// A map in plain memory, unless more is set.
    pub fn new() -> Self {
        Builder {
            fast: TierSettings::default(),
            slow: TierSettings::default(),
            placing: None,
            domain: Domain::new(),
            unknown: None,
            map: PhantomData,
        }
    }

    /// The limit of fast memory in bytes, tables included. It is never exceeded: nodes that do not
    /// fit are in slow memory. [`Map::set_fast_memory`] changes it while the map is in use.
    pub fn fast_memory(mut self, bytes: usize) -> Self {
        self.fast.limit = Some(bytes);
        self
    }

    /// The limit of slow memory in bytes. It is never exceeded: inserts that do not fit fail. With
    /// 0 bytes the map is in fast memory alone, within its limit.
    pub fn slow_memory(mut self, bytes: usize) -> Self {
        self.slow.limit = Some(bytes);
        self
    }

    /// The NUMA nodes of fast memory. If none is given, the system chooses.
    pub fn fast_nodes(mut self, nodes: impl IntoIterator<Item = u32>) -> Self {
        self.fast.nodes = nodes.into_iter().collect();
        self
    }

    /// The NUMA nodes of slow memory. If none is given, the system chooses.
    pub fn slow_nodes(mut self, nodes: impl IntoIterator<Item = u32>) -> Self {
        self.slow.nodes = nodes.into_iter().collect();
        self
    }

    /// Takes the two fastest memory tiers of this machine, and half of the free memory of each as
    /// its limit. Both limits together are at most half of the memory that the process's control
    /// groups allow (`memory.max`, or `memory.limit_in_bytes` of version 1); fast memory is counted
    /// first. If that leaves no slow memory, the map is in fast memory alone, within its limit.
    ///
    /// On a machine with one tier, and on systems other than Linux, the map is in plain memory
    /// without a limit, as with [`new`](Self::new). [`Map::is_tiered`] tells which one it is.
    ///
    /// ```
    /// let map: timberline::BTree<u64, u64> = timberline::BTree::builder().discover().build()?;
    /// map.insert(&7, 49)?;
    /// # Ok::<(), timberline::Error>(())
    /// ```
    pub fn discover(self) -> Self {
        match cfg!(target_os = "linux") {
            true => self.discover_below(Path::new("/")),
            false => self,
        }
    }

    /// The tiers of the machine whose `/sys` and `/proc` are below `root`.
    fn discover_below(mut self, root: &Path) -> Self {
        match Topology::discover(root) {
            Ok(topology) => {
                if let [fast, slow, ..] = topology.allowed_bytes()[..] {
                    let half = |tier: usize, bytes: u64| TierSettings {
                        limit: Some((bytes / 2) as usize),
                        nodes: topology.tier_nodes(tier).to_vec(),
                    };
                    (self.fast, self.slow) = (half(0, fast), half(1, slow));
                }
            }
            Err(error) => self.unknown = Some(configuration(error)),
        }
        self
    }

    /// Configures the placement of a map in two tiers, [`Timberline`].
    ///
    /// ```
    /// use timberline::{BTree, TimberlineConfig};
    ///
    /// // Fast memory is for nodes only, not for copies of single records.
    /// let config = TimberlineConfig { copies: 0.0, ..Default::default() };
    /// let builder = BTree::<u64, u64>::builder().placement(config);
    /// let map = builder.fast_memory(4 << 20).slow_memory(64 << 20).build()?;
    /// assert!(map.is_tiered());
    /// # Ok::<(), timberline::Error>(())
    /// ```
    pub fn placement(mut self, config: TimberlineConfig) -> Self {
        self.placing = Some(timberline(config));
        self
    }

    /// Sets another placement for a map in two tiers, with its workers. `make` gets the memory of
    /// the map, and the place for the heat of its leaves.
    pub fn custom_placement(
        mut self,
        make: impl FnOnce(&Arenas, HeatIn) -> Result<Placing, Error> + 'static,
    ) -> Self {
        self.placing = Some(Box::new(make));
        self
    }

    /// Sets the epoch domain, for maps that share one: see [`Map::domain`].
    pub fn domain(mut self, domain: Domain) -> Self {
        self.domain = domain;
        self
    }
}

impl<T: Make<K, V, Memory = Native>, K: ?Sized, V> Builder<Map<T, K, V>> {
    /// Makes the map.
    ///
    /// The nodes of one map, all tiers together, take up to 16 GiB in an `Art` (64 PiB with
    /// [`Far`](crate::art::Far) links), and a `Masstree` makes layers in the first 256 GiB only.
    /// Inserts that need more fail as if memory were used up. A `BTree` has no such limit.
    ///
    /// # Errors
    /// [`Error::Configuration`]: a NUMA node does not exist; slow memory, but no limit of fast
    /// memory; tiers on another system than Linux; addresses or the worker's thread refused.
    /// [`Error::OutOfMemory`]: no memory for the first node.
    pub fn build(self) -> Result<Map<T, K, V>, Error> {
        if let Some(unknown) = self.unknown {
            return Err(unknown);
        }
        check_nodes(&self.fast.nodes, &self.slow.nodes)?;
        let (arenas, is_tiered) = arenas(self.fast, self.slow, T::REACH)?;
        if !is_tiered {
            return Map::in_domain(self.domain, Native(arenas), Arc::new(AllFast));
        }
        let placing = self
            .placing
            .unwrap_or_else(|| timberline(Default::default()));
        let (placement, workers) = placing(&arenas, T::HEAT)?;
        let tree = Shared::new(T::make(Native(arenas), placement, self.domain)?);
        let workers = Workers::shared(workers, tree.tree());
        let workers = workers.map_err(configuration)?;
        Ok(Map::of(tree.with_workers(workers)))
    }
}

/// The placement `timberline`.
fn timberline(config: TimberlineConfig) -> MakePlacing {
    Box::new(|arenas, heat| {
        let placement = Timberline::new(arenas, heat, config)?;
        let workers = placement.workers();
        Ok((placement, workers))
    })
}

/// The memory of a map, and whether it has two tiers.
fn arenas(fast: TierSettings, slow: TierSettings, reach: usize) -> Result<(Arenas, bool), Error> {
    let is_tiered = match slow.limit {
        Some(limit) => limit > 0,
        None => fast.limit.is_some() || !slow.nodes.is_empty(),
    };
    if is_tiered && !cfg!(target_os = "linux") {
        return Err(Error::Configuration(
            "a map in two tiers needs Linux".into(),
        ));
    }
    if is_tiered && fast.limit.is_none() {
        let line = "a map in two tiers needs a limit of its fast memory";
        return Err(Error::Configuration(line.into()));
    }
    let tier =
        |wanted: TierSettings| TierConfig::new(wanted.limit.unwrap_or(NO_LIMIT), wanted.nodes);
    let mut config = ArenasConfig::growing();
    config.tiers = match is_tiered {
        true => vec![tier(fast), tier(slow)],
        false => vec![tier(fast)],
    };
    // For [`Map::set_fast_memory`].
    config.tiers[0].most = NO_LIMIT;
    config.reach = reach;
    Ok((Arenas::new(&config)?, is_tiered))
}

/// Fails if there are no such NUMA nodes.
fn check_nodes(fast: &[u32], slow: &[u32]) -> Result<(), Error> {
    // Other systems do not list their nodes; binding memory fails there.
    let is_known = cfg!(target_os = "linux");
    if !is_known || fast.is_empty() && slow.is_empty() {
        return Ok(());
    }
    let list = |nodes: &[u32]| nodes.iter().copied().collect::<NodeList>();
    let checked = Topology::discover(Path::new("/"))
        .and_then(|topology| topology.with_override(&list(fast), &list(slow)));
    checked.map_err(configuration).map(drop)
}

/// The error of settings that do not work.
fn configuration(error: impl fmt::Display) -> Error {
    Error::Configuration(error.to_string())
}

impl<M> Default for Builder<M> {
    fn default() -> Self {
        Self::new()
    }
}

impl<M> fmt::Debug for Builder<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut builder = f.debug_struct("Builder");
        builder.field("fast", &self.fast).field("slow", &self.slow);
        builder.finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The limits discovered on a machine with a node of 8 GiB with CPUs, and one of 32 GiB without
    /// any, under these control groups.
    #[track_caller]
    fn discovered(membership: &str, limit: (&str, &str)) -> [Option<usize>; 2] {
        let at = std::panic::Location::caller().line();
        let name = format!("timberline-discover-{}-{at}", std::process::id());
        let root = std::env::temp_dir().join(name);
        let node = "sys/devices/system/node";
        let memory = |node: u32, gib: u64| {
            let kib = gib << 20;
            format!("Node {node} MemTotal: {kib} kB\nNode {node} MemFree: {kib} kB\n")
        };
        for (file, text) in [
            (format!("{node}/online"), "0-1".into()),
            (format!("{node}/possible"), "0-1".into()),
            (format!("{node}/node0/cpulist"), "0-3".into()),
            (format!("{node}/node1/cpulist"), String::new()),
            (format!("{node}/node0/meminfo"), memory(0, 8)),
            (format!("{node}/node1/meminfo"), memory(1, 32)),
            (format!("{node}/node0/distance"), "10 20".into()),
            (format!("{node}/node1/distance"), "20 10".into()),
            ("proc/self/cgroup".into(), membership.into()),
            (limit.0.into(), limit.1.into()),
        ] {
            let file = root.join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        }
        let builder = Builder::<()>::new().discover_below(&root);
        std::fs::remove_dir_all(&root).unwrap();
        assert_eq!(builder.unknown, None);
        assert_eq!(
            (&builder.fast.nodes[..], &builder.slow.nodes[..]),
            (&[0][..], &[1][..])
        );
        [builder.fast.limit, builder.slow.limit]
    }

    #[test]
    fn discovered_tiers_keep_to_the_limit_of_the_control_group() {
        const GIB: usize = 1 << 30;
        let (v2, max) = ("0::/db", "sys/fs/cgroup/db/memory.max");
        let (v1, in_bytes) = (
            "5:memory:/db",
            "sys/fs/cgroup/memory/db/memory.limit_in_bytes",
        );
        assert_eq!(
            discovered(v2, (max, "max")),
            [Some(4 * GIB), Some(16 * GIB)]
        );
        assert_eq!(
            discovered(v2, (max, "12884901888")),
            [Some(4 * GIB), Some(2 * GIB)]
        );
        assert_eq!(discovered(v2, (max, "2147483648")), [Some(GIB), Some(0)]);
        assert_eq!(
            discovered(v1, (in_bytes, "12884901888")),
            [Some(4 * GIB), Some(2 * GIB)]
        );
        let no_limit = "9223372036854771712";
        assert_eq!(
            discovered(v1, (in_bytes, no_limit)),
            [Some(4 * GIB), Some(16 * GIB)]
        );
    }
}
