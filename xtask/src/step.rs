//! Steps of a gate: run in order, stop at the first that fails, and say at the end what ran.
//!
//! Invariant: the counts of the closing line add up to the number of steps, because a step that
//! was not reached is listed as skipped, with the step that stopped it as the reason.

use std::fmt;
use std::time::{Duration, Instant};

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
}

/// What became of every step, in order.
#[derive(Debug)]
pub struct Report {
    rows: Vec<(&'static str, Outcome, Duration)>,
}

impl Report {
    /// The step that failed, if one did.
    pub fn failed(&self) -> Option<&'static str> {
        let failed = |row: &&(&'static str, Outcome, Duration)| matches!(row.1, Outcome::Failed(_));
        self.rows.iter().find(failed).map(|row| row.0)
    }
}

/// Runs the steps in order, announcing each, and none after the first that fails.
pub fn run_all(steps: Vec<Step>) -> Report {
    let mut report = Report { rows: Vec::new() };
    for Step { name, action } in steps {
        if let Some(failed) = report.failed() {
            let outcome = Outcome::Skipped(format!("{failed} failed first"));
            report.rows.push((name, outcome, Duration::ZERO));
            continue;
        }
        println!("== {name}");
        let begun = Instant::now();
        let outcome = action();
        let took = begun.elapsed();
        let seconds = took.as_secs_f64();
        match &outcome {
            Outcome::Passed => println!("== {name}: passed in {seconds:.1} s\n"),
            Outcome::Failed(why) => println!("== {name}: FAILED after {seconds:.1} s: {why}\n"),
            Outcome::Skipped(why) => println!("skipped: {name} because {why}\n"),
        }
        report.rows.push((name, outcome, took));
    }
    report
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let (mut passed, mut failed, mut skipped) = (0, 0, 0);
        for (name, outcome, took) in &self.rows {
            let seconds = took.as_secs_f64();
            match outcome {
                Outcome::Passed => {
                    passed += 1;
                    writeln!(f, "  passed   {name:<10} {seconds:>6.1} s")?;
                }
                Outcome::Failed(why) => {
                    failed += 1;
                    writeln!(f, "  FAILED   {name:<10} {seconds:>6.1} s  {why}")?;
                }
                Outcome::Skipped(why) => {
                    skipped += 1;
                    writeln!(f, "  skipped  {name:<10} because {why}")?;
                }
            }
        }
        write!(f, "{passed} passed, {failed} failed, {skipped} skipped")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    #[test]
    fn steps_run_in_order_and_stop_at_the_first_failure() {
        let ran = RefCell::new(Vec::new());
        let step = |name: &'static str, outcome: Outcome| {
            let ran = &ran;
            Step::new(name, move || {
                ran.borrow_mut().push(name);
                outcome
            })
        };
        let report = run_all(vec![
            step("one", Outcome::Passed),
            step("two", Outcome::Skipped("it is absent".into())),
            step("three", Outcome::Failed("it broke".into())),
            step("four", Outcome::Passed),
        ]);
        assert_eq!(*ran.borrow(), ["one", "two", "three"]);
        assert_eq!(report.failed(), Some("three"));
        let shown = report.to_string();
        assert!(shown.contains("skipped  two        because it is absent"));
        assert!(shown.contains("skipped  four       because three failed first"));
        assert_eq!(shown.lines().last(), Some("1 passed, 1 failed, 2 skipped"));
    }

    #[test]
    fn a_clean_run_has_no_failure() {
        let report = run_all(vec![Step::new("one", || Ok(()))]);
        assert_eq!(report.failed(), None);
        assert!(
            report
                .to_string()
                .ends_with("1 passed, 0 failed, 0 skipped")
        );
    }
}
