//! `cargo xtask model`: has TLC check the specifications in `model/`, and that it still finds the
//! seeded bugs.
//!
//! Invariants: a seeded bug that isn't found is a failure like an invariant that doesn't hold;
//! without Java or Maven, nothing counts as checked.

mod config;
mod tlc;
mod verdict;

use std::path::Path;
use std::time::Instant;

use crate::Failure;
use crate::args::Args;
use config::Config;
use tlc::Tlc;

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
    check(root, &Tlc::get(root)?, &configs).map_err(Failure::Check)
}

/// The configurations that were asked for, and whether only to list them.
fn choose(words: &[String], mut all: Vec<Config>) -> Result<(Vec<Config>, bool), Failure> {
    let names: Vec<_> = all.iter().map(|config| config.name.clone()).collect();
    let args = Args::parse("model", words, &["--list", "--seeded-bugs-only"], &names)?;
    let bugs_only = args.has("--seeded-bugs-only");
    all.retain(|config| (config.is_seeded_bug() || !bugs_only) && args.chosen(&config.name));
    Ok((all, args.has("--list")))
}

/// Checks each configuration, one line for each; an error when one is not as expected.
fn check(root: &Path, tlc: &Tlc, configs: &[Config]) -> Result<(), String> {
    let (begun, mut all_states, mut failed) = (Instant::now(), 0, 0);
    for config in configs {
        let begun = Instant::now();
        let (verdict, output) = tlc.check(&root.join("model"), config)?;
        let seconds = begun.elapsed().as_secs_f64();
        let states = verdict::states(&output).unwrap_or(0);
        all_states += states;
        let Config { name, expected, .. } = config;
        if expected.is_met(&verdict) {
            println!("  {name:<46} {states:>8} states {seconds:>6.1} s  {expected}");
        } else {
            failed += 1;
            let log = tlc.log(config);
            println!(
                "  {name:<46} {states:>8} states {seconds:>6.1} s  FAILED: expected `{expected}`, but {verdict} (see {})",
                log.display()
            );
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    let count = configs.len();
    let summary = format!(
        "model: {count} configurations, {all_states} states in {seconds:.0} s, failed: {failed}"
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
        assert_eq!(chosen(&[&bugs[0].name]).unwrap().0, bugs[..1]);
        assert!(matches!(
            chosen(&["members/seeded/none"]),
            Err(Failure::Usage(_))
        ));
    }
}
