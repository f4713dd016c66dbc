//! Scans of one map with the emulator on and off, to count its instructions:
//! `instrument <placement> [unvisited]`. `cargo xtask callgrind` runs it.
//!
//! Without arguments it prints the placements, one a line; with one, the number of charged lines.

use std::process::ExitCode;

use timberline_bench::run::instrument::{Instrument, emulated_placements};

/// Passes with the emulator on, and off.
const PASSES: usize = 6;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (placement, unvisited) = match &args[..] {
        [] => {
            emulated_placements().for_each(|name| println!("{name}"));
            return ExitCode::SUCCESS;
        }
        [placement] => (placement, false),
        [placement, flag] if flag == "unvisited" => (placement, true),
        _ => {
            eprintln!("usage: instrument [<placement> [unvisited]]");
            return ExitCode::from(2);
        }
    };
    let instrument = match Instrument::new(placement) {
        Ok(instrument) => instrument,
        Err(why) => {
            eprintln!("{why}");
            return ExitCode::from(2);
        }
    };
    if unvisited {
        instrument.leave_prefetches();
    }
    // A placement that draws has other draws in each pass: they average out.
    let mut lines = 0;
    for _ in 0..PASSES {
        lines += instrument.scan_charged();
        assert_eq!(instrument.scan_uncharged(), 0, "charging is off");
    }
    println!("{lines}");
    ExitCode::SUCCESS
}
