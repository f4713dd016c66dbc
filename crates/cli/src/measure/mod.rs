//! `timberline measure`: a timed pointer chase over each tier of an emulated profile.

mod micro;

use timberline_tier::emulator::{Calibration, Spread};

use crate::Failure;
use crate::parse::whole;
use crate::say::say;
use crate::setup::Emulation;

#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    what: Option<What>,
    #[command(flatten)]
    emulation: Emulation,
    /// Megabytes to chase through in each tier, one footprint after the other
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "1,16,256",
        value_name = "MB",
        value_parser = whole::<u32>(1..=65536)
    )]
    megabytes: Vec<u32>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(clap::Subcommand)]
enum What {
    /// Operations of memory accesses and one I/O each: measured, beside the throughput model
    Micro(Box<micro::Args>),
}

pub fn run(args: &Args) -> Result<(), Failure> {
    if let Some(What::Micro(args)) = &args.what {
        return micro::run(args);
    }
    let profile = args.emulation.profile()?;
    let given = args.emulation.base()?;
    let mut all = Vec::new();
    for &megabytes in &args.megabytes {
        let bytes = (megabytes as usize) << 20;
        let measured = Calibration::measure(&profile, bytes, given).map_err(Failure::failed)?;
        match args.json {
            true => all.push(json(&measured)),
            false => print(&args.emulation.profile, &measured)?,
        }
    }
    if args.json {
        let all = serde_json::json!({
            "profile": args.emulation.profile, "emulated": true, "footprints": all,
        });
        say(format_args!("{all:#}"))?;
    }
    Ok(())
}

fn tiers(measured: &Calibration) -> [(u8, Spread, f64, f64); 2] {
    [
        (0, measured.fast, 1.0, 1.0),
        (
            1,
            measured.slow,
            measured.ratio.median,
            measured.ratio_of_profile,
        ),
    ]
}

fn json(measured: &Calibration) -> serde_json::Value {
    let tiers = tiers(measured).map(|(tier, time, ratio, of_profile)| {
        serde_json::json!({
            "tier": tier, "median_ns": time.median, "min_ns": time.min, "max_ns": time.max,
            "ratio": ratio, "ratio_of_profile": of_profile,
        })
    });
    serde_json::json!({
        "bytes": measured.bytes, "base_latency_ns": measured.base.latency_ns,
        "base_line_ns": measured.base.line_ns, "tiers": tiers,
    })
}

fn print(profile: &str, measured: &Calibration) -> Result<(), Failure> {
    let base = measured.base;
    say(format_args!(
        "profile {profile} (emulated), {} MiB a tier\n\
         fast memory: {:.0} ns, {:.1} ns per further line",
        measured.bytes >> 20,
        base.latency_ns,
        base.line_ns
    ))?;
    for (tier, time, ratio, of_profile) in tiers(measured) {
        say(format_args!(
            "tier {tier}: {:7.1} ns per step [{:.1}–{:.1}], {ratio:.3} × tier 0 (profile: {of_profile:.3} ×)",
            time.median, time.min, time.max,
        ))?;
    }
    Ok(())
}
