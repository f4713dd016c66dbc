//! Metrics and health over HTTP, and what INFO counts.

mod client;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use client::{Client, Folder, Running};

fn serving(folder: &Folder) -> Running {
    Running::with(folder, |it| {
        it.metrics = Some("127.0.0.1:0".parse().unwrap())
    })
}

/// The whole answer to some bytes.
fn answer(server: &Running, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(server.metrics.unwrap()).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    stream.write_all(request).unwrap();
    let mut answer = String::new();
    // A connection that is closed with bytes unread may be reset.
    let _ = stream.read_to_string(&mut answer);
    answer
}

fn get(server: &Running, path: &str) -> (String, String) {
    let answer = answer(
        server,
        format!("GET {path} HTTP/1.1\r\nHost: it\r\n\r\n").as_bytes(),
    );
    let (head, body) = answer.split_once("\r\n\r\n").expect("it is an answer");
    let length = format!("Content-Length: {}\r\n", body.len());
    assert!(format!("{head}\r\n").contains(&length), "{answer}");
    (head.lines().next().unwrap().to_owned(), body.to_owned())
}

/// A figure among all of them.
fn figure(body: &str, name: &str) -> f64 {
    let line = body
        .lines()
        .find_map(|line| line.strip_prefix(&format!("timberline_{name} ")));
    let figure = line.unwrap_or_else(|| panic!("{name}: {body}"));
    figure.parse().unwrap()
}

#[test]
fn keys_that_are_found_are_counted_by_each_command_that_reads() {
    let folder = Folder::new();
    let server = serving(&folder);
    let mut client = server.client();
    let lookups = |client: &mut Client<TcpStream>| {
        ["keyspace_hits", "keyspace_misses"].map(|name| client.info::<String>("stats", name))
    };
    client.ask("SET a 1");
    client.ask("HSET h f v");
    client.ask("INCR n");
    assert_eq!(lookups(&mut client), ["0", "0"], "these only write");
    // Commands that read, and how many keys they find and miss.
    for (line, found, missed) in [
        ("GET a", 1, 0),
        ("GET b", 0, 1),
        // Of another type.
        ("GET h", 1, 0),
        ("MGET a b h c", 2, 2),
        ("HGET h x", 1, 0),
        ("HGET b f", 0, 1),
        ("EXISTS a b n", 2, 1),
        ("TTL b", 0, 1),
        ("STRLEN a", 1, 0),
        ("SUNION b c", 0, 2),
        ("DBSIZE", 0, 0),
    ] {
        let before = lookups(&mut client).map(|it| it.parse::<u64>().unwrap());
        client.ask(line);
        let after = lookups(&mut client).map(|it| it.parse::<u64>().unwrap());
        let counted = [after[0] - before[0], after[1] - before[1]];
        assert_eq!(counted, [found, missed], "{line}");
    }
    for line in ["MULTI", "GET a", "GET b", "EXEC"] {
        client.ask(line);
    }
    assert_eq!(lookups(&mut client), ["9", "9"]);
    let (_, body) = get(&server, "/metrics");
    assert_eq!(figure(&body, "keyspace_hits_total"), 9.0);
    assert_eq!(figure(&body, "keyspace_misses_total"), 9.0);
    // All of it is in memory.
    assert!(figure(&body, "cache_hits_total") > 0.0);
    assert_eq!(figure(&body, "cache_misses_total"), 0.0);
    client.ask("CONFIG RESETSTAT");
    assert_eq!(lookups(&mut client), ["0", "0"]);
}

#[test]
fn info_has_what_tools_for_redis_look_at() {
    let folder = Folder::new();
    let server = serving(&folder);
    let mut client = server.client();
    client.ask("SET a 1");
    client.ask("SET b 1 EX 1000");
    assert_eq!(client.info::<String>("replication", "role"), "master");
    assert_eq!(
        client.info::<String>("keyspace", "db0"),
        "keys=2,expires=1,avg_ttl=0"
    );
    for name in ["used_memory", "used_memory_rss", "used_memory_peak"] {
        let shown = client.info::<String>("memory", &format!("{name}_human"));
        let number: f64 = shown.trim_end_matches(['M', 'G']).parse().unwrap();
        assert!(number >= 1.0, "{name}: {shown}");
    }
    assert_eq!(client.info::<String>("memory", "maxmemory_human"), "1.00G");
    // Clients go on until it is seen.
    while client.info::<String>("stats", "instantaneous_ops_per_sec") == "0" {}
    let seconds = |client: &mut Client<TcpStream>| {
        let used = ["used_cpu_user", "used_cpu_sys"].map(|name| client.info::<String>("cpu", name));
        let used = used.map(|it| it.parse::<f64>().unwrap());
        used[0] + used[1]
    };
    while seconds(&mut client) == 0.0 {}
}

#[test]
fn metrics_tell_of_the_disk_and_of_losses() {
    let folder = Folder::new();
    let server = serving(&folder);
    let mut client = server.client();
    client.ask("SET a 1");
    let unsaved = figure(&get(&server, "/metrics").1, "store_unsaved_records");
    assert!(unsaved <= 2.0, "{unsaved}");
    assert_eq!(client.says("SAVE"), "+OK\r\n");
    let (_, body) = get(&server, "/metrics");
    for some in [
        "disk_writes_total",
        "disk_written_bytes_total",
        "disk_syncs_total",
        "store_index_bytes",
    ] {
        assert!(figure(&body, some) > 0.0, "{some}: {body}");
    }
    for none in [
        "evicted_keys_total",
        "store_failed",
        "store_unsaved_records",
        "store_lost_values_at_open",
        "store_lost_bytes_at_open",
    ] {
        assert_eq!(figure(&body, none), 0.0, "{none}: {body}");
    }
}

