//! `timberline eval` from outside: what it refuses, what it writes, and that it goes on where it was.

mod command;
mod scratch;

use std::process::Command;

use command::{refused, stderr, stdout, timberline};
use scratch::Scratch;
use serde_json::Value;

/// An evaluation of a moment.
fn eval(scratch: &Scratch, args: &[&str]) -> Command {
    let mut command = timberline();
    let out = scratch.path("out");
    command.args([
        "eval",
        "--quick",
        "--records",
        "2000",
        "--rounds",
        "1",
        "--threads",
        "1",
        "--base-ns",
        "100",
    ]);
    command.arg("--out").arg(out).args(args);
    command
}

fn refuses(args: &[&str], expected: &[&str]) {
    let line = refused(eval(&Scratch::new(), args));
    for part in expected {
        assert!(line.contains(part), "no `{part}` in: {line}");
    }
}

#[test]
fn what_is_not_possible_is_refused_in_a_line() {
    refuses(&["14a", "99"], &["`99`", "14a", "pibench"]);
    refuses(&["--index", "trie"], &["`trie`", "btree"]);
    refuses(&["--profile", "optane"], &["optane", "cxl"]);
    refuses(
        &["--trace", "/nonexistent.csv", "23"],
        &["/nonexistent.csv"],
    );
    refuses(
        &["--urls", "/nonexistent.txt", "17c"],
        &["/nonexistent.txt"],
    );
    let mut nowhere = timberline();
    nowhere.args(["eval", "stalls", "--out", "/dev/null/there"]);
    assert!(refused(nowhere).contains("/dev/null/there"));
    let mut free = timberline();
    free.args(["eval", "stalls", "--base-ns", "0"]);
    assert!(refused(free).contains("1 to 100000"));
    let mut zero = timberline();
    zero.args(["eval", "--threads", "0"]);
    assert!(refused(zero).contains("1 to 1024"));
    let mut huge = timberline();
    huge.args(["eval", "--records", "100G"]);
    assert!(refused(huge).contains("MiB are free"));
}

#[test]
fn the_figures_are_listed_with_their_effort() {
    let output = eval(&Scratch::new(), &["--list", "14", "17c"])
        .output()
        .unwrap();
    let text = stdout(&output);
    for part in ["14a ", "14b ", "17c ", "--urls FILE", "All of it: 2 runs"] {
        assert!(text.contains(part), "no `{part}` in: {text}");
    }
    assert!(!text.contains("15a"));
}

#[test]
fn a_figure_is_measured_once() {
    let scratch = Scratch::new();
    let first = eval(&scratch, &["stalls"]).output().unwrap();
    assert!(first.status.success(), "{}", stderr(&first));
    assert!(stderr(&first).contains("1 run, 0 of them kept"));
    let read = |name: &str| std::fs::read_to_string(scratch.path("out").join(name)).unwrap();
    let json: Value = serde_json::from_str(&read("eval.json")).unwrap();
    let figure = &json["figures"][0];
    assert_eq!(figure["id"], "stalls");
    let run = &figure["runs"][0];
    assert_eq!(run["setting"]["records"], 2000);
    assert_eq!(run["report"]["results"].as_array().unwrap().len(), 4);
    assert!(figure["verdicts"][0]["measured"][0].is_number());
    let page = read("eval.html");
    assert!(page.contains("timberline-paused") && page.contains("(emulated)"));
    assert!(page.contains("<svg") && !page.contains("Not measured"));

    let again = eval(&scratch, &["stalls"]).output().unwrap();
    assert!(
        stderr(&again).contains("1 run, 1 of them kept"),
        "{}",
        stderr(&again)
    );
    let after: Value = serde_json::from_str(&read("eval.json")).unwrap();
    assert_eq!(after["figures"], json["figures"]);
}
