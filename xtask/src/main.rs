//! The chores: `cargo xtask test`, which is the gate, and the checks that run on their own.
//!
//! Invariants: depends on no crate of the workspace, and on one other, so that it builds in seconds
//! and works when everything else does not. Exit status 0 is success, 1 a check that failed, 2 a
//! malformed command line, or a machine that lacks a needed program.

mod aarch64;
mod answers;
mod args;
mod beside;
mod binaries;
mod browser;
mod callgrind;
mod etcd;
mod exec;
mod fuzz;
mod kills;
mod libfabric;
mod model;
mod optional;
mod package;
mod packages;
mod parallel;
mod sanitize;
mod soak;
mod step;
mod test;
mod tidy;
mod vm;

use std::path::PathBuf;
use std::process::ExitCode;

use args::Args;

const USAGE: &str = "\
usage: cargo xtask <command>

  test [--all]         the gate: fmt, clippy, tidy, every test, docs
      --all            also all features, the least Rust and aarch64 where toolchains are there, `aarch64`,
                       `seeded`, the loom models, `answers`, `etcd`, `optional`, `browser`, `vm` and `model`
      --callgrind      also `callgrind`, with a bar
  soak [flags]         every test over many seeds: together, alone, on one core, beside a load, with each SIMD search
      --seeds N        how many, default 10
      --first N        the first, default 1
      --binary TEXT    only test binaries whose name contains this, as in tree/art
      --test TEXT      only tests whose path contains this
  kills [flags]        `timberline serve` killed under load, again and again: every acknowledged write is there
      --cycles N       how often, default 200
      --seed N         another run, default 1
  seeded               interleavings that shuttle chooses; bugs planted in the maps, which the checks have to find
  peers                clippy and tests of bench-peers, which `test` leaves out: it compiles many crates
  package              the published crates as `cargo publish` would make them, compiled from their archives; with the
                       least Rust and for aarch64 where toolchains are there
  tidy                 the project's own rules, each breach as file:line: message
  callgrind [flags] [heat] [emulator] [maps]
                       instructions per get, with and without heat tracking, and what the emulator takes per line under
                       each placement, which must be the same (needs valgrind); both, or what is named;
                       maps: instructions of get, insert and scan of every map, to compare before and after
      --n1 N           gets of the short run, default 100000
      --n2 N           gets of the long run, default 300000
      --max-ratio R    fail when tracked / untracked is above R
  model [flags] [NAME] the TLA+ models in model/, checked by TLC (needs Java; Maven fetches TLC);
                       of all configurations, or of those that are named
      --list           what there is to check, and check nothing
      --short          without those in `long`, as in `test --all`
      --seeded-bugs-only  only that seeded bugs are found
  fuzz [flags] [TARGET] libFuzzer on the maps and the parsers, and a planted bug that it has to find (needs a C++ compiler);
                       all targets, or those that are named
      --seconds N      for each target, default 10
      --seeded-bug-only  only that the planted bug is found
  sanitize [flags] [NAME] the tests under `address`, `thread` (sanitizers of the compiler) and `miri`, and a planted bug for
                       each; all, or those that are named
      --seeded-bugs-only  only that planted bugs are found
  aarch64              tests of locks, memory and maps on an aarch64 that QEMU emulates (apt fetches it; nothing is installed)
  answers              what the server answers beside what Debian's redis-server does, byte for byte, and to redis-cli,
                       redis-benchmark and a client in Python (apt fetches them; nothing is installed)
  etcd                 compute servers whose leases and partitions Debian's etcd has (apt fetches it; nothing is installed)
  optional [NAME]      what the default build leaves out, because it needs a C compiler; all, or what is named:
                       tls: the server and `timberline serve` with TLS
                       libfabric: memory servers by libfabric, over its provider tcp (needs Debian's libfabric-dev, which
                       it installs if it is root)
  browser              the live view of `bench` in Chromium (apt fetches it; nothing is installed): what it shows, and that it changes
  vm [flag or NAME]    Linux on machines with two or three kinds of memory, emulated by QEMU (apt fetches it; nothing is installed):
                       discovery, placement and the kernel agree; or one machine: hmat, soft-reserved, three-nodes, damon, cxl, old-kernel
      --all            also what is no part of `test`
      --count          which share of accesses goes to fast memory, by placement, counted by a plugin of QEMU
      --seeded-bugs    only that a program whose arenas aren't bound is found out";

const COMMANDS: &str = "test, soak, kills, seeded, peers, tidy, package, callgrind, model, fuzz, sanitize, aarch64, answers, etcd, optional, browser and vm";
/// For commands that take flags only.
const NO_NAMES: &[&str] = &[];

