//! A figure of several rounds.

use serde::Serialize;

/// The median of several rounds, and their range.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Rounds {
    /// The median; NaN where nothing was measured.
    pub median: f64,
    /// The least.
    pub least: f64,
    /// The greatest.
    pub most: f64,
}

impl Rounds {
    /// Of these values.
    pub fn new(values: &[f64]) -> Rounds {
        let mut values = values.to_vec();
        values.sort_by(f64::total_cmp);
        let at = |index: usize| values.get(index).copied().unwrap_or(f64::NAN);
        Rounds {
            median: at(values.len() / 2),
            least: at(0),
            most: at(values.len().saturating_sub(1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_lies_between_the_ends() {
        let rounds = Rounds::new(&[3.0, 1.0, 2.0]);
        assert_eq!((rounds.median, rounds.least, rounds.most), (2.0, 1.0, 3.0));
        assert!(Rounds::new(&[]).median.is_nan());
    }
}
