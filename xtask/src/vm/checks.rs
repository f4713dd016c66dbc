//! What a guest has to say. No check is of a time.

use super::machine::{BANDWIDTH_MBS, LATENCY_NS, Topology};
use super::serial::{Section, Serial};

/// What was found, and what of it is wrong.
#[derive(Default)]
pub struct Findings {
    /// A line for each check: what held, with the figures.
    pub held: Vec<String>,
    pub wrong: Vec<String>,
}

impl Findings {
    fn check(&mut self, holds: bool, line: String) {
        match holds {
            true => self.held.push(line),
            false => self.wrong.push(line),
        }
    }

    /// Checks a part if the guest came to it.
    fn part(&mut self, serial: &Serial, name: &str, check: impl FnOnce(&mut Self, &Section)) {
        match serial.section(name) {
            Ok(section) if section.status == Some(0) => check(self, section),
            Ok(Section { status: None, .. }) => self
                .wrong
                .push(format!("the machine ended within `{name}`")),
            Ok(section) => {
                let said = section.text.lines().last().unwrap_or("it says nothing");
                let status = section.status.unwrap_or(-1);
                self.wrong
                    .push(format!("`{name}` ended with {status}: {said}"));
            }
            Err(why) => self.wrong.push(why),
        }
    }
}

/// A machine with two tiers: what was discovered, and that nodes lie and move where they should.
pub fn two_tiers(topology: Topology, serial: &Serial) -> Findings {
    let mut findings = Findings::default();
    findings.part(serial, "modules", |_, _| {});
    findings.part(serial, "kernel", |findings, section| {
        findings
            .held
            .push(format!("kernel {}", section.text.trim()));
    });
    findings.part(serial, "tiers", discovery);
    findings.part(serial, "placements", placements);
    findings.check(
        serial.done,
        format!("the machine {} came to its end", topology.name()),
    );
    findings
}

fn discovery(findings: &mut Findings, tiers: &Section) {
    let nodes = tiers.numbers("id");
    findings.check(nodes == [0, 1], format!("NUMA nodes {nodes:?}"));
    let latencies = tiers.numbers("read_latency_ns");
    findings.check(
        latencies == LATENCY_NS,
        format!("read latencies {latencies:?} ns, as firmware says"),
    );
    let bandwidths = tiers.numbers("read_bandwidth_mbs");
    findings.check(
        bandwidths == BANDWIDTH_MBS,
        format!("read bandwidths {bandwidths:?} MB/s, as firmware says"),
    );
    let ranks = tiers.numbers("tier");
    findings.check(ranks == [0, 1], format!("ranked into tiers {ranks:?}"));
    let kernel = tiers.numbers("kernel_tier");
    let apart = matches!(kernel[..], [fast, slow] if fast < slow);
    findings.check(apart, format!("the kernel's own tiers are {kernel:?}"));
}

fn placements(findings: &mut Findings, bench: &Section) {
    let one = |placement: &str, name: &str| {
        let values = bench.part("placement", placement).numbers(name);
        values.first().copied()
    };
    for placement in bench.values("placement") {
        let (fast, slow) = (one(placement, "fast_bytes"), one(placement, "slow_bytes"));
        let misplaced = one(placement, "misplaced_pages");
        let (Some(fast), Some(slow)) = (fast, slow) else {
            findings.wrong.push(format!("{placement}: no figures"));
            continue;
        };
        let said = format!(
            "{placement}: {fast} bytes fast, {slow} slow; move_pages finds {misplaced:?} pages elsewhere"
        );
        let mixed = match placement {
            "all-fast" => fast > 0 && slow == 0,
            "all-slow" => fast == 0 && slow > 0,
            _ => fast > 0 && slow > 0,
        };
        findings.check(mixed && misplaced == Some(0), said);
        let over = one(placement, "over_budget_bytes");
        findings.check(
            over == Some(0),
            format!("{placement}: {} bytes over the budget", shown(over)),
        );
    }
    let moved = ["promoted", "demoted"].map(|name| one("timberline", name));
    let both = moved
        .iter()
        .all(|count| count.is_some_and(|count| count > 0));
    findings.check(
        both,
        format!("timberline: promoted and demoted {moved:?} nodes between real NUMA nodes"),
    );
}

fn shown(figure: Option<u64>) -> String {
    figure.map_or("an unknown number of".into(), |figure| figure.to_string())
}
