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

/// Settings of a map `M`, which [`build`](Self::build) makes. Without any it is in plain memory and
/// grows; with a limit of fast memory it is in two tiers, and a worker moves its nodes between
/// them.
///
/// The workers of all maps share one thread, which starts with the first map in tiers and ends with
/// the last. A map's worker ends with the last handle or iterator of the map.
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
    fast: Wanted,
    slow: Wanted,
    placing: Option<MakePlacing>,
    domain: Domain,
    /// Why the machine's tiers are not known.
    unknown: Option<Error>,
    map: PhantomData<fn() -> M>,
}

/// What is wanted of a tier.
#[derive(Clone, Default, Debug)]
struct Wanted {
    limit: Option<usize>,
    nodes: Vec<u32>,
}

impl<M> Builder<M> {
    /// A map in plain memory, unless more is set.
    pub fn new() -> Self {
        Builder {
            fast: Wanted::default(),
            slow: Wanted::default(),
            placing: None,
            domain: Domain::new(),
            unknown: None,
            map: PhantomData,
        }
    }

    /// The most bytes of fast memory, tables included. Never exceeded: nodes beyond it are in slow
    /// memory. [`Map::set_fast_memory`] changes it while the map is in use.
    pub fn fast_memory(mut self, bytes: usize) -> Self {
        self.fast.limit = Some(bytes);
        self
    }

    /// The most bytes of slow memory. Never exceeded: inserts beyond it fail. With 0 bytes the map
    /// is in fast memory alone, within its limit.
    pub fn slow_memory(mut self, bytes: usize) -> Self {
        self.slow.limit = Some(bytes);
        self
    }

    /// The NUMA nodes of fast memory; where none is named, the system chooses.
    pub fn fast_nodes(mut self, nodes: impl IntoIterator<Item = u32>) -> Self {
        self.fast.nodes = nodes.into_iter().collect();
        self
    }

    /// The NUMA nodes of slow memory; where none is named, the system chooses.
    pub fn slow_nodes(mut self, nodes: impl IntoIterator<Item = u32>) -> Self {
        self.slow.nodes = nodes.into_iter().collect();
        self
    }

    /// The two fastest memory tiers of this machine, with half of the free memory of each. On a
    /// machine with one tier, and on other systems than Linux: plain memory. [`Map::is_tiered`]
    /// tells which it was.
    pub fn discover(mut self) -> Self {
        if !cfg!(target_os = "linux") {
            return self;
        }
        match Topology::discover(Path::new("/")) {
            Ok(topology) => {
                if let [fast, slow, ..] = topology.tiers() {
                    let half = |tier: usize, free: u64| Wanted {
                        limit: Some((free / 2) as usize),
                        nodes: topology.tier_nodes(tier).to_vec(),
                    };
                    self.fast = half(0, fast.free_bytes);
                    self.slow = half(1, slow.free_bytes);
                }
            }
            Err(error) => self.unknown = Some(configuration(error)),
        }
        self
    }

    /// Settings of the placement, [`Timberline`], of a map in two tiers.
    pub fn placement(mut self, config: TimberlineConfig) -> Self {
        self.placing = Some(timberline(config));
        self
    }

    /// Another placement for a map in two tiers, and its workers. `make` gets the memory of the
    /// map, and where the map would keep heat.
    pub fn custom_placement(
        mut self,
        make: impl FnOnce(&Arenas, HeatIn) -> Result<Placing, Error> + 'static,
    ) -> Self {
        self.placing = Some(Box::new(make));
        self
    }

    /// The epoch domain, for maps that share one: see [`Map::domain`].
    pub fn domain(mut self, domain: Domain) -> Self {
        self.domain = domain;
        self
    }
}

impl<T: Make<K, V, Memory = Native>, K: ?Sized, V> Builder<Map<T, K, V>> {
    /// Makes the map.
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

/// The memory of a map, and whether that is two tiers.
fn arenas(fast: Wanted, slow: Wanted, reach: usize) -> Result<(Arenas, bool), Error> {
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
    let tier = |wanted: Wanted| TierConfig::new(wanted.limit.unwrap_or(NO_LIMIT), wanted.nodes);
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
    // Elsewhere there is nothing to ask, and to bind memory fails.
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
