//! Discovery against the machines of `topologies/`: each manifest there is a machine, recorded or
//! composed (its head says which), unpacked below a temporary root.

#[path = "topologies/manifest.rs"]
mod manifest;

use manifest::{Machine, machine, unpack};
use timberline_tier::topology::{Basis, NodeList, Topology, TopologyError};

fn discover(name: &str) -> Topology {
    Topology::discover(machine(name).root()).unwrap()
}

fn tiers(topology: &Topology) -> Vec<&[u32]> {
    (0..topology.tiers().len())
        .map(|tier| topology.tier_nodes(tier))
        .collect()
}

fn why(topology: &Topology, node: u32) -> String {
    let mut rankings = topology.rankings().iter();
    rankings
        .find(|ranking| ranking.node == node)
        .unwrap()
        .to_string()
}

fn basis(topology: &Topology, node: u32) -> Basis {
    let mut rankings = topology.rankings().iter();
    rankings.find(|ranking| ranking.node == node).unwrap().basis
}

fn list(text: &str) -> NodeList {
    text.parse().unwrap()
}

#[test]
fn one_node_is_one_tier() {
    let topology = discover("virtual-machine");
    assert_eq!(tiers(&topology), [[0]]);
    assert_eq!(topology.tier_nodes(1), [0; 0], "no such tier");
    assert_eq!(why(&topology, 0), "node 0: the only node with memory");
    assert_eq!(
        topology.memory_limit(),
        None,
        "version 1 writes a huge number for no limit"
    );
    assert!(topology.kernel().huge_pages_on_request());
    assert_eq!(topology.kernel().page_bytes, Some(4096));
    // The balloon: the node counts less than the machine has.
    assert_eq!(topology.tiers()[0].total_bytes, 24_684_096 << 10);
    assert!(
        topology.notes()[0].contains("node 0 counts 5210 MiB"),
        "{:?}",
        topology.notes()
    );
}

#[test]
fn the_other_socket_is_a_slower_tier_by_distance() {
    let topology = discover("two-socket-xeon");
    assert_eq!(tiers(&topology), [[0], [1]]);
    assert_eq!(basis(&topology, 1), Basis::Distance);
    assert_eq!(why(&topology, 0), "node 0: local to its CPUs");
    assert_eq!(
        why(&topology, 1),
        "node 1: distance 21 from node 0; kernel puts it in memory_tier4 with node 0, overridden"
    );
    assert_eq!(topology.nodes()[1].cpus.to_string(), "28-55,84-111");
    assert_eq!(topology.memory_limit(), None);

    let from_the_other = topology.seen_from(1).unwrap();
    assert_eq!(tiers(&from_the_other), [[1], [0]]);
}

#[test]
fn a_node_without_cpus_is_slower_even_where_the_kernel_and_distance_say_otherwise() {
    let topology = discover("qemu-one-kernel-tier");
    assert_eq!(
        tiers(&topology),
        [[0], [1], [2]],
        "node 2 is nearer than node 1, and slower"
    );
    assert_eq!(basis(&topology, 2), Basis::NoCpus);
    assert_eq!(
        why(&topology, 2),
        "node 2: no CPUs, distance 14 from node 0; kernel puts it in memory_tier4 with node 0, \
         overridden"
    );
    let from_the_other = topology.seen_from(1).unwrap();
    assert_eq!(tiers(&from_the_other), [[1], [0], [2]]);
}

#[test]
fn measured_latency_decides_where_every_node_has_it() {
    let topology = discover("qemu-hmat");
    assert_eq!(tiers(&topology), [[0], [1]]);
    assert_eq!(basis(&topology, 1), Basis::Latency);
    assert_eq!(
        why(&topology, 1),
        "node 1: read latency 250 ns against node 0's 80 ns; no CPUs, distance 20 from node 0; \
         kernel agrees (memory_tier56)"
    );
    let fast = topology.nodes()[0].performance.as_ref().unwrap();
    assert_eq!(
        (fast.read_latency_ns, fast.write_bandwidth_mbs),
        (Some(80), Some(102_400))
    );
    assert_eq!(fast.initiators, list("0"));
}

#[test]
fn three_kinds_of_memory_are_three_tiers_by_their_latencies() {
    let topology = discover("qemu-three-nodes");
    assert_eq!(tiers(&topology), [[0], [1], [2]]);
    assert_eq!(basis(&topology, 2), Basis::Latency);
    assert_eq!(
        why(&topology, 2),
        "node 2: read latency 1000 ns against node 0's 80 ns; no CPUs, distance 40 from node 0; \
         kernel agrees (memory_tier450)"
    );
    let allowed = topology.allowed_bytes();
    assert!(allowed.len() == 3 && !allowed.contains(&0), "{allowed:?}");
}

