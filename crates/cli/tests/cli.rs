//! The built binary, tested from outside: exit codes, stdout, stderr, and the files it writes.
//!
//! Bad input gives exit code 2, nothing on stdout, and one line on stderr that names the error and
//! the possible values. Only the command-line parser may print several lines.

mod command;
mod scratch;

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Output, Stdio};

use command::{bench, meta, refused, refuses, results, stderr, stdout, timberline};
use scratch::Scratch;
use serde_json::Value;

#[test]
fn unknown_names_are_refused_with_the_known() {
    refuses(
        &["--placements", "sidle,tpp2"],
        &["`tpp2`", "timberline", "all-fast"],
    );
    refuses(&["--placements", ","], &["``", "timberline"]);
    refuses(&["--workloads", "hs-c,hs-z"], &["`hs-z`", "ycsb-a", "hs-c"]);
    refuses(&["--profile", "optane"], &["optane", "cxl", "rdma"]);
    refuses(
        &["--distribution", "normal"],
        &["`normal`", "uniform", "zipfian"],
    );
    refuses(&["--distribution", "zipfian:-1"], &["-1"]);
}

#[test]
fn numbers_out_of_range_are_refused_with_the_range() {
    refuses(&["--threads", "0"], &["--threads 0", "1 to 1024"]);
    refuses(&["--threads", "5000"], &["--threads 5000", "1 to 1024"]);
    refuses(&["--rounds", "0"], &["--rounds 0", "1 to 10000"]);
    for seconds in ["0", "nan", "inf", "1e9"] {
        refuses(&["--slice", seconds], &["--slice", "0.05 to 86400"]);
    }
    for cores in ["0", "100000"] {
        refuses(
            &["--worker-cores", cores],
            &["--worker-cores", cores, "at least 1"],
        );
    }
    refuses(&["--warmup=-1"], &["--warmup -1", "0 to 86400"]);
    refuses(
        &["--shift-every", "0.1"],
        &["--shift-every 0.1", "0.5 to 86400"],
    );
    for ns in ["0", "nan", "inf", "1e9"] {
        refuses(&["--base-ns", ns], &["--base-ns", "1 to 100000"]);
    }
    refuses(&["--interval", "0"], &["--interval 0", "0.001 to 86400"]);
}

/// Only SIDLE's workers have this interval, and only full SIDLE has watermarks.
#[test]
fn settings_that_nothing_heeds_are_refused() {
    refuses(
        &["--interval", "1", "--placements", "all-fast,timberline,tpp"],
        &[
            "--interval",
            "on all-fast, timberline, tpp:",
            "sidle+tracking",
        ],
    );
    refuses(
        &["--interval", "1", "--placements", "sidle+layering"],
        &["--interval", "on sidle+layering:"],
    );
    refuses(
        &["--watermarks", "50:60", "--placements", "sidle+histogram"],
        &[
            "--watermarks",
            "heeds it: sidle+watermark, sidle, sidle-released, sidle+copies\n",
        ],
    );
    let scratch = Scratch::new();
    let placements = [
        "--interval",
        "1",
        "--placements",
        "interleave,sidle,timberline",
    ];
    let output = bench(&scratch, &placements).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let table = stdout(&output);
    assert!(table.contains("--interval affects sidle only."), "{table}");
}

#[test]
fn budgets_that_are_none_are_refused() {
    for budget in ["0%", "120%", "0", "many", "-5M", "nan%", "", "½G"] {
        let arg = format!("--budget={budget}");
        refuses(&[&arg], &[&format!("`{budget}`"), "20%", "64M"]);
    }
    refuses(&["--budget", "500T"], &["bytes of free memory"]);
}

#[test]
fn more_records_than_memory_holds_are_refused() {
    for records in ["100G", "200000G"] {
        refuses(
            &["--records", records],
            &["MiB are free", "--records", "--placements"],
        );
    }
    refuses(&["--records", "300000G"], &["281474976710656"]);
}

