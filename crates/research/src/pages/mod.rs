//! Placements that move pages of 4 KiB and know no nodes: as operating systems do, for
//! comparison with placements of nodes.
//!
//! Here a scheme is a policy ([`PageScheme`]) over a table of pages ([`PageTable`]), which keeps
//! the budget, counts the moves and adds up their costs. Pages themselves are behind
//! the trait [`Pages`]: the emulator's page map, or a fake. Nothing here reads a clock. Each
//! scheme's file names its paper and says what is modelled and what is left out;
//! `docs/design/pages.md` has the rules that hold for all.
//!
//! | scheme | learns of accesses by | file |
//! |---|---|---|
//! | `tpp` | hint faults on slow pages, accessed bits of fast ones | `tpp.rs` |
//! | `autonuma` | the same | `autonuma.rs` |
//! | `damon` | accessed bits of one page in each region | `damon/` |
//! | `memtis` | samples of cache misses | `memtis/` |
//! | `caption` | how fast requests go | `caption.rs` |
//! | `oracle-pages` | knowing | `oracle.rs` |

mod autonuma;
mod caption;
mod costs;
mod damon;
mod lru;
mod memtis;
mod oracle;
mod paged;
mod scan;
mod seam;
mod table;
mod tpp;

pub use autonuma::{Autonuma, AutonumaConfig};
pub use caption::{Caption, CaptionConfig};
pub use costs::{BadCosts, PageCosts};
pub use damon::{Damon, DamonConfig};
pub use memtis::{Memtis, MemtisConfig};
pub use oracle::{PageCounts, PageOracle};
pub use paged::{Paged, Tally, Turn};
pub use seam::{Moment, PageScheme, Pages};
pub use table::PageTable;
pub use tpp::{Tpp, TppConfig};

pub(crate) use autonuma::AUTONUMA;
pub(crate) use caption::CAPTION;
pub(crate) use damon::{COLDEST as DAMON_COLDEST, DAMON};
pub(crate) use memtis::MEMTIS;
pub(crate) use oracle::ORACLE;
pub(crate) use tpp::TPP;

#[cfg(test)]
mod tests {
    pub mod fake;
    mod suite;
}
