//! The workloads by name: a mix of operations over a distribution.
//!
//! From SIDLE, Table 1; the YCSB letters are those of Cooper et al., SoCC 2010.

use std::fmt;

use super::distribution::{Distribution, Sampler};
use super::hotspot::{HotEpoch, HotRegion};
use super::key_space::KeySpace;
use super::mix::Mix;
use super::stream::Stream;
use super::tpcc::Tpcc;
use crate::BadInput;
use crate::names::unknown;

/// Percent of reads, updates, inserts, scans and read-modify-writes, and the distribution.
const NAMED: [(&str, [u8; 5], Distribution); 10] = [
    ("hs-a", [50, 50, 0, 0, 0], Distribution::SIDLE_HOTSPOT),
    ("hs-b", [95, 5, 0, 0, 0], Distribution::SIDLE_HOTSPOT),
    ("hs-c", [100, 0, 0, 0, 0], Distribution::SIDLE_HOTSPOT),
    ("hs-d", [95, 0, 5, 0, 0], Distribution::SIDLE_HOTSPOT),
    ("ycsb-a", [50, 50, 0, 0, 0], Distribution::YCSB_ZIPFIAN),
    ("ycsb-b", [95, 5, 0, 0, 0], Distribution::YCSB_ZIPFIAN),
    ("ycsb-c", [100, 0, 0, 0, 0], Distribution::YCSB_ZIPFIAN),
    ("ycsb-d", [95, 0, 5, 0, 0], Distribution::YCSB_LATEST),
    ("ycsb-e", [0, 0, 5, 95, 0], Distribution::YCSB_ZIPFIAN),
    ("ycsb-f", [50, 0, 0, 0, 50], Distribution::YCSB_ZIPFIAN),
];

/// A mix of operations over a distribution of records.
///
/// A clone shares the hot region's epoch; separately parsed workloads do not.
#[derive(Clone, Debug)]
pub struct Workload {
    name: String,
    mix: Mix,
    distribution: Distribution,
    epoch: HotEpoch,
}

impl Workload {
    /// The names that [`Workload::parse`] knows.
    pub fn names() -> impl Iterator<Item = &'static str> + use<> {
        NAMED.iter().map(|(name, ..)| *name)
    }

    /// The workload called `name`, e.g. `hs-c`.
    ///
    /// # Errors
    ///
    /// The name is unknown.
    pub fn parse(name: &str) -> Result<Workload, BadInput> {
        match NAMED.iter().find(|(known, ..)| *known == name) {
            Some(&(name, mix, distribution)) => Ok(Workload {
                name: name.into(),
                mix: mix.into(),
                distribution,
                epoch: HotEpoch::default(),
            }),
            None => {
                let known = Workload::names().chain(Tpcc::NAMES);
                Err(BadInput(unknown("workload", name, known)))
            }
        }
    }

    /// The same mix over another distribution, which the name includes.
    pub fn with_distribution(mut self, distribution: Distribution) -> Workload {
        self.name = format!("{} {distribution}", self.name);
        self.distribution = distribution;
        self
    }

    /// Another mix over the same distribution.
    pub fn with_mix(mut self, mix: Mix) -> Workload {
        self.mix = mix;
        self
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn mix(&self) -> Mix {
        self.mix
    }

    pub fn distribution(&self) -> Distribution {
        self.distribution
    }

    /// The counter that moves the hot region of all its streams.
    pub fn hot_epoch(&self) -> &HotEpoch {
        &self.epoch
    }

    /// The current hot region of its streams, if it has one.
    pub fn hot_region(&self, space: &KeySpace, seed: u64) -> Option<HotRegion> {
        match self.distribution {
            Distribution::Hotspot { size, .. } => Some(HotRegion::new(space.records(), size, seed)),
            _ => None,
        }
    }

    /// The endless requests of `thread`, one of `threads`.
    ///
    /// # Panics
    ///
    /// If `thread` is not below `threads`.
    pub fn stream(&self, space: &KeySpace, seed: u64, thread: u64, threads: u64) -> Stream {
        let sampler = Sampler::new(&self.distribution, space, seed, &self.epoch);
        Stream::new(self.mix, sampler, space.clone(), seed, thread, threads)
    }
}

/// Name, operations and distribution, e.g. `hs-c: 100 % read, hotspot:0.05:0.9`.
impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}, {}", self.name, self.mix, self.distribution)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_known_and_is_whole() {
        assert_eq!(Workload::names().count(), 10);
        for name in Workload::names() {
            let workload = Workload::parse(name).unwrap();
            let Mix {
                read,
                update,
                insert,
                scan,
                read_modify_write,
            } = workload.mix();
            assert_eq!(
                read + update + insert + scan + read_modify_write,
                100,
                "{name}"
            );
            assert_eq!(workload.name(), name);
        }
        let said = Workload::parse("hs-d").unwrap().to_string();
        assert_eq!(said, "hs-d: 95 % read, 5 % insert, hotspot:0.05:0.9");
        let uniform = Workload::parse("hs-d")
            .unwrap()
            .with_distribution(Distribution::Uniform);
        assert_eq!(uniform.name(), "hs-d uniform");
    }

    #[test]
    fn an_unknown_name_lists_the_known() {
        let error = Workload::parse("ycsb-g").unwrap_err().to_string();
        assert_eq!(
            error,
            "unknown workload `ycsb-g`; did you mean `ycsb-f`? possible: hs-a, hs-b, hs-c, hs-d, ycsb-a, ycsb-b, ycsb-c, ycsb-d, ycsb-e, ycsb-f, tpcc, tpcc:W"
        );
    }

    #[test]
    fn only_hotspots_have_a_region() {
        let space = KeySpace::new(1000).unwrap();
        let hotspot = Workload::parse("hs-c").unwrap();
        assert_eq!(hotspot.hot_region(&space, 1).unwrap().ids(), 50);
        assert!(
            hotspot
                .with_distribution(Distribution::Uniform)
                .hot_region(&space, 1)
                .is_none()
        );
    }
}