#[test]
fn a_machine_with_one_tier_runs_nothing_natively() {
    let tiers = timberline().args(["tiers", "--json"]).output().unwrap();
    let tiers: Value = serde_json::from_slice(&tiers.stdout).unwrap();
    if tiers["tiers"].as_array().unwrap().len() == 1 {
        refuses(&["--native"], &["--native", "one", "--slow-nodes"]);
    }
}

#[test]
fn the_kernel_places_on_real_memory_only() {
    refuses(&["--placements", "kernel"], &["kernel", "--native"]);
    refuses(&["--kernel-tiering", "autonuma"], &["--native"]);
    let unknown = ["--native", "--kernel-tiering", "tpp"];
    refuses(&unknown, &["`tpp`", "none, autonuma, damon"]);
}

#[test]
fn pages_are_placed_on_emulated_memory_only() {
    let native = ["--native", "--placements", "sidle,tpp"];
    refuses(&native, &["tpp", "--native", "--kernel-tiering"]);
    refuses(&["--page-costs", "swap=5"], &["`swap=5`", "fault", "copy"]);
}

#[test]
fn numa_nodes_that_are_not_there_are_refused() {
    let nobody = &["--fast-nodes", "0", "--slow-nodes", "999"];
    refuses(nobody, &["slow nodes", "999", "choose from"]);
    refuses(&["--fast-nodes", "first"], &["first", "0-1,3"]);
    let mut command = timberline();
    command.arg("tiers").args(nobody);
    assert!(refused(command).contains("999"));
}

#[test]
fn a_root_without_a_machine_is_refused() {
    let scratch = Scratch::new();
    for root in [scratch.path(""), scratch.path("missing")] {
        let mut command = timberline();
        command.arg("tiers").arg("--root").arg(&root);
        let line = refused(command);
        assert!(line.contains(root.to_str().unwrap()), "{line}");
    }
}

#[test]
fn traces_that_cannot_be_read_are_refused() {
    let scratch = Scratch::new();
    let refuses_trace = |name: &str, content: &[u8], args: &[&str], expected: &str| {
        let path = scratch.write(name, content);
        let mut command = bench(&scratch, args);
        command.arg("--trace").arg(&path);
        let line = refused(command);
        assert!(line.contains(path.to_str().unwrap()), "{line}");
        assert!(line.contains(expected), "no `{expected}` in: {line}");
    };
    refuses_trace("cut.u32", &[1, 0, 0, 0, 2, 0], &[], "");
    refuses_trace("cut.u64", &[1; 12], &[], "");
    refuses_trace("word.csv", b"key,op\n17,r\nseventeen,r\n", &[], "seventeen");
    refuses_trace("no-key.csv", b"name,age\nx,1\n", &[], "key");
    refuses_trace("broken.u32.xz", b"no xz at all", &[], "");
    refuses_trace("empty.u32", b"", &[], "no request");
    refuses_trace("empty.txt", b"", &[], "no request");
    refuses_trace("few.txt", b"1\n2\n", &["--threads", "3"], "3 threads");
    refuses_trace("trace.bin", b"1234", &[], "--trace-format");
    let junk = b"key,op\n\x1b[31m\0\x07,r\n";
    refuses_trace("junk.csv", junk, &[], r"`\u{1b}[31m\0\u{7}` in column");
    let long = [b"key\n", &[b'x'; 100_000][..], b"\n"].concat();
    refuses_trace("long.csv", &long, &[], "xxx…` in column");
    let mut newline = bench(&scratch, &[]);
    newline.args(["--trace", "/nowhere/a\nb\x1b.csv"]);
    assert!(refused(newline).contains(r"/nowhere/a\nb\u{1b}.csv"));

    refuses(
        &["--trace", "/nowhere/at-all.csv"],
        &["/nowhere/at-all.csv", "No such file"],
    );
    let strange = &["--trace", "/nowhere/x.csv", "--trace-format", "xml"];
    refuses(strange, &["`xml`", "csv", "u32"]);
}

