//! Steps of a gate: all run, in order, and a summary says at the end what became of each.
//!
//! Invariant: a step that fails stops no other; the summary's last line names every one that
//! failed.

use std::fmt;
use std::time::{Duration, Instant};

use crate::Failure;

/// How a step ended. The texts are one line each.
#[derive(Debug, PartialEq)]
pub enum Outcome {
    Passed,
    Failed(String),
    Skipped(String),
}

impl From<Result<(), String>> for Outcome {
    fn from(result: Result<(), String>) -> Self {
        match result {
            Ok(()) => Outcome::Passed,
            Err(why) => Outcome::Failed(why),
        }
    }
}

impl From<Result<(), Failure>> for Outcome {
    fn from(result: Result<(), Failure>) -> Self {
        match result {
            Ok(()) => Outcome::Passed,
            Err(Failure::Lacking(why)) => Outcome::Skipped(why),
            Err(Failure::Check(why) | Failure::Usage(why)) => Outcome::Failed(why),
            Err(Failure::Reported) => Outcome::Failed("see above".into()),
        }
    }
}

/// One named step.
pub struct Step<'a> {
    pub name: &'static str,
    pub action: Box<dyn FnOnce() -> Outcome + 'a>,
}

impl<'a> Step<'a> {
    pub fn new<O: Into<Outcome>>(name: &'static str, action: impl FnOnce() -> O + 'a) -> Self {
        let action = Box::new(move || action().into());
        Step { name, action }
    }

    /// The same step if `runs`, otherwise one that is skipped for the reason given.
    pub fn only_if(mut self, runs: bool, why_not: &str) -> Self {
        if !runs {
            let why = why_not.to_string();
            self.action = Box::new(|| Outcome::Skipped(why));
        }
        self
    }
}

/// What became of every step, in order.
#[derive(Debug, Default)]
pub struct Report {
    rows: Vec<(&'static str, Outcome, Duration)>,
}

impl Report {
    /// The names of the steps that failed.
    pub fn failed(&self) -> Vec<&'static str> {
        let failed = self
            .rows
            .iter()
            .filter(|row| matches!(row.1, Outcome::Failed(_)));
        failed.map(|row| row.0).collect()
    }

    /// Prints the summary.
    pub fn conclude(&self) -> Result<(), Failure> {
        println!("== summary\n{self}");
        match self.failed().is_empty() {
            true => Ok(()),
            false => Err(Failure::Reported),
        }
    }
}

/// Runs all steps in order and announces each.
pub fn run_all(steps: Vec<Step>) -> Report {
    let mut report = Report::default();
    for Step { name, action } in steps {
        println!("== {name}");
        let begun = Instant::now();
        let outcome = action();
        let took = begun.elapsed();
        let seconds = took.as_secs_f64();
        match &outcome {
            Outcome::Passed => println!("== {name}: passed in {seconds:.1} s\n"),
            Outcome::Failed(why) => println!("== {name}: FAILED after {seconds:.1} s: {why}\n"),
            Outcome::Skipped(why) => println!("== {name}: skipped: {why}\n"),
        }
        report.rows.push((name, outcome, took));
    }
    report
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let (mut passed, mut skipped) = (0, 0);
        for (name, outcome, took) in &self.rows {
            let seconds = took.as_secs_f64();
            match outcome {
                Outcome::Passed => {
                    passed += 1;
                    writeln!(f, "  passed   {name:<10} {seconds:>6.1} s")?;
                }
                Outcome::Failed(why) => {
                    writeln!(f, "  FAILED   {name:<10} {seconds:>6.1} s  {why}")?;
                }
                Outcome::Skipped(why) => {
                    skipped += 1;
                    writeln!(f, "  skipped  {name:<10} {why}")?;
                }
            }
        }
        let failed = self.failed();
        write!(
            f,
            "{passed} passed, {} failed, {skipped} skipped",
            failed.len()
        )?;
        match failed.is_empty() {
            true => Ok(()),
            false => write!(f, "; failed: {}", failed.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    #[test]
    fn all_steps_run_whatever_fails_and_all_failures_are_named() {
        let ran = RefCell::new(Vec::new());
        let step = |name: &'static str, outcome: Outcome| {
            let ran = &ran;
            Step::new(name, move || {
                ran.borrow_mut().push(name);
                outcome
            })
        };
        let report = run_all(vec![
            step("one", Outcome::Failed("it broke".into())),
            step("two", Outcome::Skipped("it is absent".into())),
            step("three", Outcome::Passed),
            step("four", Outcome::Passed).only_if(false, "it runs with --all"),
            step("five", Outcome::Failed("it broke too".into())).only_if(true, ""),
        ]);
        assert_eq!(*ran.borrow(), ["one", "two", "three", "five"]);
        assert_eq!(report.failed(), ["one", "five"]);
        let shown = report.to_string();
        assert!(shown.contains("skipped  two        it is absent"));
        assert!(shown.contains("skipped  four       it runs with --all"));
        let last = "1 passed, 2 failed, 2 skipped; failed: one, five";
        assert_eq!(shown.lines().last(), Some(last));
    }

    #[test]
    fn a_clean_run_has_no_failure() {
        let report = run_all(vec![Step::new("one", || Ok::<(), String>(()))]);
        assert!(report.failed().is_empty());
        assert!(
            report
                .to_string()
                .ends_with("1 passed, 0 failed, 0 skipped")
        );
    }
}
