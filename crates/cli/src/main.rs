//! The `timberline` command: shows a machine's memory, measures it, and compares placements on it.
//!
//! Exit code 0: success. 1: a run failed, or its output can't be written. 2: bad input. In both
//! cases one line on stderr names the error and the possible values. 130: interrupted; results
//! measured until then are reported.

mod backup;
mod bars;
mod bench;
mod cached;
mod check;
mod cluster;
mod disk;
mod eval;
mod folder;
mod known;
mod live;
mod loads;
mod log;
mod manual;
mod measure;
mod outputs;
mod parse;
mod plan;
mod pool;
mod processes;
mod reload;
mod say;
mod serve;
mod setup;
mod tiers;
mod tls;

use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use say::{on_stdout, one_line, tell};

/// Ordered indexes that live across memory tiers.
#[derive(Parser)]
#[command(name = "timberline", version, about, max_term_width = 80)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Show this machine's memory tiers and the reasons for their ranking
    Tiers(tiers::Args),
    /// Measure the latency of each tier of a profile with a pointer chase
    Measure(measure::Args),
    /// Compare placements side by side
    Bench(Box<bench::Args>),
    /// Plan memory: what throughput to expect of which choice, and what it costs
    Plan(plan::Args),
    /// Measure published figures again, and show them beside the published values
    Eval(eval::Args),
    /// Read all records of a store, and report those that the disk has damaged
    Check(check::Args),
    /// Copy a store, which a server may have open
    Backup(backup::Backup),
    /// Make a store from a backup
    Restore(backup::Restore),
    /// Serve a store on disk to Redis' clients
    Serve(Box<serve::Args>),
    /// Bring a cluster's data back from its nodes' logs, after memory servers were lost
    Reload(reload::Args),
    /// Serve memory to compute servers, for a B+tree that outgrows one machine
    Pool(pool::Args),
    /// Print a script that completes commands and options in a shell
    Completions(manual::Completions),
    /// Print the manual page of a command, for `man -l -`
    Man(manual::Page),
}

/// Why a command failed.
pub enum Failure {
    /// Bad input.
    Impossible(String),
    /// A failed run.
    Failed(String),
    /// The user interrupted the run; one line about what became of it.
    Interrupted(String),
}

impl Failure {
    /// The same, about an option.
    pub fn of(self, option: &str) -> Failure {
        match self {
            Failure::Impossible(line) => Failure::Impossible(format!("{option} {line}")),
            other => other,
        }
    }

    /// The same, with more about what is possible.
    pub fn and(self, possible: &str) -> Failure {
        match self {
            Failure::Impossible(line) => Failure::Impossible(format!("{line}; {possible}")),
            other => other,
        }
    }

    /// Bad input, from an error with a one-line message.
    pub fn impossible(error: impl std::fmt::Display) -> Failure {
        Failure::Impossible(error.to_string())
    }

    /// A failed run, from an error with a one-line message.
    pub fn failed(error: impl std::fmt::Display) -> Failure {
        Failure::Failed(error.to_string())
    }
}

/// No command was given, so the help is shown.
const NO_COMMAND: ErrorKind = ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;

/// The parser's error and its tip, if any, without the usage: `--help` shows that.
fn in_a_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let lines = text.lines().map(str::trim);
    let said = lines.take_while(|line| {
        !line.starts_with("Usage:") && !line.starts_with("For more information")
    });
    let said = said.filter(|line| !line.is_empty());
    let said = said.collect::<Vec<_>>().join(" ").replace(" tip: ", "; ");
    match error.kind() {
        ErrorKind::ArgumentConflict if said.contains("'--store <DIR>'") => {
            format!("{said}; {}", bench::OF_A_STORE)
        }
        ErrorKind::InvalidSubcommand => {
            format!("{said}; possible: {}", manual::possible(&Cli::command()))
        }
        _ => said,
    }
}

/// Options' parsers get numbers below 0 too, and say what is possible instead.
fn with_negative_numbers(command: clap::Command) -> clap::Command {
    let command = command.mut_args(|arg| match arg.get_action().takes_values() {
        true => arg.allow_negative_numbers(true),
        false => arg,
    });
    command.mut_subcommands(with_negative_numbers)
}

fn main() -> ExitCode {
    let given = with_negative_numbers(Cli::command()).try_get_matches();
    let cli = match given.and_then(|it| Cli::from_arg_matches(&it)) {
        Ok(cli) => cli,
        Err(error) if error.use_stderr() && error.kind() != NO_COMMAND => {
            tell(one_line(&in_a_line(&error)));
            return ExitCode::from(2);
        }
        Err(help) if help.use_stderr() => help.exit(),
        // Help, or the version.
        Err(help) => return exit(on_stdout(help.print())),
    };
    exit(match cli.command {
        Command::Tiers(args) => tiers::run(&args),
        Command::Measure(args) => measure::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Plan(args) => plan::run(&args),
        Command::Eval(args) => eval::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Backup(args) => backup::backup(&args),
        Command::Restore(args) => backup::restore(&args),
        Command::Serve(args) => serve::run(&args),
        Command::Reload(args) => reload::run(&args),
        Command::Pool(args) => pool::run(&args),
        Command::Completions(args) => manual::completions(&args, Cli::command()),
        Command::Man(args) => manual::page(&args, Cli::command()),
    })
}

/// Says why a command failed, if it did.
fn exit(done: Result<(), Failure>) -> ExitCode {
    let (line, code) = match done {
        Ok(()) => return ExitCode::SUCCESS,
        Err(Failure::Impossible(line)) => (format!("error: {}", one_line(&line)), 2),
        Err(Failure::Failed(line)) => (format!("error: {}", one_line(&line)), 1),
        Err(Failure::Interrupted(line)) => (line, 130),
    };
    tell(line);
    ExitCode::from(code)
}