/// Why a command did not succeed.
#[derive(Debug, PartialEq)]
pub enum Failure {
    /// The command line was not understood; exit status 2.
    Usage(String),
    /// The machine lacks a program that the command needs; exit status 2.
    Lacking(String),
    /// A check failed; exit status 1.
    Check(String),
    /// A check failed and everything about it is printed; exit status 1.
    Reported,
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match dispatch(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Check(line)) => {
            eprintln!("{line}");
            ExitCode::from(1)
        }
        Err(Failure::Reported) => ExitCode::from(1),
        Err(Failure::Lacking(why)) => {
            eprintln!("skipped: {} because {why}", args[0]);
            ExitCode::from(2)
        }
        Err(Failure::Usage(line)) => {
            eprintln!("{line}\n\n{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn dispatch(args: &[String]) -> Result<(), Failure> {
    let Some((command, flags)) = args.split_first() else {
        return Err(Failure::Usage("no command given".into()));
    };
    let root = &root();
    let parse = |known: &[&str]| Args::parse(command, flags, known, NO_NAMES);
    match command.as_str() {
        "test" => test::run(root, &parse(&["--all", "--callgrind"])?),
        "soak" => soak::run(root, &parse(&soak::FLAGS)?),
        "kills" => kills::run(root, &parse(&kills::FLAGS)?),
        "tidy" => parse(&[]).and_then(|_| tidy::run(root).map_err(Failure::Check)),
        "seeded" => parse(&[]).and_then(|_| test::seeded(root).map_err(Failure::Check)),
        "peers" => parse(&[]).and_then(|_| test::peers(root)),
        "package" => parse(&[]).and_then(|_| package::run(root)),
        "callgrind" => callgrind::run(root, flags),
        "model" => model::run(root, flags),
        "fuzz" => fuzz::run(root, flags),
        "sanitize" => sanitize::run(root, flags),
        "aarch64" => parse(&[]).and_then(|_| aarch64::run(root)),
        "answers" => parse(&[]).and_then(|_| answers::run(root)),
        "etcd" => parse(&[]).and_then(|_| etcd::run(root)),
        "optional" => optional::run(root, flags),
        "browser" => parse(&[]).and_then(|_| browser::run(root)),
        "vm" => vm::run(root, flags),
        "help" | "--help" | "-h" => {
            println!("{USAGE}");
            Ok(())
        }
        other => Err(Failure::Usage(format!(
            "unknown command `{other}`; there are {COMMANDS}"
        ))),
    }
}

/// The repository's root. Cargo says at run time where this package lies, which stays right when
/// one target folder serves several checkouts; the compiled-in place serves a binary run by hand.
fn root() -> PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    package.parent().map_or(package.clone(), PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage_of(args: &[&str]) -> String {
        let args: Vec<String> = args.iter().map(ToString::to_string).collect();
        match dispatch(&args) {
            Err(Failure::Usage(line)) => line,
            other => panic!("expected a usage error, got {other:?}"),
        }
    }

    #[test]
    fn a_command_line_that_is_not_understood_names_what_was_wrong() {
        assert_eq!(usage_of(&[]), "no command given");
        assert!(usage_of(&["tset"]).contains("`tset`; there are test, soak, kills, seeded"));
        assert!(usage_of(&["soak", "--all"]).contains("`--all`"));
        assert!(usage_of(&["kills", "--all"]).contains("`--all`"));
        assert!(usage_of(&["tidy", "--fix"]).contains("`--fix`"));
        assert!(usage_of(&["test", "--fast"]).contains("`--fast`"));
        assert!(usage_of(&["seeded", "--all"]).contains("`--all`"));
        assert!(usage_of(&["peers", "--all"]).contains("`--all`"));
        assert!(usage_of(&["model", "--all"]).contains("`--all`"));
        assert!(usage_of(&["fuzz", "--all"]).contains("`--all`"));
        assert!(usage_of(&["sanitize", "--all"]).contains("`--all`"));
        assert!(usage_of(&["optional", "ssl"]).contains("it takes tls, libfabric"));
        assert!(usage_of(&["browser", "--all"]).contains("`--all`"));
        assert!(usage_of(&["callgrind", "--n3", "1"]).contains("`--n3`"));
    }

    #[test]
    fn the_root_holds_the_workspace_manifest() {
        assert!(root().join("Cargo.toml").is_file());
        assert!(root().join("xtask").is_dir());
    }
}
