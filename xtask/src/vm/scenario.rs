//! The machines, what they are asked, and what they have to answer.

use super::checks::{self, Findings};
use super::kernel::Release;
use super::serial::Serial;
use super::topology::Topology;

/// A boot and its checks.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    pub name: &'static str,
    pub topology: Topology,
    pub release: Release,
    pub script: &'static str,
    pub check: fn(&Serial) -> Findings,
}

impl PartialEq for Scenario {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

const MEMORY: &str = concat!(
    include_str!("guest/bench.sh"),
    include_str!("guest/memory.sh")
);

/// Those of the gate.
pub const GATE: [Scenario; 2] = [
    Scenario {
        name: "hmat",
        topology: Topology::Hmat,
        release: Release::New,
        script: MEMORY,
        check: checks::two_tiers,
    },
    Scenario {
        name: "soft-reserved",
        topology: Topology::SoftReserved,
        release: Release::New,
        script: MEMORY,
        check: checks::two_tiers,
    },
];

/// The others.
pub const ALL: [Scenario; 3] = [
    Scenario {
        name: "damon",
        topology: Topology::Hmat,
        release: Release::New,
        script: concat!(
            include_str!("guest/bench.sh"),
            include_str!("guest/damon.sh")
        ),
        check: checks::damon,
    },
    Scenario {
        name: "cxl",
        topology: Topology::Cxl,
        release: Release::New,
        script: concat!(include_str!("guest/bench.sh"), include_str!("guest/cxl.sh")),
        check: checks::expander,
    },
    Scenario {
        name: "old-kernel",
        topology: Topology::Hmat,
        release: Release::Old,
        script: concat!(include_str!("guest/bench.sh"), include_str!("guest/old.sh")),
        check: checks::one_kernel_tier,
    },
];

/// A program with a bug: its arenas forget to bind their memory.
pub const SEEDED: Scenario = Scenario {
    name: "seeded",
    topology: Topology::Hmat,
    release: Release::New,
    script: concat!(
        "export TIMBERLINE_BUG=forgets-to-bind\n",
        include_str!("guest/bench.sh"),
        include_str!("guest/seeded.sh")
    ),
    check: checks::placement,
};
