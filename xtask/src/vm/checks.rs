//! Checks of a guest's output. None is of a time.

use super::serial::{Section, Serial};
use super::topology::{BANDWIDTH_MBS, LATENCY_NS};

/// The results of the checks.
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
                let said = section.text.lines().last().unwrap_or("without a message");
                let status = section.status.unwrap_or(-1);
                self.wrong
                    .push(format!("`{name}` ended with {status}: {said}"));
            }
            Err(why) => self.wrong.push(why),
        }
    }
}

/// A machine with two tiers: their discovery, and the places and moves of nodes.
pub fn two_tiers(serial: &Serial) -> Findings {
    let mut findings = Findings::default();
    findings.part(serial, "modules", |_, _| {});
    findings.part(serial, "kernel", |findings, section| {
        findings
            .held
            .push(format!("kernel {}", section.text.trim()));
    });
    findings.part(serial, "tiers", |findings, tiers| {
        discovery(findings, tiers, 2)
    });
    findings.part(serial, "check", |findings, check| {
        tier_check(findings, check, 2)
    });
    findings.part(serial, "placements", placements);
    kernel_tiering(&mut findings, serial, "autonuma", "pgpromote_success");
    findings.check(serial.done, "the machine came to its end".into());
    findings
}

/// A machine with three tiers: their discovery, and the places and moves of nodes.
pub fn three_tiers(serial: &Serial) -> Findings {
    let mut findings = Findings::default();
    findings.part(serial, "kernel", |findings, section| {
        findings
            .held
            .push(format!("kernel {}", section.text.trim()));
    });
    findings.part(serial, "tiers", |findings, tiers| {
        discovery(findings, tiers, 3)
    });
    findings.part(serial, "check", |findings, check| {
        tier_check(findings, check, 3)
    });
    findings.check(serial.done, "the machine came to its end".into());
    findings
}

/// A machine with DAMON.
pub fn damon(serial: &Serial) -> Findings {
    let mut findings = Findings::default();
    kernel_tiering(&mut findings, serial, "damon", "damon_hot_applied_bytes");
    findings
}

/// A machine with a CXL expander whose speed the firmware does not state.
pub fn expander(serial: &Serial) -> Findings {
    let mut findings = Findings::default();
    for part in ["modules", "region"] {
        findings.part(serial, part, |_, _| {});
    }
    findings.part(serial, "tiers", |findings, tiers| {
        let nodes = tiers.numbers("id");
        findings.check(nodes == [0, 1], format!("NUMA nodes {nodes:?}"));
        let ranks = tiers.numbers("tier");
        findings.check(ranks == [0, 1], format!("ranked into tiers {ranks:?}"));
    });
    findings.part(serial, "placements", placements);
    findings
}

/// A machine whose kernel has both nodes in one tier: we still rank them by the firmware's figures.
pub fn one_kernel_tier(serial: &Serial) -> Findings {
    let mut findings = Findings::default();
    findings.part(serial, "tiers", |findings, tiers| {
        let kernel = tiers.numbers("kernel_tier");
        let alike = matches!(kernel[..], [fast, slow] if fast == slow);
        findings.check(alike, format!("the kernel's own tiers are {kernel:?}"));
        let ranks = tiers.numbers("tier");
        findings.check(
            ranks == [0, 1],
            format!("ranked into tiers {ranks:?} by us"),
        );
    });
    findings.part(serial, "placements", placements);
    findings.part(serial, "refused", |findings, refused| {
        let status = refused.word("status");
        let said = refused
            .text
            .lines()
            .find(|line| line.starts_with("error: "));
        let line = format!("DAMON is refused: {}", said.unwrap_or("without a reason"));
        findings.check(status == Some("2") && said.is_some(), line);
    });
    settings(&mut findings, serial, "old kernel", "after");
    findings
}

/// A machine where only the placements ran.
pub fn placement(serial: &Serial) -> Findings {
    let mut findings = Findings::default();
    findings.part(serial, "placements", placements);
    findings
}

/// The kernel promoted pages, `counter` of the figures over time says so, and all settings are as
/// before, also after a run that was interrupted.
fn kernel_tiering(findings: &mut Findings, serial: &Serial, name: &str, counter: &str) {
    findings.part(serial, name, |findings, section| {
        // The first value is of the end of the run, the others are samples over time.
        let all = section.numbers("fast_bytes");
        let (fast, most) = (all.first().copied(), all.iter().skip(1).max().copied());
        let (fast, most) = (fast.unwrap_or(0), most.unwrap_or(0));
        let line = format!(
            "{name}: {fast} bytes of a map that began in slow memory are fast, says move_pages, and were {most} at most"
        );
        findings.check(fast > 0 && most > 0, line);
        let counts = section.numbers(counter);
        let (samples, last) = (counts.len(), counts.last().copied().unwrap_or(0));
        let line = format!("{name}: {counter} grows to {last} over {samples} samples");
        let grows = counts.is_sorted() && last > 0;
        findings.check(grows, line);
    });
    findings.part(serial, "interrupted", |findings, section| {
        let held = section.word("held_meanwhile").unwrap_or("0");
        let line = format!("{name}: interrupted while {held} huge pages were held");
        findings.check(held != "0", line);
    });
    settings(
        findings,
        serial,
        &format!("{name}, interrupted"),
        "after-interrupt",
    );
    if let Some((before, after)) = settings(findings, serial, name, "after") {
        let moved = |section: &Section| -> u64 {
            let counted = section.word("pgmigrate_success");
            counted.and_then(|count| count.parse().ok()).unwrap_or(0)
        };
        let moved = moved(after).saturating_sub(moved(before));
        findings.check(moved > 0, format!("{name}: the kernel moved {moved} pages"));
    }
}

