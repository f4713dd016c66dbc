//! Facts about the machine that commands need before they measure.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use timberline_bench::run;
use timberline_tier::emulator::{Base, Profile};
use timberline_tier::topology::Topology;

use crate::Failure;
use crate::known::known;

/// CPUs that this process may use.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Bytes of memory available for maps.
pub fn available(topology: &Topology) -> u64 {
    let free = topology.tiers().iter().map(|tier| tier.free_bytes).sum();
    let limit = topology
        .memory_limit()
        .map(|limit| limit.bytes.saturating_sub(limit.used_bytes.unwrap_or(0)));
    limit.map_or(free, |limit| limit.min(free))
}

/// Slow memory as the emulator has it.
#[derive(clap::Args)]
pub struct Emulation {
    /// Emulated slow memory: cxl, cxl-fpga, us1…us10, rdma, free
    #[arg(
        long,
        default_value = "cxl",
        value_parser = known(run::PROFILES),
        hide_possible_values = true,
        value_name = "NAME"
    )]
    pub profile: String,
    /// Latency of fast memory that the profile's ratios apply to, ns [default: measured]
    #[arg(long, value_name = "NS")]
    base_ns: Option<f64>,
}

impl Emulation {
    /// The profile of this name.
    pub fn profile(&self) -> Result<Profile, Failure> {
        run::profile(&self.profile).map_err(Failure::impossible)
    }

    /// The costs of fast memory, if they are given.
    pub fn base(&self) -> Result<Option<Base>, Failure> {
        match self.base_ns {
            Some(ns) if !(1.0..=100_000.0).contains(&ns) => Err(Failure::Impossible(format!(
                "--base-ns {ns}: give nanoseconds from 1 to 100000"
            ))),
            given => Ok(given.map(|latency_ns| Base {
                latency_ns,
                ..Base::default()
            })),
        }
    }
}

/// A flag that SIGINT, SIGTERM and SIGHUP set from now on, instead of ending the process.
pub fn interrupts() -> Result<Arc<AtomicBool>, Failure> {
    let interrupted = Arc::new(AtomicBool::new(false));
    let flag = interrupted.clone();
    let set = ctrlc::set_handler(move || flag.store(true, Relaxed));
    set.map_err(|error| {
        Failure::Failed(match error {
            ctrlc::Error::System(why) => format!(
                "can't start the thread that waits for interrupts: {why}; `ulimit -u` limits the \
                 number of threads"
            ),
            other => format!("can't handle interrupts: {other}"),
        })
    })?;
    Ok(interrupted)
}
