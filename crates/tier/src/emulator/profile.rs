//! Profiles: how much slower the emulated tiers are than tier 0, each taken from a paper's testbed.
//!
//! | profile | latency | bandwidth | source |
//! |---|---|---|---|
//! | `cxl` | 2.1× | 0.6× | SIDLE §2, Figure 1(c) |
//! | `cxl-fpga` | 4.5× | 0.15× (40 of 260 GB/s) | Weisgut et al. §4.2, §4.4, §5.2 |
//! | `us1` … `us10` | 1 … 10 µs | as tier 0 | Bando et al. Table 1, §4 |
//! | `rdma` | 2 µs | 100 Gbit/s | DEX §3, §7.1 |
//!
//! The microsecond profiles leave bandwidth alone because their source provides enough devices for
//! it not to count, and allow 10 prefetches in flight, the source's depth P.

use std::fmt;

use super::base::Base;
use crate::TierId;

/// A cost, relative to the same cost in tier 0 or in nanoseconds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Cost {
    /// A multiple of tier 0's.
    Times(f64),
    /// Nanoseconds in all, tier 0's part included.
    Ns(f64),
}

impl Cost {
    /// The whole of it where tier 0 costs `base_ns`, in nanoseconds; never less than that.
    pub(super) fn total_ns(self, base_ns: f64) -> f64 {
        match self {
            Cost::Times(ratio) => base_ns.max(ratio * base_ns),
            Cost::Ns(ns) => base_ns.max(ns),
        }
    }

    /// What it adds to `base_ns`, in picoseconds.
    fn extra_ps(self, base_ns: f64) -> u64 {
        ((self.total_ns(base_ns) - base_ns) * 1000.0).round() as u64
    }

    /// The base to charge by, in nanoseconds, where charging by `base_ns` made an access take
    /// `slow_ns` here and one to tier 0 took `fast_ns`.
    pub(super) fn corrected(self, base_ns: f64, fast_ns: f64, slow_ns: f64) -> f64 {
        match self {
            Cost::Times(ratio) if ratio > 1.0 => {
                base_ns + (ratio * fast_ns - slow_ns) / (ratio - 1.0)
            }
            Cost::Ns(ns) if ns > fast_ns => base_ns + slow_ns - ns,
            _ => fast_ns,
        }
    }
}

/// How slow one tier is.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Slowness {
    /// From asking for a line to having it.
    pub latency: Cost,
    /// For each further line that is loaded at the same time: the inverse of bandwidth.
    pub line: Cost,
    /// Prefetches that a thread can have under way at once.
    pub in_flight: usize,
}

/// What one tier adds to the costs of this machine's memory, in picoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Extra {
    /// Added to the first missing line of an access.
    pub latency_ps: u64,
    /// Added to each further missing line of the same access.
    pub line_ps: u64,
}

/// The slownesses of tiers 1, 2, …; the last one stands for all tiers after it.
#[derive(Clone, PartialEq, Debug)]
pub struct Profile {
    name: String,
    tiers: Vec<Slowness>,
}

/// A name that is no profile's; its `Display` lists those that are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnknownProfile(String);

impl fmt::Display for UnknownProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "unknown profile {:?}: possible are cxl, cxl-fpga, us1 to us10, rdma, free, or one for \
             each tier from 1 on, such as cxl+us5",
            self.0
        )
    }
}

impl std::error::Error for UnknownProfile {}

impl Profile {
    /// The profile of this name, or of several names joined by `+`: one for each tier from 1 on.
    ///
    /// # Errors
    /// A name that is no profile's.
    pub fn parse(name: &str) -> Result<Profile, UnknownProfile> {
        let tiers: Option<Vec<Slowness>> = name.split('+').map(named).collect();
        let tiers = tiers.ok_or_else(|| UnknownProfile(name.to_owned()))?;
        Ok(Profile {
            name: name.to_owned(),
            tiers,
        })
    }

    /// A profile of one's own; `tiers` are 1, 2, … and the last one stands for all after it.
    ///
    /// # Panics
    /// If `tiers` is empty, or one allows no prefetch in flight.
    pub fn new(name: &str, tiers: Vec<Slowness>) -> Profile {
        assert!(
            !tiers.is_empty() && tiers.iter().all(|tier| tier.in_flight > 0),
            "{tiers:?}"
        );
        Profile {
            name: name.to_owned(),
            tiers,
        }
    }

    /// A profile whose slow tiers are as fast as tier 0.
    pub fn free() -> Profile {
        Profile::parse("free").expect("it is one of the names")
    }

    /// Its name, as given to [`Profile::parse`].
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How slow a tier is; `None` for tier 0, which is as fast as this machine's memory.
    pub fn slowness(&self, tier: TierId) -> Option<&Slowness> {
        let index = tier.index().checked_sub(1)?;
        self.tiers.get(index).or(self.tiers.last())
    }

    /// What a tier adds to costs of `base`.
    pub fn extra(&self, tier: TierId, base: Base) -> Extra {
        self.slowness(tier)
            .map_or_else(Extra::default, |slow| Extra {
                latency_ps: slow.latency.extra_ps(base.latency_ns),
                line_ps: slow.line.extra_ps(base.line_ns),
            })
    }

