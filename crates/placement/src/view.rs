//! A placement's estimates, as numbers for live pages. Nothing depends on them.

/// A placement's estimates at one moment.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct View {
    /// What heat is counted in.
    pub unit: &'static str,
    /// The least heat of each bin of the histogram, ascending. The last bin has no upper bound.
    pub bins: Vec<u32>,
    /// The name of each count, and its value in each bin.
    pub counts: Vec<(&'static str, Vec<u64>)>,
    /// Heat thresholds, with their names.
    pub thresholds: Vec<(&'static str, f64)>,
    /// Watermarks of fast memory, with their names: fractions of the budget.
    pub watermarks: Vec<(&'static str, f64)>,
    /// Other estimates.
    pub figures: Vec<(&'static str, f64)>,
}

/// Bins from one power of two to the next, the first from 0 on.
pub fn powers_of_two(bins: usize) -> Vec<u32> {
    (0..bins).map(|bin| (1 << bin) & !1).collect()
}
