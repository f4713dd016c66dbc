//! Programs that know nothing of this server: clients as people have them.

mod client;

use std::collections::{HashMap, HashSet};
use std::process::Command;

use client::{Folder, Running};
use redis::{Commands, Connection, ErrorKind, ServerErrorKind};

fn connected(server: &Running, protocol: &str) -> Connection {
    let address = format!("redis://{}/?protocol={protocol}", server.address);
    let client = redis::Client::open(address).unwrap();
    client.get_connection().unwrap()
}

#[test]
fn programs_in_rust() {
    let folder = Folder::new();
    let server = Running::new(&folder);
    for protocol in ["resp2", "resp3"] {
        let mut server = connected(&server, protocol);
        let _: () = redis::cmd("FLUSHDB").query(&mut server).unwrap();

        let _: () = server.set_ex("greeting", "hello", 100).unwrap();
        let greeting: String = server.get("greeting").unwrap();
        let left: u64 = server.ttl("greeting").unwrap();
        assert!(greeting == "hello" && (1..=100).contains(&left));
        let none: Option<String> = server.get("none").unwrap();
        assert_eq!(none, None);
        let count: i64 = server.incr("count", 5).unwrap();
        assert_eq!(count, 5);

        let mut pipeline = redis::pipe();
        for number in 0..1000 {
            pipeline.set(format!("key:{number}"), number).ignore();
        }
        let (first,): (u32,) = pipeline.get("key:7").query(&mut server).unwrap();
        assert_eq!(first, 7);
        let keys = server.scan_match::<_, String>("key:*").unwrap();
        let keys: Result<HashSet<_>, _> = keys.collect();
        assert_eq!(keys.unwrap().len(), 1000);

        let (count,): (i64,) =
            redis::transaction(&mut server, &["count"], |server, transaction| {
                let count: i64 = server.get("count")?;
                let transaction = transaction.set("count", count + 1).ignore();
                transaction.get("count").query(server)
            })
            .unwrap();
        assert_eq!(count, 6);

        let fields = [("one", 1), ("two", 2)];
        let _: () = server.hset_multiple("hash", &fields).unwrap();
        let hash: HashMap<String, i64> = server.hgetall("hash").unwrap();
        assert_eq!(hash, fields.map(|(name, it)| (name.into(), it)).into());
        let added: usize = server.sadd("set", &["x", "y", "x"]).unwrap();
        let members: HashSet<String> = server.smembers("set").unwrap();
        assert_eq!((added, members.len()), (2, 2));
        let scores = [(2.5, "ann"), (1.0, "bob")];
        let _: () = server.zadd_multiple("scores", &scores).unwrap();
        let ranked: Vec<(String, f64)> = server.zrange_withscores("scores", 0, -1).unwrap();
        assert_eq!(ranked, [("bob".into(), 1.0), ("ann".into(), 2.5)]);
        let wrong = server.get::<_, String>("hash").unwrap_err();
        assert_eq!(wrong.code(), Some("WRONGTYPE"));
        let unknown = redis::cmd("NONE").query::<()>(&mut server).unwrap_err();
        assert_eq!(
            unknown.kind(),
            ErrorKind::Server(ServerErrorKind::ResponseError)
        );
    }

    let (mut one, mut two) = (connected(&server, "resp2"), connected(&server, "resp2"));
    let mut listener = one.as_pubsub();
    listener.subscribe("news").unwrap();
    let heard: usize = two.publish("news", "one").unwrap();
    let message = listener.get_message().unwrap();
    assert_eq!((heard, message.get_channel_name()), (1, "news"));
    assert_eq!(message.get_payload::<String>().unwrap(), "one");
}

/// A program by its name, unless a variable of the environment names another one; `None` where it
/// is not installed, which is said.
fn installed(variable: &str, name: &str, version: &[&str]) -> Option<String> {
    if let Ok(named) = std::env::var(variable) {
        return Some(named);
    }
    let output = Command::new(name).args(version).output();
    if output.is_ok_and(|it| it.status.success()) {
        return Some(name.into());
    }
    println!("skipped: {name} {} does not work here", version.join(" "));
    None
}

fn succeeds(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output().unwrap();
    let [out, err] = [&output.stdout, &output.stderr].map(|it| String::from_utf8_lossy(it));
    assert!(output.status.success(), "{program} {args:?}: {out}{err}");
    out.into_owned()
}

#[test]
fn programs_in_python() {
    let Some(python) = installed("TIMBERLINE_PYTHON", "python3", &["-c", "import redis"]) else {
        return;
    };
    let folder = Folder::new();
    let server = Running::new(&folder);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients/python.py");
    let said = succeeds(&python, &[script, &server.address.port().to_string()]);
    assert_eq!(said, "done\n");
}

#[test]
fn the_tools_of_redis() {
    let cli = installed("TIMBERLINE_REDIS_CLI", "redis-cli", &["--version"]);
    let load = installed(
        "TIMBERLINE_REDIS_BENCHMARK",
        "redis-benchmark",
        &["--version"],
    );
    let (Some(cli), Some(load)) = (cli, load) else {
        return;
    };
    let folder = Folder::new();
    let server = Running::new(&folder);
    let port = server.address.port().to_string();
    let tests = "ping,set,get,incr,sadd,hset,spop,zadd,zpopmin,mset";
    for pipeline in ["1", "16"] {
        let args = ["-p", &port, "-q", "-n", "2000", "-r", "100", "-t", tests];
        let said = succeeds(&load, &[&args[..], &["-P", pipeline]].concat());
        assert_eq!(said.matches("requests per second").count(), 11, "{said}");
        assert!(!said.contains("ERR"), "{said}");
    }
    let run = |args: &[&str]| succeeds(&cli, &[&["-p", &port], args].concat());
    assert_eq!(run(&["-3", "HSET", "hash", "field", "value"]), "1\n");
    assert_eq!(run(&["HGETALL", "hash"]), "field\nvalue\n");
    assert!(run(&["--scan", "--pattern", "has*"]).contains("hash\n"));
    assert!(run(&["--bigkeys"]).contains("Biggest   hash"));
    assert!(run(&["INFO", "server"]).contains("redis_version:"));
}
