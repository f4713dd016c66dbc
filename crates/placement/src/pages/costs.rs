//! What a page scheme's work costs, in nanoseconds of the thread that does it.

/// What a page scheme's work costs. The defaults are published figures where there are any; `docs/design/pages.md` has the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageCosts {
    /// A hint fault, without what it leads to: Thermostat (ASPLOS 2017) measured about 1 µs for a fault on a poisoned entry.
    pub fault_ns: u64,
    /// Moving a page of 4 KiB: 750 MB/s by `move_pages`, as Linux's commit `35282a2de4e5` states.
    pub copy_ns: u64,
    /// Moving a huge page of 2 MiB: the copy itself at 10 GB/s, with one unmapping for all of it (assumed).
    pub huge_copy_ns: u64,
    /// What a sample of a cache miss takes from the thread whose miss it is: 200–300 ns, Akiyama and Hirofuchi (ROSS 2017).
    pub sample_ns: u64,
    /// What its processing takes from the worker: finding the page by its address, and counting it (assumed).
    pub count_ns: u64,
    /// Arming a page: a visit to its entry in the course of a walk over all of them (assumed).
    pub arm_ns: u64,
    /// Asking for a page's accessed bit, when the page is known and not its entry: a reverse mapping (assumed).
    pub check_ns: u64,
    /// Splitting a huge page into 512: 512 entries, and a shootdown (assumed).
    pub split_ns: u64,
}

impl Default for PageCosts {
    fn default() -> Self {
        PageCosts {
            fault_ns: 1_000,
            copy_ns: 5_500,
            huge_copy_ns: 210_000,
            sample_ns: 250,
            count_ns: 200,
            arm_ns: 20,
            check_ns: 100,
            split_ns: 50_000,
        }
    }
}

impl PageCosts {
    /// Work that costs nothing, for tests of what is done.
    pub const NONE: PageCosts = PageCosts {
        fault_ns: 0,
        copy_ns: 0,
        huge_copy_ns: 0,
        sample_ns: 0,
        count_ns: 0,
        arm_ns: 0,
        check_ns: 0,
        split_ns: 0,
    };
}
