//! The command end to end, on small inputs: contenders in their own processes, and the figures in a
//! file.

use std::path::PathBuf;
use std::process::{Command, Output};

fn bench(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bench-peers"));
    command.args(args).output().expect("the command starts")
}

struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let name = format!("bench-peers-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).expect("a temporary folder");
        Scratch(folder)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn ours_and_peers_end_up_in_one_file() {
    let scratch = Scratch::new("json");
    let (words, json) = (scratch.path("words.txt"), scratch.path("out.json"));
    std::fs::write(&words, "ant\nbee\ncat\n").expect("a file of words");
    let args = format!(
        "--workload load,ycsb-d,ycsb-e --dist zipf --keys random,words --words {words} --threads 2 --records 2k \
         --rounds 2 --slice 0.01 --index btree,masstree,locked-btreemap --json {json} --quiet"
    );
    let out = bench(&args.split_whitespace().collect::<Vec<_>>());
    let said = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success(), "{out:?}");
    assert!(said.contains("best peer |"), "{said}");
    assert!(!said.contains("left out"), "{said}");

    let text = std::fs::read_to_string(&json).expect("the figures");
    let report: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let results = report["results"].as_array().expect("results");
    let find = |index: &str, workload: &str, keys: &str| {
        results.iter().find(|result| {
            result["index"] == index && result["workload"] == workload && result["keys"] == keys
        })
    };
    for workload in ["load", "ycsb-d", "ycsb-e"] {
        let ours = find("btree", workload, "random").expect("ours");
        assert_eq!(ours["placement"], "all-fast");
        assert_eq!(ours["rounds"].as_array().map(Vec::len), Some(2));
        assert!(ours["ratio_to_best_peer"].as_f64() > Some(0.0), "{ours}");
        assert!(ours["bytes_per_record"].as_f64() > Some(16.0), "{ours}");
        let peer = find("locked-btreemap", workload, "words").expect("a peer");
        assert_eq!(
            (&peer["placement"], &peer["records"]),
            (&"none".into(), &2000.into())
        );
    }
    assert!(
        find("btree", "load", "words").is_none(),
        "it takes no byte strings"
    );
    assert!(find("masstree", "ycsb-e", "random").is_some());
    assert!(
        find("masstree", "ycsb-e", "words").is_none(),
        "it can't scan them"
    );
    assert!(find("masstree", "ycsb-d", "words").is_some());
    assert_eq!(report["meta"]["versions"]["masstree"], "0.9.5");
}

#[test]
fn what_is_not_understood_is_one_line_and_exit_code_2() {
    for (args, said) in [
        (
            vec!["--workloads", "load"],
            "unexpected argument '--workloads' found",
        ),
        (
            vec!["--rounds", "x"],
            "invalid value 'x' for '--rounds <N>'",
        ),
        (
            vec!["--index", "sled"],
            "invalid value 'sled' for '--index <NAMES>'",
        ),
        (
            vec!["--keys", "urls", "--urls", "/nonexistent"],
            "can't read the keys in /nonexistent",
        ),
        (vec!["--records", "4X"], "'4X'"),
        (vec!["--records", "900000M"], "fewer --records"),
    ] {
        let out = bench(&args);
        let errors = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{errors}");
        assert_eq!(errors.lines().count(), 1, "{errors}");
        assert!(errors.contains(said), "{errors}");
    }
}
