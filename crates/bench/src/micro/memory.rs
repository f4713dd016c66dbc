//! Where the chain of pointers lies: in emulated slow memory, or in that of a NUMA node.

use std::io;

use timberline_tier::emulator::{Base, Chase, Cost, Emulated, Profile, Slowness, set_thread_cache};
use timberline_tier::hint::LINE;
use timberline_tier::{Arenas, ArenasConfig, Memory, Native, TierId};

use super::{PREFETCHES, Setting};

/// A kind of slow memory.
pub trait Place {
    /// The memory.
    type Memory: Memory;

    /// Memory whose slow tier has this latency.
    fn memory(setting: &Setting, latency_s: f64) -> io::Result<Self::Memory>;

    /// Memory that takes as little time as there is.
    fn free_memory(setting: &Setting) -> io::Result<Self::Memory>;

    /// The latencies to measure with, in seconds.
    fn latencies_s(setting: &Setting) -> io::Result<Vec<f64>>;
}

/// Emulated memory. The emulator's bookkeeping is part of an access, also where the latency adds
/// nothing.
pub struct Emulation;

impl Place for Emulation {
    type Memory = Emulated;

    fn memory(setting: &Setting, latency_s: f64) -> io::Result<Emulated> {
        let line = |bytes_per_s| Cost::Ns(LINE as f64 * 1e9 / bytes_per_s);
        let slow = Slowness {
            latency: Cost::Ns(latency_s * 1e9),
            line: setting.memory_bytes_per_s.map_or(Cost::Times(1.0), line),
            in_flight: PREFETCHES,
        };
        let base = Base {
            latency_ns: 1.0,
            ..Base::default()
        };
        Ok(Emulated::new(
            arenas(setting, None)?,
            Profile::new("micro", vec![slow]),
            base,
        ))
    }

    fn free_memory(setting: &Setting) -> io::Result<Emulated> {
        Self::memory(&free(setting), 2e-9)
    }

    fn latencies_s(setting: &Setting) -> io::Result<Vec<f64>> {
        Ok(setting.grid.latencies_s().collect())
    }
}

/// The memory of [`Setting::slow_node`], as it is.
pub struct OnNode;

impl OnNode {
    /// Dependent reads of which the latency is the mean.
    const READS: u64 = 200_000;
}

impl Place for OnNode {
    type Memory = Native;

    fn memory(setting: &Setting, _latency_s: f64) -> io::Result<Native> {
        Ok(Native(arenas(setting, setting.slow_node)?))
    }

    fn free_memory(setting: &Setting) -> io::Result<Native> {
        Ok(Native(arenas(setting, None)?))
    }

    /// That of the node, measured: the fastest of a few runs.
    fn latencies_s(setting: &Setting) -> io::Result<Vec<f64>> {
        let memory = Self::memory(setting, 0.0)?;
        let mut chain = chain(&memory, &free(setting))?;
        let runs = (0..3).map(|_| chain.time(Self::READS) * 1e-9);
        Ok(vec![runs.fold(f64::INFINITY, f64::min)])
    }
}

fn arenas(setting: &Setting, slow_node: Option<u32>) -> io::Result<Arenas> {
    let bytes = setting.memory_bytes;
    let mut config = ArenasConfig::two_tiers(bytes, bytes);
    for tier in &mut config.tiers {
        tier.limit += 2 * config.chunk_bytes;
    }
    config.tiers[TierId::SLOW.index()].nodes = slow_node.into_iter().collect();
    Arenas::new(&config).map_err(io::Error::other)
}

/// A chain through memory, so much of it slow as the setting says.
pub fn chain<'a, M: Memory>(memory: &'a M, setting: &Setting) -> io::Result<Chase<'a, M>> {
    set_thread_cache(Default::default());
    let slow = (setting.memory_bytes as f64 * setting.slow_part) as usize;
    let parts = [
        (TierId::SLOW, slow),
        (TierId::FAST, setting.memory_bytes - slow),
    ];
    Chase::through(memory, &parts, 1, 1).map_err(io::Error::other)
}

/// The same setting, with a chain that is all in the slow tier, without a limit.
pub fn free(setting: &Setting) -> Setting {
    Setting {
        slow_part: 1.0,
        memory_bytes_per_s: None,
        ..setting.clone()
    }
}
