//! Output of the commands.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write, stderr, stdout};

use crate::Failure;

/// Prints a line to stdout. A closed pipe, as with `| head`, does not end the command: it may still
/// have files to write.
pub fn say(line: impl Display) -> Result<(), Failure> {
    on_stdout(writeln!(stdout(), "{line}"))
}

/// Writes a file's content to stdout.
pub fn write_out(content: &[u8]) -> Result<(), Failure> {
    let mut stdout = stdout();
    on_stdout(stdout.write_all(content).and_then(|()| stdout.flush()))
}

/// The same for the result of a write to stdout.
pub fn on_stdout(written: io::Result<()>) -> Result<(), Failure> {
    match written {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::Failed(format!("can't write to stdout: {error}")))
        }
        _ => Ok(()),
    }
}

/// Prints a line to stderr, for messages that are not results.
pub fn tell(line: impl Display) {
    let _ = writeln!(stderr(), "{line}");
}

/// A message as one line: control characters of names and files are escaped.
pub fn one_line(text: &str) -> String {
    let escaped = |it: char| match it.is_control() {
        true => it.escape_default().to_string(),
        false => it.to_string(),
    };
    text.chars().map(escaped).collect()
}

/// A key as text, in quotes.
pub fn shown(key: &[u8]) -> String {
    format!("\"{}\"", key.escape_ascii())
}
