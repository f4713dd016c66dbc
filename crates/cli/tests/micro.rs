//! `timberline measure micro`.

mod command;
mod scratch;

use std::process::Command;

use command::{refused, stderr, stdout, timberline};
use scratch::Scratch;
use serde_json::Value;

/// A very short run.
fn micro(args: &[&str]) -> Command {
    let mut command = timberline();
    command.args(["measure", "micro", "--milliseconds", "1", "--rounds", "1"]);
    command.args(["--tasks", "8", "--megabytes", "4", "--latency-us", "0.1,2"]);
    command
        .args(["--accesses", "1,10", "--add-submit-us", "0"])
        .args(args);
    command
}

#[test]
fn measured_and_predicted_stand_side_by_side() {
    let text = |args: &[&str]| {
        let output = micro(args).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        let text = stdout(&output);
        let widest = text.lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(80), "{widest:?}\n{text}");
        text
    };
    let file = text(&["--file-megabytes", "1"]);
    assert!(file.contains("the device does"), "{file}");
    let text = text(&["--timer-us", "5"]);
    for part in [
        "memory is emulated; I/O: timer",
        "0.1 us",
        "2 us",
        "error of the model: ",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn a_file_in_a_folder_of_ones_own_is_read_and_removed() {
    let scratch = Scratch::new();
    let folder = scratch.path("io");
    std::fs::create_dir(&folder).unwrap();
    let args = [
        "--folder",
        folder.to_str().unwrap(),
        "--file-megabytes",
        "1",
        "--json",
    ];
    let output = micro(&args).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let json: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(json["emulated"], true);
    assert!(json["io"].as_str().unwrap().starts_with("file ("), "{json}");
    let points = json["points"].as_array().unwrap();
    assert_eq!(points.len(), 4);
    assert!(
        points
            .iter()
            .all(|point| point["per_s"].as_f64() > Some(0.0)),
        "{json}"
    );
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
}

#[test]
fn bad_input_is_one_line() {
    for (args, named) in [
        (&["--timer-us=-1"][..], "a number from 0 to 100000"),
        (&["--latency-us", "1,x"], "a number from 0 to 1000"),
        (
            &["--timer-us", "1", "--folder", "/tmp"],
            "cannot be used with",
        ),
        (&["--rounds", "0"], "--rounds"),
    ] {
        let line = refused(micro(args));
        assert!(line.contains(named), "{args:?}: {line}");
    }
    let output = micro(&["--folder", "/nonexistent"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("/nonexistent/timberline-micro-"),
        "{}",
        stderr(&output)
    );
}
