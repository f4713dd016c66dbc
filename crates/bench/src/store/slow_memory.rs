//! Emulated slow memory for a store's index, or for its cache.

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};
use timberline_placement::workers::Workers;
use timberline_placement::{AllFast, HeatIn, Placed, Placement, Timberline, TimberlineConfig};
use timberline_store::{CacheMemory, IndexMap, IndexMemory};
use timberline_tier::emulator::{Base, Emulated, Profile};
use timberline_tier::{Arenas, ArenasConfig, TierId};
use timberline_tree::{Art, BTree, Error, Key, Value};

/// Emulated slow memory, and how much of what is there is in fast memory beside it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct SlowMemory {
    /// The name of the emulator's profile.
    profile: String,
    /// The part of the bytes that fast memory has, in percent. With none, nothing moves.
    fast_percent: f64,
}

impl SlowMemory {
    /// Memory of so many microseconds, 1 to 10, without fast memory beside it.
    pub fn of_latency(us: u32) -> SlowMemory {
        SlowMemory {
            profile: format!("us{us}"),
            fast_percent: 0.0,
        }
    }

    /// Its latency in microseconds, on a machine whose own memory has that of `Base`'s default;
    /// NaN for a profile that is not there.
    pub fn latency_us(&self) -> f64 {
        let base = Base::default();
        let extra = Profile::parse(&self.profile).map(|it| it.extra(TierId::SLOW, base));
        extra.map_or(f64::NAN, |it| {
            it.latency_ps as f64 / 1e6 + base.latency_ns / 1e3
        })
    }
}

impl FromStr for SlowMemory {
    type Err = String;

    /// Parses `us5`, or `us10:20%` with so much fast memory.
    fn from_str(text: &str) -> Result<SlowMemory, String> {
        let (profile, fast) = text.split_once(':').unwrap_or((text, "0%"));
        Profile::parse(profile).map_err(|error| error.to_string())?;
        let percent = fast.strip_suffix('%').and_then(|it| it.parse().ok());
        match percent {
            Some(fast_percent) if (0.0..100.0).contains(&fast_percent) => Ok(SlowMemory {
                profile: profile.into(),
                fast_percent,
            }),
            _ => Err(format!(
                "bad part of fast memory `{fast}`: give 0% up to 99%, as in `us10:20%`"
            )),
        }
    }
}

impl fmt::Display for SlowMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.profile)?;
        match self.fast_percent {
            0.0 => Ok(()),
            percent => write!(f, ", {percent} % fast"),
        }
    }
}

/// A map in emulated memory.
trait Map: Send {
    fn charge(&self, on: bool);

    /// Bytes in fast and in slow memory.
    fn committed(&self) -> (usize, usize);

    /// As the workers see it that move its nodes.
    fn placed(&self) -> Arc<dyn Placed>;
}

macro_rules! map {
    ($map:ident) => {
        impl<K: Key + ?Sized, V: Value> Map for $map<K, V, Emulated> {
            fn charge(&self, on: bool) {
                self.memory().set_charging(on);
            }

            fn committed(&self) -> (usize, usize) {
                $map::committed(self)
            }

            fn placed(&self) -> Arc<dyn Placed> {
                $map::placed(self)
            }
        }
    };
}

map!(Art);
map!(BTree);

/// How a map is made in memory, by a placement.
type In<M> = fn(Emulated, Arc<dyn Placement>) -> Result<M, Error>;

/// Where a placement keeps the heat of leaves of each map.
const IN_ART: HeatIn = HeatIn::Leaf { leaf_bytes: 40 };
const IN_BTREE: HeatIn = HeatIn::Leaf {
    leaf_bytes: BTree::<[u8], u64, Emulated>::NODE_BYTES,
};

/// What a store has in such memory, while that is there.
#[derive(Clone, Default)]
pub struct InSlowMemory(Arc<Mutex<Option<Made>>>);

/// A map, and the workers that move its nodes.
type Made = (Box<dyn Map>, Workers);

impl InSlowMemory {
    /// Whether slow memory takes longer than fast memory from now on. It does not at first.
    pub fn charge(&self, on: bool) {
        self.with(|map| map.charge(on));
    }

    /// The part of the bytes that are in fast memory.
    pub fn fast_part(&self) -> f64 {
        let (fast, slow) = self.with(|map| map.committed());
        fast as f64 / (fast + slow) as f64
    }

    fn with<T>(&self, act: impl FnOnce(&dyn Map) -> T) -> T {
        let made = self.0.lock().expect("no panic");
        act(&*made.as_ref().expect("the store is open").0)
    }
}

impl SlowMemory {
    /// Memory for an index of this map that takes so many bytes, and where it can be found then.
    pub fn index(&self, map: IndexMap, bytes: u64) -> (IndexMemory, InSlowMemory) {
        type Tree = BTree<[u8], u64, Emulated>;
        let (this, found) = (self.clone(), InSlowMemory::default());
        let made = found.clone();
        let index = match map {
            IndexMap::Art => {
                let make = Art::<[u8], u64, _>::in_memory;
                IndexMemory::of(move || this.make(bytes, &made, IN_ART, make))
            }
            IndexMap::BTree => {
                let make = Tree::in_memory;
                IndexMemory::of(move || this.make(bytes, &made, IN_BTREE, make))
            }
        };
        (index, found)
    }

    /// The same for a cache.
    pub fn cache(&self, bytes: u64) -> (CacheMemory, InSlowMemory) {
        let (this, found) = (self.clone(), InSlowMemory::default());
        let made = found.clone();
        let cache = CacheMemory::of(move || this.make(bytes, &made, IN_ART, Art::in_memory));
        (cache, found)
    }

    fn make<M: Map + Clone + 'static>(
        &self,
        bytes: u64,
        found: &InSlowMemory,
        heat: HeatIn,
        make: In<M>,
    ) -> Result<M, Error> {
        let bytes = bytes as usize;
        let fast = (bytes as f64 * self.fast_percent / 100.0) as usize;
        // Where a store is opened, what it loads may need more than what it had.
        let config = ArenasConfig::two_tiers(fast, 2 * bytes + (64 << 20));
        let arenas = Arenas::new(&config)?;
        let (placement, workers): (Arc<dyn Placement>, _) = match fast {
            0 => (Arc::new(AllFast), Vec::new()),
            _ => {
                let placement = Timberline::new(&arenas, heat, TimberlineConfig::default())?;
                let workers = placement.workers();
                (placement, workers)
            }
        };
        let profile = Profile::parse(&self.profile);
        let profile = profile.map_err(|error| Error::Configuration(error.to_string()))?;
        let memory = Emulated::new(arenas, profile, Base::default());
        memory.set_charging(false);
        let map = make(memory, placement)?;
        let started = Workers::start(workers, map.placed());
        let started = started.map_err(|error| Error::Configuration(error.to_string()))?;
        *found.0.lock().expect("no panic") = Some((Box::new(map.clone()), started));
        Ok(map)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_profile_with_a_part_of_fast_memory() {
        let parsed = |text: &str| text.parse::<SlowMemory>().map(|it| it.to_string());
        assert_eq!(parsed("us5").as_deref(), Ok("us5"));
        assert_eq!(parsed("us10:20%").as_deref(), Ok("us10, 20 % fast"));
        assert_eq!("us5".parse(), Ok(SlowMemory::of_latency(5)));
        assert_eq!(SlowMemory::of_latency(5).latency_us(), 5.0);
        for wrong in ["us", "us5:", "us5:20", "us5:100%", "us5:-1%", "us5:x%"] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
    }
}
