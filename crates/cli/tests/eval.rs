//! `timberline eval`, tested from outside: refused input, output, and resuming after an interrupt.

mod command;
mod scratch;

use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use command::{refused, stderr, stdout, timberline};
use scratch::Scratch;
use serde_json::Value;

/// A very short evaluation.
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
    refuses(&["14a", "99"], &["`99`", "14a", "pibench", "--list"]);
    refuses(&["list"], &["`list`", "--list"]);
    refuses(&["--lst"], &["'--lst'", "'--list'"]);
    refuses(&["--seed", "x"], &["'x'", "--seed"]);
    refuses(&["--trace-format", "alibaba"], &["--trace <FILE>"]);
    refuses(
        &["23", "17c"],
        &["figure 23", "--trace FILE", "--urls FILE"],
    );
    refuses(
        &["dex-9-list"],
        &["figure dex-9-list is not rebuilt: simulated threads"],
    );
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
    refuses(
        &["--urls", "/nonexistent.txt", "stalls"],
        &["--urls /nonexistent.txt"],
    );
    let mut nowhere = timberline();
    nowhere.args(["eval", "stalls", "--out", "/dev/null/there"]);
    let line = refused(nowhere);
    assert!(line.contains("/dev/null/there") && line.contains("--out"));
    let mut free = timberline();
    free.args(["eval", "stalls", "--base-ns", "0"]);
    assert!(refused(free).contains("1 to 100000"));
    let mut zero = timberline();
    zero.args(["eval", "--threads", "0"]);
    assert!(refused(zero).contains("1 to 1024"));
    let mut few = timberline();
    few.args(["eval", "--records", "999"]);
    assert!(refused(few).contains("1000 or more"));
    let mut huge = timberline();
    huge.args(["eval", "--records", "100G"]);
    assert!(refused(huge).contains("MiB are free"));
}

/// Reported before the first run, not after it. Not even root can write to these paths.
#[test]
fn a_folder_that_nothing_can_be_written_in_is_refused() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("out")).unwrap();
    symlink("/proc", scratch.path("out/runs")).unwrap();
    let line = refused(eval(&scratch, &["stalls"]));
    assert!(
        line.contains("out/runs") && line.contains("--out"),
        "{line}"
    );

    let scratch = Scratch::new();
    std::fs::create_dir_all(scratch.path("out/eval.html")).unwrap();
    let line = refused(eval(&scratch, &["stalls"]));
    assert!(line.contains("out/eval.html"), "{line}");
}

#[test]
fn nobody_has_to_listen_to_the_end() {
    let mut list = eval(&Scratch::new(), &["--list"]);
    let mut list = list
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(list.stdout.take());
    let output = list.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stderr(&output), "");

    let mut refused = eval(&Scratch::new(), &["nosuch"]);
    let mut refused = refused.stderr(Stdio::piped()).spawn().unwrap();
    drop(refused.stderr.take());
    assert_eq!(refused.wait().unwrap().code(), Some(2));
}

/// The files of the runs that an evaluation finished before the interrupt.
fn interrupted(scratch: &Scratch, args: &[&str]) -> Vec<PathBuf> {
    let mut first = eval(scratch, args);
    let mut first = first
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    while kept(scratch).is_empty() && first.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(10));
    }
    let interrupt = ["-INT", &first.id().to_string()];
    assert!(
        Command::new("kill")
            .args(interrupt)
            .status()
            .unwrap()
            .success()
    );
    let output = first.wait_with_output().unwrap();
    let before = kept(scratch);
    if before.len() < 3 {
        assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
        assert!(stderr(&output).contains("Interrupted"));
    }
    assert!(stdout(&output).contains("eval.html"));
    assert!(stderr(&output).contains("figure 23 cannot be made"));
    before
}

/// The files of finished runs.
fn kept(scratch: &Scratch) -> Vec<PathBuf> {
    let Ok(files) = std::fs::read_dir(scratch.path("out/runs")) else {
        return Vec::new();
    };
    let paths = files.map(|file| file.unwrap().path());
    let is_kept = |path: &PathBuf| path.extension().is_some_and(|it| it == "json");
    paths.filter(is_kept).collect()
}

