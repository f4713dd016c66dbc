//! Whether slow memory is worth its price.

/// A server, some of whose DRAM is replaced by slower memory.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Replacement {
    /// The price of the replaced DRAM ÷ that of the whole server: c, below 1.
    pub share: f64,
    /// A byte of the slower memory ÷ a byte of DRAM, by price: b.
    pub price: f64,
    /// Throughput lost: d, below 1 ([`degradation`](crate::degradation)).
    pub degradation: f64,
}

impl Replacement {
    /// The server's price ÷ its price before.
    pub fn price_ratio(&self) -> f64 {
        self.share * self.price + (1.0 - self.share)
    }

    /// Throughput for a price ÷ that before: r (equation 16). Above 1 the replacement pays.
    pub fn performance_for_price(&self) -> f64 {
        (1.0 - self.degradation) / self.price_ratio()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::near;

    /// Bando et al., Table 6: DRAM is half of the price, and four fifths of it are replaced.
    #[test]
    fn the_published_ratios() {
        let published = [
            ((1.0 / 3.0, 0.0), 1.36),
            ((0.5, 0.02), 1.23),
            ((0.15, 0.02), 1.49),
            ((0.2, 0.19), 1.19),
        ];
        for ((price, degradation), ratio) in published {
            let replacement = Replacement {
                share: 0.4,
                price,
                degradation,
            };
            let computed = replacement.performance_for_price();
            assert!(near(computed, ratio, 0.01), "{replacement:?}: {computed}");
        }
    }
}
