//! A command of ours that runs beside the steps of `test`, in what time of the cores they leave.
//!
//! Half the steps wait: for the network, for an emulated machine, for the one crate that all others
//! need. It is a process of its own, so that it can have the lowest priority, and so that what it
//! prints does not get between the lines of others.

use std::env;
use std::path::Path;
use std::process::{Command, Output};
use std::thread::{self, JoinHandle};

use crate::{Failure, exec};

/// The command, begun.
pub struct Beside(JoinHandle<Result<Output, String>>);

/// Begins a command of `cargo xtask`.
pub fn begin(words: &[&str]) -> Result<Beside, String> {
    let program = env::current_exe().map_err(|error| format!("our own program: {error}"))?;
    Ok(begin_program(&program, words))
}

fn begin_program(program: &Path, words: &[&str]) -> Beside {
    let mut command = Command::new("nice");
    command.args(["-n", "19"]).arg(program).args(words);
    Beside(thread::spawn(move || exec::ended(&mut command)))
}

impl Beside {
    /// Waits for its end, prints what it said, and fails as it did.
    pub fn end(self) -> Result<(), Failure> {
        let output = self.0.join().expect("no panic").map_err(Failure::Check)?;
        let [said, errors] = [&output.stdout, &output.stderr].map(|it| String::from_utf8_lossy(it));
        print!("{said}{errors}");
        match output.status.code() {
            Some(0) => Ok(()),
            Some(2) => Err(Failure::Lacking("see above".into())),
            _ => Err(Failure::Reported),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_ends_as_the_command_does() {
        let end = |script| begin_program(Path::new("sh"), &["-c", script]).end();
        assert_eq!(end("nice | grep -qx 19"), Ok(()));
        assert!(matches!(end("exit 2"), Err(Failure::Lacking(_))));
        assert_eq!(end("exit 1"), Err(Failure::Reported));
        assert_eq!(end("kill $$"), Err(Failure::Reported));
    }
}
