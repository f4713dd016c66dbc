//! Options whose values have names: shells complete these.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::{Arg, Command, Error};

/// Takes any text, since the library refuses what it does not know with a suggestion, and some
/// names have parameters (`tpcc:4`). Tells shells the names that it knows.
#[derive(Clone)]
pub struct Known(Vec<&'static str>);

/// An option's values, of which these are known. Its help tells them in its own words: the option
/// needs `hide_possible_values`.
pub fn known(names: impl IntoIterator<Item = &'static str>) -> Known {
    Known(names.into_iter().collect())
}

impl TypedValueParser for Known {
    type Value = String;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<String, Error> {
        StringValueParser::new().parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.0.iter().map(PossibleValue::new)))
    }
}
