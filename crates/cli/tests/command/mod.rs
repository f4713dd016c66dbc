//! Runs the built binary and reads its output.

#![allow(dead_code, reason = "each test file uses some of it")]

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::scratch::Scratch;

/// The binary, with nothing on its stdin.
pub fn timberline() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_timberline"));
    command.stdin(Stdio::null());
    command
}

/// A very short run: `bench` with these arguments and minimal values for all others.
pub fn bench(scratch: &Scratch, args: &[&str]) -> Command {
    let mut command = timberline();
    command.arg("bench").args(args);
    let html = scratch.path("page.html");
    let least = [
        ("--records", "2000"),
        ("--slice", "0.05"),
        ("--rounds", "1"),
        ("--warmup", "0"),
        ("--threads", "2"),
        ("--base-ns", "100"),
        ("--html", html.to_str().unwrap()),
    ];
    for (flag, value) in least {
        let is_given = |arg: &&str| arg.split('=').next() == Some(flag);
        if !args.iter().any(is_given) {
            command.args([flag, value]);
        }
    }
    command
}

/// Its stderr.
pub fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Its stdout.
pub fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// The one line on stderr that refuses a bad request.
pub fn refused(mut command: Command) -> String {
    let output = command.output().unwrap();
    let line = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{command:?}: {line}");
    assert_eq!(stdout(&output), "", "{command:?}");
    assert_eq!(line.matches('\n').count(), 1, "{command:?}: {line}");
    assert!(line.starts_with("error: ") && !line.contains("panicked"));
    line
}

/// Asserts that `bench` refuses these arguments in a line with all of `expected`.
#[track_caller]
pub fn refuses(args: &[&str], expected: &[&str]) {
    let line = refused(bench(&Scratch::new(), args));
    for part in expected {
        assert!(line.contains(part), "no `{part}` in: {line}");
    }
}

/// A report that was written as JSON.
fn written(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// The report's metadata.
pub fn meta(path: &Path) -> Value {
    let report = written(path);
    assert!(report["meta"].is_object());
    report["meta"].clone()
}

/// The result of each placement on each workload.
pub fn results(path: &Path) -> Vec<Value> {
    meta(path);
    written(path)["results"].as_array().unwrap().clone()
}
