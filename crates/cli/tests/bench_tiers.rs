//! `timberline bench --tiers`: placements on memory of more than two tiers.

mod command;
mod scratch;

use command::{bench, meta, refused, refuses, results, stderr, stdout};
use scratch::Scratch;
use serde_json::Value;

const THREE: &str = "10%,cxl:20%,us1:rest";

#[test]
fn what_are_no_tiers_is_refused_with_the_possible() {
    for (tiers, said) in [
        ("10%", "10%,cxl:20%,us1:rest"),
        ("10%,20%,rest", "`20%` has no profile"),
        ("10%,optane:20%,us1:rest", "cxl-fpga"),
        ("10%,cxl:20%,us1:70%", "`rest` for `70%`"),
        ("10%,us1:20%,cxl:rest", "cxl is faster than us1"),
        ("60%,cxl:50%,us1:rest", "less than 100 %"),
        ("10%,cxl:many,us1:rest", "`many`"),
    ] {
        refuses(&["--tiers", tiers], &[said]);
    }
    refuses(&["--tiers", "500T,cxl:1G,us1:rest"], &["free memory"]);
    for other in [["--budget", "20%"], ["--profile", "cxl"]] {
        refuses(
            &[&["--tiers", THREE], &other[..]].concat(),
            &["--tiers", other[0]],
        );
    }
}

#[test]
fn placements_in_two_tiers_are_refused_with_the_others() {
    let able = "all-fast, interleave, oracle, timberline, timberline-leaves, timberline-paused";
    for name in [
        "sidle",
        "inner-fast",
        "all-slow",
        "tpp",
        "timberline,random",
    ] {
        let one = name.rsplit(',').next().unwrap();
        refuses(
            &["--tiers", THREE, "--placements", name],
            &[&format!("the placement {one} uses two tiers"), able],
        );
    }
}

#[test]
fn real_memory_has_sizes_only_and_no_more_tiers_than_the_machine() {
    let eight = "1M,1M,1M,1M,1M,1M,1M,rest";
    let scratch = Scratch::new();
    let line = refused(bench(&scratch, &["--native", "--tiers", eight]));
    assert!(
        line.contains("tiers and this machine has") || line.contains("has one"),
        "{line}"
    );
    let line = refused(bench(&scratch, &["--native", "--tiers", THREE]));
    assert!(
        line.contains("no profiles") && line.contains("10%,20%,rest"),
        "{line}"
    );
}

#[test]
fn placements_of_three_tiers_run_side_by_side_on_each_map() {
    let scratch = Scratch::new();
    let (json, csv) = (scratch.path("figures.json"), scratch.path("figures.csv"));
    let args = [
        "--tiers",
        THREE,
        "--index",
        "btree,art,masstree",
        "--workloads",
        "ycsb-c",
        "--records",
        "20000",
        "--quiet",
    ];
    let output = bench(&scratch, &args)
        .arg("--json")
        .arg(&json)
        .arg("--csv")
        .arg(&csv)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let text = stdout(&output).replace("\n  ", " ");
    assert!(text.contains("profile cxl+us1"), "{text}");
    let said = "Memory of 3 tiers, fastest first: fast 10 %, cxl 20 %, us1 the rest";
    assert!(text.contains(said), "{text}");

    let setting = &meta(&json)["setting"];
    assert_eq!(setting["profile"], "cxl+us1");
    assert_eq!(setting["middle"][0]["ratio"], 0.2);
    let results = results(&json);
    let placements = [
        "all-fast",
        "interleave",
        "oracle",
        "timberline",
        "timberline-leaves",
    ];
    assert_eq!(results.len(), 3 * placements.len());
    let number = |value: &Value| value.as_u64().unwrap();
    for (result, name) in results.iter().zip(placements.iter().cycle()) {
        assert_eq!(result["placement"], *name);
        assert_eq!(result["over_budget_bytes"], 0, "{name}");
        let tiers = result["tiers"].as_array().unwrap();
        let bytes: Vec<u64> = tiers.iter().map(|tier| number(&tier["bytes"])).collect();
        assert_eq!(bytes.len(), 3, "{name}");
        assert_eq!(bytes[0], number(&result["fast_bytes"]), "{name}");
        assert_eq!(bytes[1] + bytes[2], number(&result["slow_bytes"]), "{name}");
        let is_used = bytes.iter().map(|&bytes| bytes > 0);
        assert!(
            is_used.eq([true, *name != "all-fast", *name != "all-fast"]),
            "{name}: {bytes:?}"
        );
        for tier in tiers {
            let limit = tier["limit_bytes"].as_u64();
            assert!(
                limit.is_none_or(|limit| number(&tier["bytes"]) <= limit),
                "{tier}"
            );
        }
    }
    let csv = std::fs::read_to_string(csv).unwrap();
    let mut rows = csv.lines();
    let column = rows
        .next()
        .unwrap()
        .split(',')
        .position(|it| it == "tiers")
        .unwrap();
    for row in rows {
        let cell = row.split(',').nth(column).unwrap();
        assert_eq!(cell.split(';').count(), 3, "{row}");
    }
}

/// Two tiers can be given in the same way.
#[test]
fn two_tiers_are_a_budget_and_a_profile() {
    let scratch = Scratch::new();
    let json = scratch.path("figures.json");
    let args = [
        "--tiers",
        "30%,us2:rest",
        "--workloads",
        "ycsb-c",
        "--quiet",
    ];
    let output = bench(&scratch, &args)
        .arg("--json")
        .arg(&json)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let setting = &meta(&json)["setting"];
    assert_eq!(
        (&setting["profile"], &setting["budget"]["ratio"]),
        (&"us2".into(), &0.3.into())
    );
    let results = results(&json);
    assert!(results.iter().any(|it| it["placement"] == "sidle"));
    assert!(
        results
            .iter()
            .all(|it| it["tiers"] == Value::Array(Vec::new()))
    );
}
