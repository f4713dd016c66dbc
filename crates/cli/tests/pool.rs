//! `pool` as processes, and `bench --remote --servers` over them.

mod command;
mod scratch;

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use command::{refused, stderr, stdout, timberline};
use scratch::Scratch;
use serde_json::Value;

/// A memory server that is killed with this.
struct Pool {
    child: Child,
    address: String,
}

impl Pool {
    fn new(args: &[&str]) -> Pool {
        let mut command = pool(&["--listen", "127.0.0.1:0", "--memory", "64MB"]);
        let mut child = command.args(args).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let mut lines = BufReader::new(child.stderr.take().unwrap());
        lines.read_line(&mut line).unwrap();
        assert!(line.contains("ready at "), "{line}");
        let address = line.trim_end().rsplit(' ').next().unwrap().into();
        Pool { child, address }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn pool(args: &[&str]) -> Command {
    let mut command = timberline();
    command.arg("pool").args(args);
    command
}

fn bench(pools: &[&Pool], args: &[&str]) -> Command {
    let addresses: Vec<&str> = pools.iter().map(|pool| &pool.address[..]).collect();
    let mut command = timberline();
    command.args(["bench", "--remote", "--records", "20000"]);
    if !args.contains(&"--requests") {
        command.args(["--requests", "2000"]);
    }
    command.args(["--servers", &addresses.join(",")]).args(args);
    command
}

#[test]
fn a_tree_over_processes_is_measured() {
    let scratch = Scratch::new();
    let file = scratch.path("key");
    std::fs::write(&file, "a key that both sides have\n").unwrap();
    let key = ["--key-file", file.to_str().unwrap()];
    let pools = [Pool::new(&key), Pool::new(&key)];
    let pools: Vec<&Pool> = pools.iter().collect();
    let output = bench(&pools, &key)
        .args(["--cache", "0.9", "--designs", "copies,p-sherman-like"])
        .args([
            "--remote-workloads",
            "read-only,insert-intensive",
            "--json",
            "-",
        ])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let json: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert!(json["outcome"]["echo"]["kops"]["median"].as_f64() > Some(0.0));
    let rows = json["outcome"]["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 4);
    for row in rows {
        assert!(row["kops"]["median"].as_f64() > Some(0.0), "{row}");
        assert!(row["reads"].as_f64() < Some(1.2), "{row}");
    }
    // What the servers have is not overwritten.
    let line = refused(bench(&pools, &["--cache", "0.9", key[0], key[1]]));
    assert!(line.contains("--servers: the memory servers have a tree already"));
    // And only for who has the key.
    let line = refused(bench(&pools, &["--cache", "0.9"]));
    assert!(line.contains("the keys of the two sides differ"), "{line}");
}

/// What `bench --repartition` tells of keys that change hands under load: none is lost.
fn handover(pools: &[&Pool], args: &[&str]) -> Value {
    let repartition = ["--repartition", "--json", "-"];
    let output = bench(pools, &[args, &repartition].concat())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let mut json: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let handover = json["handover"].take();
    assert_eq!(handover["lost"], 0, "{handover}");
    handover
}

#[test]
fn keys_change_hands_between_processes() {
    let pools = [Pool::new(&[]), Pool::new(&[])];
    let pools: Vec<&Pool> = pools.iter().collect();
    let handover = handover(&pools, &["--cache", "0.9"]);
    assert!(handover["checked"].as_u64() > Some(0), "{handover}");
    assert!(handover["writes"].as_u64() > Some(0), "{handover}");
    assert!(handover["unserved_ms"].as_f64() >= handover["given_ms"].as_f64());
}

/// The same by libfabric, whose provider `tcp` needs no special hardware.
#[cfg(feature = "libfabric")]
#[test]
fn libfabric_reaches_processes() {
    let scratch = Scratch::new();
    let file = scratch.path("key");
    std::fs::write(&file, "a key that both sides have\n").unwrap();
    let fabric = ["--fabric", "libfabric:tcp"];
    let key = ["--key-file", file.to_str().unwrap()];
    let both = [fabric, key].concat();
    let pools = [Pool::new(&both), Pool::new(&both)];
    let pools: Vec<&Pool> = pools.iter().collect();
    // Neither by another fabric nor without the key.
    let line = refused(bench(&pools, &["--cache", "0.9", key[0], key[1]]));
    assert!(line.contains("another protocol"), "{line}");
    let line = refused(bench(&pools, &["--cache", "0.9", fabric[0], fabric[1]]));
    assert!(line.contains("the keys of the two sides differ"), "{line}");
    let handover = handover(&pools, &[&both[..], &["--cache", "0.9"]].concat());
    assert!(handover["writes"].as_u64() > Some(0), "{handover}");
}

/// A compute server that comes gets keys because it has nothing to do.
#[test]
fn keys_follow_the_load_between_processes() {
    let pools = [Pool::new(&[]), Pool::new(&[])];
    let pools: Vec<&Pool> = pools.iter().collect();
    let handover = handover(&pools, &["--balance", "--cache", "0.9"]);
    assert!(handover["unserved_ms"].as_f64() >= handover["given_ms"].as_f64());
}

#[test]
fn keys_follow_a_hot_spot_in_a_simulation() {
    let mut command = timberline();
    command.args(["bench", "--remote", "--balance", "--records", "20000"]);
    command.args([
        "--cache",
        "0.6",
        "--requests",
        "100000",
        "--compute-threads",
        "8",
    ]);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = stdout(&output);
    assert!(text.contains("stay") && text.contains("follow"), "{text}");
    assert!(
        text.lines().all(|line| line.chars().count() <= 100),
        "{text}"
    );
}

/// Killed, and stopped, below a run that would last for hours.
#[test]
fn a_memory_server_that_is_gone_is_named() {
    for signal in ["-KILL", "-STOP"] {
        let pools = [Pool::new(&[]), Pool::new(&[])];
        let args = [
            "--cache",
            "0.4",
            "--designs",
            "p-sherman-like",
            "--requests",
            "100000000",
        ];
        let mut running = bench(&[&pools[0], &pools[1]], &args);
        let running = running.stderr(Stdio::piped()).stdout(Stdio::piped());
        let running = running.spawn().unwrap();
        // Most often in the middle of it; on a busy machine, while loading or connecting.
        thread::sleep(Duration::from_millis(500));
        let mut kill = Command::new("kill");
        kill.args([signal, &pools[0].child.id().to_string()]);
        assert!(kill.status().unwrap().success());
        let output = running.wait_with_output().unwrap();
        let line = stderr(&output);
        assert!(matches!(output.status.code(), Some(1 | 2)), "{line}");
        assert_eq!(line.matches('\n').count(), 1, "{line}");
        assert!(line.contains("memory server 0"), "{line}");
    }
}

#[test]
fn bad_input_is_one_line() {
    let scratch = Scratch::new();
    let file = scratch.path("key");
    std::fs::write(&file, "short").unwrap();
    let short = ["--key-file", file.to_str().unwrap()];
    let running = Pool::new(&[]);
    for (args, says) in [
        (&["--memory", "900TB"][..], "MB for this process"),
        (&["--memory", "7"], "at least 1MB"),
        (&["--listen", "0.0.0.0:0"], "--no-protected-mode"),
        (&["--listen", &running.address], "--listen"),
        (&["--key-file", "/nowhere/key"], "/nowhere/key"),
        (&short, "at least 16 bytes"),
        (&["--fabric", "udp"], "one of tcp and libfabric:PROVIDER"),
        #[cfg(not(feature = "libfabric"))]
        (&["--fabric", "libfabric:tcp"], "--features libfabric"),
        #[cfg(feature = "libfabric")]
        (&["--fabric", "libfabric:shm"], "take `tcp`"),
        #[cfg(feature = "libfabric")]
        (&["--fabric", "libfabric:none"], "no provider `none`"),
    ] {
        let line = refused(pool(args));
        assert!(line.contains(says), "{args:?}: {line}");
    }
}

#[test]
fn bad_input_of_the_bench_is_one_line() {
    let scratch = Scratch::new();
    let file = scratch.path("key");
    std::fs::write(&file, "a key that only one side has\n").unwrap();
    let key = file.to_str().unwrap();
    // Each is too small for a million records.
    let running = [Pool::new(&[]), Pool::new(&[])];
    let both = format!("{},{}", running[0].address, running[1].address);
    let twice = format!("{},{0}", running[0].address);
    // Who speaks another protocol.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let other = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"220 mail.example ESMTP\r\n").unwrap();
    });
    let nowhere = scratch.path("nowhere").join("file.json");
    let cache = ["--records", "20000", "--cache"];
    let nobody = "http://127.0.0.1:1";
    for (args, says) in [
        (&["--records", "999"][..], "--records 999"),
        (&["--records", "18446744073709551615"], "--records"),
        (&["--records", "100000000000"], "MB for this process"),
        (&["--records", "0"], "--records"),
        (&["--requests", "0"], "--requests 0"),
        (&["--requests", "9999999999999"], "--requests"),
        (&["--cache", "0.001"], "--cache 0.001"),
        (&[cache[0], cache[1], cache[2], "0.3"], "bytes is too small"),
        (&["--cache", "0"], "--cache 0"),
        (&["--cache", "nan"], "--cache NaN"),
        (&["--cache", "1e9"], "at most 100"),
        (&["--skew", "2"], "--skew 2"),
        (&["--gigabits", "0"], "--gigabits 0"),
        (&["--gigabits", "inf"], "--gigabits inf"),
        (&["--network-ns", "10000000000"], "--network-ns"),
        (&["--local-ns", "0"], "--local-ns 0"),
        (&["--memory-servers", "0"], "--memory-servers"),
        (&["--compute-servers", "0"], "--compute-servers"),
        (&["--compute-servers", "65"], "--compute-servers"),
        (&["--compute-threads", "0"], "--compute-threads"),
        (&["--compute-threads", "100000"], "--compute-threads"),
        (&["--offload-threads", "0"], "--offload-threads"),
        (&["--designs", "dax"], "dex"),
        (&["--remote-workloads", "read"], "read-only"),
        (&["--json", nowhere.to_str().unwrap()], "can't write"),
        (&["--repartition"], "--servers"),
        (&["--balance", "--cache", "0.001"], "--cache 0.001"),
        (&["--balance", "--designs", "dex"], "--designs"),
        (
            &["--servers", &both, "--balance"],
            "give --repartition, too",
        ),
        (
            &["--servers", &both, "--designs", "sherman-like"],
            "--designs sherman-like with --servers",
        ),
        (&["--key-file", key], "--servers"),
        (&["--servers", ""], "--servers"),
        (&["--servers", "localhost"], "--servers"),
        (&["--servers", "127.0.0.1:99999"], "--servers"),
        (
            &["--servers", "127.0.0.1:1"],
            "memory server 0 cannot be reached: 127.0.0.1:1",
        ),
        (
            &["--servers", &other],
            "another protocol, or another version",
        ),
        (&["--servers", &twice], "is there twice"),
        (
            &["--servers", &both, "--key-file", key],
            "the keys of the two sides differ",
        ),
        (
            &["--servers", &both, "--key-file", "/nowhere/key"],
            "/nowhere/key",
        ),
        (&["--servers", &both, "--cache", "0.001"], "--cache 0.001"),
        (
            &["--servers", &both, "--records", "9M"],
            "is full: give it more --memory",
        ),
        (
            &["--servers", &both, "--repartition", "--cache", "0.001"],
            "--cache 0.001",
        ),
        (
            &["--servers", &both, "--etcd", "http://a:1"],
            "--repartition",
        ),
        (
            &["--servers", &both, "--repartition", "--etcd", "a:1"],
            "such as http://127.0.0.1:2379",
        ),
        (
            &["--servers", &both, "--repartition", "--etcd", nobody],
            "--etcd: etcd at http://127.0.0.1:1",
        ),
    ] {
        let mut command = timberline();
        command.args(["bench", "--remote"]).args(args);
        let line = refused(command);
        assert!(line.contains(says), "{args:?}: {line}");
    }
}
