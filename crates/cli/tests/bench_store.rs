//! `timberline bench --store`.

mod command;
mod scratch;

use std::path::Path;
use std::process::Command;

use command::{refused, stderr, stdout, timberline};
use scratch::Scratch;
use serde_json::Value;

fn store(folder: &Path, args: &[&str]) -> Command {
    let mut command = timberline();
    command.args(["bench", "--value-bytes", "100"]);
    command.arg("--store").arg(folder).args(args);
    for (option, least) in [
        ("--records", "2000"),
        ("--slice", "0.02"),
        ("--rounds", "1"),
    ] {
        if !args.iter().any(|arg| arg.starts_with(option)) {
            command.args([option, least]);
        }
    }
    command
}

/// Runs it, and returns its JSON.
fn measured(folder: &Path, args: &[&str]) -> Value {
    let output = store(folder, &[args, &["--json", "-"]].concat()).output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    serde_json::from_str(&stdout(&output)).unwrap()
}

/// The median of a figure, which has to be there.
fn figure(json: &Value, name: &str) -> Option<f64> {
    let figures = json["outcome"]["figures"].as_array().unwrap();
    let found = figures.iter().find(|it| it["name"] == name);
    found.unwrap_or_else(|| panic!("no {name:?} in {figures:?}"))["values"]["median"].as_f64()
}

#[test]
fn a_store_is_measured_and_removed() {
    let scratch = Scratch::new();
    let folder = scratch.path("store");
    let json = measured(&folder, &[]);
    let rows = json["outcome"]["rows"].as_array().unwrap();
    let names: Vec<_> = rows.iter().filter_map(|row| row["name"].as_str()).collect();
    let expected = [
        "puts of new keys",
        "the disk's own reads",
        "gets, uniform",
        "gets, Zipf 0.99",
        "overwrites",
        "half gets, half overwrites",
    ];
    assert_eq!(names, expected);
    for row in rows {
        assert!(row["per_s"]["median"].as_f64() > Some(0.0), "{row}");
        assert!(row["core_us"]["median"].as_f64() > Some(0.0), "{row}");
    }
    let figures = json["outcome"]["figures"].as_array().unwrap();
    let figure = |name: &str| figures.iter().any(|it| it["name"] == name);
    for end in ["stop", "kill"] {
        assert!(
            figure(&format!("seconds to open it after a {end}")),
            "{json}"
        );
    }
    assert_eq!(json["setting"]["in_flight"], 16);
    assert!(!folder.exists());

    let table = store(&folder, &["--in-flight", "3"]).output().unwrap();
    let text = stdout(&table);
    assert!(text.contains("3 in flight") && text.contains("space at its peak"));
    assert!(
        text.lines().all(|line| line.chars().count() <= 80),
        "{text}"
    );
}

