//! A cluster of processes: `pool`, `serve --cluster` and `reload`; what dies, and what is lost.

mod command;
mod process;
mod scratch;

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use command::{refused, stderr, stdout, timberline};
use process::Process;
use scratch::Scratch;

fn memory_server(args: &[&str]) -> Process {
    let mut command = timberline();
    command.args(["pool", "--listen", "127.0.0.1:0"]).args(args);
    if !args.contains(&"--memory") {
        command.args(["--memory", "64MB"]);
    }
    Process::start(&mut command)
}

fn start_node(servers: &str, dir: &Path, args: &[&str]) -> Process {
    Process::start(&mut serve(servers, dir, args))
}

fn serve(servers: &str, dir: &Path, args: &[&str]) -> Command {
    let mut command = timberline();
    command.args(["serve", "--cluster", "--listen", "127.0.0.1:0"]);
    command.args(["--threads", "1", "--memory", "64MB", "--servers", servers]);
    command.arg("--dir").arg(dir).args(args);
    command
}

/// A client that goes where it is sent, and asks again while nobody serves a key.
struct Routed {
    nodes: HashMap<String, BufReader<TcpStream>>,
    known: Vec<String>,
    at: String,
}

impl Routed {
    fn new(known: &[&Process]) -> Routed {
        let known: Vec<String> = known.iter().map(|it| it.address.clone()).collect();
        Routed {
            nodes: HashMap::new(),
            at: known[0].clone(),
            known,
        }
    }

    /// The reply to a line, in one line; `None` if the connection ended.
    fn ask(&mut self, line: &str) -> Option<String> {
        if !self.nodes.contains_key(&self.at) {
            let stream = TcpStream::connect(&self.at).ok()?;
            let patience = Some(Duration::from_secs(60));
            stream.set_read_timeout(patience).unwrap();
            self.nodes.insert(self.at.clone(), BufReader::new(stream));
        }
        let node = self.nodes.get_mut(&self.at)?;
        let mut reply = String::new();
        node.get_mut()
            .write_all(format!("{line}\r\n").as_bytes())
            .ok()?;
        node.read_line(&mut reply).ok().filter(|read| *read > 0)?;
        if let Some(length) = reply.strip_prefix('$').filter(|it| !it.starts_with('-')) {
            let mut text = vec![0; length.trim_end().parse::<usize>().unwrap() + 2];
            node.read_exact(&mut text).ok()?;
            reply = String::from_utf8(text).unwrap();
        }
        Some(reply.trim_end().to_string())
    }

    fn says(&mut self, line: &str) -> String {
        for attempt in 0.. {
            assert!(attempt < 3_000, "{line}: nobody serves it");
            let reply = self.ask(line);
            let moved = reply.as_ref().and_then(|it| it.strip_prefix("-MOVED "));
            match (moved, &reply) {
                (Some(to), _) => self.at = to.rsplit(' ').next().unwrap().into(),
                (None, Some(reply)) if !reply.starts_with("-CLUSTERDOWN") => return reply.clone(),
                _ => {
                    // It is gone: any other one knows who has the key now, or will.
                    self.nodes.remove(&self.at);
                    self.at = self.known[attempt % self.known.len()].clone();
                    thread::sleep(Duration::from_millis(20));
                }
            }
        }
        unreachable!()
    }
}

/// A node is killed: all that it acknowledged is there, at the other one. Then the last one is, and
/// then the memory servers; the logs bring all of it back.
#[test]
fn what_is_killed_loses_nothing_that_was_acknowledged() {
    const KEYS: usize = 400;
    /// Hashes, and as many sorted sets; each has a part in the root and one in pages.
    const OTHERS: usize = 4;
    let scratch = Scratch::new();
    let pools = [memory_server(&[]), memory_server(&[])];
    let servers = format!("{},{}", pools[0].address, pools[1].address);
    let dirs = ["one", "other"].map(|it| scratch.path(it));
    let args = ["--lease", "3000", "--durability", "each"];
    let mut first = start_node(&servers, &dirs[0], &args);
    let mut second = start_node(&servers, &dirs[1], &args);
    let mut routed = Routed::new(&[&first, &second]);
    // Until both have slots.
    while !routed.says("CLUSTER INFO").starts_with('c') || {
        let nodes = [&first, &second].map(|it| Routed::new(&[it]).says("DBSIZE"));
        nodes.iter().any(|it| it == ":0")
    } {
        for number in 0..50 {
            routed.says(&format!("SET key{number} before"));
        }
    }
    for number in 0..KEYS {
        if number == KEYS / 2 {
            second.kill();
        }
        assert_eq!(routed.says(&format!("SET key{number} {number}")), "+OK");
        let (key, field) = (number % OTHERS, number / OTHERS);
        // Who is asked again may have done it before.
        let set = routed.says(&format!("HSET hash{key} f{field} {number}"));
        assert!([":0", ":1"].contains(&&set[..]), "{set}");
        let set = routed.says(&format!("ZADD sorted{key} {field} m{field}"));
        assert!([":0", ":1"].contains(&&set[..]), "{set}");
    }
    let check = |routed: &mut Routed| {
        for number in 0..KEYS {
            assert_eq!(routed.says(&format!("GET key{number}")), number.to_string());
            let (key, field) = (number % OTHERS, number / OTHERS);
            let found = routed.says(&format!("HGET hash{key} f{field}"));
            assert_eq!(found, number.to_string());
            let rank = routed.says(&format!("ZRANK sorted{key} m{field}"));
            assert_eq!(rank, format!(":{field}"));
        }
        for key in 0..OTHERS {
            let fields = format!(":{}", KEYS / OTHERS);
            assert_eq!(routed.says(&format!("HLEN hash{key}")), fields);
            assert_eq!(routed.says(&format!("ZCARD sorted{key}")), fields);
        }
    };
    check(&mut routed);
    // All nodes are gone, the pool has everything.
    first.kill();
    let mut third = start_node(&servers, &dirs[0], &args);
    check(&mut Routed::new(&[&third]));
    // The pool is gone: it is named.
    drop(pools);
    let mut lost = Routed::new(&[&third]);
    let said = lost.ask("GET key1").unwrap_or_default();
    assert!(
        said.starts_with("-ERR") && said.contains("memory server "),
        "{said}"
    );
    third.kill();
    let pools = [memory_server(&[]), memory_server(&[])];
    let servers = format!("{},{}", pools[0].address, pools[1].address);
    let line = refused(serve(&servers, &dirs[0], &[]));
    assert!(line.contains("timberline reload"), "{line}");
    let mut reload = timberline();
    let output = reload
        .args(["reload", "--servers", &servers])
        .args(&dirs)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let said = stderr(&output);
    assert!(
        said.contains(&format!("{} keys are in the pool", KEYS + 2 * OTHERS)),
        "{said}"
    );
    let fourth = start_node(&servers, &dirs[0], &args);
    check(&mut Routed::new(&[&fourth]));
}

