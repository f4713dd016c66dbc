//! Servers that are nodes of a cluster, over memory servers, all in this process.

mod client;
mod nodes;

use std::net::SocketAddr;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

use client::Folder;
use nodes::{Routed, cluster, id, move_slots, node, nodes, pool, slots_of, text, while_slots_move};
use timberline_server::{Balance, Durability, Error, Options, Server};

#[test]
fn strings_are_those_of_a_server_alone() {
    let folder = Folder::new();
    let node = node(&folder, cluster(&pool(2)));
    let mut client = node.client();
    for (line, reply) in [
        ("SET a 1", "+OK\r\n"),
        ("SET a 2 NX", "$-1\r\n"),
        ("SET a 2 XX GET", "$1\r\n1\r\n"),
        ("GET a", "$1\r\n2\r\n"),
        ("INCRBY a 40", ":42\r\n"),
        ("APPEND a x", ":3\r\n"),
        ("INCR a", "-ERR value is not an integer or out of range\r\n"),
        ("GETRANGE a 1 -1", "$2\r\n2x\r\n"),
        ("EXISTS a", ":1\r\n"),
        ("TYPE a", "+string\r\n"),
        ("DEL a", ":1\r\n"),
        ("DEL a", ":0\r\n"),
        ("GET a", "$-1\r\n"),
        ("MSET {t}1 a {t}2 b", "+OK\r\n"),
        ("MGET {t}1 {t}2 {t}3", "*3\r\n$1\r\na\r\n$1\r\nb\r\n$-1\r\n"),
        ("RENAME {t}1 {t}3", "+OK\r\n"),
        ("COPY {t}3 {t}1", ":1\r\n"),
        ("DEL {t}1 {t}2 {t}3", ":3\r\n"),
        (
            "MSET a 1 b 2",
            "-CROSSSLOT Keys in request don't hash to the same slot\r\n",
        ),
        ("SET a 1 EX 100", "+OK\r\n"),
        ("TTL a", ":100\r\n"),
        ("PERSIST a", ":1\r\n"),
        ("TTL a", ":-1\r\n"),
        ("EXPIRE a 100", ":1\r\n"),
        ("EXPIREAT a 1", ":1\r\n"),
        ("EXISTS a", ":0\r\n"),
        ("CLUSTER KEYSLOT foo", ":12182\r\n"),
        ("CLUSTER KEYSLOT x{foo}y", ":12182\r\n"),
        (
            "CLUSTER COUNTKEYSINSLOT 16384",
            "-ERR Invalid or out of range slot\r\n",
        ),
        ("SET foo 1", "+OK\r\n"),
        ("SET {foo}2 1", "+OK\r\n"),
        ("CLUSTER COUNTKEYSINSLOT 12182", ":2\r\n"),
        ("CLUSTER GETKEYSINSLOT 12182 0", "*0\r\n"),
        ("DBSIZE", ":2\r\n"),
        ("READONLY", "+OK\r\n"),
        ("ASKING", "+OK\r\n"),
        ("FLUSHALL", "+OK\r\n"),
        ("DBSIZE", ":0\r\n"),
        ("KEYS *", "*0\r\n"),
        ("MULTI", "+OK\r\n"),
        ("SET {t}1 1", "+QUEUED\r\n"),
        ("INCR {t}1", "+QUEUED\r\n"),
        ("EXEC", "*2\r\n+OK\r\n:2\r\n"),
        ("MULTI", "+OK\r\n"),
        ("SET a 1", "+QUEUED\r\n"),
        ("SET b 1", "+QUEUED\r\n"),
        (
            "EXEC",
            "-CROSSSLOT Keys in request don't hash to the same slot\r\n",
        ),
        ("DISCARD", "-ERR DISCARD without MULTI\r\n"),
        ("EXISTS a", ":0\r\n"),
    ] {
        assert_eq!(client.says(line), reply, "{line}");
    }
    let info = client.says("INFO");
    assert!(info.contains("cluster_enabled:1") && info.contains("redis_mode:cluster"));
    assert!(client.says("CLUSTER INFO").contains("cluster_state:ok"));
}

