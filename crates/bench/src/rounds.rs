//! A figure of several rounds.

use serde::{Deserialize, Deserializer, Serialize};

/// The median of several rounds, and their range.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Rounds {
    /// The median; NaN where nothing was measured.
    #[serde(deserialize_with = "or_nan")]
    pub median: f64,
    /// The least.
    #[serde(deserialize_with = "or_nan")]
    pub least: f64,
    /// The greatest.
    #[serde(deserialize_with = "or_nan")]
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

/// JSON has null for NaN.
fn or_nan<'de, D: Deserializer<'de>>(number: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(number)?.unwrap_or(f64::NAN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_lies_between_the_ends() {
        let rounds = Rounds::new(&[3.0, 1.0, 2.0]);
        assert_eq!((rounds.median, rounds.least, rounds.most), (2.0, 1.0, 3.0));
        let none = serde_json::to_string(&Rounds::new(&[])).unwrap();
        let none: Rounds = serde_json::from_str(&none).unwrap();
        assert!(none.median.is_nan());
    }
}
