//! Reads TLC's output: whether the invariants hold, and the number of states.
//!
//! Invariant: an output that isn't understood is never taken for success.

use std::fmt;

/// How TLC's search ended.
#[derive(Debug, PartialEq)]
pub enum Verdict {
    /// Every state was looked at, and nothing was wrong.
    Holds,
    /// The named invariant is violated; a deadlock violates `NoDeadlock`.
    Violated(String),
    /// TLC could not check it. The text is one line.
    Broken(String),
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Verdict::Holds => f.write_str("every invariant holds"),
            Verdict::Violated(name) => write!(f, "{name} is violated"),
            Verdict::Broken(why) => write!(f, "TLC did not check it: {why}"),
        }
    }
}

impl Verdict {
    /// Reads TLC's output to the end.
    pub fn read(output: &str) -> Self {
        let errors = output
            .lines()
            .filter_map(|line| line.strip_prefix("Error: "));
        // The first error is the finding; the lines after it are its trace.
        if let Some(error) = errors.into_iter().next() {
            if error.starts_with("Deadlock reached") {
                return Verdict::Violated("NoDeadlock".into());
            }
            let invariant = error
                .strip_prefix("Invariant ")
                .and_then(|rest| rest.split_once(" is violated"));
            return match invariant {
                Some((name, _)) => Verdict::Violated(name.into()),
                None => Verdict::Broken(error.into()),
            };
        }
        let is_complete = output
            .lines()
            .any(|line| line == "Model checking completed. No error has been found.");
        match is_complete {
            true => Verdict::Holds,
            false => Verdict::Broken("it stopped before it was through".into()),
        }
    }
}

/// How many different states were found, if TLC came to say so.
pub fn states(output: &str) -> Option<u64> {
    let counts = |line: &str| {
        let (_, rest) = line.split_once(" states generated, ")?;
        let (distinct, _) = rest.split_once(" distinct states found, ")?;
        distinct.parse().ok()
    };
    output.lines().rev().find_map(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOLDS: &str = "\
Progress(33) at 2026-11-21 13:12:56: 1,686,373 states generated (1,675,030 s/min), 664,466 distinct states found (659,943 ds/min), 80,145 states left on queue.
Model checking completed. No error has been found.
  Estimates of the probability that TLC did not check all reachable states
  because two distinct states had the same fingerprint:
  calculated (optimistic):  val = 1.3E-6
155778 states generated, 70877 distinct states found, 0 states left on queue.
The depth of the complete state graph search is 60.
Finished in 16s at (2026-11-21 13:22:27)
";
    const VIOLATED: &str = "\
Finished computing initial states: 1 distinct state generated at 2026-11-21 13:38:01.
Error: Invariant NoLostKey is violated.
Error: The behavior up to this point is:
State 1: <Initial predicate>
/\\ wrong = FALSE

1408 states generated, 793 distinct states found, 169 states left on queue.
The depth of the complete state graph search is 14.
";
    const AT_ONCE: &str = "\
Computing initial states...
Error: Invariant NeverWholePathPromoted is violated by the initial state:
/\\ wrong = FALSE

Finished in 00s at (2026-11-21 13:46:09)
";
    const DEADLOCK: &str = "\
Error: Deadlock reached.
Error: The behavior up to this point is:
State 1: <Initial predicate>
3693 states generated, 2071 distinct states found, 358 states left on queue.
";
    const MISTAKE: &str = "\
Semantic errors:

*** Errors: 1

Unknown operator: `Sloww'.

Error: Parsing or semantic analysis failed.
";

    #[test]
    fn outputs_of_every_kind_are_told_apart() {
        assert_eq!(Verdict::read(HOLDS), Verdict::Holds);
        let violated = |name: &str| Verdict::Violated(name.into());
        assert_eq!(Verdict::read(VIOLATED), violated("NoLostKey"));
        assert_eq!(Verdict::read(AT_ONCE), violated("NeverWholePathPromoted"));
        assert_eq!(Verdict::read(DEADLOCK), violated("NoDeadlock"));
        let broken = "TLC did not check it: Parsing or semantic analysis failed.";
        assert_eq!(Verdict::read(MISTAKE).to_string(), broken);
    }

    #[test]
    fn an_output_that_breaks_off_is_no_success() {
        let (begun, _) = HOLDS.split_once("Model checking").unwrap();
        for cut in ["", begun] {
            assert!(matches!(Verdict::read(cut), Verdict::Broken(_)), "{cut:?}");
        }
    }

    #[test]
    fn states_are_those_of_the_last_count() {
        assert_eq!(states(HOLDS), Some(70877));
        assert_eq!(states(VIOLATED), Some(793));
        assert_eq!(states(AT_ONCE), None);
    }
}