#[test]
fn values_of_all_lengths_come_back_and_scans_show_each_key_once() {
    let folder = Folder::new();
    let node = node(&folder, cluster(&pool(3)));
    let mut client = node.client();
    let value = |number: usize| {
        let length = [0, 5, 100, 1_000, 1_024, 70_000, 200_000][number % 7];
        vec![b'a' + (number % 26) as u8; length]
    };
    for number in 0..200 {
        let key = format!("key {number}").into_bytes();
        assert_eq!(client.command(&[b"SET", &key, &value(number)]), b"+OK\r\n");
    }
    for number in 0..200 {
        let key = format!("key {number}").into_bytes();
        let value = value(number);
        let mut expected = format!("${}\r\n", value.len()).into_bytes();
        expected.extend([&value[..], b"\r\n"].concat());
        assert_eq!(client.command(&[b"GET", &key]), expected);
    }
    let long = vec![0; 9 << 20];
    let refused = client.command(&[b"SET", b"long", &long]);
    let refused = String::from_utf8(refused).unwrap();
    assert!(refused.starts_with("-ERR a record of 94"), "{refused}");
    let (mut cursor, mut keys) = ("0".to_string(), Vec::new());
    loop {
        let reply = client.says(&format!("SCAN {cursor} COUNT 7"));
        let mut lines = reply.split("\r\n");
        cursor = lines.nth(2).unwrap().into();
        keys.extend(lines.filter(|it| it.starts_with("key")).map(String::from));
        if cursor == "0" {
            break;
        }
    }
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), 200);
    assert_eq!(client.says("DBSIZE"), ":200\r\n");
}

