//! What is kept in memory of what was read or written.

/// What `serve --cache` and `bench --cached` take.
#[derive(Clone, Copy, clap::ValueEnum)]
pub enum Cached {
    /// Values
    Values,
    /// Blocks of 4 KiB: for records that were written one after the other and are read together
    Blocks,
}

impl From<Cached> for timberline_bench::store::Cached {
    fn from(cached: Cached) -> timberline_bench::store::Cached {
        match cached {
            Cached::Values => timberline_bench::store::Cached::Values,
            Cached::Blocks => timberline_bench::store::Cached::Blocks,
        }
    }
}
