//! DAMON by its files in sysfs: one thread that watches the physical addresses of both nodes, and
//! one scheme for each direction.

use std::fs;
use std::ops::Range;
use std::path::Path;

use super::TieringError;

const ADMIN: &str = "sys/kernel/mm/damon/admin/kdamonds";
/// DAMON's names of the hot and of the cold scheme.
const ACTIONS: [&str; 2] = ["migrate_hot", "migrate_cold"];
const ZONES: &str = "proc/zoneinfo";
const PAGE: u64 = 4096;

/// Sampling, aggregation and update of regions, µs: DAMON's own defaults.
const INTERVALS_US: [(&str, &str); 3] = [
    ("sample_us", "5000"),
    ("aggr_us", "100000"),
    ("update_us", "1000000"),
];
/// How many regions the addresses are split into: more than by default, as a map is a small part of
/// a node.
const REGIONS: [(&str, &str); 2] = [("max", "4000"), ("min", "400")];
/// Samples of an aggregation.
const SAMPLES: u64 = 20;

/// The files to write, in order: the last one starts the thread.
pub(super) fn writes(
    root: &Path,
    fast: u32,
    slow: u32,
) -> Result<Vec<(String, String)>, TieringError> {
    let failed = |path: &str, reason: String| TieringError {
        path: root.join(path),
        reason,
    };
    let count = format!("{ADMIN}/nr_kdamonds");
    let running =
        fs::read_to_string(root.join(&count)).map_err(|error| failed(&count, error.to_string()))?;
    if running.trim() != "0" {
        return Err(failed(&count, "DAMON is in use already".into()));
    }
    let zones =
        fs::read_to_string(root.join(ZONES)).map_err(|error| failed(ZONES, error.to_string()))?;

    let (thread, context) = (thread(), context());
    let mut writes = Vec::new();
    let mut add = |path: String, value: &str| writes.push((path, value.to_string()));
    add(count, "1");
    add(format!("{thread}/contexts/nr_contexts"), "1");
    add(format!("{context}/operations"), "paddr");
    for (name, value) in INTERVALS_US {
        add(
            format!("{context}/monitoring_attrs/intervals/{name}"),
            value,
        );
    }
    for (name, value) in REGIONS {
        add(
            format!("{context}/monitoring_attrs/nr_regions/{name}"),
            value,
        );
    }
    add(format!("{context}/targets/nr_targets"), "1");
    let mut regions: Vec<_> = [fast, slow]
        .iter()
        .filter_map(|&node| addresses(&zones, node))
        .collect();
    regions.sort_by_key(|region| region.start);
    let target = format!("{context}/targets/0/regions");
    add(format!("{target}/nr_regions"), &regions.len().to_string());
    for (index, region) in regions.iter().enumerate() {
        add(format!("{target}/{index}/start"), &region.start.to_string());
        add(format!("{target}/{index}/end"), &region.end.to_string());
    }
    // Hot: accessed at all in an aggregation. Cold: not accessed for two seconds.
    let hot = (1, SAMPLES, 0);
    let cold = (0, 0, 20);
    add(format!("{context}/schemes/nr_schemes"), "2");
    for (index, (action, (node, (least, most, age)))) in ACTIONS
        .into_iter()
        .zip([(fast, hot), (slow, cold)])
        .enumerate()
    {
        let scheme = format!("{context}/schemes/{index}");
        let pattern = format!("{scheme}/access_pattern");
        add(format!("{scheme}/action"), action);
        add(format!("{scheme}/target_nid"), &node.to_string());
        for (range, [from, to]) in [
            ("sz", [PAGE, u64::MAX >> 1]),
            ("nr_accesses", [least, most]),
            ("age", [age, u64::from(u32::MAX)]),
        ] {
            add(format!("{pattern}/{range}/min"), &from.to_string());
            add(format!("{pattern}/{range}/max"), &to.to_string());
        }
    }
    add(format!("{thread}/state"), "on");
    Ok(writes)
}

fn thread() -> String {
    format!("{ADMIN}/0")
}

fn context() -> String {
    format!("{}/contexts/0", thread())
}

/// Bytes that were moved since the thread was started; `None` where there is no such scheme.
pub(super) struct Applied {
    pub hot: Option<u64>,
    pub cold: Option<u64>,
}

/// The bytes that the first thread's schemes moved.
pub(super) fn applied_bytes(root: &Path) -> Applied {
    // The files are as of the last refresh (Linux 6.17 can refresh them by itself). A thread that
    // does not run has no news.
    let _ = fs::write(root.join(thread()).join("state"), "update_schemes_stats");
    let schemes = root.join(context()).join("schemes");
    let text = |scheme: &Path, file: &str| fs::read_to_string(scheme.join(file)).ok();
    let [hot, cold] = ACTIONS.map(|action| {
        (0..)
            .map(|index: usize| schemes.join(index.to_string()))
            .map_while(|scheme| Some((text(&scheme, "action")?, scheme)))
            .filter(|(of, _)| of.trim() == action)
            .filter_map(|(_, scheme)| text(&scheme, "stats/sz_applied")?.trim().parse().ok())
            .reduce(|sum: u64, bytes: u64| sum + bytes)
    });
    Applied { hot, cold }
}

/// The physical addresses of a node, from its first zone to its last.
fn addresses(zones: &str, node: u32) -> Option<Range<u64>> {
    let (mut within, mut spanned) = (false, 0u64);
    let mut found: Option<Range<u64>> = None;
    for line in zones.lines() {
        let mut words = line.split_whitespace();
        match (words.next(), words.next()) {
            (Some("Node"), Some(id)) => within = id.trim_end_matches(',').parse() == Ok(node),
            (Some("spanned"), Some(pages)) if within => spanned = pages.parse().unwrap_or(0),
            (Some("start_pfn:"), Some(first)) if within && spanned > 0 => {
                let first: u64 = first.parse().ok()?;
                let zone = first * PAGE..(first + spanned) * PAGE;
                found = Some(match found {
                    Some(before) => before.start.min(zone.start)..before.end.max(zone.end),
                    None => zone,
                });
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "Node 0, zone DMA\n  pages free 3\n        spanned  4095\n\
        \x20 start_pfn:           1\n\
                        Node 0, zone Normal\n        spanned  0\n  start_pfn:           0\n\
                        Node 1, zone DMA32\n        spanned  16\n  start_pfn:           4096\n\
                        Node 1, zone Normal\n        spanned  16\n  start_pfn:           8192\n";

    #[test]
    fn a_node_reaches_from_its_first_zone_to_its_last() {
        assert_eq!(addresses(TEXT, 0), Some(4096..4096 * 4096));
        assert_eq!(addresses(TEXT, 1), Some(4096 * 4096..8208 * 4096));
        assert_eq!(addresses(TEXT, 2), None);
    }

    #[test]
    fn a_kernel_without_damon_is_told() {
        let error = writes(Path::new("no/such/machine"), 0, 1).unwrap_err();
        assert!(error.to_string().contains("nr_kdamonds"), "{error}");
    }
}