#[test]
fn keys_that_expire_are_removed_though_nobody_looks() {
    let folder = Folder::new();
    let node = node(&folder, cluster(&pool(1)));
    let mut client = node.client();
    client.ask("SET foo 1 PX 50");
    client.ask("SET {foo}2 1 EX 1000");
    while client.says("CLUSTER COUNTKEYSINSLOT 12182") != ":1\r\n" {
        thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(client.says("GET foo"), "$-1\r\n");
    assert_eq!(client.says("GET {foo}2"), "$1\r\n1\r\n");
}

/// A node that comes gets its share; what is another's is said; all know the same.
#[test]
fn nodes_share_the_slots() {
    let servers = pool(2);
    let balanced = || {
        let mut options = cluster(&servers);
        options.balance = Balance::Slots;
        options.lease = Duration::from_secs(20);
        options
    };
    let folders = [Folder::new(), Folder::new(), Folder::new()];
    let first = node(&folders[0], balanced());
    let mut routed = Routed::new(&first);
    for number in 0..300 {
        assert_eq!(routed.says(&format!("SET key{number} {number}")), "+OK\r\n");
    }
    let others = [&folders[1], &folders[2]].map(|folder| node(folder, balanced()));
    let nodes = [&first, &others[0], &others[1]];
    for node in nodes {
        let mut client = node.client();
        let id = text(&client.says("CLUSTER MYID")).to_string();
        assert_eq!(id.len(), 40);
        loop {
            let lines = client.says("CLUSTER NODES");
            let shares: Vec<usize> = text(&lines).lines().map(slots_of).collect();
            if shares.len() == 3 && shares.iter().all(|share| *share > 4_000) {
                let mine = lines.lines().find(|line| line.contains("myself")).unwrap();
                assert!(mine.starts_with(&id), "{lines}");
                assert!(mine.contains(&format!(" {}@", node.address)), "{lines}");
                break;
            }
            thread::sleep(Duration::from_millis(50));
        }
    }
    for number in 0..300 {
        let found = routed.says(&format!("GET key{number}"));
        assert_eq!(text(&found), number.to_string());
    }
    assert!(routed.moved > 50, "{}", routed.moved);
    let keys = nodes.map(|node| {
        let size = node.client().says("DBSIZE");
        size[1..].trim_end().parse::<usize>().unwrap()
    });
    assert_eq!(keys.iter().sum::<usize>(), 300, "{keys:?}");
    let slots = nodes.map(|node| node.client().says("CLUSTER SLOTS"));
    assert!(slots[0] == slots[1] && slots[1] == slots[2], "{slots:?}");
    assert!(
        nodes[0]
            .client()
            .says("CLUSTER SHARDS")
            .contains("replication-offset")
    );
}

/// Increments that were acknowledged are all there, and none twice.
#[test]
fn moving_slots_loses_nothing() {
    const LANES: usize = 4;
    let servers = pool(2);
    let folders = [Folder::new(), Folder::new()];
    let nodes = nodes(&folders, &servers);
    let ranges = [0..=5_000, 5_001..=5_001, 5_002..=16_383];
    let pause = Duration::from_millis(30);
    let moved = while_slots_move(&nodes, &ranges, pause, LANES, |lane, routed, is_over| {
        let mut counts = [0; 50];
        while !is_over.load(Relaxed) {
            for (number, count) in counts.iter_mut().enumerate() {
                *count += 1;
                let reply = routed.says(&format!("INCR {lane}:{number}"));
                assert_eq!(reply, format!(":{count}\r\n"));
            }
            // Two keys together, which a move does not part.
            let both = ["a", "b"].map(|it| format!("INCR {{{lane}}}{it}"));
            routed.execute(both);
        }
        (routed.moved, counts)
    });
    assert!(moved.iter().all(|it| it.0 > 0), "{moved:?}");
    let mut routed = Routed::new(&nodes[0]);
    for (lane, (_, counts)) in moved.iter().enumerate() {
        for (number, count) in counts.iter().enumerate() {
            let found = routed.says(&format!("GET {lane}:{number}"));
            assert_eq!(text(&found), count.to_string());
        }
        let both = ["a", "b"].map(|it| routed.says(&format!("GET {{{lane}}}{it}")));
        assert_eq!(both[0], both[1]);
        assert!(both[0].len() > 5, "some of them were executed");
    }
    let ids = nodes.each_ref().map(id);
    let refused = |line: &str| nodes[0].client().says(line);
    let line = format!("CLUSTER MIGRATESLOTS SLOTSRANGE 1 2 NODE {}", ids[0]);
    assert_eq!(refused(&line), "-ERR this node has the slots already\r\n");
    let line = "CLUSTER MIGRATESLOTS SLOTSRANGE 1 2 NODE 1";
    assert_eq!(refused(line), "-ERR Unknown node 1\r\n");
    let mut other = nodes[1].client();
    let line = format!("CLUSTER MIGRATESLOTS SLOTSRANGE 7 7 NODE {}", ids[0]);
    assert_eq!(other.says(&line), "-ERR slot 7 is not this node's\r\n");
    // A transaction whose slots have moved ends.
    let mut client = nodes[0].client();
    assert_eq!(client.says("MULTI"), "+OK\r\n");
    assert_eq!(client.says("INCR a"), "+QUEUED\r\n");
    move_slots(&nodes[0], 0..=16_383, &ids[1]);
    assert!(client.says("EXEC").starts_with("-MOVED"));
    assert_eq!(client.says("PING"), "+PONG\r\n");
}

/// Who leaves gives its slots to the others; who comes back has what it had, alone too.
#[test]
fn nodes_leave_and_come_back() {
    let servers = pool(2);
    let folders = [Folder::new(), Folder::new()];
    let first = node(&folders[0], cluster(&servers));
    let mut client = first.client();
    for number in 0..100 {
        client.ask(&format!("SET key{number} {number}"));
    }
    let second = node(&folders[1], cluster(&servers));
    first.stop();
    let mut client = second.client();
    for number in 0..100 {
        assert_eq!(
            text(&client.says(&format!("GET key{number}"))),
            number.to_string()
        );
        client.ask(&format!("SET key{number} {}", 2 * number));
    }
    second.stop();
    let first = node(&folders[0], cluster(&servers));
    let mut client = first.client();
    for number in 0..100 {
        let found = client.says(&format!("GET key{number}"));
        assert_eq!(text(&found), (2 * number).to_string());
    }
}

/// A folder whose log is about other data is not mixed with these.
#[test]
fn a_log_of_other_data_is_refused() {
    let folder = Folder::new();
    node(&folder, cluster(&pool(1))).stop();
    let open = |servers: &[SocketAddr]| {
        let mut options = Options::new(folder.0.join("store"));
        options.listen = vec!["127.0.0.1:0".parse().unwrap()];
        options.durability = Durability::None;
        options.cluster = Some(cluster(servers));
        Server::open(options).err().map(|error| error.to_string())
    };
    let empty = open(&pool(1)).unwrap();
    assert!(
        empty.contains("the memory servers have no data, but "),
        "{empty}"
    );
    let servers = pool(1);
    node(&Folder::new(), cluster(&servers)).stop();
    let other = open(&servers).unwrap();
    assert!(other.contains("is the log of other data"), "{other}");
    // The memory servers in another order.
    let mut servers = pool(2);
    node(&Folder::new(), cluster(&servers)).stop();
    servers.reverse();
    let mut options = Options::new(Folder::new().0.join("store"));
    options.listen = vec!["127.0.0.1:0".parse().unwrap()];
    options.cluster = Some(cluster(&servers));
    let error = Server::open(options).err();
    assert!(matches!(error, Some(Error::Cluster(_))), "{error:?}");
}