#[test]
fn latency_is_scaled_where_it_was_measured_from_elsewhere() {
    for name in ["sapphire-rapids-cxl", "qemu-two-sockets-hmat"] {
        let topology = discover(name);
        assert_eq!(tiers(&topology), [[0], [1], [2]], "{name}");
        // Every node has its nearest CPUs' latency, so taken at its word node 1 would equal node 0.
        let here = topology.rankings()[0].latency_ns.unwrap();
        assert!(!topology.rankings()[0].latency_estimated);
        assert_eq!(topology.rankings()[1].latency_ns, Some(here * 21 / 10));
        assert!(topology.rankings()[1].latency_estimated);

        let from_the_other = topology.seen_from(1).unwrap();
        assert_eq!(tiers(&from_the_other), [[1], [0], [2]], "{name}");
        assert!(from_the_other.rankings()[2].latency_ns > topology.rankings()[2].latency_ns);
    }
    let topology = discover("sapphire-rapids-cxl");
    assert_eq!(
        why(&topology, 1),
        "node 1: read latency about 235 ns (node 1 measures 112 ns, scaled by distance 21/10) \
         against \
         node 0's 112 ns; distance 21 from node 0; kernel puts it in memory_tier4 with node 0, \
         overridden"
    );
}

#[test]
fn a_kernel_without_numa_is_one_node_with_everything() {
    let topology = discover("no-numa");
    assert_eq!(tiers(&topology), [[0]]);
    assert_eq!(topology.tiers()[0].total_bytes, 8_039_996 << 10);
    assert_eq!(topology.tiers()[0].free_bytes, 5_120_044 << 10);
    assert_eq!(topology.nodes()[0].cpus, list("0-3"));
    assert!(!topology.kernel().huge_pages_on_request());
    assert_eq!(topology.kernel().numa_balancing, None);
}

#[test]
fn a_node_without_memory_is_in_no_tier() {
    let topology = discover("qemu-node-without-memory");
    assert_eq!(topology.initiator(), 0, "it still has CPUs");
    assert_eq!(tiers(&topology), [[1]]);
    assert_eq!(why(&topology, 0), "node 0: no memory");
}

#[test]
fn the_smallest_limit_up_to_the_root_counts() {
    let topology = discover("qemu-cgroup-v2");
    let limit = topology.memory_limit().unwrap();
    assert_eq!(
        limit.bytes,
        300 << 20,
        "the parent's, which is smaller than the group's own"
    );
    assert_eq!(limit.file, "sys/fs/cgroup/database/memory.max");
    assert!(limit.used_bytes.is_some());
    let allowed = topology.allowed_bytes();
    assert_eq!(allowed.iter().sum::<u64>(), 300 << 20);
    assert_eq!(allowed[0], (300 << 20).min(topology.tiers()[0].free_bytes));
}

#[test]
fn a_container_finds_its_limit_where_its_own_path_is_not_visible() {
    let version_1 = discover("container-v1");
    assert_eq!(version_1.memory_limit().unwrap().bytes, 2 << 30);
    assert!(version_1.notes()[0].contains("/docker/4f2a is not visible"));
    let version_2 = discover("container-v2");
    assert_eq!(version_2.memory_limit().unwrap().bytes, 512 << 20);
    assert_eq!(
        version_2.memory_limit().unwrap().used_bytes,
        Some(100 << 20)
    );
    assert_eq!(version_2.notes(), [""; 0]);
}

#[test]
fn a_cpuset_keeps_nodes_out() {
    let topology = discover("container-v1");
    assert_eq!(tiers(&topology), [[0]]);
    assert_eq!(
        why(&topology, 1),
        "node 1: this process's cpuset does not allow it"
    );
    let error = topology.with_override(&list("0"), &list("1")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "slow nodes: this process's cpuset does not allow NUMA node 1: choose from 0"
    );
}