    /// What a line of a tier takes where all threads together read as fast as they can, in
    /// nanoseconds; 0 where the tier gives them no less than tier 0, whose limits are real.
    pub(super) fn shared_line_ns(&self, tier: TierId, base: Base) -> f64 {
        let shared = |slow: &Slowness| slow.line.total_ns(base.shared_line_ns);
        let line_ns = self.slowness(tier).map_or(0.0, shared);
        if line_ns > base.shared_line_ns {
            line_ns
        } else {
            0.0
        }
    }

    /// Prefetches that a thread can have under way at once: the least of all tiers' limits.
    pub fn in_flight(&self) -> usize {
        self.tiers
            .iter()
            .map(|tier| tier.in_flight)
            .min()
            .unwrap_or(1)
    }
}

fn named(name: &str) -> Option<Slowness> {
    use Cost::{Ns, Times};
    let slowness = |latency, line, in_flight| {
        Some(Slowness {
            latency,
            line,
            in_flight,
        })
    };
    match name {
        // 16 in flight: about as many lines as a core of such servers can wait for at once.
        "cxl" => slowness(Times(2.1), Times(1.0 / 0.6), 16),
        "cxl-fpga" => slowness(Times(4.5), Times(260.0 / 40.0), 16),
        "free" => slowness(Times(1.0), Times(1.0), 16),
        // 64 bytes at 12.5 GB/s.
        "rdma" => slowness(Ns(2000.0), Ns(5.12), 16),
        _ => {
            let digits = name
                .strip_prefix("us")
                .filter(|digits| !digits.starts_with(['0', '+']))?;
            let us = digits
                .parse::<u8>()
                .ok()
                .filter(|us| (1..=10).contains(us))?;
            slowness(Ns(f64::from(us) * 1000.0), Times(1.0), 10)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: Base = Base {
        latency_ns: 100.0,
        line_ns: 6.0,
        shared_line_ns: 3.0,
    };

    fn extra(name: &str, tier: u8) -> Extra {
        Profile::parse(name).unwrap().extra(TierId(tier), BASE)
    }

    #[test]
    fn ratios_and_absolute_costs_add_what_is_missing() {
        assert_eq!(
            extra("cxl", 1),
            Extra {
                latency_ps: 110_000,
                line_ps: 4_000
            }
        );
        assert_eq!(
            extra("cxl-fpga", 1),
            Extra {
                latency_ps: 350_000,
                line_ps: 33_000
            }
        );
        assert_eq!(
            extra("us10", 1),
            Extra {
                latency_ps: 9_900_000,
                line_ps: 0
            }
        );
        assert_eq!(
            extra("rdma", 1),
            Extra {
                latency_ps: 1_900_000,
                line_ps: 0
            }
        );
        assert_eq!(extra("us10", 0), Extra::default());
    }

    /// A machine whose tier 0 takes 150 ns, where spins are `late` by some and an access to tier 1
    /// finds its page `far` by some: what is charged on the corrected base makes up for both.
    #[test]
    fn a_corrected_base_makes_an_access_take_what_the_profile_says() {
        for cost in [Cost::Times(2.1), Cost::Times(4.5), Cost::Ns(2000.0)] {
            for (late, far) in [(0.0, 0.0), (8.0, 0.0), (3.0, 40.0), (-5.0, -20.0)] {
                let fast = 150.0;
                let slow = |base| fast + far + late + cost.total_ns(base) - base;
                let base = cost.corrected(100.0, fast, slow(100.0));
                let (taken, wanted) = (slow(base), cost.total_ns(fast));
                assert!(
                    (taken - wanted).abs() < 1e-9,
                    "{cost:?}: {taken}, not {wanted}"
                );
            }
        }
        for not_slower in [Cost::Times(1.0), Cost::Ns(120.0)] {
            assert_eq!(not_slower.corrected(100.0, 150.0, 190.0), 150.0);
        }
    }

    #[test]
    fn threads_share_a_fraction_of_tier_0s_bandwidth_or_a_link() {
        let shared = |name, tier| {
            Profile::parse(name)
                .unwrap()
                .shared_line_ns(TierId(tier), BASE)
        };
        assert_eq!((shared("cxl", 0), shared("cxl", 1)), (0.0, 5.0));
        assert_eq!(shared("rdma", 1), 5.12);
        assert_eq!(shared("us1", 1), 0.0, "as much as tier 0");
    }

    #[test]
    fn each_tier_has_its_own_and_the_last_one_goes_on() {
        assert_eq!(extra("cxl+us5", 1), extra("cxl", 1));
        assert_eq!(extra("cxl+us5", 2), extra("us5", 1));
        assert_eq!(extra("cxl+us5", 3), extra("us5", 1));
        assert_eq!(Profile::parse("cxl+us5").unwrap().in_flight(), 10);
    }

    #[test]
    fn unknown_names_are_answered_with_the_known_ones() {
        for name in [
            "", "CXL", "us0", "us11", "us+1", "us01", "us", "cxl+", "dram",
        ] {
            let line = Profile::parse(name).unwrap_err().to_string();
            assert!(
                line.contains(&format!("{name:?}")) && line.contains("cxl-fpga"),
                "{line}"
            );
            assert!(!line.contains('\n'));
        }
    }
}
