//! The report a person reads: a table of nodes in the order of their tiers, why each is there, then
//! what else matters.

use std::fmt;

use super::{Basis, NumaNode, Ranking, Topology};

const HEADINGS: [&str; 9] = [
    "tier",
    "node",
    "cpus",
    "total",
    "free",
    "latency",
    "bandwidth",
    "distance",
    "kernel tier",
];

/// A table's cell for an unknown figure.
const UNKNOWN: &str = "-";

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rows: Vec<(&NumaNode, &Ranking)> = self.nodes.iter().zip(&self.rankings).collect();
        rows.sort_by_key(|(node, ranking)| (ranking.tier.unwrap_or(usize::MAX), node.id));
        let tiers = counted(self.tiers.len(), "tier");
        writeln!(
            f,
            "{tiers} of memory, seen from NUMA node {}{}",
            self.initiator,
            self.ranked_by()
        )?;
        writeln!(f)?;
        let table: Vec<_> = rows
            .iter()
            .map(|(node, ranking)| cells(node, ranking))
            .collect();
        write_table(f, &table)?;
        writeln!(f)?;
        // Below the table, where a long sentence does not tear it apart.
        for (_, ranking) in rows {
            match ranking.tier {
                Some(tier) => writeln!(f, "tier {tier}, {ranking}")?,
                None => writeln!(f, "no tier, {ranking}")?,
            }
        }
        writeln!(f)?;
        for line in self.remarks() {
            writeln!(f, "{line}")?;
        }
        Ok(())
    }
}

impl Topology {
    fn ranked_by(&self) -> &'static str {
        let chosen = |ranking: &Ranking| ranking.basis == Basis::Override;
        let unknown = |ranking: &Ranking| ranking.tier.is_some() && ranking.latency_ns.is_none();
        if self.rankings.iter().any(chosen) {
            ", as chosen"
        } else if self.usable().count() == 1 {
            ""
        } else if self.rankings.iter().any(unknown) {
            ", ranked by CPUs and distance"
        } else {
            ", ranked by read latency"
        }
    }

    fn remarks(&self) -> Vec<String> {
        let kernel = &self.kernel;
        let or_unknown = |value: Option<String>| value.unwrap_or_else(|| "not known".to_owned());
        let mut lines = vec![match &self.memory_limit {
            None => "memory limit: none".to_owned(),
            Some(limit) => {
                let used = limit
                    .used_bytes
                    .map(|used| format!(", {} of it used", size(used)));
                format!(
                    "memory limit: {}{} (/{})",
                    size(limit.bytes),
                    used.unwrap_or_default(),
                    limit.file
                )
            }
        }];
        let huge_pages = kernel.transparent_huge_pages.as_ref().map(|mode| {
            let of_size = kernel
                .huge_page_bytes
                .map(|bytes| format!("of {} ", size(bytes)));
            let on_request = if kernel.huge_pages_on_request() {
                ""
            } else {
                "not "
            };
            format!(
                "{}{on_request}available by madvise (mode {mode})",
                of_size.unwrap_or_default()
            )
        });
        lines.push(format!(
            "pages: {}",
            or_unknown(kernel.page_bytes.map(size))
        ));
        lines.push(format!("huge pages: {}", or_unknown(huge_pages)));
        let balancing = kernel.numa_balancing.map(|mode| match mode {
            0 => "off".to_owned(),
            1 => "on (1): the kernel moves pages to the CPUs that use them".to_owned(),
            mode => format!("on ({mode}): the kernel promotes hot pages to faster tiers"),
        });
        lines.push(format!("NUMA balancing: {}", or_unknown(balancing)));
        let demotion = kernel.demotion.map(|on| match on {
            true => "on: the kernel moves cold pages to slower tiers".to_owned(),
            false => "off".to_owned(),
        });
        lines.push(format!("demotion: {}", or_unknown(demotion)));
        let offline = self
            .possible
            .iter()
            .filter(|&id| self.node(id).is_none())
            .count();
        if offline > 0 {
            let nodes = counted(offline, "more NUMA node");
            lines.push(format!(
                "{nodes} may come online (possible: {})",
                self.possible
            ));
        }
        lines.extend(self.notes.iter().map(|note| format!("note: {note}")));
        lines
    }
}

fn cells(node: &NumaNode, ranking: &Ranking) -> [String; HEADINGS.len()] {
    fn known<T>(value: Option<T>, show: impl Fn(T) -> String) -> String {
        value.map_or_else(|| UNKNOWN.to_owned(), show)
    }
    let approximately = if ranking.latency_estimated { "~" } else { "" };
    // Bandwidth is that of the nearest CPUs; distances say nothing of it, so it is not scaled.
    let bandwidth = node
        .performance
        .as_ref()
        .and_then(|values| values.read_bandwidth_mbs);
    [
        known(ranking.tier, |tier| tier.to_string()),
        node.id.to_string(),
        if node.has_cpus() {
            node.cpus.to_string()
        } else {
            "none".to_owned()
        },
        size(node.total_bytes),
        size(node.free_bytes),
        known(ranking.latency_ns, |ns| format!("{approximately}{ns} ns")),
        known(bandwidth, |mbs| {
            format!("{}.{} GB/s", mbs / 1000, mbs % 1000 / 100)
        }),
        known(ranking.distance, |distance| distance.to_string()),
        known(node.kernel_tier, |tier| format!("memory_tier{tier}")),
    ]
}

/// Columns as wide as their widest cell.
fn write_table(f: &mut fmt::Formatter<'_>, rows: &[[String; HEADINGS.len()]]) -> fmt::Result {
    let headings = HEADINGS.map(str::to_owned);
    let mut widths = HEADINGS.map(str::len);
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    for row in std::iter::once(&headings).chain(rows) {
        let padded = row
            .iter()
            .zip(widths)
            .map(|(cell, width)| format!("{cell:<width$}"));
        writeln!(f, "{}", padded.collect::<Vec<_>>().join("  ").trim_end())?;
    }
    Ok(())
}

/// `2 MiB`, `23.5 GiB`: at most one digit after the point, in the largest unit that fits.
fn size(bytes: u64) -> String {
    let units = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    match units.into_iter().find(|&(_, shift)| bytes >> shift > 0) {
        None => format!("{bytes} B"),
        Some((unit, shift)) => {
            let tenths = (u128::from(bytes) * 10) >> shift;
            match (tenths / 10, tenths % 10) {
                (whole, 0) => format!("{whole} {unit}"),
                (whole, tenth) => format!("{whole}.{tenth} {unit}"),
            }
        }
    }
}

fn counted(count: usize, what: &str) -> String {
    if count == 1 {
        format!("1 {what}")
    } else {
        format!("{count} {what}s")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_for_people() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (4096, "4 KiB"),
            (2 << 20, "2 MiB"),
            (24_684_096 << 10, "23.5 GiB"),
            (3 << 39, "1.5 TiB"),
            (u64::MAX, "16777215.9 TiB"),
        ] {
            assert_eq!(size(bytes), text);
        }
    }
}
