//! The loads of `bench`: records of any form, traces on schedule, and refused input.

mod command;
mod scratch;

use std::path::Path;

use command::{bench, meta, refuses, results, stderr, stdout};
use scratch::Scratch;

#[test]
fn records_of_no_possible_form_are_refused() {
    for bytes in ["0", "7", "129"] {
        refuses(&["--key-bytes", bytes], &["--key-bytes", bytes, "8 to 128"]);
    }
    for bytes in ["0", "7", "2049"] {
        let args = ["--value-bytes", bytes];
        refuses(&args, &["--value-bytes", bytes, "8 to 2048"]);
    }
    let wide = ["--index", "btree,art", "--key-bytes", "16"];
    refuses(
        &wide,
        &["btree takes keys of eight bytes", "16", "masstree"],
    );
    let large = ["--records", "500M", "--value-bytes", "2048"];
    refuses(&large, &["MiB are free", "--records"]);
}

#[test]
fn tpcc_takes_whole_warehouses_and_no_other_keys() {
    let tpcc = |args: &[&'static str]| [&["--workloads", "tpcc"][..], args].concat();
    refuses(
        &tpcc(&["--records", "500"]),
        &["tpcc of 500 records", "possible are"],
    );
    let uniform = tpcc(&["--distribution", "uniform", "--records", "20k"]);
    refuses(&uniform, &["tpcc", "leave out --distribution"]);
    refuses(&["--workloads", "tpcc:0"], &["tpcc:0", "1 to 65535"]);
    refuses(&["--workloads", "tpcd"], &["`tpcd`", "tpcc:W"]);
}

/// Also with more threads than warehouses. A request that misses its record would fail the run.
#[test]
fn tpcc_runs_on_every_map_and_has_no_bounds() {
    let scratch = Scratch::new();
    let json = scratch.path("figures.json");
    let args = [
        &["--workloads", "tpcc", "--records", "20k", "--threads", "3"][..],
        &["--index", "btree,art,masstree"],
        &["--placements", "interleave,oracle,timberline"],
    ];
    let mut command = bench(&scratch, &args.concat());
    let output = command.arg("--json").arg(&json).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let results = results(&json);
    assert_eq!(results.len(), 9);
    for result in results {
        assert_eq!(result["workload"], "tpcc");
        assert!((19_000..=20_000).contains(&result["records"].as_u64().unwrap()));
        assert_eq!(result["over_budget_bytes"], 0);
    }
    assert_eq!(meta(&json)["bounds"].as_array().unwrap().len(), 0);
}

#[test]
fn speeds_at_which_a_trace_can_not_be_replayed_are_refused() {
    let scratch = Scratch::new();
    let rows: String = (0..100)
        .map(|n| format!("0,R,{},4096,{n}\n", n * 4096))
        .collect();
    let timed = scratch.write("a.csv", rows.as_bytes());
    let untold = scratch.write("b.csv", b"key,time\n1,1\n2,2\n3,3\n");
    let refuses_trace = |path: &Path, args: &[&str], expected: &[&str]| {
        let trace = ["--trace", path.to_str().unwrap()];
        refuses(&[&trace, args].concat(), expected);
    };
    let at = |speed| ["--trace-format", "alibaba", "--speed", speed];
    for speed in ["0", "nan", "inf"] {
        refuses_trace(&timed, &at(speed), &["--speed", "a number above 0"]);
    }
    refuses_trace(
        &timed,
        &at("1e9"),
        &["a.csv", "more than any map answers", "--closed-loop"],
    );
    refuses_trace(
        &timed,
        &at("1e-6"),
        &["a.csv", "too few", "--slice", "--closed-loop"],
    );
    refuses_trace(
        &untold,
        &["--speed", "2"],
        &["b.csv", "no times", "csv:time=ts,unit=us"],
    );
    let bad_unit = ["--trace-format", "csv:unit=min"];
    refuses_trace(&untold, &bad_unit, &["`min`", "ns, us, ms or s"]);
}

/// Also with keys and values that are not words.
#[test]
fn a_trace_that_tells_its_times_is_replayed_at_them() {
    let scratch = Scratch::new();
    let json = scratch.path("figures.json");
    let rows: String = (0..2_000u64)
        .map(|n| format!("{},W,{},8192,{}\n", n % 2, n * n % 977 * 4096, 50 * n))
        .collect();
    let trace = scratch.write("blocks", rows.as_bytes());
    for (args, speed) in [
        (&["--speed", "2.5"][..], Some(2.5)),
        (&[], Some(1.0)),
        (&["--closed-loop"], None),
    ] {
        let mut command = bench(&scratch, &["--placements", "interleave,sidle+migration"]);
        command.args(["--index", "masstree", "--key-bytes", "24"]);
        command.args(["--value-bytes", "64", "--trace-format", "alibaba"]);
        command.arg("--trace").arg(&trace).arg("--json").arg(&json);
        let output = command.args(args).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        let words: Vec<_> = stdout(&output)
            .split_whitespace()
            .map(String::from)
            .collect();
        let note = words
            .join(" ")
            .contains("latencies count from when a request was due");
        assert_eq!(note, speed.is_some());
        assert_eq!(meta(&json)["speed"].as_f64(), speed);
        assert_eq!(results(&json).len(), 2);
    }
}
