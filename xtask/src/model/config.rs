//! A configuration of the model: a file whose first line states the expected result.
//!
//! `\* holds: ...`, `\* violates NAME: ...` (a seeded bug) or `\* reaches NAME: ...`, and after the
//! colon a description of the check. So a new configuration is a new file and nothing else.

use std::fmt;
use std::fs;
use std::path::Path;

use super::verdict::Verdict;

/// The models, each a folder of modules.
const MODELS: [&str; 2] = ["migration", "members"];
/// The folders that configurations lie in, in the order in which they run.
const FOLDERS: [&str; 4] = ["checked", LONG, "reached", SEEDED];
/// Large configurations, which only a change of a model asks for.
const LONG: &str = "long";
const SEEDED: &str = "seeded";

/// The expected result.
#[derive(Debug, PartialEq)]
pub enum Expected {
    Holds,
    Violates(String),
    /// A state that must be reachable, or the other checks would prove nothing.
    Reaches(String),
}

impl Expected {
    /// Whether it was found.
    pub fn is_met(&self, verdict: &Verdict) -> bool {
        match (self, verdict) {
            (Expected::Holds, Verdict::Holds) => true,
            (Expected::Violates(name), Verdict::Violated(found)) => name == found,
            (Expected::Reaches(name), Verdict::Violated(found)) => {
                found.strip_prefix("Never") == Some(name)
            }
            _ => false,
        }
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Expected::Holds => f.write_str("holds"),
            Expected::Violates(name) => write!(f, "violates {name}"),
            Expected::Reaches(name) => write!(f, "reaches {name}"),
        }
    }
}

/// One file.
#[derive(Debug, PartialEq)]
pub struct Config {
    /// Model, folder and name, without `.cfg`.
    pub name: String,
    pub expected: Expected,
    /// A description of the check.
    pub about: String,
}

impl Config {
    fn parse(name: String, text: &str) -> Result<Self, String> {
        let first = text.lines().next().unwrap_or("");
        let head = first.strip_prefix("\\* ").and_then(|h| h.split_once(": "));
        let expected = head.and_then(|(expected, _)| match expected.split_once(' ') {
            None if expected == "holds" => Some(Expected::Holds),
            Some(("violates", name)) => Some(Expected::Violates(name.into())),
            Some(("reaches", name)) => Some(Expected::Reaches(name.into())),
            _ => None,
        });
        match (head, expected) {
            (Some((_, about)), Some(expected)) => Ok(Config {
                name,
                expected,
                about: about.to_string(),
            }),
            _ => Err(format!(
                "model/{name}.cfg: the first line must be `\\* holds: ...`, `\\* violates NAME: ...` \
                 or `\\* reaches NAME: ...`"
            )),
        }
    }

    /// The model that it is of.
    pub fn model(&self) -> &str {
        self.name.split('/').next().unwrap_or(&self.name)
    }

    pub fn is_seeded_bug(&self) -> bool {
        self.is_in(SEEDED)
    }

    pub fn is_long(&self) -> bool {
        self.is_in(LONG)
    }

    fn is_in(&self, folder: &str) -> bool {
        self.name.split('/').nth(1) == Some(folder)
    }

    /// All configurations of all models, in the order in which they run.
    pub fn all(models: &Path) -> Result<Vec<Config>, String> {
        let mut configs = Vec::new();
        for model in MODELS {
            for folder in FOLDERS {
                let path = models.join(model).join(folder);
                if folder == LONG && !path.exists() {
                    continue;
                }
                for name in names(&path)? {
                    let name = format!("{model}/{folder}/{name}");
                    let file = models.join(format!("{name}.cfg"));
                    let text = fs::read_to_string(&file).map_err(|it| unreadable(&file, &it))?;
                    configs.push(Config::parse(name, &text)?);
                }
            }
        }
        Ok(configs)
    }
}

/// The names of a folder's configurations, in their order.
fn names(folder: &Path) -> Result<Vec<String>, String> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(|it| unreadable(folder, &it))? {
        let file = entry.map_err(|it| unreadable(folder, &it))?.file_name();
        names.extend(
            file.to_str()
                .and_then(|it| it.strip_suffix(".cfg"))
                .map(str::to_string),
        );
    }
    names.sort();
    Ok(names)
}

fn unreadable(path: &Path, error: &std::io::Error) -> String {
    format!("{} could not be read: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Config, String> {
        Config::parse("members/checked/a".into(), text)
    }

    #[test]
    fn the_first_line_says_what_to_find() {
        let config = parsed("\\* holds: reads: and writes\nSPECIFICATION Spec\n").unwrap();
        assert_eq!(config.expected, Expected::Holds);
        assert_eq!(config.about, "reads: and writes");
        let config = parsed("\\* violates NoLostKey: a bug\n").unwrap();
        assert_eq!(config.expected.to_string(), "violates NoLostKey");
        let config = parsed("\\* reaches SlotUsedAgain: twice\n").unwrap();
        assert_eq!(config.expected.to_string(), "reaches SlotUsedAgain");
        for text in [
            "",
            "SPECIFICATION Spec",
            "\\* holds",
            "\\* breaks NoLostKey: a bug",
        ] {
            assert!(
                parsed(text)
                    .unwrap_err()
                    .contains("model/members/checked/a.cfg")
            );
        }
    }

    #[test]
    fn only_the_named_violation_meets_the_expectation() {
        let violated = |name: &str| Verdict::Violated(name.into());
        let bug = Expected::Violates("NoLostKey".into());
        assert!(bug.is_met(&violated("NoLostKey")));
        assert!(!bug.is_met(&violated("NoDuplicate")));
        assert!(!bug.is_met(&Verdict::Holds));
        let reached = Expected::Reaches("SlotUsedAgain".into());
        assert!(reached.is_met(&violated("NeverSlotUsedAgain")));
        assert!(!reached.is_met(&violated("SlotUsedAgain")));
        assert!(!reached.is_met(&Verdict::Holds));
        assert!(Expected::Holds.is_met(&Verdict::Holds));
        assert!(!Expected::Holds.is_met(&Verdict::Broken("no memory".into())));
    }

    #[test]
    fn every_configuration_of_the_models_says_what_it_is_for() {
        let configs = Config::all(&crate::root().join("model")).unwrap();
        let bugs = configs.iter().filter(|config| config.is_seeded_bug());
        assert!(
            configs
                .iter()
                .any(|config| config.expected == Expected::Holds)
        );
        assert!(bugs.count() > 0);
        for config in configs.iter().filter(|config| config.is_seeded_bug()) {
            assert!(
                matches!(config.expected, Expected::Violates(_)),
                "{config:?}"
            );
        }
    }
}
