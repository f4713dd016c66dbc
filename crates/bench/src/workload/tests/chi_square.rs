//! Pearson's chi-square test of counts against a distribution, for fixed seeds.

/// Fails unless `counts` are plausible for `probabilities` (which sum to 1). The bound is five
/// standard deviations above the statistic's mean. With a fixed seed the test always passes or
/// always fails, and a wrong distribution misses the bound by far.
#[track_caller]
pub fn assert_fits(counts: &[u64], probabilities: &[f64]) {
    assert_eq!(counts.len(), probabilities.len());
    let promised: f64 = probabilities.iter().sum();
    assert!(
        (promised - 1.0).abs() < 1e-9,
        "probabilities sum to {promised}"
    );
    let total: u64 = counts.iter().sum();
    let statistic: f64 = counts
        .iter()
        .zip(probabilities)
        .map(|(&count, probability)| {
            let expected = probability * total as f64;
            assert!(
                expected >= 5.0,
                "a bin expects only {expected}: use wider bins"
            );
            (count as f64 - expected).powi(2) / expected
        })
        .sum();
    let freedom = (counts.len() - 1) as f64;
    let bound = freedom + 5.0 * (2.0 * freedom).sqrt();
    assert!(
        statistic < bound,
        "chi-square {statistic:.1}, at most {bound:.1} expected"
    );
}
