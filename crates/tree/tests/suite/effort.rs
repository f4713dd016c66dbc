//! How often tests repeat what they do.
//!
//! Under ThreadSanitizer a step takes about ten times as long, and what it looks for shows wherever
//! two threads meet in the same code, whatever comes of it. So in such a build (`cargo xtask
//! sanitize thread`) tests with threads repeat less. Every check stays, and so do sizes: of maps,
//! of memory, of keys. Other builds do everything.
//!
//! | file | what there is less of |
//! |---|---|
//! | `own_keys.rs`, `contended.rs`, `full.rs` | steps or rounds of each thread |
//! | `reclaim.rs`, `values.rs`, `bytes.rs` | the same |
//! | `scans.rs`, `bytes.rs` | scans beside changes, sweeps over the leaves |
//! | `linear/` | maps on which histories are played |
//! | `workers.rs` | steps beside a panic, starts and stops of workers |

/// Of this many repetitions one is left.
const FEWER: u64 = if cfg!(tsan) { 8 } else { 1 };

/// How often to do what is usually done this many times.
pub const fn times(usual: u64) -> u64 {
    usual.div_ceil(FEWER)
}
