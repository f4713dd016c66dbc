//! Help, completions, manual pages, and suggestions for unknown names.

mod command;
mod scratch;

use std::process::Command;

use command::{refused, refuses, stderr, stdout, timberline};

/// What a command prints on success.
fn printed(args: &[&str]) -> String {
    let output = timberline().args(args).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", stderr(&output));
    stdout(&output)
}

fn refused_eval(args: &[&str]) -> String {
    let mut command = timberline();
    command.arg("eval").args(args);
    refused(command)
}

#[test]
fn help_is_grouped_and_fits_eighty_columns() {
    for command in [
        "tiers",
        "measure",
        "bench",
        "plan",
        "eval",
        "check",
        "backup",
        "restore",
        "completions",
        "man",
    ] {
        let help = printed(&[command, "--help"]);
        let widest = help.lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(80), "{command}: {widest:?}");
    }
    let help = printed(&["measure", "micro", "--help"]);
    let widest = help.lines().map(|line| line.chars().count()).max();
    assert!(widest <= Some(80), "{widest:?}");
    let help = printed(&["bench", "--help"]);
    let headings = help
        .lines()
        .filter(|line| line.ends_with(':') && !line.starts_with(' '));
    let expected = [
        "Options:",
        "Load:",
        "Comparison:",
        "Memory:",
        "SIDLE:",
        "Store:",
        "Memory servers:",
        "Output:",
    ];
    assert_eq!(headings.collect::<Vec<_>>(), expected);
}

#[test]
fn check_says_what_it_writes_and_which_keys_it_names() {
    let help = printed(&["check", "--help"]);
    for part in [
        "never complete",
        "is written to",
        "read-only",
        "`skey77`",
        "DBSIZE",
    ] {
        assert!(help.contains(part), "no {part} in: {help}");
    }
}

#[test]
fn figures_are_listed_within_eighty_columns() {
    let list = printed(&["eval", "--list"]);
    let widest = list.lines().map(|line| line.chars().count()).max();
    assert!(widest <= Some(80), "{widest:?}");
}

#[test]
fn every_shell_gets_completions() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = printed(&["completions", shell]);
        assert!(script.contains("kernel-tiering"), "{shell}");
    }
    let script = printed(&["completions", "bash"]);
    let parsed = Command::new("bash").args(["-n", "-c", &script]).output();
    assert_eq!(stderr(&parsed.unwrap()), "");
    for names in ["btree art masstree", "none autonuma damon", "ycsb-a ycsb-b"] {
        assert!(script.contains(names), "{names}");
    }
    let help = printed(&["bench", "--help"]);
    assert!(!help.contains("possible values"), "{help}");
    let mut unknown = timberline();
    unknown.args(["completions", "bsh"]);
    assert!(refused(unknown).contains("'bash'"));
}

#[test]
fn every_command_has_a_manual_page() {
    let page = printed(&["man"]);
    assert!(page.contains(".TH timberline 1") && page.contains("bench"));
    let page = printed(&["man", "bench"]);
    assert!(
        page.contains(".SH LOAD") && page.contains("watermarks"),
        "{page}"
    );
    for words in [&["measure", "micro"][..], &["measure micro"]] {
        let page = printed(&[&["man"], words].concat());
        assert!(page.contains(".TH timberline-measure-micro 1"), "{page}");
    }
    let mut unknown = timberline();
    unknown.args(["man", "bench", "micro"]);
    assert!(refused(unknown).contains("`bench` has no command `micro`"));
    let mut unknown = timberline();
    unknown.args(["man", "bnech"]);
    assert!(refused(unknown).contains("possible: tiers, measure, bench, plan, eval, check"));
}

#[test]
fn the_name_that_was_meant_is_suggested() {
    refuses(
        &["--placements", "timberlin"],
        &["did you mean `timberline`?"],
    );
    refuses(&["--workloads", "ycbs-e"], &["did you mean `ycsb-e`?"]);
    refuses(&["--index", "b-tree"], &["did you mean `btree`?"]);
    refuses(&["--distribution", "zipf"], &["did you mean `zipfian`?"]);
    refuses(&["--profile", "clx"], &["did you mean `cxl`?"]);
    assert!(refused_eval(&["pibnech"]).contains("did you mean `pibench`?"));
    let mut command = timberline();
    command.arg("bnech");
    assert!(refused(command).contains("'bench'"));
}
