//! Which leaves stay.

/// Which leaves that were fetched stay in the cache. Inner nodes always do.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum LeafAdmission {
    /// A leaf does with this chance, 0 to 1. As published it is 0.1 (Lu et al.: "DEX", VLDB 2024).
    Chance(f64),
    /// A leaf does if it was fetched before, lately: since then, about a quarter as many others
    /// were as the cache has nodes. So hot leaves stay after two reads where chance takes ten, and
    /// a scan or a uniform load replaces next to nothing.
    Adaptive,
}
