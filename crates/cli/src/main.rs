//! The `timberline` command: see what memory a machine has, measure it, compare placements on it.
//!
//! Exit code 0: done. 1: a run failed. 2: bad input; one line says what is wrong, and what is
//! possible.

mod bars;
mod bench;
mod eval;
mod live;
mod loads;
mod measure;
mod say;
mod setup;
mod tiers;

use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Parser, Subcommand};
use say::tell;

/// Ordered indexes that live across memory tiers.
#[derive(Parser)]
#[command(name = "timberline", version, about, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Show this machine's memory tiers, and why they are ranked so
    Tiers(tiers::Args),
    /// Measure the latency of each tier of a profile with a pointer chase
    Measure(measure::Args),
    /// Compare placements side by side
    Bench(Box<bench::Args>),
    /// Rebuild published figures about placement, beside the published values
    Eval(eval::Args),
}

/// Why a command ended without doing what it was asked.
pub enum Failure {
    /// What was asked is not possible.
    Impossible(String),
    /// It went wrong while running.
    Failed(String),
}

impl Failure {
    /// Turns an error about what was asked into its one line.
    pub fn impossible(error: impl std::fmt::Display) -> Failure {
        Failure::Impossible(error.to_string())
    }

    /// Turns an error of a run into its one line.
    pub fn failed(error: impl std::fmt::Display) -> Failure {
        Failure::Failed(error.to_string())
    }
}

/// Nothing was asked, and what could be is shown.
const NO_COMMAND: ErrorKind = ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;

/// What is wrong with the arguments, and the tip if there is one. How to call it is left out:
/// `--help` says that.
fn in_a_line(error: &str) -> String {
    let lines = error.lines().map(str::trim);
    let said = lines.filter(|line| {
        !(line.is_empty() || line.starts_with("Usage:") || line.starts_with("For more information"))
    });
    said.collect::<Vec<_>>().join(" ").replace(" tip: ", "; ")
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) if error.use_stderr() && error.kind() != NO_COMMAND => {
            tell(in_a_line(&error.to_string()));
            return ExitCode::from(2);
        }
        Err(help) => help.exit(),
    };
    let done = match cli.command {
        Command::Tiers(args) => tiers::run(&args),
        Command::Measure(args) => measure::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Eval(args) => eval::run(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Impossible(line)) => {
            tell(format_args!("error: {line}"));
            ExitCode::from(2)
        }
        Err(Failure::Failed(line)) => {
            tell(format_args!("error: {line}"));
            ExitCode::FAILURE
        }
    }
}
