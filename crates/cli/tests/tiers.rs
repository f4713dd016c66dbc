//! `timberline tiers` and `timberline measure`.

mod command;
#[path = "../../tier/tests/topologies/manifest.rs"]
#[expect(dead_code, reason = "its machines are looked up in the other crate")]
mod manifest;
mod scratch;

use command::{stderr, stdout, timberline};
use serde_json::Value;

#[test]
fn tiers_of_this_machine_are_shown() {
    let output = timberline().arg("tiers").output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stdout(&output).contains("tier 0"));
    let output = timberline().args(["tiers", "--json"]).output().unwrap();
    let tiers: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(tiers["tiers"][0]["total_bytes"].as_u64() > Some(0));
}

#[test]
fn tiers_and_their_latencies_fit_eighty_columns() {
    let fits = |args: &[&str]| {
        let output = timberline().args(args).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        let text = stdout(&output);
        let widest = text.lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(80), "{args:?}: {widest:?}\n{text}");
    };
    fits(&["measure", "--base-ns", "100", "--megabytes", "1"]);
    for recorded in [
        include_str!("../../tier/tests/topologies/sapphire-rapids-cxl.tsv"),
        include_str!("../../tier/tests/topologies/qemu-hmat.tsv"),
        include_str!("../../tier/tests/topologies/qemu-three-nodes.tsv"),
        include_str!("../../tier/tests/topologies/virtual-machine.tsv"),
        include_str!("../../tier/tests/topologies/qemu-cgroup-v2.tsv"),
    ] {
        let machine = manifest::unpack(recorded);
        fits(&["tiers", "--root", machine.root().to_str().unwrap()]);
    }
}

/// Where there are two tiers, a virtual machine runs it (`cargo xtask vm`).
#[test]
fn a_check_of_the_tiers_needs_two_of_them() {
    let output = timberline().args(["tiers", "--json"]).output().unwrap();
    let tiers: Value = serde_json::from_slice(&output.stdout).unwrap();
    if tiers["tiers"].as_array().unwrap().len() == 1 {
        let output = timberline().args(["tiers", "--check"]).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        let said = stderr(&output);
        assert!(
            said.contains("--check") && said.contains("two memory tiers"),
            "{said}"
        );
    }
    let elsewhere = ["tiers", "--check", "--root", "/tmp"];
    let output = timberline().args(elsewhere).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "another machine's memory");
}

#[test]
fn tiers_of_a_recorded_machine_are_shown_and_ranked_as_told() {
    let recorded = include_str!("../../tier/tests/topologies/sapphire-rapids-cxl.tsv");
    let machine = manifest::unpack(recorded);
    let tiers = |args: &[&str]| -> Vec<Vec<u64>> {
        let mut command = timberline();
        command.args(["tiers", "--json", "--root"]);
        let output = command.arg(machine.root()).args(args).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        let found: Value = serde_json::from_slice(&output.stdout).unwrap();
        let tiers = found["tiers"].as_array().unwrap().iter();
        let nodes = |tier: &Value| serde_json::from_value(tier["nodes"].clone()).unwrap();
        tiers.map(nodes).collect()
    };
    let found = tiers(&[]);
    assert!(found.len() > 1, "{found:?}");
    let (fast, slow) = (found[1][0], found[0][0]);
    let [fast_arg, slow_arg] = [fast, slow].map(|node| node.to_string());
    let told = tiers(&["--fast-nodes", &fast_arg, "--slow-nodes", &slow_arg]);
    assert_eq!(told, [[fast], [slow]]);
}