/// A cache that is full counts what goes, and says what it is in the words of Redis that come
/// nearest.
#[test]
fn a_cache_says_what_it_drops() {
    let folder = Folder::new();
    let server = Running::with(&folder, |it| {
        (it.evict, it.capacity, it.segment_bytes) = (true, 8 << 20, 256 << 10);
        it.metrics = Some("127.0.0.1:0".parse().unwrap());
    });
    let mut client = server.client();
    for nth in 0..2_000 {
        let (key, value) = (format!("key{nth}"), [nth as u8; 10_000]);
        let said = client.command(&[b"SET", key.as_bytes(), &value]);
        assert_eq!(said, b"+OK\r\n", "{nth}");
    }
    let evicted: f64 = client.info("stats", "evicted_keys");
    assert!((1_000.0..2_000.0).contains(&evicted), "{evicted}");
    let told = figure(&get(&server, "/metrics").1, "evicted_keys_total");
    assert!(told >= evicted, "{told}");
    assert_eq!(client.says("STRLEN key1999"), ":10000\r\n");
    let policy = "*2\r\n$16\r\nmaxmemory-policy\r\n$11\r\nallkeys-lru\r\n";
    assert_eq!(client.says("CONFIG GET maxmemory-policy"), policy);
    assert!(
        client
            .says("INFO memory")
            .contains("maxmemory_policy:allkeys-lru\r\n")
    );
    let set = |policy| format!("CONFIG SET maxmemory-policy {policy}");
    assert_eq!(client.says(&set("allkeys-lru")), "+OK\r\n");
    assert!(
        client
            .says(&set("noeviction"))
            .starts_with("-ERR CONFIG SET failed")
    );
    drop(client);
    server.stop();
    // What is no cache drops nothing.
    let other = Folder::new();
    let server = Running::new(&other);
    let mut client = server.client();
    let policy = "*2\r\n$16\r\nmaxmemory-policy\r\n$10\r\nnoeviction\r\n";
    assert_eq!(client.says("CONFIG GET maxmemory-policy"), policy);
    assert!(
        client
            .says("INFO memory")
            .contains("maxmemory_policy:noeviction\r\n")
    );
}

#[test]
fn metrics_count_what_clients_did() {
    let folder = Folder::new();
    let server = serving(&folder);
    let mut client = server.client();
    for nth in 0..3 {
        assert_eq!(client.says(&format!("SET key{nth} value")), "+OK\r\n");
    }
    let (status, body) = get(&server, "/metrics");
    assert_eq!(status, "HTTP/1.1 200 OK");
    let figure = |name: &str| figure(&body, name);
    assert_eq!(figure("keys"), 3.0);
    assert_eq!(figure("commands_total"), 3.0);
    assert_eq!(figure("connected_clients"), 1.0);
    assert!(figure("memory_resident_bytes") > 0.0);
    // Each figure has its help and its type.
    let lines = body.lines().collect::<Vec<_>>();
    for three in lines.chunks(3) {
        let name = three[2].split(' ').next().unwrap();
        assert!(
            three[0].starts_with(&format!("# HELP {name} ")),
            "{three:?}"
        );
        assert!(
            three[1].starts_with(&format!("# TYPE {name} ")),
            "{three:?}"
        );
    }
    server.stop();
}

#[test]
fn a_server_that_takes_writes_is_well() {
    let folder = Folder::new();
    let server = serving(&folder);
    assert_eq!(
        get(&server, "/health"),
        ("HTTP/1.1 200 OK".into(), "ok\n".into())
    );
    let head = answer(&server, b"HEAD /health HTTP/1.1\r\n\r\n");
    assert!(
        head.starts_with("HTTP/1.1 200 OK") && head.ends_with("\r\n\r\n"),
        "{head}"
    );
}

#[test]
fn other_requests_are_refused_and_the_server_goes_on() {
    let folder = Folder::new();
    let server = serving(&folder);
    let (status, body) = get(&server, "/secrets");
    assert_eq!(status, "HTTP/1.1 404 Not Found");
    assert_eq!(body, "possible: /metrics, /health\n");
    let posted = answer(&server, b"POST /metrics HTTP/1.1\r\n\r\n");
    assert!(posted.starts_with("HTTP/1.1 405 "), "{posted}");
    for hostile in [
        &vec![b'x'; 100_000][..],
        b"\r\n\r\n",
        b"GET\r\n\r\n",
        b"\xff\xfe\r\n\r\n",
    ] {
        let said = answer(&server, hostile);
        assert!(said.is_empty() || said.starts_with("HTTP/1.1 40"), "{said}");
    }
    assert_eq!(get(&server, "/health").0, "HTTP/1.1 200 OK");
}

#[test]
fn commands_are_slow_from_the_time_on_that_was_set() {
    let folder = Folder::new();
    let server = serving(&folder);
    let mut client = server.client();
    // No command takes a day, each takes longer than nothing, and a negative time is none.
    for (slower_than, slow) in [("86400000000", 0), ("0", 4), ("-1", 0)] {
        let set = format!("CONFIG SET slowlog-log-slower-than {slower_than}");
        assert_eq!(client.says(&set), "+OK\r\n");
        client.ask("SLOWLOG RESET");
        client.send(b"SET a 1\r\nGET a\r\nHLEN h\r\nSLOWLOG LEN\r\n");
        let replies = [(); 4].map(|()| String::from_utf8(client.reply()).unwrap());
        // SLOWLOG RESET is slow itself, as it ends behind what it does.
        let expected = ["+OK\r\n", "$1\r\n1\r\n", ":0\r\n", &format!(":{slow}\r\n")];
        assert_eq!(replies, expected, "{slower_than}");
    }
}