#[test]
fn an_interrupted_evaluation_goes_on_where_it_was() {
    let args = ["stalls", "16c", "23"];
    // On a busy machine all runs may end before the signal arrives; retry then.
    let (scratch, before) = std::iter::repeat_with(Scratch::new)
        .find_map(|scratch| {
            let before = interrupted(&scratch, &args);
            (before.len() < 3).then_some((scratch, before))
        })
        .unwrap();
    assert!(!before.is_empty());
    let read = |path: &PathBuf| std::fs::read(path).unwrap();
    let texts: Vec<_> = before.iter().map(read).collect();

    let again = eval(&scratch, &args).output().unwrap();
    let line = format!("3 runs, {} of them cached", before.len());
    assert!(stderr(&again).contains(&line), "{}", stderr(&again));
    assert_eq!(kept(&scratch).len(), 3);
    let after: Vec<_> = before.iter().map(read).collect();
    assert_eq!(after, texts, "nothing is measured twice");
    let json = std::fs::read(scratch.path("out/eval.json")).unwrap();
    let json: Value = serde_json::from_slice(&json).unwrap();
    let figures = json["figures"].as_array().unwrap().iter();
    let mut runs = figures.flat_map(|figure| figure["runs"].as_array().unwrap());
    assert!(runs.all(|run| run["report"]["results"].is_array()));
}

#[test]
fn the_figures_are_listed_with_their_effort() {
    let output = eval(&Scratch::new(), &["--list", "14", "17c"])
        .output()
        .unwrap();
    let text = stdout(&output);
    for part in ["14a ", "14b ", "17c ", "--urls FILE", "Total: 2 runs"] {
        assert!(text.contains(part), "no `{part}` in: {text}");
    }
    assert!(!text.contains("15a"));
}

#[test]
fn figures_of_a_paper_are_listed_with_those_that_are_not_rebuilt() {
    let output = eval(&Scratch::new(), &["--list", "dex", "bando"])
        .output()
        .unwrap();
    let text = stdout(&output);
    let reasons = text.matches("(not rebuilt: ").count();
    assert_eq!(reasons, 2, "{text}");
    for part in ["dex-8 ", "dex-10 ", "bando-11a ", "bando-14 ", "Total: "] {
        assert!(text.contains(part), "no `{part}` in: {text}");
    }
    assert!(
        text.lines().all(|line| line.chars().count() <= 80),
        "{text}"
    );
}

#[test]
fn a_figure_of_a_simulated_cluster_says_so() {
    let scratch = Scratch::new();
    let output = eval(&scratch, &["dex-9"]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let read = |name: &str| std::fs::read_to_string(scratch.path("out").join(name)).unwrap();
    let json: Value = serde_json::from_str(&read("eval.json")).unwrap();
    let figure = &json["figures"][0];
    assert_eq!(figure["id"], "dex-9");
    let table = &figure["runs"][0]["table"];
    assert_eq!(table["substitute"], "simulated");
    assert!(table["rows"][0]["values"]["reads"].is_number());
    assert_eq!(figure["verdicts"][0]["order"], "as_published");
    let missing = &json["figures"][1];
    assert_eq!(missing["id"], "dex-9-list");
    assert!(
        missing["missing"]
            .as_str()
            .unwrap()
            .starts_with("not rebuilt")
    );
    let page = read("eval.html");
    assert!(page.contains("\"substitute\":\"simulated\"") && !page.contains("(emulated)</title>"));
}

#[test]
fn a_figure_is_measured_once() {
    let scratch = Scratch::new();
    let first = eval(&scratch, &["stalls"]).output().unwrap();
    assert!(first.status.success(), "{}", stderr(&first));
    assert!(stderr(&first).contains("1 run, 0 of them cached"));
    let read = |name: &str| std::fs::read_to_string(scratch.path("out").join(name)).unwrap();
    let json: Value = serde_json::from_str(&read("eval.json")).unwrap();
    let (meta, figure) = (&json["meta"], &json["figures"][0]);
    assert_eq!(
        (&meta["emulated"], &meta["seed"]),
        (&true.into(), &42.into())
    );
    assert_eq!(
        (&meta["profile"], &meta["base_latency_ns"]),
        (&"cxl".into(), &100.0.into())
    );
    assert_eq!(figure["id"], "stalls");
    let run = &figure["runs"][0];
    assert_eq!(run["setting"]["records"], 2000);
    assert_eq!(run["report"]["results"].as_array().unwrap().len(), 4);
    assert!(figure["verdicts"][0]["measured"][0].is_number());
    let page = read("eval.html");
    assert!(page.contains("timberline-paused") && page.contains("(emulated)"));
    let result = "\"placement\":\"timberline\"";
    assert!(page.contains("<noscript>") && page.contains(result));

    let again = eval(&scratch, &["stalls"]).output().unwrap();
    assert!(
        stderr(&again).contains("1 run, 1 of them cached"),
        "{}",
        stderr(&again)
    );
    let after: Value = serde_json::from_str(&read("eval.json")).unwrap();
    assert_eq!(after["figures"], json["figures"]);
}