#[test]
fn what_is_malformed_is_ignored_with_a_note_each() {
    let topology = discover("malformed");
    assert_eq!(tiers(&topology), [[0], [1]]);
    assert_eq!(
        basis(&topology, 1),
        Basis::NoCpus,
        "one latency is not enough to rank by"
    );
    assert_eq!(why(&topology, 2), "node 2: no memory");
    assert_eq!(topology.memory_limit(), None);
    for (file, expected) in [
        (
            "node0/access1/initiators/read_latency",
            "holds \"fast\": expected nanoseconds",
        ),
        (
            "node1/distance",
            "holds \"20 10\": expected a distance for each online node",
        ),
        ("node2/meminfo", "taken as having no memory"),
        ("memory_tier4/nodelist", "holds \"all of them\""),
        ("memory.max", "holds \"plenty\""),
        ("numa_balancing", "holds \"perhaps\""),
        ("possible", "holds \"zero\""),
        ("proc/self/cgroup", "nonsense"),
    ] {
        let notes = topology.notes();
        let told = notes
            .iter()
            .any(|note| note.contains(file) && note.contains(expected));
        assert!(told, "{file}: {notes:#?}");
    }
    assert!(topology.notes().iter().all(|note| !note.contains('\n')));
}

#[test]
fn without_the_essentials_there_is_one_clear_line() {
    let error = |manifest: &str| {
        let machine: Machine = unpack(manifest);
        let error = Topology::discover(machine.root()).unwrap_err();
        let line = error.to_string();
        assert!(!line.contains('\n'), "{line}");
        (error, line)
    };
    let (_, line) = error("");
    assert!(line.ends_with("proc/meminfo: no such file"), "{line}");
    let (_, line) = error("proc/meminfo\tMemTotal: many kB");
    assert!(
        line.contains("holds \"MemTotal: many kB\": expected lines with MemTotal"),
        "{line}"
    );
    let (_, line) = error("sys/devices/system/node/online\t0-x");
    assert!(
        line.contains("holds \"0-x\": expected a list of NUMA nodes"),
        "{line}"
    );
    let (_, line) = error("sys/devices/system/node/node0/\t");
    assert!(line.ends_with("node/online: no such file"), "{line}");
    let (error, line) = error("sys/devices/system/node/online\t0,2");
    assert_eq!(error, TopologyError::NoMemory { nodes: list("0,2") });
    assert!(line.contains("online: 0,2"), "{line}");
}

#[test]
fn distances_are_columns_of_online_nodes_and_near_ones_share_a_tier() {
    let node = "sys/devices/system/node";
    let memory = |id: u32| format!("{node}/node{id}/meminfo\tMemTotal: 100 kB\\nMemFree: 50 kB\n");
    let mut manifest = format!(
        "{node}/online\t0,2,5,7\n{node}/node0/cpulist\t0\n{node}/node2/cpulist\t1\n\
         {node}/node0/distance\t10 20 32 21\n{node}/node7/cpulist\t2\n"
    );
    for id in [0, 2, 5, 7] {
        manifest += &memory(id);
    }
    let machine = unpack(&manifest);
    let topology = Topology::discover(machine.root()).unwrap();
    assert_eq!(
        tiers(&topology),
        [&[0][..], &[2, 7], &[5]],
        "20 and 21 differ by 5 %"
    );
    assert_eq!(topology.tiers()[1].total_bytes, 200 << 10);
    assert_eq!(
        why(&topology, 5),
        "node 5: no CPUs, distance 32 from node 0"
    );
}

#[test]
fn the_kernels_tiers_are_a_hint_between_equals() {
    let node = "sys/devices/system/node";
    let tier = "sys/devices/virtual/memory_tiering";
    let mut manifest = format!(
        "{node}/online\t0-2\n{node}/node0/cpulist\t0\n{node}/node0/distance\t10 20 20\n\
         {tier}/memory_tier4/nodelist\t0-1\n{tier}/memory_tier22/nodelist\t2\n"
    );
    for id in 0..3 {
        manifest += &format!("{node}/node{id}/meminfo\tMemTotal: 100 kB\\nMemFree: 50 kB\n");
    }
    let machine = unpack(&manifest);
    let topology = Topology::discover(machine.root()).unwrap();
    assert_eq!(tiers(&topology), [[0], [1], [2]]);
    assert_eq!(basis(&topology, 1), Basis::NoCpus);
    assert_eq!(basis(&topology, 2), Basis::KernelTier);
    assert!(why(&topology, 2).ends_with("kernel puts it in memory_tier22, which decides"));
}

