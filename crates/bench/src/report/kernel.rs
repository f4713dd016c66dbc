//! One line on the kernel's page moves while it placed the map.

use super::figures;
use super::result::Outcome;

/// The kernel's moves until the end; `None` if it did not place the map's pages.
pub fn line(outcome: &Outcome) -> Option<String> {
    let moves = outcome.series.last()?.kernel?;
    let pages = |name: &str, pages: Option<u64>| Some(format!("{name} {}", figures::count(pages?)));
    let bytes = |name: &str, bytes: Option<u64>| Some(format!("{name} {}", figures::bytes(bytes?)));
    let told: Vec<String> = [
        pages("pgpromote_success", moves.pgpromote_success),
        pages("pgdemote_kswapd", moves.pgdemote_kswapd),
        pages("pgdemote_direct", moves.pgdemote_direct),
        pages("numa_hint_faults", moves.numa_hint_faults),
        bytes("migrate_hot", moves.damon_hot_applied_bytes),
        bytes("migrate_cold", moves.damon_cold_applied_bytes),
    ]
    .into_iter()
    .flatten()
    .collect();
    let told = match told.is_empty() {
        true => "this kernel does not count its moves".to_string(),
        false => told.join(", "),
    };
    Some(format!(
        "moved by the kernel on the whole machine since it took over the map: {told}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::result::Sample;
    use crate::report::tests::samples;
    use timberline_tier::tiering::KernelMoves;

    #[test]
    fn only_what_is_counted_is_told() {
        let report = samples::left_to_kernel();
        let line = line(report.results.last().unwrap()).unwrap();
        let told = "pgpromote_success 2.4k, pgdemote_kswapd 600";
        assert!(
            line.contains(told) && !line.contains("migrate_hot"),
            "{line}"
        );
    }

    #[test]
    fn placements_of_nodes_have_no_line() {
        assert_eq!(line(&samples::report().results[6]), None);
    }

    #[test]
    fn a_kernel_that_counts_nothing_is_told() {
        let sample = Sample {
            at_s: 1.0,
            kernel: Some(KernelMoves::default()),
            ..Sample::default()
        };
        let outcome = Outcome {
            series: vec![sample],
            ..Outcome::default()
        };
        assert!(line(&outcome).unwrap().contains("does not count"));
    }
}
