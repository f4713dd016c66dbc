//! The arguments of all commands: flags, flags with a value, and names.

use std::str::FromStr;

use crate::Failure;

/// A command line that was understood.
#[derive(Debug, Default, PartialEq)]
pub struct Args {
    /// Flags, each with its value if it takes one.
    flags: Vec<(String, Option<String>)>,
    /// Words that are no flags.
    pub names: Vec<String>,
}

impl Args {
    /// Takes the words of `command` apart. A flag of `known` that ends in ` N` takes a value.
    ///
    /// # Errors
    /// A word is neither a known flag nor a known name, or a value is missing.
    pub fn parse<S: AsRef<str>>(
        command: &str,
        words: &[String],
        known: &[&str],
        names: &[S],
    ) -> Result<Args, Failure> {
        let mut args = Args::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let takes_value = format!("{word} N");
            if known.contains(&word.as_str()) {
                args.flags.push((word.clone(), None));
            } else if known.contains(&takes_value.as_str()) {
                let value = words.next();
                let missing = || Failure::Usage(format!("{command}: {word} takes a value"));
                let value = value.ok_or_else(missing)?.clone();
                args.flags.push((word.clone(), Some(value)));
            } else if names.iter().any(|name| name.as_ref() == word) {
                args.names.push(word.clone());
            } else {
                let known = known.iter().copied().chain(names.iter().map(AsRef::as_ref));
                let takes = match known.collect::<Vec<_>>().join(", ") {
                    nothing if nothing.is_empty() => "no argument".into(),
                    known => known,
                };
                return Err(Failure::Usage(format!(
                    "{command} does not know `{word}`; it takes {takes}"
                )));
            }
        }
        Ok(args)
    }

    /// Whether a flag was given.
    pub fn has(&self, flag: &str) -> bool {
        self.flags.iter().any(|(given, _)| given == flag)
    }

    /// Whether a name was given, or none at all.
    pub fn chosen(&self, name: &str) -> bool {
        self.names.is_empty() || self.names.iter().any(|given| given == name)
    }

    /// The last value of a flag, or `default`.
    ///
    /// # Errors
    /// The value is of another kind.
    pub fn value<T: FromStr>(&self, flag: &str, default: T) -> Result<T, Failure> {
        let given = self.flags.iter().rfind(|(given, _)| given == flag);
        let Some((_, Some(value))) = given else {
            return Ok(default);
        };
        let wrong = |_| Failure::Usage(format!("{flag} takes a number, not `{value}`"));
        value.parse().map_err(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Args, String> {
        let words: Vec<_> = line.split_whitespace().map(String::from).collect();
        let known = ["--all", "--seeds N", "--test N"];
        match Args::parse("soak", &words, &known, &["one", "two"]) {
            Ok(args) => Ok(args),
            Err(Failure::Usage(line)) => Err(line),
            Err(other) => panic!("{other:?}"),
        }
    }

    #[test]
    fn words_are_flags_values_and_names() {
        let args = parse("--seeds 3 one --all --seeds 4 --test a::b").unwrap();
        assert!(args.has("--all") && args.has("--seeds") && !args.has("one"));
        assert_eq!(args.value("--seeds", 10), Ok(4));
        assert_eq!(args.value("--first", 1), Ok(1));
        assert_eq!(args.value("--test", String::new()), Ok("a::b".into()));
        assert!(args.chosen("one") && !args.chosen("two"));
        assert!(parse("").unwrap().chosen("two"));
    }

    #[test]
    fn what_is_not_understood_is_named_with_what_is() {
        let known = "it takes --all, --seeds N, --test N, one, two";
        for word in ["three", "--every", "-a"] {
            let expected = format!("soak does not know `{word}`; {known}");
            assert_eq!(parse(word), Err(expected));
        }
        assert_eq!(parse("--seeds"), Err("soak: --seeds takes a value".into()));
        let many = parse("--seeds many").unwrap().value("--seeds", 1);
        let expected = "--seeds takes a number, not `many`".to_string();
        assert_eq!(many, Err(Failure::Usage(expected)));
        let none = Args::parse("tidy", &["--fix".into()], &[], &[""; 0]);
        let expected = "tidy does not know `--fix`; it takes no argument".to_string();
        assert_eq!(none, Err(Failure::Usage(expected)));
    }
}
