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
        "slow memory is emulated\n",
        "I/O: timer",
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
fn the_limits_of_memory_and_of_reads_are_told_and_used() {
    let args = ["--slow-part", "0.5", "--memory-mb-per-s", "10", "--json"];
    let output = micro(&[&args[..], &["--timer-us", "5"]].concat())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let json: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(json["slow_part"], 0.5);
    assert_eq!(json["memory_bytes_per_s"], 10e6);
    // Five of ten lines are slow, and take 6.4 us each at 10 MB/s; the model has some of that.
    let predicted = json["points"][1]["predicted_per_s"].as_f64();
    assert!(predicted.unwrap() < 1e6 / 16.0, "{json}");

    let output = micro(&[
        "--read-kib",
        "64",
        "--file-megabytes",
        "1",
        "--slow-part",
        "0",
    ]);
    let text = stdout(&{ output }.output().unwrap());
    assert!(
        text.contains("slow memory is emulated, 0 % of the accesses"),
        "{text}"
    );
}

/// A machine's own node, in place of emulated memory.
#[test]
fn a_numa_node_is_slow_memory_as_it_is() {
    let node = |args: &[&str]| {
        let mut command = timberline();
        command.args(["measure", "micro", "--milliseconds", "1", "--rounds", "1"]);
        command.args(["--tasks", "8", "--megabytes", "4", "--accesses", "3"]);
        command.args(["--timer-us", "5", "--slow-node"]).args(args);
        command
    };
    let output = node(&["0"]).output().unwrap();
    match output.status.success() {
        true => {
            let text = stdout(&output);
            assert!(
                text.contains("slow memory: NUMA node 0, as it is: 0 us"),
                "{text}"
            );
        }
        // A machine without that node, or a container that may not bind memory.
        false => assert_eq!(stderr(&output).lines().count(), 1, "{}", stderr(&output)),
    }
    let line = refused(node(&["999"]));
    assert!(line.contains("--slow-node 999"), "{line}");
    assert!(line.contains("choose from"), "{line}");
    let line = refused(node(&["0", "--latency-us", "5"]));
    assert!(line.contains("cannot be used with"), "{line}");
}

#[test]
fn bad_input_is_one_line() {
    for (args, named) in [
        (&["--timer-us=-1"][..], "a number from 0 to 100000"),
        (&["--latency-us", "1,x"], "a number from 0 to 1000"),
        (
            &["--latency-us", "-1"],
            "'--latency-us <US>': it has to be a number from 0",
        ),
        (
            &["--timer-us", "-3"],
            "'--timer-us <US>': it has to be a number from 0",
        ),
        (
            &["--accesses", "abc"],
            "'--accesses <N>': it has to be a whole number from 1 to 1000",
        ),
        (
            &["--folder", "/nonexistent"],
            "--folder /nonexistent: there is no such folder",
        ),
        (
            &["--timer-us", "1", "--folder", "/tmp"],
            "cannot be used with",
        ),
        (&["--rounds", "0"], "--rounds"),
        (&["--slow-part", "1.5"], "a number from 0 to 1"),
        (&["--memory-mb-per-s", "0"], "a number from 1 to 1000000"),
        (&["--read-kib", "6"], "a multiple of 4 from 4 to 1024"),
        (
            &["--read-kib", "8", "--timer-us", "1"],
            "cannot be used with",
        ),
    ] {
        let line = refused(micro(args));
        assert!(line.contains(named), "{args:?}: {line}");
    }
    let mut measure = timberline();
    measure.args(["measure", "nosuch"]);
    let line = refused(measure);
    assert!(line.contains("'nosuch'; possible: micro"), "{line}");
}