#[test]
fn an_index_in_slow_memory_is_measured_beside_one_in_dram() {
    let scratch = Scratch::new();
    let folder = scratch.path("store");
    // More than fit into the modelled CPU cache.
    let args = ["--records=100000", "--index-memory", "us1,us2:20%"];
    let json = measured(&folder, &args);
    let rows = json["outcome"]["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 6);
    for row in rows {
        assert!(row["per_s"]["median"].as_f64() > Some(0.0), "{row}");
        assert!(row["read_bytes"]["median"].as_f64() > Some(0.0), "{row}");
    }
    let figure = |name: &str| figure(&json, name);
    assert!(figure("uniform: us1 ÷ DRAM") > Some(0.0));
    assert!(figure("uniform: us1: slow lines a get") > Some(0.5));
    let all_slow = figure("part of the index in fast memory: us1");
    assert_eq!(all_slow, Some(0.0));
    assert!(!folder.exists());

    let threads = [&args[..], &["--get-threads=2"]].concat();
    let table = store(&folder, &threads).output().unwrap();
    let text = stdout(&table);
    assert!(text.contains("gets on 2"), "{text}");
    assert!(text.starts_with("EMULATED"), "{text}");
    let widest = text.lines().map(|line| line.chars().count()).max();
    assert!(widest <= Some(80), "{text}");
}

#[test]
fn a_cache_of_blocks_that_evicts_is_measured() {
    let scratch = Scratch::new();
    let folder = scratch.path("store");
    // 30 MB of records.
    let args = [
        "--records=200000",
        "--key-bytes=24",
        "--cached=blocks",
        "--cache-bytes=2MB",
        "--capacity=22MB",
        "--evict",
    ];
    let json = measured(&folder, &args);
    assert_eq!(json["setting"]["cached"], "blocks");
    let figure = |name: &str| figure(&json, name);
    let [uniform, skewed] = ["uniform", "Zipf 0.99"]
        .map(|it| figure(&format!("part of the gets that found a record, {it}")).unwrap());
    assert!(uniform > 0.2 && uniform < skewed && skewed < 1.0, "{json}");
    assert!(figure("space at its peak ÷ the capacity") <= Some(1.0));
    assert!(!folder.exists());
}

#[test]
fn a_cache_in_slow_memory_is_measured_beside_one_in_dram() {
    let scratch = Scratch::new();
    let folder = scratch.path("store");
    let args = ["--records=50000", "--cache-memory=us1", "--cached=blocks"];
    let output = store(&folder, &args).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = stdout(&output);
    assert!(
        text.starts_with("EMULATED: slow memory of the cache"),
        "{text}"
    );
    for row in [
        "uniform, cache in DRAM",
        "Zipf 0.99, cache in us1",
        "us1 ÷ DRAM",
    ] {
        assert!(text.contains(row), "{row}: {text}");
    }
    assert!(!folder.exists());
}

#[test]
fn bad_input_is_one_line_and_nothing_is_lost() {
    let scratch = Scratch::new();
    let file = scratch.write("mine", b"mine");
    let line = refused(store(file.parent().unwrap(), &[]));
    assert!(line.contains("something is there"), "{line}");
    assert_eq!(std::fs::read(&file).unwrap(), b"mine");
    let folder = scratch.path("store");
    for (args, named) in [
        (&["--memory-limit", "1MB"][..], "bytes of memory"),
        (&["--memory-limit", "much"], "a number with a unit"),
        (&["--in-flight", "0"], "a whole number from 1 to 4096"),
        (&["--rounds=0"], "--rounds 0: give at least 1"),
        (&["--index-map", "hash"], "give art or btree"),
        (&["--index-memory", "us11"], "us1 to us10"),
        (&["--index-memory", "us5:120%"], "0% up to 99%"),
        (&["--slice", "-1"], "--slice -1: give more than 0 seconds"),
        (&["--warm=1K", "--index-memory=us1"], "cannot be used with"),
        (&["--get-threads=2", "--in-flight=1"], "give from 1 to 1"),
        (&["--key-bytes=7"], "keys of 7 bytes: give from 8 to 128"),
        (&["--cached=pages"], "values, blocks"),
        (&["--evict"], "--capacity"),
        (&["--capacity=1MB"], "at least 20971520"),
        (
            &["--records=200K", "--capacity=25MB"],
            "or have the oldest go (--evict)",
        ),
        (
            &["--index-memory=us1", "--cache-memory=us1"],
            "cannot be used with",
        ),
    ] {
        let line = refused(store(&folder, args));
        assert!(line.contains(named), "{args:?}: {line}");
        assert!(!folder.exists());
    }
    let line = refused(store(&file, &[]));
    assert!(
        line.contains("mine: this is no folder; --store takes"),
        "{line}"
    );
    let nowhere = ["--json", "/nonexistent/x.json"];
    let line = refused(store(&folder, &nowhere));
    assert_eq!(line.matches("/nonexistent/x.json").count(), 1, "{line}");
    assert!(!folder.exists());
    let much = ["--records=2M", "--memory-limit=88MB"];
    let line = refused(store(&folder, &much));
    assert!(
        line.contains("2000000 records do not fit into 88 MB"),
        "{line}"
    );
    assert!(
        line.contains("--records") && line.contains("--memory-limit"),
        "{line}"
    );
    let mut alone = timberline();
    alone.args(["bench", "--in-flight", "4"]);
    assert!(refused(alone).contains("--store"));
}

#[test]
fn options_that_mean_nothing_to_a_store_are_refused() {
    let scratch = Scratch::new();
    let folder = scratch.path("store");
    for [option, value] in [
        ["--csv", "out.csv"],
        ["--markdown", "out.md"],
        ["--html", "out.html"],
        ["--profile", "nosuch"],
        ["--fast-nodes", "77"],
        ["--keys", "zipf"],
        ["--index", "btree"],
        ["--workloads", "hs-c"],
        ["--distribution", "uniform"],
        ["--trace", "t"],
        ["--threads", "2"],
        ["--worker-cores", "1"],
        ["--placements", "sidle"],
        ["--processes", "2"],
        ["--warmup", "1"],
        ["--shift-every", "1"],
        ["--budget", "20%"],
        ["--page-costs", "fault=1"],
        ["--base-ns", "100"],
        ["--interval", "1"],
        ["--live", "0"],
    ] {
        let line = refused(store(&folder, &[option, value]));
        let possible = line.split_once("; with --store there may be --records, ");
        let (refusal, _) = possible.unwrap_or_else(|| panic!("{line}"));
        assert!(refusal.contains(option), "{line}");
    }
    let line = refused(store(&folder, &["--quick"]));
    assert!(
        line.contains("--quick") && line.contains("; with --store"),
        "{line}"
    );
    assert!(!folder.exists());
}
