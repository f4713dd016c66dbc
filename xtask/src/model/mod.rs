//! `cargo xtask model`: has TLC check the specifications in `model/`, and that it still finds the
//! seeded bugs.
//!
//! Invariants: a seeded bug that isn't found is a failure like an invariant that doesn't hold;
//! without Java or Maven, nothing counts as checked.

mod config;
mod tlc;
mod verdict;

use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::time::Instant;

use crate::args::Args;
use crate::{Failure, parallel};
use config::Config;
use tlc::Tlc;
use verdict::Verdict;

/// Without the configurations that take minutes.
pub const SHORT: &str = "--short";
const BUGS: &str = "--seeded-bugs-only";

/// The command: a machine that can't check is an error.
pub fn run(root: &Path, words: &[String]) -> Result<(), Failure> {
    let all = Config::all(&root.join("model")).map_err(Failure::Check)?;
    let (configs, list) = choose(words, all)?;
    if list {
        for Config {
            name,
            expected,
            about,
        } in configs
        {
            println!("{name}: {expected}: {about}");
        }
        return Ok(());
    }
    check(root, &Tlc::get(root)?, configs).map_err(Failure::Check)
}

/// The configurations that were asked for, and whether only to list them.
fn choose(words: &[String], mut all: Vec<Config>) -> Result<(Vec<Config>, bool), Failure> {
    let names: Vec<_> = all.iter().map(|config| config.name.clone()).collect();
    let args = Args::parse("model", words, &["--list", SHORT, BUGS], &names)?;
    let (short, bugs) = (args.has(SHORT), args.has(BUGS));
    all.retain(|config| {
        let is_left_out = (short && config.is_long()) || (bugs && !config.is_seeded_bug());
        !is_left_out && args.chosen(&config.name)
    });
    Ok((all, args.has("--list")))
}

/// Checks the configurations, one line for each; an error when one is not as expected.
fn check(root: &Path, tlc: &Tlc, configs: Vec<Config>) -> Result<(), String> {
    let (begun, count) = (Instant::now(), configs.len());
    let (all_states, failed) = (AtomicU64::new(0), AtomicUsize::new(0));
    parallel::for_each(configs, |config| {
        let begun = Instant::now();
        let (verdict, output) = match tlc.check(&root.join("model"), &config) {
            Ok(checked) => checked,
            Err(why) => (Verdict::Broken(why), String::new()),
        };
        let seconds = begun.elapsed().as_secs_f64();
        let states = verdict::states(&output).unwrap_or(0);
        all_states.fetch_add(states, Relaxed);
        let Config { name, expected, .. } = &config;
        let result = if expected.is_met(&verdict) {
            expected.to_string()
        } else {
            failed.fetch_add(1, Relaxed);
            let log = tlc.log(&config);
            format!(
                "FAILED: expected `{expected}`, but {verdict} (see {})",
                log.display()
            )
        };
        println!("  {name:<46} {states:>8} states {seconds:>6.1} s  {result}");
    });
    let (seconds, states) = (begun.elapsed().as_secs_f64(), all_states.into_inner());
    let failed = failed.into_inner();
    let summary = format!(
        "model: {count} configurations, {states} states in {seconds:.0} s, failed: {failed}"
    );
    if failed > 0 {
        return Err(summary);
    }
    println!("{summary}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configurations_are_chosen_by_name_or_as_seeded_bugs() {
        let all = || Config::all(&crate::root().join("model")).unwrap();
        let count = all().len();
        let chosen = |words: &[&str]| {
            let words: Vec<_> = words.iter().map(ToString::to_string).collect();
            choose(&words, all())
        };
        let (every, list) = chosen(&[]).unwrap();
        assert_eq!((every.len(), list), (count, false));
        let (bugs, list) = chosen(&["--seeded-bugs-only", "--list"]).unwrap();
        assert!(bugs.len() < count && list && bugs.iter().all(Config::is_seeded_bug));
        let (short, _) = chosen(&["--short"]).unwrap();
        assert!(short.len() < count && !short.iter().any(Config::is_long));
        assert_eq!(chosen(&[&bugs[0].name]).unwrap().0, bugs[..1]);
        assert!(matches!(
            chosen(&["members/seeded/none"]),
            Err(Failure::Usage(_))
        ));
    }
}