/// A run of two minutes must not find out at its end that a file cannot be written.
#[test]
fn files_that_cannot_be_written_are_found_out_before_the_run() {
    let scratch = Scratch::new();
    let missing = scratch.path("missing/figures");
    for path in [
        missing.to_str().unwrap(),
        scratch.path("").to_str().unwrap(),
    ] {
        for flag in ["--json", "--html"] {
            // If the run started, it would last a day.
            refuses(&[flag, path, "--slice", "86400"], &[path, "can't write"]);
        }
    }
    // The check for writability neither leaves a file behind nor empties an existing one.
    let (new, old) = (scratch.path("new.json"), scratch.write("old.html", b"old"));
    let mut command = bench(&scratch, &["--html", missing.to_str().unwrap()]);
    command.arg("--json").arg(&new);
    refused(command);
    let mut command = bench(&scratch, &["--html", old.to_str().unwrap()]);
    command.arg("--json").arg(&missing);
    refused(command);
    assert!(!new.exists());
    assert_eq!(std::fs::read(old).unwrap(), b"old");
}

#[test]
fn the_command_line_itself_is_checked() {
    let wrong: &[&[&str]] = &[
        &[],
        &["grow"],
        &["bench", "--no-such-flag"],
        &["bench", "--records"],
        &["bench", "--records", "0"],
        &["bench", "--records", "many"],
        &["bench", "--threads", "-1"],
        &["bench", "--trace-format", "u32"],
        &["bench", "--speed", "2"],
        &["bench", "--closed-loop"],
        &["bench", "--trace", "a.csv", "--speed", "2", "--closed-loop"],
        &["bench", "--keys", "urls.txt", "--key-bytes", "16"],
        &["bench", "--value-bytes", "many"],
        &["measure", "--megabytes", "0"],
    ];
    for args in wrong {
        let output = timberline().args(*args).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert_eq!(stdout(&output), "", "{args:?}");
        assert!(!stderr(&output).contains("panicked"), "{args:?}");
    }
    let mut measure = timberline();
    measure.args(["measure", "--profile", "optane"]);
    assert!(refused(measure).contains("optane"));
}

/// The names that never change: other programs read them.
const STABLE: [&str; 20] = [
    "index",
    "placement",
    "workload",
    "records",
    "threads",
    "seconds",
    "fast_budget_ratio",
    "ops_per_s",
    "p50_ns",
    "p90_ns",
    "p99_ns",
    "p999_ns",
    "lines_fast_per_op",
    "lines_slow_per_op",
    "lines_cached_per_op",
    "promoted",
    "demoted",
    "worker_cpu_ratio",
    "fast_bytes",
    "slow_bytes",
];

#[test]
fn a_run_prints_a_table_and_writes_its_files() {
    let scratch = Scratch::new();
    let json = scratch.path("figures.json");
    let mut command = bench(&scratch, &["--workloads", "hs-c,ycsb-e", "--quiet"]);
    let output = command.arg("--json").arg(&json).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stderr(&output), "", "--quiet");
    let table = stdout(&output);
    let placements = [
        "all-fast",
        "interleave",
        "inner-fast",
        "oracle",
        "sidle",
        "timberline",
        "timberline-leaves",
    ];
    for name in placements
        .iter()
        .chain(&["hs-c", "ycsb-e", "regained", "EMULATED"])
    {
        assert!(table.contains(name), "no {name} in: {table}");
    }
    let results = results(&json);
    assert_eq!(results.len(), 2 * placements.len());
    for (result, placement) in results.iter().zip(placements.iter().cycle()) {
        for name in STABLE.iter().chain(&["bytes_per_record", "emulated"]) {
            let value = &result[name];
            let is_known = value.is_number() || value.is_string() || value.is_boolean();
            assert!(is_known, "{name}: {value}");
        }
        assert_eq!(result["placement"], *placement);
        assert_eq!(result["records"], 2000);
        assert_eq!(result["over_budget_bytes"], 0);
        assert_eq!(result["emulated"], true);
    }
    assert_eq!(
        table.matches("bound: page-grained 0.").count(),
        2,
        "{table}"
    );
    for (bounds, workload) in meta(&json)["bounds"]
        .as_array()
        .unwrap()
        .iter()
        .zip(["hs-c", "ycsb-e"])
    {
        assert_eq!(
            (&bounds["index"], &bounds["workload"]),
            (&"btree".into(), &workload.into())
        );
        for name in [
            "bound_page_fast_share",
            "bound_leaf_fast_share",
            "bound_record_fast_share",
        ] {
            let share = bounds[name].as_f64().unwrap();
            assert!(share > 0.2 && share <= 1.0, "{name} {share}");
        }
    }
    let page = std::fs::read_to_string(scratch.path("page.html")).unwrap();
    assert!(page.contains("<html") && page.trim_end().ends_with("</html>"));
    assert!(
        !page.contains("src=\"http") && !page.contains("href=\"http"),
        "self-contained"
    );
}

