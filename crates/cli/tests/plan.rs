//! `timberline plan`.

mod command;
mod scratch;

use std::process::Command;

use command::{refused, stderr, stdout, timberline};
use scratch::Scratch;
use serde_json::Value;

fn plan(args: &[&str]) -> Command {
    let mut command = timberline();
    command.arg("plan").args(args);
    command
}

fn printed(args: &[&str]) -> String {
    let output = plan(args).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", stderr(&output));
    stdout(&output)
}

fn json(args: &[&str]) -> Value {
    serde_json::from_str(&printed(args)).unwrap()
}

#[test]
fn the_plan_fits_eighty_columns_and_names_its_choices() {
    for args in [&[][..], &["--capacity"], &["--records", "5", "--skew", "3"]] {
        let text = printed(args);
        let widest = text.lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(80), "{args:?}: {widest:?}\n{text}");
    }
    let text = printed(&["--slow", "compressed"]);
    for part in ["Best: ", "Next: ", "With compressed, and ", "modelled"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn the_best_choice_is_first_and_more_dram_is_not_slower() {
    let plan = json(&["--json", "--skew", "0.7"]);
    let figures = |list: &str, figure: &str| -> Vec<f64> {
        let rows = plan[list].as_array().unwrap().iter();
        rows.map(|row| row[figure].as_f64().unwrap()).collect()
    };
    assert!(figures("best", "for_price").is_sorted_by(|a, b| a >= b));
    assert!(figures("by_fast_memory", "gets_per_s").is_sorted_by(|a, b| *a <= b * (1.0 + 1e-9)));
    assert!(figures("by_fast_memory", "price").is_sorted());
}

#[test]
fn the_printed_machine_can_be_edited_and_passed() {
    let scratch = Scratch::new();
    let file = scratch.path("machine.toml");
    let text = printed(&["--print-machine"]);
    std::fs::write(&file, &text).unwrap();
    let path = file.to_str().unwrap();
    assert_eq!(json(&["--json"]), json(&["--json", "--machine", path]));

    // Where slow memory costs as much as DRAM, there is no reason to have it.
    std::fs::write(
        &file,
        text.replace("price_per_gib = 0.", "price_per_gib = 9."),
    )
    .unwrap();
    let dear = json(&["--json", "--machine", path]);
    assert_eq!(dear["best"][0]["slow_memory"], "none");

    std::fs::write(&file, text.replace("cores = 16", "cores = 0")).unwrap();
    let line = refused(plan(&["--machine", path]));
    assert!(
        line.contains("server.cores is 0; it has to be 1 or more"),
        "{line}"
    );
}

#[test]
fn bad_input_is_one_line() {
    for (args, named) in [
        (&["--records", "0"][..], "a number from 1 to 1e15"),
        (&["--skew", "nan"], "a number from 0 to 3"),
        (
            &["--slow", "tape"],
            "possible: cxl-ddr4, compressed, cxl-flash",
        ),
        (
            &["--capacity", "2", "--slow", "foo"],
            "no slow memory is named \"foo\"; possible: ",
        ),
        (
            &["--capacity", "2", "--index-map", "foo"],
            "no index is named \"foo\"; possible: ",
        ),
        (
            &["--skew", "-1"],
            "'--skew <EXPONENT>': it has to be a number from 0 to 3",
        ),
        (
            &["--machine", "/nonexistent/file"],
            "can't read /nonexistent/file",
        ),
        (
            &["--index-map", "hash"],
            "no index is named \"hash\"; possible: btree, art",
        ),
        (&["--capacity", "0"], "a number from 0.001"),
    ] {
        let line = refused(plan(args));
        assert!(line.contains(named), "{args:?}: {line}");
    }
}

#[test]
fn another_index_takes_other_memory() {
    let bytes = |args: &[&str]| json(args)["index_bytes"].as_f64().unwrap();
    assert_eq!(bytes(&["--json"]), 35.7e9);
    assert_eq!(bytes(&["--json", "--index-map", "art"]), 58.7e9);
    assert!(printed(&["--index-map", "art"]).contains("index (art) 54.7 GiB"));
}

/// Weisgut et al., section 7: what devices save, to a percent.
#[test]
fn the_published_savings_are_shown() {
    let servers = json(&["--json", "--capacity", "4,5,6,8"]);
    let saved = |of: usize, what: &str| servers["servers"][of][what].as_f64().unwrap();
    for (of, what, published) in [
        (0, "saved_by_one", 0.0),
        (1, "saved_by_one", 0.61),
        (2, "saved_by_one", 0.0),
        (2, "saved", 0.64),
        (3, "saved", 0.46),
    ] {
        let computed = saved(of, what);
        assert!(
            (computed - published).abs() < 0.01,
            "{of} {what}: {computed}"
        );
    }
    let text = printed(&["--capacity", "5"]);
    assert!(text.contains("32×128 + 1"), "{text}");
}

#[test]
fn capacities_that_no_server_has_are_shown_as_such() {
    let text = printed(&["--capacity", "8,12,100"]);
    assert!(text.contains("– where no server has as much"), "{text}");
    let servers = json(&["--json", "--capacity", "5"]);
    assert!(
        servers["servers"][0]["saved"].as_f64() > Some(0.5),
        "{servers}"
    );
}