#[test]
fn the_user_overrides() {
    let found = discover("sapphire-rapids-cxl");
    let both = found.with_override(&list("0"), &list("2")).unwrap();
    assert_eq!(tiers(&both), [[0], [2]]);
    assert_eq!(
        (basis(&both, 0), basis(&both, 1)),
        (Basis::Override, Basis::LeftOut)
    );
    assert!(why(&both, 2).starts_with("node 2: chosen as slow; found to be tier 2: read latency"));
    assert_eq!(both.tiers()[1].total_bytes, 64 << 30);

    // One list alone leaves the rest to the other.
    let fast = found.with_override(&list("0-1"), &list("")).unwrap();
    assert_eq!(tiers(&fast), [&[0, 1][..], &[2]]);
    let slow = found.with_override(&list(""), &list("1-2")).unwrap();
    assert_eq!(tiers(&slow), [&[0][..], &[1, 2]]);
    let all_fast = found.with_override(&list("0-2"), &list("")).unwrap();
    assert_eq!(tiers(&all_fast), [[0, 1, 2]]);
    let changed_mind = both.with_override(&list("1"), &list("0")).unwrap();
    assert_eq!(tiers(&changed_mind), [[1], [0]]);
    assert_eq!(
        basis(&changed_mind, 1),
        Basis::Override,
        "choices do not pile up"
    );
    let nothing = found.with_override(&list(""), &list("")).unwrap();
    assert_eq!(tiers(&nothing), tiers(&found));
}

#[test]
fn an_impossible_override_says_what_is_possible() {
    let found = discover("sapphire-rapids-cxl");
    let error = |fast: &str, slow: &str| {
        found
            .with_override(&list(fast), &list(slow))
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        error("0,7", "2"),
        "fast nodes: there is no NUMA node 7: choose from 0-2"
    );
    assert_eq!(
        error("0-1", "1-2"),
        "NUMA node 1 is named both fast and slow: share out the nodes 0-2"
    );
    assert_eq!(
        error("", "0-2"),
        "every node is named slow: leave at least one of 0-2 fast"
    );
    let memoryless = discover("qemu-node-without-memory");
    let error = memoryless
        .with_override(&list("0"), &list("1"))
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "fast nodes: NUMA node 0 has no memory: choose from 1"
    );
    let error = found.seen_from(2).unwrap_err();
    assert_eq!(
        error.to_string(),
        "NUMA node 2 has no CPUs to judge memory from: choose one of 0-1"
    );
}

#[test]
fn the_report_is_a_table_and_why_and_what_else_matters() {
    let topology = discover("sapphire-rapids-cxl");
    let report = topology.to_string();
    let lines: Vec<&str> = report.lines().collect();
    assert_eq!(
        lines[0],
        "3 tiers of memory, seen from NUMA node 0, ranked by read latency"
    );
    let column = |heading: &str, row: usize| {
        let start = lines[2].find(heading).unwrap();
        lines[row][start..].split("  ").next().unwrap()
    };
    for (row, (cpus, latency, kernel)) in [
        ("0-51,104-155", "112 ns", "memory_tier4"),
        ("52-103,156-207", "~235 ns", "memory_tier4"),
        ("none", "263 ns", "memory_tier4"),
    ]
    .into_iter()
    .enumerate()
    {
        let row = row + 3;
        let found = (
            column("cpus", row),
            column("latency", row),
            column("kernel tier", row),
        );
        assert_eq!(found, (cpus, latency, kernel), "{report}");
    }
    let why = format!("tier 2, {}", why(&topology, 2));
    for expected in [
        why.as_str(),
        "28.1 GB/s",
        "memory limit: none",
        "pages: 4 KiB",
        "huge pages: of 2 MiB available by madvise (mode always)",
        "NUMA balancing: on (2): the kernel promotes hot pages",
        "demotion: on",
        "1 more NUMA node may come online (possible: 0-3)",
    ] {
        assert!(
            lines.iter().any(|line| line.contains(expected)),
            "{expected:?} in\n{report}"
        );
    }
    let chosen = topology
        .with_override(&list("0"), &list("2"))
        .unwrap()
        .to_string();
    assert!(
        chosen.starts_with("2 tiers of memory, seen from NUMA node 0, as chosen\n"),
        "{chosen}"
    );
    assert!(chosen.contains("no tier, node 1: left out"), "{chosen}");
    for sparse in [
        "malformed",
        "container-v1",
        "no-numa",
        "qemu-node-without-memory",
    ] {
        let report = discover(sparse).to_string();
        assert!(report.contains("tier 0, node "), "{report}");
    }
}

#[test]
fn it_serializes() {
    fn serializable(_: &impl serde::Serialize) {}
    serializable(&discover("sapphire-rapids-cxl"));
}

#[test]
fn the_machine_this_runs_on_has_memory() {
    if !std::path::Path::new("/proc/meminfo").exists() {
        eprintln!("skipped: no /proc here");
        return;
    }
    let topology = Topology::discover(std::path::Path::new("/")).unwrap();
    assert!(topology.tiers()[0].total_bytes > 0, "{topology}");
}
