//! Rows without meaning, and the reasons: published schemes in settings where their purpose cannot
//! show.

use timberline_research::table;

use crate::report::{Calibration, Outcome, figures};

/// One sentence for each row that means nothing. A calibration is of emulated memory.
pub fn of(outcomes: &[Outcome], calibration: Option<&Calibration>) -> Vec<String> {
    let caveat = |outcome| {
        let of_any = coarse(outcome).or_else(|| without_copies(outcome));
        of_any.or_else(|| unbalanced(outcome, calibration?))
    };
    outcomes.iter().filter_map(caveat).collect()
}

/// Why the row of a placement with copies means nothing, if it does: its map makes none, and leaves
/// the fast memory for them empty.
fn without_copies(outcome: &Outcome) -> Option<String> {
    let is_empty = outcome.placement.ends_with("+copies") && outcome.copies_bytes == 0;
    is_empty.then(|| {
        format!(
            "{} on {}: not meaningful, for {} makes no copies of these records.",
            outcome.placement, outcome.workload, outcome.index
        )
    })
}

/// Where fast memory holds fewer units of many pages, a scheme that moves these has no choice.
const LEAST_UNITS: u64 = 32;

/// Why the row of a scheme that moves units of many pages means nothing, if it does.
fn coarse(outcome: &Outcome) -> Option<String> {
    let unit = table::row(&outcome.placement)?.unit_bytes as u64;
    let units = outcome.fast_budget_bytes.checked_div(unit)?;
    (units < LEAST_UNITS).then(|| {
        format!(
            "{} on {}: not meaningful at this size, for it moves {} at a time, and fast memory \
             holds {units} of these.",
            outcome.placement,
            outcome.workload,
            figures::bytes(unit),
        )
    })
}

/// A scheme that balances bandwidth means nothing where fast memory's is used to less than this:
/// pages in slow memory only cost latency then.
const BUSY: f64 = 0.5;

/// Why the row of a scheme that balances bandwidth means nothing, if it does.
fn unbalanced(outcome: &Outcome, of: &Calibration) -> Option<String> {
    let used = outcome.lines_fast_per_op * outcome.ops_per_s * of.shared_line_ns / 1e9;
    (outcome.placement == "caption" && used < BUSY).then(|| {
        format!(
            "caption on {}: not meaningful, for it balances bandwidth, and fast memory's was used \
             to {:.0} %.",
            outcome.workload,
            100.0 * used
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn huge_pages_need_room_for_many() {
        let of = |placement: &str, fast_budget_bytes| {
            let outcome = Outcome {
                placement: placement.into(),
                workload: "hs-c".into(),
                fast_budget_bytes,
                ..Outcome::default()
            };
            super::of(&[outcome], None)
        };
        let caveat = "memtis on hs-c: not meaningful at this size, for it moves 2.00 MiB at a \
                      time, and fast memory holds 3 of these.";
        assert_eq!(of("memtis", (7 << 20) + (3 << 18)), [caveat]);
        assert_eq!(of("memtis", 64 << 20), [""; 0]);
        assert_eq!(of("tpp", 7 << 20), [""; 0]);
    }

    #[test]
    fn rows_with_copies_need_some() {
        let of = |placement: &str, copies_bytes| {
            let outcome = Outcome {
                placement: placement.into(),
                copies_bytes,
                ..Outcome::default()
            };
            super::of(&[outcome], None).len()
        };
        assert_eq!(of("interleave+copies", 0), 1);
        assert_eq!(of("interleave+copies", 4096), 0);
        assert_eq!(of("interleave", 0), 0);
    }

    #[test]
    fn caption_needs_fast_memory_that_is_busy() {
        let shared = Calibration {
            shared_line_ns: 10.0,
            ..Calibration::default()
        };
        let of = |ops_per_s| {
            let outcome = Outcome {
                placement: "caption".into(),
                lines_fast_per_op: 5.0,
                ops_per_s,
                ..Outcome::default()
            };
            super::of(&[outcome], Some(&shared)).len()
        };
        assert_eq!([of(1e6), of(2e7)], [1, 0]);
    }
}
