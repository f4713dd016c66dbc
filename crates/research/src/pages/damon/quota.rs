//! The number of pages that an action may be tried on, tuned by feedback from its goal (Linux,
//! `mm/damon/core.c`, `damon_feed_loop_next_input`).

/// A tuned quota of pages.
pub struct Quota {
    cap: f64,
    size: f64,
}

/// The next input of a feedback loop whose last one reached `score` of its goal (1: just so): it
/// grows in proportion to the missing part, up to twofold, and shrinks in proportion to the excess,
/// down to `least`.
pub fn feed(input: f64, score: f64, least: f64) -> f64 {
    (input + input * (1.0 - score)).max(least)
}

impl Quota {
    /// At most `cap` pages in an interval, and as many in the first one.
    pub fn new(cap: usize) -> Quota {
        Quota {
            cap: cap as f64,
            size: cap as f64,
        }
    }

    /// The pages for the next interval, after one that reached `score` of the goal.
    pub fn renew(&mut self, score: f64) -> usize {
        self.size = feed(self.size, score, 1.0).min(self.cap);
        self.size as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_grows_up_to_twofold_and_shrinks_at_once() {
        let mut quota = Quota::new(100);
        assert_eq!(quota.renew(1.5), 50);
        assert_eq!(quota.renew(1.0), 50, "just so");
        assert_eq!(quota.renew(0.5), 75);
        assert_eq!(quota.renew(0.0), 100, "the cap");
        assert_eq!(quota.renew(60.0), 1);
        assert_eq!([0.0; 3].map(|score| quota.renew(score)), [2, 4, 8]);
    }
}
