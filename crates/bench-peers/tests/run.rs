//! The command end to end, on small inputs: subjects in their own processes, and the figures in a
//! file.

use std::process::{Command, Output};

fn bench(args: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bench-peers"));
    command.args(args.split_whitespace());
    command.output().expect("the command starts")
}

#[test]
fn ours_and_peers_end_up_in_one_file() {
    let json = std::env::temp_dir().join(format!("bench-peers-{}.json", std::process::id()));
    let out = bench(&format!(
        "--quick --quiet --rows random,words/load,words/scans,words/latest --json {} \
         --index btree,masstree,masstree-ours,locked-btreemap",
        json.display()
    ));
    let said = String::from_utf8_lossy(&out.stdout);
    let text = std::fs::read_to_string(&json);
    let _ = std::fs::remove_file(&json);
    assert!(out.status.success(), "{out:?}");
    for part in [
        "random keys, 4k pages",
        "words keys, 2m pages",
        "ours ÷ peers",
    ] {
        assert!(said.contains(part), "{said}");
    }
    assert!(!said.contains("left out"), "{said}");

    let report: serde_json::Value =
        serde_json::from_str(&text.expect("the figures")).expect("JSON");
    let results = report["results"].as_array().expect("results");
    let find = |index: &str, workload: &str, keys: &str, pages: &str| {
        results.iter().find(|result| {
            result["index"] == index
                && result["workload"] == workload
                && result["keys"] == keys
                && result["pages"] == pages
        })
    };
    for workload in ["load", "uniform", "zipf", "updates", "scans", "latest"] {
        for pages in ["4k", "2m"] {
            let ours = find("btree", workload, "random", pages).expect("ours");
            assert_eq!(ours["placement"], "all-fast");
            assert_eq!(ours["rounds"].as_array().map(Vec::len), Some(2));
            assert!(ours["ratio_to_best_peer"].as_f64() > Some(0.0), "{ours}");
            assert!(ours["bytes_per_record"].as_f64() > Some(16.0), "{ours}");
            let small = pages == "4k";
            let peer = find("locked-btreemap", workload, "random", pages).expect("a peer");
            assert_eq!(peer["placement"], "none");
            for result in [ours, peer] {
                assert!(!small || result["huge_page_bytes"] == 0, "{result}");
            }
        }
    }
    assert!(find("btree", "load", "words", "4k").is_none());
    assert!(find("masstree-ours", "scans", "words", "4k").is_some());
    assert!(find("masstree-ours", "zipf", "words", "4k").is_none());
    assert!(find("masstree", "scans", "random", "4k").is_some());
    assert!(
        find("masstree", "scans", "words", "4k").is_none(),
        "it can't scan them"
    );
    assert_eq!(report["meta"]["versions"]["masstree"], "0.9.5");
}

#[test]
fn what_is_not_understood_is_one_line_and_exit_code_2() {
    for (args, said) in [
        (
            "--workloads load",
            "unexpected argument '--workloads' found",
        ),
        ("--rounds x", "invalid value 'x' for '--rounds <N>'"),
        ("--index sled", "invalid value 'sled' for '--index <NAMES>'"),
        (
            "--rows urls --urls /nonexistent",
            "can't read the keys in /nonexistent",
        ),
        ("--rows dense/gets", "unknown workload `gets`"),
        ("--records 4X", "'4X'"),
        ("--records 900000M", "fewer --records"),
    ] {
        let out = bench(args);
        let errors = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{errors}");
        assert_eq!(errors.lines().count(), 1, "{errors}");
        assert!(errors.contains(said), "{errors}");
    }
}
