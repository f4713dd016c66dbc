//! The tree and what lies on it, in a process, over TCP, and simulated. One program, so that the
//! tree's futures are compiled once for all of them.

#[path = "../asked/mod.rs"]
mod asked;
mod balancing;
mod dying;
mod in_process;
#[path = "../linear/mod.rs"]
mod linear;
mod meddling;
mod members;
mod merging;
mod paged;
mod records;
mod records_simulated;
mod shared;
mod shrinking;
mod simulated;
mod tcp;

/// The first seed of simulated clusters.
fn first_seed() -> u64 {
    match std::env::var("TIMBERLINE_SEED") {
        Ok(text) => text.parse().expect("TIMBERLINE_SEED is a whole number"),
        Err(_) => 0,
    }
}