/// Checks that the kernel's settings in section `after` are those of section `before`. Returns both
/// sections.
fn settings<'a>(
    findings: &mut Findings,
    serial: &'a Serial,
    name: &str,
    after: &str,
) -> Option<(&'a Section, &'a Section)> {
    let (Ok(before), Ok(after)) = (serial.section("before"), serial.section(after)) else {
        let line = format!("{name}: the machine did not tell its settings before and after");
        findings.wrong.push(line);
        return None;
    };
    for setting in ["numa_balancing", "demotion", "damon", "held"] {
        let (was, is) = (before.word(setting), after.word(setting));
        let line = format!(
            "{name}: {setting} is as before: {}",
            is.unwrap_or("not there")
        );
        findings.check(was == is, line);
    }
    Some((before, after))
}

/// `tiers` is what was found of a machine with so many nodes, each slower than the one before.
fn discovery(findings: &mut Findings, tiers: &Section, count: usize) {
    let in_order: Vec<u64> = (0..count as u64).collect();
    let nodes = tiers.numbers("id");
    findings.check(nodes == in_order, format!("NUMA nodes {nodes:?}"));
    let latencies = tiers.numbers("read_latency_ns");
    findings.check(
        latencies == LATENCY_NS[..count],
        format!("read latencies {latencies:?} ns, as firmware says"),
    );
    let bandwidths = tiers.numbers("read_bandwidth_mbs");
    findings.check(
        bandwidths == BANDWIDTH_MBS[..count],
        format!("read bandwidths {bandwidths:?} MB/s, as firmware says"),
    );
    let ranks = tiers.numbers("tier");
    findings.check(ranks == in_order, format!("ranked into tiers {ranks:?}"));
    let kernel = tiers.numbers("kernel_tier");
    let apart = kernel.len() == count && kernel.windows(2).all(|two| two[0] < two[1]);
    findings.check(apart, format!("the kernel's own tiers are {kernel:?}"));
}

/// `check` is the output of `timberline tiers --check --json` on a machine with so many tiers.
fn tier_check(findings: &mut Findings, check: &Section, count: usize) {
    let maps = check.values("map");
    findings.check(
        maps.len() == 3,
        format!("checked maps: {}", maps.join(", ")),
    );
    for map in maps {
        let of = check.part("map", map);
        let numbers = |name: &str| of.numbers(name);
        let all = |name: &str, holds: fn(&u64) -> bool| {
            let numbers = of.numbers(name);
            numbers.len() == count && numbers.iter().all(holds)
        };
        let (moved, elsewhere) = (numbers("moved"), numbers("leaves_elsewhere"));
        let pairs = count * (count - 1);
        let each_way = moved.len() == pairs && !moved.contains(&0);
        let leaves: u64 = moved.iter().sum();
        let wrong: u64 = elsewhere.iter().sum();
        findings.check(
            each_way && elsewhere.len() == pairs && wrong == 0,
            format!(
                "{map}: {leaves} moves of leaves from each of {count} tiers to each other one; \
                 move_pages finds {wrong} leaves elsewhere"
            ),
        );
        let is_zero = |it: &u64| *it == 0;
        let line = format!(
            "{map}: leaves in each tier {:?}, pages on its node {:?} by numa_maps; move_pages finds \
             {:?} pages elsewhere, numa_maps {:?}",
            numbers("leaves"),
            numbers("numa_maps_pages"),
            numbers("misplaced_pages"),
            numbers("numa_maps_elsewhere"),
        );
        let placed = all("leaves", |it| *it > 0)
            && all("numa_maps_pages", |it| *it > 0)
            && all("misplaced_pages", is_zero)
            && all("numa_maps_elsewhere", is_zero);
        findings.check(placed, line);
        let line = format!(
            "{map}: peaks {:?} of limits {:?} bytes",
            numbers("peak_bytes"),
            numbers("limit_bytes")
        );
        findings.check(all("over_budget_bytes", is_zero), line);
        let [promoted, demoted] = ["promoted", "demoted"].map(numbers);
        findings.check(
            promoted > vec![0] && demoted > vec![0],
            format!("{map}: its worker promoted {promoted:?} and demoted {demoted:?} nodes"),
        );
    }
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
            "{placement}: {fast} bytes fast, {slow} slow; move_pages finds {} pages elsewhere",
            shown(misplaced)
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
    // The largest value is a sample over time, since samples count from the beginning.
    let of = bench.part("placement", "timberline");
    let [promoted, demoted] =
        ["promoted", "demoted"].map(|name| of.numbers(name).into_iter().max().unwrap_or(0));
    findings.check(
        promoted > 0 && demoted > 0,
        format!("timberline: promoted {promoted} and demoted {demoted} nodes between NUMA nodes"),
    );
}

fn shown(figure: Option<u64>) -> String {
    figure.map_or("an unknown number of".into(), |figure| figure.to_string())
}
