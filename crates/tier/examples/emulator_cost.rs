//! What the emulator itself costs, and whether it takes as long as its definition says.
//!
//! `cargo run --release -p timberline-tier --example emulator_cost`; followed by `-- PROFILES
//! MEGABYTES` (such as `cxl,us1 1,64,1024`), only the ratios achieved at these footprints.

use std::error::Error;
use std::time::Instant;

use timberline_tier::emulator::{self, Base, CacheSize, Calibration, Chase, Emulated, Profile};
use timberline_tier::{Arenas, ArenasConfig, Memory, TierId};

const MIB: usize = 1 << 20;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [profiles, megabytes] = &words[..] {
        return footprints(profiles, megabytes);
    }
    let base = Base::measure()?;
    println!(
        "this machine: {:.1} ns a line, {:.2} ns a further line",
        base.latency_ns, base.line_ns
    );
    for name in ["cxl", "cxl-fpga", "rdma", "us5"] {
        chase(name, base)?;
    }
    cost(base)
}

fn footprints(profiles: &str, megabytes: &str) -> Result<(), Box<dyn Error>> {
    for name in profiles.split(',') {
        for megabytes in megabytes.split(',') {
            let bytes = megabytes.parse::<usize>()? * MIB;
            let it = Calibration::measure(&Profile::parse(name)?, bytes, None)?;
            println!(
                "{name:9} {megabytes:>4} MiB: fast {:6.1} ns, slow {:7.1} ns, ratio {:.3} \
                 [{:.3}–{:.3}], the profile says {:.3}: {:+.1} %",
                it.fast.median,
                it.slow.median,
                it.ratio.median,
                it.ratio.min,
                it.ratio.max,
                it.ratio_of_profile,
                100.0 * (it.ratio.median / it.ratio_of_profile - 1.0),
            );
        }
    }
    Ok(())
}

/// The same chase in both tiers, one line a step and then sixteen; and in the fast tier with the
/// emulator out of the way.
fn chase(name: &str, base: Base) -> Result<(), Box<dyn Error>> {
    let config = ArenasConfig::two_tiers(260 * MIB, 260 * MIB);
    let memory = Emulated::new(Arenas::new(&config)?, Profile::parse(name)?, base);
    for lines in [1, 16] {
        let chain = |tier| Chase::new(&memory, tier, 256 * MIB, lines, 1);
        let (mut fast, mut slow) = (chain(TierId::FAST)?, chain(TierId::SLOW)?);
        let mut times = [const { Vec::new() }; 3];
        // Short turns: one that is interrupted falls out of the median.
        let steps = (250_000.0 / slow.time(2000)) as u64;
        for _ in 0..501 {
            memory.set_charging(false);
            times[0].push(fast.time(steps));
            memory.set_charging(true);
            times[1].push(fast.time(steps));
            times[2].push(slow.time(steps));
        }
        let [off, fast, slow] = times.map(median);
        let extra = memory.extra(TierId::SLOW);
        let extra_ns = (extra.latency_ps + (lines as u64 - 1) * extra.line_ps) as f64 / 1000.0;
        println!(
            "{name:9} {lines:2} lines: uncharged {off:6.1} ns, fast {fast:6.1} ns, slow {slow:7.1} \
             ns, difference {:.3} of its definition; ratio {:.3}, by definition {:.3}",
            (slow - fast) / extra_ns,
            slow / fast,
            (off + extra_ns) / off,
        );
    }
    Ok(())
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Visits that charge nothing: whatever they take is the emulator's own cost.
fn cost(base: Base) -> Result<(), Box<dyn Error>> {
    const VISITS: usize = 1 << 20;
    let config = ArenasConfig::two_tiers(64 * MIB, 64 * MIB);
    let memory = Emulated::new(Arenas::new(&config)?, Profile::parse("cxl")?, base);
    let start = memory.arenas().range_of(TierId::FAST).start;
    // Nodes of 1 KiB, in an order that is no pattern: 512 KiB of them stay in the modelled cache.
    let visits = |nodes: usize, lines: usize| {
        let once = |count: usize| {
            let mut state = 1usize;
            let began = Instant::now();
            for _ in 0..count {
                state = state
                    .wrapping_mul(6364136223846793005)
                    .wrapping_add(1442695040888963407);
                memory.charge_access(start + (state >> 33) % nodes * 1024, lines * 64);
            }
            began.elapsed().as_nanos() as f64 / count as f64
        };
        emulator::set_thread_cache(CacheSize::default());
        once(VISITS);
        median((0..151).map(|_| once(VISITS / 64)).collect())
    };
    for (what, nodes, lines) in [
        ("1 line,  cached", 512, 1),
        ("8 lines, cached", 512, 8),
        ("1 line,  missing, fast", 64 << 10, 1),
        ("8 lines, missing, fast", 64 << 10, 8),
    ] {
        println!("a visit of {what}: {:.1} ns", visits(nodes, lines));
    }
    memory.set_charging(false);
    println!("a visit with charging off: {:.1} ns", visits(64 << 10, 8));
    Ok(())
}
