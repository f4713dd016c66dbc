//! Designs that are compared, as settings of the same code.

use serde::{Deserialize, Serialize};
use timberline_remote::Options;

/// A way to keep an index in remote memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Design {
    /// As published: leaves are admitted with a chance of 0.1 (Lu et al.: "DEX", VLDB 2024).
    Dex,
    /// With every leaf admitted.
    DexEager,
    /// As published, and copies of hot records in half of the cache.
    Copies,
    /// As published, with offloading.
    DexOffload,
    /// Copies of hot records, with offloading.
    CopiesOffload,
    /// With partitions, inner nodes cached and leaves not, as Sherman does (Wang et al.: "Sherman",
    /// SIGMOD 2022).
    PShermanLike,
}

impl Design {
    /// All of them.
    pub const ALL: [Design; 6] = [
        Design::Copies,
        Design::CopiesOffload,
        Design::Dex,
        Design::DexOffload,
        Design::DexEager,
        Design::PShermanLike,
    ];

    /// As it is called.
    pub fn name(self) -> &'static str {
        match self {
            Design::Dex => "dex",
            Design::DexEager => "dex-eager",
            Design::DexOffload => "dex-offload",
            Design::Copies => "copies",
            Design::CopiesOffload => "copies-offload",
            Design::PShermanLike => "p-sherman-like",
        }
    }

    pub(super) fn options(self) -> Options {
        let leaf_admission = match self {
            Design::Dex | Design::DexOffload | Design::Copies | Design::CopiesOffload => {
                Options::default().leaf_admission
            }
            Design::DexEager => 1.0,
            Design::PShermanLike => 0.0,
        };
        let copies = match self {
            Design::Copies | Design::CopiesOffload => Options::default().copies,
            Design::Dex | Design::DexOffload | Design::DexEager | Design::PShermanLike => 0.0,
        };
        Options {
            leaf_admission,
            copies,
            offloading: matches!(self, Design::DexOffload | Design::CopiesOffload),
            ..Options::default()
        }
    }
}
