//! Makes maps in this machine's memory: plain, or in tiers with a placement and its workers.

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

/// A placement, and the workers that carry it out: what the closure of
/// [`custom_placement`](Builder::custom_placement) makes.
pub type Placing = (Arc<dyn Placement>, Vec<Box<dyn Worker>>);

/// Makes a placement for a tree in these arenas that keeps its heat there.
type MakePlacing = Box<dyn FnOnce(&Arenas, HeatIn) -> Result<Placing, Error>>;

/// Settings of a map `M`, which [`build`](Self::build) makes. By default the map is in plain memory
/// and grows. With a limit of fast memory it is in two tiers or [more](Self::middle_tier), and a
/// worker moves its nodes between them.
///
/// Limits alone bind no memory: fast and slow memory are then two parts of whatever memory the
/// system gives, which is good for tests. On a machine with CXL memory, or with several sockets,
/// name the NUMA nodes of both ([`fast_nodes`](Self::fast_nodes), [`slow_nodes`](Self::slow_nodes);
/// `timberline tiers` lists them), or let [`discover`](Self::discover) do it.
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
    /// Fastest first.
    middle: Vec<TierSettings>,
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
            middle: Vec::new(),
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

    /// The NUMA nodes of fast memory. If none is given, the memory is not bound: it is where the
    /// system puts it, most often on the node of the thread that uses it first.
    ///
    /// ```no_run
    /// use timberline::BTree;
    ///
    /// // DRAM is node 0 of this machine, a CXL expander node 2.
    /// let builder = BTree::builder().fast_memory(8 << 30).slow_memory(64 << 30);
    /// let map: BTree<u64, u64> = builder.fast_nodes([0]).slow_nodes([2]).build()?;
    /// # Ok::<(), timberline::Error>(())
    /// ```
    pub fn fast_nodes(mut self, nodes: impl IntoIterator<Item = u32>) -> Self {
        self.fast.nodes = nodes.into_iter().collect();
        self
    }

    /// The NUMA nodes of slow memory. If none is given, the memory is not bound, and nothing says
    /// that it is the slow one.
    pub fn slow_nodes(mut self, nodes: impl IntoIterator<Item = u32>) -> Self {
        self.slow.nodes = nodes.into_iter().collect();
        self
    }

    /// One more tier between fast and slow memory, slower than those that were named before: at
    /// most `bytes` bytes, never exceeded, on these NUMA nodes (none: the system chooses). For
    /// example DRAM is fast, CXL memory in the middle, and memory of a remote host slow. It needs
    /// limits of fast and of slow memory.
    ///
    /// A node is never in a faster tier than its parent. The worker keeps the hottest leaves in
    /// fast memory and the next in the middle; a leaf that became hot goes straight to the tier
    /// that it is hot enough for.
    ///
    /// ```
    /// use timberline::BTree;
    ///
    /// let builder = BTree::builder().fast_memory(4 << 20).slow_memory(256 << 20);
    /// let map: BTree<u64, u64> = builder.middle_tier(16 << 20, []).build()?;
    /// for key in 0..500_000 {
    ///     map.insert(&key, key)?;
    /// }
    /// assert_eq!(map.get(&499_999), Some(499_999));
    /// assert!(map.committed().0 <= 4 << 20);
    /// # Ok::<(), timberline::Error>(())
    /// ```
    pub fn middle_tier(mut self, bytes: usize, nodes: impl IntoIterator<Item = u32>) -> Self {
        self.middle.push(TierSettings {
            limit: Some(bytes),
            nodes: nodes.into_iter().collect(),
        });
        self
    }

    /// Takes all memory tiers of this machine (`timberline tiers` lists them), and half of the free
    /// memory of each as its limit. With three kinds of memory the map is in three tiers: the
    /// fastest kind is fast memory, the slowest slow memory, and the others are
    /// [middle tiers](Self::middle_tier). All limits together are at most half of the memory that
    /// the process's control groups allow (`memory.max`, or `memory.limit_in_bytes` of version 1);
    /// faster tiers are counted first. Tiers for which nothing is left are not used; if that is all
    /// but the fastest, the map is in fast memory alone, within its limit.
    ///
    /// On a machine with one tier, and on systems other than Linux, nothing is set: the map is in
    /// plain memory without a limit, as with [`new`](Self::new), unless the program itself sets a
    /// limit. With [`fast_memory`](Self::fast_memory) it is in two tiers of the same memory then,
    /// with a worker. [`Map::is_tiered`] tells which one it is. Where there are more tiers, the
    /// later call wins: limits that are set after `discover` replace those that it found, and
    /// middle tiers that were named before it are forgotten.
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
                let tiers = topology.allowed_bytes().into_iter().enumerate();
                let mut tiers = tiers.map(|(tier, bytes)| TierSettings {
                    limit: Some((bytes / 2) as usize),
                    nodes: topology.tier_nodes(tier).to_vec(),
                });
                if let (Some(fast), Some(second)) = (tiers.next(), tiers.next()) {
                    let slower = [second.clone()].into_iter().chain(tiers);
                    self.middle = slower.filter(|tier| tier.limit > Some(0)).collect();
                    // Where there is none, its limit of zero says so.
                    self.slow = self.middle.pop().unwrap_or(second);
                    self.fast = fast;
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
    /// the map, and the place for the heat of its leaves. What a placement is, and what its workers
    /// do: [`Placement`].
    ///
    /// ```
    /// use std::sync::Arc;
    /// use timberline::BTree;
    /// use timberline::placement::AllFast;
    ///
    /// // First come, first served: new nodes are in fast memory while it has room, and stay there.
    /// let builder = BTree::<u64, u64>::builder().fast_memory(1 << 20).slow_memory(64 << 20);
    /// let map = builder
    ///     .custom_placement(|_memory, _heat| Ok((Arc::new(AllFast), Vec::new())))
    ///     .build()?;
    /// map.bulk_load((0..200_000).map(|key| (key, key)))?;
    /// let (fast, slow) = map.committed();
    /// assert!(fast <= 1 << 20 && slow > 0);
    /// # Ok::<(), timberline::Error>(())
    /// ```
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
    /// [`Far`](crate::art::Far) links), and a `Masstree` in tiers makes layers in the first 256
    /// GiB only. Inserts that need more fail as if memory were used up. A `BTree` has no such
    /// limit.
    ///
    /// # Errors
    /// [`Error::Configuration`]: a NUMA node does not exist; slow memory, but no limit of fast
    /// memory; a middle tier without slow memory; tiers on another system than Linux; addresses or
    /// the worker's thread refused.
    /// [`Error::OutOfMemory`]: no memory for the first node.
    pub fn build(self) -> Result<Map<T, K, V>, Error> {
        if let Some(unknown) = self.unknown {
            return Err(unknown);
        }
        let tiers = [&self.fast].into_iter().chain(&self.middle);
        let tiers = tiers.chain([&self.slow]).map(|tier| &tier.nodes[..]);
        check_nodes(&tiers.collect::<Vec<_>>())?;
        let (arenas, is_tiered) = arenas(self.fast, self.middle, self.slow, T::REACH)?;
        if !is_tiered {
            return Map::in_domain(self.domain, Native(arenas), Arc::new(AllFast));
        }
        let placing = self
            .placing
            .unwrap_or_else(|| timberline(Default::default()));
        let (placement, workers) = placing(&arenas, T::HEAT)?;
        let tree = Shared::new(T::make(Native(arenas), placement, self.domain)?);
        let workers = Workers::shared(workers, tree.tree());
        let workers = workers.map_err(|error| {
            Error::Configuration(format!(
                "can't start the thread of the maps' workers: {error}"
            ))
        })?;
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

/// The memory of a map, and whether that is more than one tier.
fn arenas(
    fast: TierSettings,
    middle: Vec<TierSettings>,
    slow: TierSettings,
    reach: usize,
) -> Result<(Arenas, bool), Error> {
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
    if !middle.is_empty() && (!is_tiered || slow.limit.is_none()) {
        let line = "a map with a middle tier needs a limit of its slow memory";
        return Err(Error::Configuration(line.into()));
    }
    let tier =
        |wanted: TierSettings| TierConfig::new(wanted.limit.unwrap_or(NO_LIMIT), wanted.nodes);
    let mut config = ArenasConfig::growing();
    config.tiers = match is_tiered {
        true => [fast]
            .into_iter()
            .chain(middle)
            .chain([slow])
            .map(tier)
            .collect(),
        false => vec![tier(fast)],
    };
    // For [`Map::set_fast_memory`].
    config.tiers[0].most = NO_LIMIT;
    config.reach = reach;
    Ok((Arenas::new(&config)?, is_tiered))
}

/// Fails if there are no such NUMA nodes, or if two tiers name the same one.
fn check_nodes(tiers: &[&[u32]]) -> Result<(), Error> {
    // Other systems do not list their nodes; binding memory fails there.
    let is_known = cfg!(target_os = "linux");
    if !is_known || tiers.iter().all(|nodes| nodes.is_empty()) {
        return Ok(());
    }
    let topology = Topology::discover(Path::new("/")).map_err(configuration)?;
    let list = |nodes: &[u32]| nodes.iter().copied().collect::<NodeList>();
    for (index, faster) in tiers.iter().enumerate() {
        for slower in &tiers[index + 1..] {
            let checked = topology.with_override(&list(faster), &list(slower));
            checked.map_err(configuration)?;
        }
    }
    Ok(())
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
        builder.field("fast", &self.fast);
        builder
            .field("middle", &self.middle)
            .field("slow", &self.slow);
        builder.finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: usize = 1 << 30;
    const UNLIMITED: (&str, &str) = ("sys/fs/cgroup/db/memory.max", "max");
    /// A control group of version 2.
    const V2: &str = "0::/db";

    /// The builder of a machine with a node of 8 GiB with CPUs, and nodes of so many GiB without
    /// any at these distances from it, under these control groups.
    #[track_caller]
    fn discovered(others: &[(u64, u32)], membership: &str, limit: (&str, &str)) -> Builder<()> {
        let at = std::panic::Location::caller().line();
        let name = format!("timberline-discover-{}-{at}", std::process::id());
        let root = std::env::temp_dir().join(name);
        let node = "sys/devices/system/node";
        let memory = |node: u32, gib: u64| {
            let kib = gib << 20;
            format!("Node {node} MemTotal: {kib} kB\nNode {node} MemFree: {kib} kB\n")
        };
        let online = format!("0-{}", others.len());
        let mut files = vec![
            (format!("{node}/online"), online.clone()),
            (format!("{node}/possible"), online),
            ("proc/self/cgroup".into(), membership.into()),
            (limit.0.into(), limit.1.into()),
        ];
        let nodes = [(8, 10)].iter().chain(others);
        let far: Vec<_> = nodes.clone().map(|(_, far)| far.to_string()).collect();
        for (at, (gib, far_at)) in nodes.enumerate() {
            let distances = match at {
                0 => far.join(" "),
                // From elsewhere only the way to the CPUs counts.
                _ => format!("{far_at} {}", vec!["10"; others.len()].join(" ")),
            };
            let cpus = if at == 0 { "0-3" } else { "" };
            files.push((format!("{node}/node{at}/cpulist"), cpus.into()));
            files.push((format!("{node}/node{at}/meminfo"), memory(at as u32, *gib)));
            files.push((format!("{node}/node{at}/distance"), distances));
        }
        for (file, text) in files {
            let file = root.join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        }
        // What is found takes the place of what was named.
        let named = Builder::<()>::new().middle_tier(1 << 20, [9]);
        let builder = named.discover_below(&root);
        std::fs::remove_dir_all(&root).unwrap();
        assert_eq!(builder.unknown, None);
        builder
    }

    /// The NUMA nodes of the tiers, fastest first, and their limits.
    fn tiers(builder: &Builder<()>) -> Vec<(&[u32], Option<usize>)> {
        let tiers = [&builder.fast].into_iter().chain(&builder.middle);
        let tiers = tiers.chain([&builder.slow]);
        tiers.map(|tier| (&tier.nodes[..], tier.limit)).collect()
    }

    #[test]
    fn a_middle_tier_needs_slow_memory() {
        for slow in [None, Some(0)] {
            let mut builder = crate::BTree::<u64, u64>::builder().fast_memory(1 << 20);
            builder.slow.limit = slow;
            let refused = builder.middle_tier(1 << 20, []).build();
            assert!(matches!(refused, Err(Error::Configuration(_))), "{slow:?}");
        }
    }

    #[test]
    fn discovered_tiers_keep_to_the_limit_of_the_control_group() {
        let two = |membership, limit| {
            let builder = discovered(&[(32, 20)], membership, limit);
            let [(&[0], fast), (&[1], slow)] = tiers(&builder)[..] else {
                panic!("{builder:?}");
            };
            [fast, slow]
        };
        let of_v2 = |bytes| two(V2, (UNLIMITED.0, bytes));
        let in_bytes = "sys/fs/cgroup/memory/db/memory.limit_in_bytes";
        let of_v1 = |bytes| two("5:memory:/db", (in_bytes, bytes));
        assert_eq!(of_v2("max"), [Some(4 * GIB), Some(16 * GIB)]);
        assert_eq!(of_v2("12884901888"), [Some(4 * GIB), Some(2 * GIB)]);
        assert_eq!(of_v2("2147483648"), [Some(GIB), Some(0)]);
        assert_eq!(of_v1("12884901888"), [Some(4 * GIB), Some(2 * GIB)]);
        assert_eq!(
            of_v1("9223372036854771712"),
            [Some(4 * GIB), Some(16 * GIB)]
        );
    }

    #[test]
    fn three_kinds_of_memory_are_three_tiers() {
        // Node 2 is nearer than node 1.
        let builder = discovered(&[(64, 40), (32, 20)], V2, UNLIMITED);
        let expected: [(&[u32], _); 3] = [
            (&[0], Some(4 * GIB)),
            (&[2], Some(16 * GIB)),
            (&[1], Some(32 * GIB)),
        ];
        assert_eq!(tiers(&builder), expected);

        // 12 GiB reach to the second of them, 1 GiB to the first.
        let limited = |bytes| discovered(&[(64, 40), (32, 20)], V2, (UNLIMITED.0, bytes));
        let builder = limited("12884901888");
        assert_eq!(tiers(&builder), [expected[0], (&[2], Some(2 * GIB))]);
        let builder = limited("1073741824");
        assert_eq!(
            tiers(&builder),
            [(&[0][..], Some(GIB / 2)), (&[2], Some(0))]
        );
    }
}
