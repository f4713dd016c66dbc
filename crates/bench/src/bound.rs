//! Upper bounds for placements of a grain: the largest fraction of accesses that a placement can
//! serve from fast memory, given exact frequencies and the best use of the budget.
//!
//! Memory is placed in parts (pages, leaves, or single records), each fast or slow as a whole. The
//! parts with the most accesses per byte are fast until the budget is used up, the last one in
//! part. This is the optimum of a fractional knapsack: no placement of these parts is better, not
//! even one that moves them, as long as the frequencies hold. Inner nodes take nothing of this
//! budget, and there is no CPU cache.
//!
//! The bound is a fraction of *accesses*. The `fast_share` of a run is a fraction of *fetched
//! lines*: it includes inner nodes and excludes cache hits. The two are close but not equal.

/// A part that is fast or slow as a whole.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Part {
    /// Its accesses, in any unit.
    pub accesses: f64,
    pub bytes: f64,
}

/// The fraction of accesses to fast parts, if `budget` bytes may be fast. `None` without accesses.
pub fn fast_share(mut parts: Vec<Part>, budget: f64) -> Option<f64> {
    let all: f64 = parts.iter().map(|part| part.accesses).sum();
    let density = |part: &Part| part.accesses / part.bytes.max(1.0);
    parts.sort_unstable_by(|one, two| density(two).total_cmp(&density(one)));
    let (mut left, mut fast) = (budget, 0.0);
    for part in &parts {
        let share = (left / part.bytes.max(1.0)).min(1.0);
        fast += share * part.accesses;
        left -= share * part.bytes;
        if left <= 0.0 {
            break;
        }
    }
    (all > 0.0).then(|| fast / all)
}

/// The same for single records of `bytes_each` each.
pub fn fast_share_of_records(accesses: &[f32], bytes_each: f64, budget: f64) -> Option<f64> {
    let all: f64 = accesses.iter().copied().map(f64::from).sum();
    let fitting = ((budget / bytes_each.max(1e-9)) as usize).min(accesses.len());
    let mut sorted = accesses.to_vec();
    if let Some(last) = fitting.checked_sub(1) {
        sorted.select_nth_unstable_by(last, |one, two| two.total_cmp(one));
    }
    let fast: f64 = sorted[..fitting].iter().copied().map(f64::from).sum();
    (all > 0.0).then(|| fast / all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{KeySpace, Workload};

    fn part(accesses: f64, bytes: f64) -> Part {
        Part { accesses, bytes }
    }

    #[test]
    fn the_budget_goes_to_what_is_denser_and_the_last_fits_in_part() {
        // 6, 4 and 1 accesses per byte.
        let parts = vec![part(10.0, 10.0), part(60.0, 10.0), part(80.0, 20.0)];
        let share = |budget| fast_share(parts.clone(), budget).unwrap();
        assert_eq!(share(0.0), 0.0);
        assert_eq!(share(10.0), 60.0 / 150.0);
        assert_eq!(share(15.0), 80.0 / 150.0);
        assert_eq!(share(30.0), 140.0 / 150.0);
        assert_eq!((share(40.0), share(1e9)), (1.0, 1.0));
        assert_eq!(fast_share(Vec::new(), 10.0), None);
        assert_eq!(fast_share(vec![part(0.0, 10.0)], 10.0), None);
    }

    #[test]
    fn records_are_parts_of_one_size() {
        let accesses = [1.0, 5.0, 3.0, 1.0];
        let share = |budget| fast_share_of_records(&accesses, 8.0, budget);
        assert_eq!([7.9, 8.0, 16.0].map(share), [0.0, 0.5, 0.8].map(Some));
        assert_eq!(share(1e9), Some(1.0));
        assert_eq!(fast_share_of_records(&[], 8.0, 16.0), None);
    }

    /// A scrambled Zipf of 0.99 over 4 M records, 20 % fast, leaves of 64 records. (With 2 M
    /// records the bounds are 0.69 and 0.89, with 20 M 0.73 and 0.90.)
    #[test]
    fn leaves_of_64_records_reach_0_70_where_records_reach_0_89() {
        let space = KeySpace::new(4_000_000).unwrap();
        let workload = Workload::parse("ycsb-c").unwrap();
        let accesses = workload.frequencies(&space, 42).unwrap();
        let budget = 0.2 * 4_000_000.0;
        let leaves = accesses.chunks(64).map(|records| {
            let sum = records.iter().copied().map(f64::from).sum();
            part(sum, records.len() as f64)
        });
        let leaf = fast_share(leaves.collect(), budget).unwrap();
        let record = fast_share_of_records(&accesses, 1.0, budget).unwrap();
        let rounded = format!("{leaf:.2}, {record:.2}");
        assert_eq!(rounded, "0.70, 0.89", "{leaf}, {record}");
    }
}
