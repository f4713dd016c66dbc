//! Where output goes, and what happens if it can't go there; and threads that the system refuses.

mod command;
mod scratch;

use std::fs::{self, OpenOptions};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};

use command::{bench, refused, refuses, results, stderr, stdout, timberline};
use scratch::Scratch;
use serde_json::Value;

/// The same command by way of a shell that first sets limits.
fn under(limits: &str, command: &Command) -> Output {
    let mut shell = Command::new("bash");
    shell.args(["-c", &format!("{limits}; exec \"$0\" \"$@\"")]);
    shell.arg(command.get_program()).args(command.get_args());
    shell.output().unwrap()
}

/// Asserts that a command failed, and said why in one line.
fn failed(output: &Output, part: &str) {
    let line = stderr(output);
    assert_eq!(output.status.code(), Some(1), "{line}");
    assert_eq!(line.lines().count(), 1, "{line}");
    assert!(line.starts_with("error: ") && line.contains(part), "{line}");
}

#[test]
fn output_that_cannot_be_written_is_an_error() {
    let commands: &[&[&str]] = &[
        &["tiers"],
        &["tiers", "--json"],
        &["measure", "--megabytes", "1"],
        &["eval", "--list"],
        &["eval", "--help"],
    ];
    for args in commands {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = timberline().args(*args).stdout(full).output().unwrap();
        failed(&output, "can't write to stdout: No space left");
    }
    let scratch = Scratch::new();
    let full = || OpenOptions::new().write(true).open("/dev/full").unwrap();
    let json = scratch.path("figures.json");
    let mut command = bench(&scratch, &["--quiet", "--placements", "interleave"]);
    let output = command.arg("--json").arg(&json).stdout(full()).output();
    failed(&output.unwrap(), "can't write to stdout: No space left");
    assert_eq!(results(&json).len(), 2, "the files are written");
    let mut command = bench(&scratch, &["--quiet", "--json", "/dev/full"]);
    let output = command.output().unwrap();
    failed(&output, "can't write /dev/full: No space left");
    assert!(stdout(&output).contains("interleave"), "the table is shown");
}

/// A limit on the size of files stands in for a full disk.
#[test]
fn a_full_disk_leaves_no_part_of_a_file() {
    let scratch = Scratch::new();
    let old = scratch.write("page.html", b"old");
    let json = scratch.path("figures.json");
    let mut command = bench(&scratch, &["--quiet", "--placements", "interleave"]);
    command.arg("--json").arg(&json);
    let output = under("trap '' XFSZ; ulimit -f 1", &command);
    failed(&output, "figures.json: File too large");
    assert_eq!(fs::read(old).unwrap(), b"old");
    let names = fs::read_dir(scratch.path("")).unwrap();
    let names: Vec<_> = names.map(|it| it.unwrap().file_name()).collect();
    assert_eq!(names, ["page.html"]);

    let mut eval = timberline();
    eval.args(["eval", "stalls", "--quiet", "--base-ns", "100", "--out"]);
    eval.arg(scratch.path("out"));
    let output = under("trap '' XFSZ; ulimit -f 1", &eval);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("eval.json: File too large"));
    assert!(!scratch.path("out/eval.json").exists());
}

#[test]
fn a_link_is_followed_and_the_mode_of_a_file_is_kept() {
    let scratch = Scratch::new();
    let real = scratch.write("real.json", b"old");
    fs::set_permissions(&real, fs::metadata("/dev/null").unwrap().permissions()).unwrap();
    let mode = fs::metadata(&real).unwrap().permissions();
    let link = scratch.path("link.json");
    symlink(&real, &link).unwrap();
    let mut command = bench(&scratch, &["--placements", "interleave"]);
    assert!(
        command
            .arg("--json")
            .arg(&link)
            .output()
            .unwrap()
            .status
            .success()
    );
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(results(&real).len(), 2);
    assert_eq!(fs::metadata(&real).unwrap().permissions(), mode);
}

#[test]
fn one_file_takes_one_report() {
    let scratch = Scratch::new();
    let path = scratch.path("both");
    symlink(&path, scratch.path("link")).unwrap();
    let path = path.to_str().unwrap();
    let both = ["--json and --html both name", "a file of its own"];
    refuses(&["--json", path, "--html", path], &both);
    let link = scratch.path("link");
    refuses(
        &[
            "--json",
            link.to_str().unwrap(),
            "--html",
            link.to_str().unwrap(),
        ],
        &both,
    );
    refuses(&["--json", "-", "--html", "-"], &both);
    let null = [
        "--json",
        "/dev/null",
        "--html",
        "/dev/null",
        "--placements",
        "interleave",
    ];
    assert!(bench(&scratch, &null).output().unwrap().status.success());
}

#[test]
fn a_dash_is_stdout() {
    let scratch = Scratch::new();
    let args = ["--json", "-", "--placements", "interleave"];
    let output = bench(&scratch, &args).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let json: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(json["results"][0]["placement"], "interleave");
    assert!(stderr(&output).contains("regained"), "the table");
    assert!(scratch.path("page.html").exists());

    let output = bench(&scratch, &[&args[..], &["--quiet"]].concat()).output();
    let output = output.unwrap();
    assert_eq!(stderr(&output), "");
    assert!(serde_json::from_str::<Value>(&stdout(&output)).is_ok());
}

