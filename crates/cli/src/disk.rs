//! How the commands of a store read and write files.

use timberline_io::Kind;

use crate::Failure;

/// What `--disk` takes.
#[derive(Clone, Copy, clap::ValueEnum)]
pub enum Files {
    /// By io_uring; refused where the kernel has none or forbids it
    Uring,
    /// By threads: for containers that forbid io_uring, and tools that do not know it
    Threads,
}

/// The kind of disk that was asked for; `None` leaves the choice.
pub fn kind(files: Option<Files>) -> Option<Kind> {
    files.map(|it| match it {
        Files::Uring => Kind::Uring,
        Files::Threads => Kind::Threads,
    })
}

/// Why there is no disk of the kind that was asked for.
pub fn refused(error: &dyn std::fmt::Display) -> Failure {
    Failure::Impossible(format!(
        "--disk uring: io_uring is not available: {error}; --disk threads is"
    ))
}
