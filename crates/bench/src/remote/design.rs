//! Designs that are compared, as settings of the same code.

use serde::{Deserialize, Serialize};
use timberline_remote::{Check, Direct, LeafAdmission, Options, Turns};

/// A way to keep an index in remote memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Design {
    /// As published: leaves are admitted with a chance of 0.1 (Lu et al.: "DEX", VLDB 2024).
    Dex,
    /// With every leaf admitted.
    DexEager,
    /// With leaves admitted that were fetched lately, too, and no copies.
    DexAdaptive,
    /// The default: leaves admitted that were fetched lately, too, and copies of hot records in
    /// half of the cache.
    Copies,
    /// As published, with offloading.
    DexOffload,
    /// The default, with offloading.
    CopiesOffload,
    /// With partitions, inner nodes cached and leaves not, as Sherman does (Wang et al.: "Sherman",
    /// SIGMOD 2022).
    PShermanLike,
    /// Without partitions: leaves are written under locks that are handed over, and read in one
    /// read that a checksum makes safe.
    ShermanLike,
    /// The same, but nodes are read in three reads, as DEX's authors have their Sherman do.
    ShermanVersions,
    /// As `ShermanLike`; reads and changes of a leaf that wait on a compute server are done
    /// together, as SMART does (Luo et al.: "SMART", OSDI 2023). Its leaves are one record; these
    /// are nodes.
    SmartLike,
    /// The same with partitions.
    PSmartLike,
    /// DEX's baseline (section 2.2): no partitions, no cache, nodes read in three reads.
    Baseline,
    /// The baseline with partitions.
    Partitioned,
}

impl Design {
    /// All of them.
    pub const ALL: [Design; 13] = [
        Design::Copies,
        Design::CopiesOffload,
        Design::Dex,
        Design::DexOffload,
        Design::DexEager,
        Design::DexAdaptive,
        Design::PShermanLike,
        Design::PSmartLike,
        Design::ShermanLike,
        Design::ShermanVersions,
        Design::SmartLike,
        Design::Partitioned,
        Design::Baseline,
    ];

    /// As it is called.
    pub fn name(self) -> &'static str {
        match self {
            Design::Dex => "dex",
            Design::DexEager => "dex-eager",
            Design::DexAdaptive => "dex-adaptive",
            Design::DexOffload => "dex-offload",
            Design::Copies => "copies",
            Design::CopiesOffload => "copies-offload",
            Design::PShermanLike => "p-sherman-like",
            Design::ShermanLike => "sherman-like",
            Design::ShermanVersions => "sherman-versions",
            Design::SmartLike => "smart-like",
            Design::PSmartLike => "p-smart-like",
            Design::Baseline => "baseline",
            Design::Partitioned => "partitioned",
        }
    }

    /// Whether each compute server has keys of its own.
    pub fn is_partitioned(self) -> bool {
        self.direct().is_none_or(|it| it.check == Check::Owner)
    }

    /// What is done with leaves that are not cached.
    fn direct(self) -> Option<Direct> {
        let (check, turns, cached_ways) = match self {
            Design::ShermanLike => (Check::Checksum, Turns::HandedOver, true),
            Design::ShermanVersions => (Check::Versions, Turns::HandedOver, true),
            Design::SmartLike => (Check::Checksum, Turns::Together, true),
            Design::PSmartLike => (Check::Owner, Turns::Together, true),
            Design::Baseline => (Check::Versions, Turns::Alone, false),
            Design::Partitioned => (Check::Owner, Turns::Alone, false),
            Design::Dex
            | Design::DexEager
            | Design::DexAdaptive
            | Design::Copies
            | Design::DexOffload
            | Design::CopiesOffload
            | Design::PShermanLike => return None,
        };
        Some(Direct {
            check,
            turns,
            cached_ways,
        })
    }

    pub(super) fn options(self) -> Options {
        let leaf_admission = match self {
            Design::Dex | Design::DexOffload => LeafAdmission::Chance(0.1),
            Design::DexEager => LeafAdmission::Chance(1.0),
            Design::PShermanLike => LeafAdmission::Chance(0.0),
            _ => Options::default().leaf_admission,
        };
        let copies = match self {
            Design::Copies | Design::CopiesOffload => Options::default().copies,
            _ => 0.0,
        };
        Options {
            leaf_admission,
            copies,
            offloading: matches!(self, Design::DexOffload | Design::CopiesOffload),
            direct: self.direct(),
            ..Options::default()
        }
    }
}