#[test]
fn tables_are_exported() {
    let scratch = Scratch::new();
    let [csv, markdown] = ["a.csv", "a.md"].map(|name| scratch.path(name));
    let mut command = bench(
        &scratch,
        &["--placements", "interleave", "--workloads", "hs-c"],
    );
    command
        .arg("--csv")
        .arg(&csv)
        .arg("--markdown")
        .arg(&markdown);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let widest = stdout(&output)
        .lines()
        .map(|line| line.chars().count())
        .max();
    let path = scratch.path("page.html").to_str().unwrap().len();
    assert!(widest.unwrap() <= 80.max(path + 12), "{}", stdout(&output));
    let csv = fs::read_to_string(csv).unwrap();
    let rows: Vec<&str> = csv.lines().collect();
    assert!(rows[0].starts_with("index,placement,workload,records") && rows.len() == 2);
    assert!(
        rows[1].starts_with("btree,interleave,hs-c,2000,2,"),
        "{csv}"
    );
    let markdown = fs::read_to_string(markdown).unwrap();
    assert!(markdown.contains("| interleave |"), "{markdown}");
}

#[test]
fn two_reports_are_shown_side_by_side() {
    let scratch = Scratch::new();
    let [a, b] = [("a.json", "1"), ("b.json", "2")].map(|(name, seed)| {
        let path = scratch.path(name);
        let args = [
            "--placements",
            "interleave",
            "--workloads",
            "hs-c",
            "--seed",
            seed,
        ];
        let mut command = bench(&scratch, &args);
        assert!(
            command
                .arg("--json")
                .arg(&path)
                .output()
                .unwrap()
                .status
                .success()
        );
        path
    });
    let compare = |a: &Path, b: &Path| {
        let mut command = timberline();
        command.args(["bench", "--compare"]).args([a, b]);
        command
    };
    let output = compare(&a, &b).output().unwrap();
    let text = stdout(&output);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(
        text.contains("NOT ALIKE: seed: A 1, B 2") && text.contains("interleave"),
        "{text}"
    );
    let mut pool = timberline();
    pool.args(["bench", "--pool"]).args([&a, &b]);
    let text = stdout(&pool.output().unwrap());
    let together = "note: Rounds of 2 processes.";
    assert!(
        text.contains(together) && text.contains("NOT ALIKE"),
        "{text}"
    );
    let mut pool = timberline();
    pool.args(["bench", "--pool"]).args([&a, &b]).arg("--csv=-");
    let markdown = scratch.path("pool.md");
    let output = pool.arg("--markdown").arg(&markdown).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let rows: Vec<String> = stdout(&output).lines().map(String::from).collect();
    assert!(rows[0].starts_with("index,placement,") && rows[1].starts_with("btree,interleave,"));
    assert!(
        std::fs::read_to_string(markdown)
            .unwrap()
            .contains("| interleave |")
    );
    let page = scratch.path("page.html");
    assert!(refused(compare(&a, &page)).contains("page.html is not a report"));
    assert!(refused(compare(&a, &scratch.path("c.json"))).contains("can't read"));
    let mut more = compare(&a, &b);
    more.args(["--rounds", "1"]);
    let line = refused(more);
    assert!(line.contains("'--compare <A> <B>'") && line.contains("--rounds <N>"));
    let mut budget = compare(&a, &b);
    budget.args(["--budget", "30%"]);
    assert!(refused(budget).contains("--budget <BUDGET>"));
    let mut page = compare(&a, &b);
    page.args(["--html", "-"]);
    assert!(refused(page).contains("--html <FILE>"));
    let mut written = compare(&a, &b);
    let markdown = scratch.path("compared.md");
    let output = written.arg("--csv=-").arg("--markdown").arg(&markdown);
    let output = output.output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let rows: Vec<String> = stdout(&output).lines().map(String::from).collect();
    assert!(rows[0].starts_with("index,placement,") && rows[1].starts_with("btree,interleave,"));
    assert!(
        rows.len() == 2 && rows[1].contains("\"seed: A 1, B 2\""),
        "{rows:?}"
    );
    assert!(stderr(&output).contains("NOT ALIKE: seed: A 1, B 2"));
    let markdown = fs::read_to_string(markdown).unwrap();
    assert!(markdown.contains("| interleave |") && markdown.contains("- NOT ALIKE: seed"));
}

#[test]
fn several_processes_make_one_report() {
    let scratch = Scratch::new();
    let json = scratch.path("joint.json");
    let placements = ["--placements", "interleave,inner-fast"];
    let mut command = bench(&scratch, &[&placements[..], &["--rounds", "3"]].concat());
    command.args(["--workloads", "hs-c", "--processes", "2"]);
    let output = command.arg("--json").arg(&json).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let text = stdout(&output);
    assert!(text.contains("note: Rounds of 2 processes."), "{text}");
    let results = results(&json);
    let mut placements = results.iter();
    let inner = placements
        .find(|it| it["placement"] == "inner-fast")
        .unwrap();
    assert_eq!(inner["process_rounds"], serde_json::json!([3, 3]));
    assert_eq!(inner["rounds"].as_array().unwrap().len(), 6);
    assert!(inner["ratio_to_interleave_low"].is_f64(), "{inner}");
    let report: Value = serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
    let typed = report["meta"]["command"].as_str().unwrap();
    assert!(typed.contains("--processes 2") && !typed.contains("--process-report"));
    refuses(&["--processes", "0"], &["--processes"]);
    refuses(&["--processes", "2", "--live"], &["--processes", "--live"]);
}

/// Each thread needs addresses for its stack.
#[test]
fn threads_that_the_system_refuses_are_an_error() {
    let scratch = Scratch::new();
    let args = ["--threads", "1024", "--records", "20000", "--quiet"];
    let command = bench(
        &scratch,
        &[&args[..], &["--placements", "interleave"]].concat(),
    );
    let output = under("ulimit -v 1200000", &command);
    failed(&output, "--threads");
    assert_eq!(stdout(&output), "");
}
