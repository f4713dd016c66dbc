//! Output of the commands.

use std::fmt::Display;
use std::io::{Write, stderr, stdout};

/// Prints a line to stdout. A closed pipe, as with `| head`, does not end the command: it may still
/// have files to write.
pub fn say(line: impl Display) {
    let _ = writeln!(stdout(), "{line}");
}

/// Prints a line to stderr, for messages that are not results.
pub fn tell(line: impl Display) {
    let _ = writeln!(stderr(), "{line}");
}
