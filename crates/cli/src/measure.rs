//! `timberline measure`: a timed pointer chase over each tier of an emulated profile.

use timberline_bench::run;
use timberline_tier::emulator::{Base, Chase, Emulated, race};
use timberline_tier::{Arenas, ArenasConfig, TierId};

use crate::Failure;
use crate::say::say;

/// Arguments of `measure`.
#[derive(clap::Args)]
pub struct Args {
    /// Emulated slow memory: cxl, cxl-fpga, us1…us10, rdma
    #[arg(long, default_value = "cxl", value_name = "NAME")]
    profile: String,
    /// Megabytes to chase through in each tier
    #[arg(long, default_value_t = 256, value_name = "MB", value_parser = clap::value_parser!(u32).range(1..=65536))]
    megabytes: u32,
    /// Rounds, in each of which the tiers take turns
    #[arg(long, default_value_t = 9, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10000))]
    rounds: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

const STEPS: u64 = 50_000;

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failure> {
    let profile = run::profile(&args.profile).map_err(Failure::impossible)?;
    let base = Base::measure().map_err(Failure::failed)?;
    let bytes = (args.megabytes as usize) << 20;
    let config = ArenasConfig::two_tiers(bytes + (4 << 20), bytes + (4 << 20));
    let arenas = Arenas::new(&config).map_err(Failure::failed)?;
    let memory = Emulated::new(arenas, profile, base);
    let tiers = [TierId::FAST, TierId::SLOW];
    let chase = |tier| Chase::new(&memory, tier, bytes, 1, 1).map_err(Failure::failed);
    let mut chases = tiers
        .into_iter()
        .map(chase)
        .collect::<Result<Vec<_>, _>>()?;
    let times = race(&mut chases, args.rounds as usize, STEPS);
    let expected = |tier: TierId| {
        let extra = memory.extra(tier).latency_ps as f64 / 1000.0;
        (base.latency_ns + extra) / base.latency_ns
    };
    if args.json {
        let tiers: Vec<_> = tiers
            .iter()
            .zip(&times)
            .map(|(&tier, time)| {
                serde_json::json!({
                    "tier": tier.0, "median_ns": time.median, "min_ns": time.min, "max_ns": time.max,
                    "ratio": time.median / times[0].median, "ratio_of_profile": expected(tier),
                })
            })
            .collect();
        let all = serde_json::json!({
            "profile": args.profile, "emulated": true, "base_latency_ns": base.latency_ns,
            "base_line_ns": base.line_ns, "tiers": tiers,
        });
        return say(format_args!("{all:#}"));
    }
    say(format_args!(
        "profile {} (emulated); this machine's memory: {:.0} ns, {:.1} ns per further line",
        args.profile, base.latency_ns, base.line_ns
    ))?;
    for (&tier, time) in tiers.iter().zip(&times) {
        say(format_args!(
            "tier {}: {:7.1} ns per step [{:.1}–{:.1}], {:.3} × tier 0; the profile says {:.3} ×",
            tier.0,
            time.median,
            time.min,
            time.max,
            time.median / times[0].median,
            expected(tier),
        ))?;
    }
    Ok(())
}
