//! The binaries of all tests, as `cargo test` builds them.
//!
//! Invariants: they are run as cargo runs them, in their package's folder. Every one is run,
//! whatever fails.

use std::cmp::Reverse;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::Instant;

use serde_json::Value;

use crate::exec::CRATES;
use crate::test::TESTS;
use crate::{exec, parallel};

/// A compiled test binary and the folder of its package.
#[derive(Debug, PartialEq)]
pub struct Binary {
    pub program: PathBuf,
    pub folder: PathBuf,
}

/// Those that run longest, in this order. What is printed in the end tells when to change it.
const FIRST: [&str; 8] = [
    "tree/btree_of_bytes",
    "tree/btree",
    "tree/masstree",
    "tree/art",
    "bench/run",
    "remote/tree",
    "store/store",
    "remote/clusters",
];
/// How many of the binaries that ran longest are named.
const LONGEST: usize = 8;

/// Builds all tests and runs them. Prints the output of each binary when it has ended, and in the
/// end where the time went.
pub fn build_and_run(root: &Path) -> Result<(), String> {
    let began = Instant::now();
    let mut binaries = build(root)?;
    let (built, count) = (began.elapsed(), binaries.len());
    // Begun last, one that runs long would run alone.
    binaries.sort_by_key(|binary| {
        let name = binary.name();
        FIRST
            .iter()
            .position(|&first| first == name)
            .unwrap_or(FIRST.len())
    });
    let (failed, times) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    // Each has as many threads as there are cores, but often its last tests leave most of them
    // idle.
    parallel::for_each(binaries, |binary| {
        let began = Instant::now();
        if !binary.passes() {
            failed.lock().expect("no panic").push(binary.name());
        }
        let time = (began.elapsed(), binary.name());
        times.lock().expect("no panic").push(time);
    });
    let ran = began.elapsed() - built;
    println!("{count} test programs, built in {built:.1?}, ran for {ran:.1?}; the longest:");
    let mut times = times.into_inner().expect("no panic");
    times.sort_by_key(|it| Reverse(it.0));
    for (time, name) in times.iter().take(LONGEST) {
        println!("{time:8.1?} {name}");
    }
    let failed = failed.into_inner().expect("no panic");
    match failed.is_empty() {
        true => Ok(()),
        false => Err(format!("tests failed in {}", failed.join(", "))),
    }
}

/// Builds all tests and finds the binaries in what cargo says about them.
pub fn build(root: &Path) -> Result<Vec<Binary>, String> {
    let build = format!("test {CRATES} {TESTS} --no-run");
    let mut build = exec::cargo(root, &build);
    build.args(["--message-format", "json-render-diagnostics"]);
    let messages = exec::output(build)?;
    Ok(messages.lines().filter_map(binary_of).collect())
}

/// The test binary that a message of cargo announces, if it does.
fn binary_of(message: &str) -> Option<Binary> {
    let message: Value = serde_json::from_str(message).ok()?;
    let path = |key: &str| Some(PathBuf::from(message[key].as_str()?));
    Some(Binary {
        program: path("executable").filter(|_| message["profile"]["test"] == true)?,
        folder: path("manifest_path")?.parent()?.to_path_buf(),
    })
}

impl Binary {
    pub fn name(&self) -> String {
        let [program, folder] = [&self.program, &self.folder]
            .map(|path| path.file_name().unwrap_or_default().to_string_lossy());
        let name = program.rsplit_once('-').map_or(&*program, |(name, _)| name);
        format!("{folder}/{name}")
    }

    /// A command that runs it.
    pub fn command(&self) -> Command {
        self.command_by(&self.program)
    }

    /// A command that is to run it by another program.
    pub fn command_by(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        // Cargo set it for this program, whose folder is another.
        command
            .current_dir(&self.folder)
            .env_remove("CARGO_MANIFEST_DIR");
        command
    }

    /// Runs all its tests, and prints what it says.
    fn passes(&self) -> bool {
        let ended = exec::ended(&mut self.command());
        let (said, passed) = match &ended {
            Ok(output) => {
                let [out, err] =
                    [&output.stdout, &output.stderr].map(|it| String::from_utf8_lossy(it));
                (format!("{out}{err}"), output.status.success())
            }
            Err(why) => (format!("{why}\n"), false),
        };
        let status = ended.map_or(String::new(), |output| output.status.to_string());
        println!("-- {}: {status}\n{said}", self.name());
        passed
    }

    /// The paths of its tests that contain `part`.
    pub fn tests(&self, part: &str) -> Result<Vec<String>, String> {
        let mut list = self.command();
        list.args(["--list", "--format", "terse"]);
        let output = exec::ended(&mut list)?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let tests = text.lines().filter_map(|line| line.strip_suffix(": test"));
        Ok(tests
            .filter(|test| test.contains(part))
            .map(String::from)
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_binaries_are_found_among_the_messages() {
        let message = |test: bool, executable: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/r/crates/tree/Cargo.toml","profile":{{"opt_level":"1","test":{test}}},"features":[],"executable":{executable}}}"#
            )
        };
        let binary = binary_of(&message(true, "\"/r/target/debug/deps/art-0a1b\"")).unwrap();
        assert_eq!(binary.name(), "tree/art");
        assert_eq!(binary.folder, Path::new("/r/crates/tree"));
        assert_eq!(
            binary_of(&message(false, "\"/r/target/debug/timberline\"")),
            None
        );
        assert_eq!(binary_of(&message(true, "null")), None);
        assert_eq!(binary_of(r#"{"reason":"build-finished"}"#), None);
    }

    #[test]
    fn a_binary_passes_if_it_says_so() {
        let binary = |program: &str| Binary {
            program: program.into(),
            folder: "/".into(),
        };
        assert!(binary("true").passes());
        assert!(!binary("false").passes());
        assert!(!binary("no-such-program-here").passes());
    }
}