/// A node that was stopped for too long has lost its slots: it tells nobody what was, and ends.
#[test]
fn who_was_taken_for_dead_ends() {
    let scratch = Scratch::new();
    let pool = memory_server(&[]);
    let dirs = ["one", "other"].map(|it| scratch.path(it));
    let lease = ["--lease", "3000", "--fixed-slots"];
    let mut first = start_node(&pool.address, &dirs[0], &lease);
    let second = start_node(&pool.address, &dirs[1], &lease);
    let mut stopped = Routed::new(&[&first]);
    assert_eq!(stopped.says("SET key old"), "+OK");
    let signal = |name: &str| {
        let mut kill = Command::new("kill");
        assert!(
            kill.args([name, &first.child.id().to_string()])
                .status()
                .unwrap()
                .success()
        );
    };
    signal("-STOP");
    // The other one is asked alone: it sends to the first one until it has the slots itself.
    let mut other = Routed::new(&[&second]);
    while other.ask("SET key new").as_deref() != Some("+OK") {
        thread::sleep(Duration::from_millis(20));
    }
    signal("-CONT");
    let said = stopped.ask("GET key").unwrap_or_default();
    let is_refused = said.is_empty() || said.starts_with('-');
    assert!(is_refused, "{said}");
    assert_eq!(first.child.wait().unwrap().code(), Some(1));
    assert_eq!(other.says("GET key"), "new");
}

/// One memory server of several dies: what it had fails and says so; the rest is served.
#[test]
fn a_memory_server_that_dies_is_named() {
    let scratch = Scratch::new();
    let mut pools = [memory_server(&[]), memory_server(&[])];
    let servers = format!("{},{}", pools[0].address, pools[1].address);
    let node = start_node(&servers, &scratch.path("log"), &["--lease", "60000"]);
    let mut client = Routed::new(&[&node]);
    for number in 0..200 {
        assert_eq!(client.says(&format!("SET key{number} {number}")), "+OK");
    }
    pools[1].kill();
    let (mut there, mut named) = (0, 0);
    for number in 0..200 {
        let said = client.ask(&format!("GET key{number}")).unwrap();
        if said == number.to_string() {
            there += 1;
        } else {
            assert!(
                said.starts_with("-ERR") && said.contains("memory server 1"),
                "{said}"
            );
            named += 1;
        }
    }
    assert!(there > 0 && named > 0, "{there} there, {named} named");
}

