//! What a page scheme's work costs, in nanoseconds of the thread that does it.

use std::fmt;

/// What a page scheme's work costs. The defaults are published figures where there are any;
/// `docs/design/pages.md` has the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageCosts {
    /// A hint fault, without the moves that follow: Thermostat (ASPLOS 2017) measured about 1 µs
    /// for a fault on a poisoned entry.
    pub fault_ns: u64,
    /// Moving a page of 4 KiB: 750 MB/s by `move_pages`, as Linux's commit `35282a2de4e5` states.
    pub copy_ns: u64,
    /// Moving a page of 4 KiB in the background, among others: newer kernels flush fewer TLBs then,
    /// and move 3.9 times as many, as Linux's commit `6f7d760e86fa` states.
    pub batched_copy_ns: u64,
    /// Moving a huge page of 2 MiB: the copy itself at 10 GB/s, with one unmapping for all of it
    /// (assumed).
    pub huge_copy_ns: u64,
    /// A sample of a cache miss, paid by the sampled thread: 200–300 ns, Akiyama and Hirofuchi
    /// (ROSS 2017).
    pub sample_ns: u64,
    /// Its processing by the worker: finding the page by its address, and counting it (assumed).
    pub count_ns: u64,
    /// Arming a page: a visit to its entry in the course of a walk over all of them (assumed).
    pub arm_ns: u64,
    /// Reading a page's accessed bit through a reverse mapping, which finds the entry of a known
    /// page (assumed).
    pub check_ns: u64,
    /// Splitting a huge page into 512: 512 entries, and a shootdown (assumed).
    pub split_ns: u64,
}

impl Default for PageCosts {
    fn default() -> Self {
        PageCosts {
            fault_ns: 1_000,
            copy_ns: 5_500,
            batched_copy_ns: 1_400,
            huge_copy_ns: 210_000,
            sample_ns: 250,
            count_ns: 200,
            arm_ns: 20,
            check_ns: 100,
            split_ns: 50_000,
        }
    }
}

/// A malformed list of costs. Its `Display` is one line that names the error and the possible
/// values.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BadCosts(String);

impl fmt::Display for BadCosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut any = PageCosts::NONE;
        let names = any.named().map(|(name, _)| name).join(", ");
        write!(
            f,
            "bad page cost `{}`: give nanoseconds up to a second, such as `fault=1000,copy=5500`, of {names}",
            self.0
        )
    }
}

impl std::error::Error for BadCosts {}

impl PageCosts {
    /// Reads `fault=1000,copy=5500`: the named costs in nanoseconds; all others keep their
    /// defaults.
    ///
    /// # Errors
    /// An unknown name, or a number out of range.
    pub fn parse(text: &str) -> Result<PageCosts, BadCosts> {
        const MAX_COST: u64 = 1_000_000_000;
        let mut costs = PageCosts::default();
        for item in text.split(',').filter(|item| !item.is_empty()) {
            let bad = || BadCosts(item.to_owned());
            let (name, ns) = item.split_once('=').ok_or_else(bad)?;
            let ns = ns
                .parse()
                .ok()
                .filter(|&ns| ns <= MAX_COST)
                .ok_or_else(bad)?;
            let named = costs.named();
            let (_, cost) = named.into_iter().find(|it| it.0 == name).ok_or_else(bad)?;
            *cost = ns;
        }
        Ok(costs)
    }

    fn named(&mut self) -> [(&'static str, &mut u64); 9] {
        [
            ("fault", &mut self.fault_ns),
            ("copy", &mut self.copy_ns),
            ("batched-copy", &mut self.batched_copy_ns),
            ("huge-copy", &mut self.huge_copy_ns),
            ("sample", &mut self.sample_ns),
            ("count", &mut self.count_ns),
            ("arm", &mut self.arm_ns),
            ("check", &mut self.check_ns),
            ("split", &mut self.split_ns),
        ]
    }

    /// Work that costs nothing.
    pub const NONE: PageCosts = PageCosts {
        fault_ns: 0,
        copy_ns: 0,
        batched_copy_ns: 0,
        huge_copy_ns: 0,
        sample_ns: 0,
        count_ns: 0,
        arm_ns: 0,
        check_ns: 0,
        split_ns: 0,
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_named_is_set_and_the_rest_is_published() {
        let costs = PageCosts::parse("fault=2000,huge-copy=0").unwrap();
        let expected = PageCosts {
            fault_ns: 2000,
            huge_copy_ns: 0,
            ..PageCosts::default()
        };
        assert_eq!(costs, expected);
        assert_eq!(PageCosts::parse(""), Ok(PageCosts::default()));
    }

    #[test]
    fn bad_costs_are_answered_with_the_possible() {
        for bad in [
            "fault",
            "fault=",
            "fault=-1",
            "copy=1e3",
            "swap=5",
            "arm=9999999999",
        ] {
            let line = PageCosts::parse(bad).unwrap_err().to_string();
            assert!(line.contains(&format!("`{bad}`")) && line.contains("huge-copy"));
            assert!(!line.contains('\n'));
        }
    }
}
