//! `cargo xtask model`: has TLC check the specification in `model/`, and that it still finds the
//! seeded bugs.
//!
//! Invariants: a seeded bug that isn't found is a failure like an invariant that doesn't hold;
//! where Java or Maven is missing, nothing is taken for checked.

mod config;
mod tlc;
mod verdict;

use std::path::Path;
use std::time::Instant;

use crate::Failure;
use crate::step::Outcome;
use config::Config;
use tlc::{Absent, Tlc};

/// What the command line asked for.
#[derive(Debug, Default, PartialEq)]
pub struct Options {
    /// Say what there is, and check nothing.
    list: bool,
    seeded_bugs_only: bool,
    /// Configurations by name; all if there is none.
    names: Vec<String>,
}

impl Options {
    pub fn parse(flags: &[String]) -> Result<Self, Failure> {
        let mut options = Options::default();
        for flag in flags {
            match flag.as_str() {
                "--list" => options.list = true,
                "--seeded-bugs-only" => options.seeded_bugs_only = true,
                name if !name.starts_with('-') => options.names.push(name.into()),
                other => {
                    return Err(Failure::Usage(format!(
                        "model does not know `{other}`; it takes --list, --seeded-bugs-only and names"
                    )));
                }
            }
        }
        Ok(options)
    }

    /// The configurations that were asked for.
    fn choose(&self, mut all: Vec<Config>) -> Result<Vec<Config>, Failure> {
        for name in &self.names {
            if !all.iter().any(|config| config.name == *name) {
                let line = format!("the model has no configuration `{name}`; see model --list");
                return Err(Failure::Usage(line));
            }
        }
        all.retain(|config| {
            (config.is_seeded_bug() || !self.seeded_bugs_only)
                && (self.names.is_empty() || self.names.contains(&config.name))
        });
        Ok(all)
    }
}

/// The command: a machine that can't check is an error.
pub fn run(root: &Path, options: &Options) -> Result<(), Failure> {
    let all = Config::all(&root.join("model")).map_err(Failure::Check)?;
    let configs = options.choose(all)?;
    if options.list {
        for config in configs {
            let Config {
                name,
                expected,
                about,
            } = config;
            println!("{name}: {expected}: {about}");
        }
        return Ok(());
    }
    match Tlc::get(root) {
        Ok(tlc) => check(root, &tlc, &configs).map_err(Failure::Check),
        Err(Absent::Lacking(why)) => Err(Failure::Lacking(skipped(&why))),
        Err(Absent::Forged(why)) => Err(Failure::Check(why)),
    }
}

/// The step of the gate: skipped where there is no Java, or nothing that could fetch the checker.
pub fn step(root: &Path) -> Outcome {
    let configs = match Config::all(&root.join("model")) {
        Ok(configs) => configs,
        Err(why) => return Outcome::Failed(why),
    };
    match Tlc::get(root) {
        Ok(tlc) => check(root, &tlc, &configs).into(),
        Err(Absent::Lacking(why)) => Outcome::Skipped(why),
        Err(Absent::Forged(why)) => Outcome::Failed(why),
    }
}

fn skipped(why: &str) -> String {
    format!("skipped: model because {why}")
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
            println!("  {name:<36} {states:>8} states {seconds:>6.1} s  {expected}");
        } else {
            failed += 1;
            let log = tlc.log(config);
            println!(
                "  {name:<36} {states:>8} states {seconds:>6.1} s  FAILED: expected `{expected}`, but {verdict} (see {})",
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

    fn parse(flags: &[&str]) -> Result<Options, Failure> {
        let flags: Vec<String> = flags.iter().map(ToString::to_string).collect();
        Options::parse(&flags)
    }

    #[test]
    fn flags() {
        assert_eq!(parse(&[]), Ok(Options::default()));
        let options = parse(&["--list", "--seeded-bugs-only", "checked/a"]).unwrap();
        assert!(options.list && options.seeded_bugs_only);
        assert_eq!(options.names, ["checked/a"]);
        assert!(parse(&["--bugs"]).is_err());
    }

    #[test]
    fn configurations_are_chosen_by_name_or_as_seeded_bugs() {
        let all = || Config::all(&crate::root().join("model")).unwrap();
        let count = all().len();
        let chosen = |flags: &[&str]| parse(flags).unwrap().choose(all());
        assert_eq!(chosen(&[]).unwrap().len(), count);
        let bugs = chosen(&["--seeded-bugs-only"]).unwrap();
        assert!(bugs.len() < count && bugs.iter().all(Config::is_seeded_bug));
        let one = chosen(&[&bugs[0].name]).unwrap();
        assert_eq!(one, bugs[..1]);
        assert!(matches!(chosen(&["seeded/none"]), Err(Failure::Usage(_))));
    }
}