/// Ordinary clients, where they are installed.
#[test]
fn clients_of_redis_find_their_way() {
    if Command::new("redis-cli").arg("--version").output().is_err() {
        return;
    }
    let scratch = Scratch::new();
    let pools = [memory_server(&[]), memory_server(&[])];
    let servers = format!("{},{}", pools[0].address, pools[1].address);
    let dirs = ["one", "other", "third"].map(|it| scratch.path(it));
    let lease = ["--lease", "60000"];
    let nodes = dirs.each_ref().map(|dir| start_node(&servers, dir, &lease));
    let port = nodes[0].address.rsplit(':').next().unwrap();
    let run = |program: &str, args: &[&str]| {
        let output = Command::new(program).args(args).output().unwrap();
        let said = stdout(&output) + &stderr(&output);
        assert!(output.status.success(), "{program} {args:?}: {said}");
        said
    };
    // Until all have slots, and all know that.
    loop {
        let output = Command::new("redis-cli")
            .args(["--cluster", "check", &nodes[0].address])
            .output()
            .unwrap();
        let said = stdout(&output);
        let shares = said.matches("slots:").count();
        if output.status.success() && shares == 3 && !said.contains("slots: (0 slots)") {
            assert!(said.contains("All 16384 slots covered"), "{said}");
            assert!(said.contains("All nodes agree about slots"), "{said}");
            break;
        }
        thread::sleep(Duration::from_millis(50));
    }
    for number in 0..20 {
        let key = format!("key{number}");
        let said = run("redis-cli", &["-c", "-p", port, "SET", &key, &key]);
        assert!(said.contains("OK"), "{said}");
    }
    for number in 0..20 {
        let key = format!("key{number}");
        let said = run("redis-cli", &["-c", "-p", port, "GET", &key]);
        assert!(said.contains(&key), "{said}");
    }
    let said = run("redis-cli", &["--cluster", "info", &nodes[0].address]);
    assert!(said.contains("20 keys in 3 masters"), "{said}");
    let args = [
        "--cluster",
        "-p",
        port,
        "-n",
        "600",
        "-c",
        "6",
        "-r",
        "1000",
        "-q",
    ];
    let said = run(
        "redis-benchmark",
        &[&args[..], &["-t", "set,get,incr,mset"]].concat(),
    );
    assert!(said.contains("Cluster has 3 master nodes"), "{said}");
    assert!(
        said.contains("SET: ") && said.contains("MSET (10 keys): "),
        "{said}"
    );
    assert!(!said.to_lowercase().contains("error"), "{said}");
}

#[test]
fn a_full_pool_is_said_and_serves_what_it_has() {
    let scratch = Scratch::new();
    let pool = memory_server(&["--memory", "1MB"]);
    let node = start_node(&pool.address, &scratch.path("log"), &["--lease", "60000"]);
    let mut client = Routed::new(&[&node]);
    let value = "x".repeat(2_000);
    let mut set = |number: usize| client.says(&format!("SET key{number} {value}"));
    let full = (0..).find(|&number| set(number) != "+OK").unwrap();
    assert!(full > 50, "{full}");
    let said = set(full);
    assert_eq!(said, "-OOM memory server 0 is full, and so are the others");
    for number in 0..full {
        assert_eq!(client.says(&format!("GET key{number}")), value);
    }
    assert_eq!(client.says(&format!("EXISTS key{full}")), ":0");
    assert_eq!(client.says("DEL key0"), ":1");
    assert_eq!(client.says("SET key1 short"), "+OK");
}

#[test]
fn bad_input_is_refused_in_one_line() {
    let scratch = Scratch::new();
    let file = |name: &str, text: &str| {
        let path = scratch.path(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_string()
    };
    let (key, wrong) = (
        file("key", "a shared secret of some length"),
        file("wrong", "another secret of some length"),
    );
    let pool = memory_server(&["--key-file", &key]);
    let open = memory_server(&[]);
    let dir = scratch.path("log");
    let nobody = "127.0.0.1:1";
    for (servers, args, said) in [
        (
            nobody,
            &[][..],
            "memory server 0 cannot be reached: 127.0.0.1:1: ",
        ),
        (&pool.address, &[], "the keys of the two sides differ"),
        (
            &pool.address,
            &["--key-file", &wrong],
            "the keys of the two sides differ",
        ),
        (
            &pool.address,
            &["--key-file", "nowhere"],
            "--key-file nowhere: ",
        ),
        (&pool.address, &["--evict"], "'--evict'"),
        (&pool.address, &["--lease", "1"], "--lease"),
        (
            &pool.address,
            &["--etcd", "127.0.0.1:2379"],
            "such as http://127.0.0.1:2379",
        ),
        (
            &pool.address,
            &["--balance", "--fixed-slots"],
            "'--balance' cannot be used with '--fixed-slots'",
        ),
        (
            &open.address,
            &["--etcd", "http://127.0.0.1:1"],
            "--etcd: etcd at http://127.0.0.1:1: ",
        ),
        (
            &pool.address,
            &["--listen", "0.0.0.0:0"],
            "--announce: nobody can be sent to",
        ),
    ] {
        let line = match args.contains(&"--listen") {
            true => {
                let mut command = timberline();
                command
                    .args(["serve", "--cluster", "--servers", servers])
                    .args(args);
                command.arg("--dir").arg(&dir);
                refused(command)
            }
            false => refused(serve(servers, &dir, args)),
        };
        assert!(line.contains(said), "{args:?}: {line}");
    }
    let mut alone = timberline();
    alone.args(["serve", "--cluster", "--dir"]).arg(&dir);
    assert!(refused(alone).contains("--servers"));
    let mut reload = timberline();
    reload.args(["reload", "--servers", &pool.address, "nowhere"]);
    assert!(refused(reload).contains("nowhere: there is no such folder"));
    let mut reload = timberline();
    reload.args(["reload", "--etcd", "a:1", "--servers", &pool.address, "x"]);
    assert!(refused(reload).contains("such as http://127.0.0.1:2379"));
}
