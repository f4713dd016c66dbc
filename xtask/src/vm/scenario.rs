//! The machines, what they are asked, and what they have to answer.

use super::checks::{self, Findings};
use super::machine::Topology;
use super::packages::Release;
use super::serial::Serial;

/// A boot and its checks.
#[derive(Clone, Copy)]
pub struct Scenario {
    pub name: &'static str,
    pub topology: Topology,
    pub release: Release,
    pub script: &'static str,
    pub check: fn(&Serial) -> Findings,
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
pub const ALL: [Scenario; 1] = [Scenario {
    name: "damon",
    topology: Topology::Hmat,
    release: Release::New,
    script: concat!(
        include_str!("guest/bench.sh"),
        include_str!("guest/damon.sh")
    ),
    check: checks::damon,
}];

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