#[test]
fn a_trace_is_replayed() {
    let scratch = Scratch::new();
    let (json, rows) = (scratch.path("figures.json"), 0..3_000u64);
    let rows: String = rows
        .map(|n| format!("{},{}\n", n * n % 977, if n % 3 == 0 { "w" } else { "r" }))
        .collect();
    let trace = scratch.write("blocks.csv", format!("block,op\n{rows}").as_bytes());
    let mut command = bench(&scratch, &["--placements", "interleave,timberline"]);
    command.args(["--trace-format", "csv:key=block,op=op,read=r,write=w"]);
    let output = command
        .arg("--trace")
        .arg(&trace)
        .arg("--json")
        .arg(&json)
        .output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let results = results(&json);
    assert_eq!(results.len(), 2);
    assert!(results.iter().all(|result| result["workload"] == "trace"));
    assert_eq!(meta(&json)["speed"], Value::Null, "it tells no times");
}

/// Runs until `phase` is announced, interrupts, and returns the outcome.
fn interrupt_at(mut command: Command, phase: &str) -> Output {
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap());
    let mut said = String::new();
    while !said.contains(phase) {
        let more = lines.read_line(&mut said).unwrap();
        assert!(more > 0, "no `{phase}` in: {said}");
    }
    let kill = format!("kill -INT {}", child.id());
    assert!(
        Command::new("sh")
            .args(["-c", &kill])
            .status()
            .unwrap()
            .success()
    );
    lines.read_to_string(&mut said).unwrap();
    let mut output = child.wait_with_output().unwrap();
    output.stderr = said.into_bytes();
    output
}

#[test]
fn an_interrupted_run_reports_what_was_measured() {
    let scratch = Scratch::new();
    let json = scratch.path("figures.json");
    // Without the interrupt this would run for a quarter of an hour.
    let mut command = bench(&scratch, &["--workloads", "hs-c", "--rounds", "10000"]);
    command
        .args(["--placements", "all-fast,timberline"])
        .arg("--json")
        .arg(&json);
    let output = interrupt_at(command, "hs-c: all-fast 3/10000");
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    for part in ["all-fast", "timberline", "Interrupted"] {
        assert!(
            stdout(&output).contains(part),
            "no {part} in: {}",
            stdout(&output)
        );
    }
    let results = results(&json);
    assert_eq!(results.len(), 2);
    for result in results {
        assert!(result["ops_per_s"].as_f64() > Some(0.0));
        let rounds = result["rounds"].as_array().unwrap().len();
        assert!((2..10_000).contains(&rounds), "{rounds} rounds");
    }
    assert!(scratch.path("page.html").exists());
}

#[test]
fn a_run_interrupted_before_it_measured_says_so() {
    let scratch = Scratch::new();
    // The warm-up alone would last a day.
    let args = [
        "--workloads",
        "hs-c",
        "--records",
        "500k",
        "--warmup",
        "86400",
    ];
    for phase in [
        "loading all-fast",
        "loading oracle",
        "counting for oracle",
        "warming",
    ] {
        let mut command = bench(&scratch, &args);
        command.args(["--placements", "interleave,oracle"]);
        let output = interrupt_at(command, phase);
        let code = output.status.code();
        assert_eq!(code, Some(130), "{phase}: {}", stderr(&output));
        assert_eq!(stdout(&output), "", "{phase}");
        assert!(
            stderr(&output).contains("before the first measurement"),
            "{phase}"
        );
    }
}
