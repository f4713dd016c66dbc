//! The machines, their scripts, and the checks of their output.

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

/// The script of a guest: the shared functions, and a file.
macro_rules! script {
    ($file:literal) => {
        concat!(include_str!("guest/bench.sh"), include_str!($file))
    };
}

const fn scenario(
    name: &'static str,
    topology: Topology,
    script: &'static str,
    check: fn(&Serial) -> Findings,
) -> Scenario {
    Scenario {
        name,
        topology,
        release: Release::New,
        script,
        check,
    }
}

const MEMORY: &str = script!("guest/memory.sh");
const THREE: &str = script!("guest/three.sh");

/// Those of the gate.
pub const GATE: [Scenario; 3] = [
    scenario("hmat", Topology::Hmat, MEMORY, checks::two_tiers),
    scenario(
        "soft-reserved",
        Topology::SoftReserved,
        MEMORY,
        checks::two_tiers,
    ),
    scenario(
        "three-nodes",
        Topology::ThreeNodes,
        THREE,
        checks::three_tiers,
    ),
];

const OLD: &str = script!("guest/old.sh");

/// The others.
pub const ALL: [Scenario; 3] = [
    scenario(
        "damon",
        Topology::Hmat,
        script!("guest/damon.sh"),
        checks::damon,
    ),
    scenario(
        "cxl",
        Topology::Cxl,
        script!("guest/cxl.sh"),
        checks::expander,
    ),
    Scenario {
        release: Release::Old,
        ..scenario("old-kernel", Topology::Hmat, OLD, checks::one_kernel_tier)
    },
];

/// The script of a program with a bug: its arenas forget to bind their memory.
macro_rules! seeded {
    ($file:literal) => {
        concat!("export TIMBERLINE_BUG=forgets-to-bind\n", script!($file))
    };
}

/// Each has to find that bug.
pub const SEEDED: [Scenario; 2] = [
    scenario(
        "seeded",
        Topology::Hmat,
        seeded!("guest/seeded.sh"),
        checks::placement,
    ),
    scenario(
        "seeded-three-nodes",
        Topology::ThreeNodes,
        seeded!("guest/three.sh"),
        checks::three_tiers,
    ),
];
