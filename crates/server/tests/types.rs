//! Hashes, sets and sorted sets of nodes of a cluster, beside those of a server alone.

mod client;
mod nodes;

use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

use client::{Folder, Running};
use nodes::{Routed, cluster, id, move_slots, node, nodes, pool, pool_of, while_slots_move};
use timberline_server::reload;

const KEYS: u64 = 6;

/// A command at random about a few keys of one slot: elements few or many, short or long.
fn command(draws: &mut fastrand::Rng, elements: u64) -> String {
    let key = |draws: &mut fastrand::Rng| format!("{{t}}{}", draws.u64(0..KEYS));
    let name = |draws: &mut fastrand::Rng| {
        let number = draws.u64(0..elements);
        match number % 7 {
            0 => format!("{number:x>200}"),
            _ => format!("element{number}"),
        }
    };
    let several = |draws: &mut fastrand::Rng, one: &dyn Fn(&mut fastrand::Rng) -> String| {
        let count = [1, 2, 60][draws.usize(0..3)];
        let all: Vec<String> = (0..count).map(|_| one(draws)).collect();
        all.join(" ")
    };
    let long = |draws: &mut fastrand::Rng| {
        let length = [1, 10, 300, 2_000][draws.usize(0..4)];
        let value = format!("{}", draws.u32(..)).repeat(length / 10 + 1);
        format!("{} {value}", name(draws))
    };
    let scored = |draws: &mut fastrand::Rng| format!("{} {}", draws.u32(0..500), name(draws));
    let (a, b, c) = (key(draws), key(draws), key(draws));
    match draws.u8(0..52) {
        0..3 => format!("HSET {a} {}", several(draws, &long)),
        3 => format!("HDEL {a} {}", several(draws, &name)),
        4 => format!("HGET {a} {}", name(draws)),
        5 => format!("HMGET {a} {}", several(draws, &name)),
        6 => format!("HGETALL {a}"),
        7 => format!("HINCRBY {a} {} 3", name(draws)),
        8 => format!("HKEYS {a}"),
        9..12 => format!("SADD {a} {}", several(draws, &name)),
        12 => format!("SREM {a} {}", several(draws, &name)),
        13 => format!("SMEMBERS {a}"),
        14 => format!("SUNIONSTORE {a} {b} {c}"),
        15 => format!("SDIFF {a} {b}"),
        16 => format!("SMOVE {a} {b} {}", name(draws)),
        17 => format!("SISMEMBER {a} {}", name(draws)),
        18..21 => format!("ZADD {a} {}", several(draws, &scored)),
        21 => format!("ZREM {a} {}", several(draws, &name)),
        22 => format!("ZRANK {a} {}", name(draws)),
        23 => format!("ZRANGE {a} {} 20 WITHSCORES", draws.u32(0..20)),
        24 => format!("ZREVRANGE {a} 3 {}", draws.i32(-30..30)),
        25 => format!("ZCOUNT {a} {} 300", draws.u32(0..300)),
        26 => format!("ZRANGEBYSCORE {a} {} (400 LIMIT 2 9", draws.u32(0..300)),
        27 => format!("ZINCRBY {a} 7 {}", name(draws)),
        28 => format!("ZPOPMIN {a} 2"),
        29 => format!("ZUNIONSTORE {a} 2 {b} {c}"),
        30 => format!("ZREVRANGEBYLEX {a} + [element5 LIMIT 0 5"),
        31 => format!("RENAME {a} {b}"),
        32 => format!("COPY {a} {b} REPLACE"),
        33 if draws.u8(0..4) == 0 => format!("DEL {a} {b}"),
        33 => format!("SET {a} {}", draws.u64(..)),
        34 => format!("EXPIRE {a} {}", [0, 1_000][draws.usize(0..2)]),
        35 => format!("PERSIST {a}"),
        36 => format!("EXPIRETIME {a}"),
        37 => format!("TYPE {a}"),
        38 => format!("HLEN {a}"),
        39..42 => format!("RPUSH {a} {}", several(draws, &name)),
        42 => format!("LPUSH {a} {}", several(draws, &name)),
        43 => format!("LRANGE {a} {} -3", draws.u32(0..20)),
        44 => format!("LPOP {a} {}", draws.u32(1..9)),
        45 => format!("LINDEX {a} {}", draws.i32(-50..50)),
        46 => format!("LSET {a} {} {}", draws.i32(-50..50), name(draws)),
        47 => format!("LINSERT {a} BEFORE {} x", name(draws)),
        48 => format!("LREM {a} {} {}", draws.i32(-2..2), name(draws)),
        49 => format!("LTRIM {a} {} -{}", draws.u32(0..9), draws.u32(1..9)),
        50 => format!("LMOVE {a} {b} LEFT RIGHT"),
        _ => format!("ZREMRANGEBYRANK {a} 0 {}", draws.u32(0..10)),
    }
}

/// Times of expiry that two servers were told at about the same time.
fn is_about(a: &str, b: &str) -> bool {
    let number = |it: &str| it.strip_prefix(':')?.trim_end().parse::<i64>().ok();
    matches!((number(a), number(b)), (Some(a), Some(b)) if a > 1_000_000 && a.abs_diff(b) < 600)
}

#[test]
fn elements_are_those_of_a_server_alone() {
    for (seed, elements) in [(1, 20), (2, 3_000)] {
        let (folder, other) = (Folder::new(), Folder::new());
        let (node, alone) = (node(&folder, cluster(&pool(2))), Running::new(&other));
        let (mut ours, mut theirs) = (node.client(), alone.client());
        let mut draws = fastrand::Rng::with_seed(seed);
        for round in 0..6_000 {
            let line = command(&mut draws, elements);
            let (our, their) = (ours.says(&line), theirs.says(&line));
            let same = our == their || line.starts_with("EXPIRETIME") && is_about(&our, &their);
            assert!(same, "{seed}, {round}: {line}\n{our}\n{their}");
        }
        assert_eq!(ours.says("DBSIZE"), theirs.says("DBSIZE"));
    }
}

/// A scan in pages shows each element once, and what does not fit in a page.
#[test]
fn scans_and_long_elements() {
    let folder = Folder::new();
    let node = node(&folder, cluster(&pool(2)));
    let mut client = node.client();
    for number in 0..1_000 {
        client.ask(&format!("HSET h f{number} {number}"));
    }
    let (mut cursor, mut fields) = ("0".to_string(), Vec::new());
    loop {
        let reply = client.says(&format!("HSCAN h {cursor} COUNT 33"));
        let mut lines = reply.split("\r\n");
        cursor = lines.nth(2).unwrap().into();
        fields.extend(lines.filter(|it| it.starts_with('f')).map(String::from));
        if cursor == "0" {
            break;
        }
    }
    fields.sort();
    fields.dedup();
    assert_eq!(fields.len(), 1_000);
    let long = vec![b'x'; 3 << 20];
    assert_eq!(client.command(&[b"HSET", b"h", b"f1", &long]), b":0\r\n");
    assert_eq!(client.says("HSTRLEN h f1"), format!(":{}\r\n", long.len()));
    let said = client.command(&[b"HSET", b"h", b"long", &vec![b'x'; 9 << 20]]);
    let said = String::from_utf8(said).unwrap();
    assert!(said.starts_with("-ERR a record of 94"), "{said}");
    let said = client.command(&[b"SADD", b"s", &vec![b'x'; 70_000]]);
    let said = String::from_utf8(said).unwrap();
    assert!(said.starts_with("-ERR a member of 70000"), "{said}");
    assert_eq!(client.says("EXISTS s"), ":0\r\n");
    assert_eq!(client.says("HLEN h"), ":1000\r\n");
    assert_eq!(
        client.says("SCAN 0 TYPE hash COUNT 9"),
        "*2\r\n$1\r\n0\r\n*1\r\n$1\r\nh\r\n"
    );
    assert_eq!(client.says("SCAN 0 TYPE set"), "*2\r\n$1\r\n0\r\n*0\r\n");
    assert_eq!(client.says("RANDOMKEY"), "$1\r\nh\r\n");
}

/// Elements that are gone take no memory: a pool of 8 MiB sees more of them go, in each way in
/// which they can.
#[test]
fn what_goes_gives_its_memory_back() {
    let folder = Folder::new();
    let node = node(&folder, cluster(&pool_of(1, 8 << 20)));
    let mut client = node.client();
    let fields: Vec<String> = (0..60).map(|it| format!("f{it} {it:0>900}")).collect();
    let fields: Vec<String> = fields.chunks(20).map(|it| it.join(" ")).collect();
    for round in 0..60 {
        for key in ["{t}a", "{t}b"] {
            for part in 0..10 {
                for fields in &fields {
                    let fields = fields.replace('f', &format!("g{part}:"));
                    let set = client.says(&format!("HSET {key} {fields}"));
                    assert_eq!(set, ":20\r\n", "{round}");
                }
            }
        }
        let lines = match round % 6 {
            0 => ["DEL {t}a", "UNLINK {t}b"],
            1 => ["SET {t}a 1", "MSET {t}b 1"],
            2 => ["PEXPIRE {t}a 1", "EXPIREAT {t}b 1"],
            3 => ["RENAME {t}a {t}b", "DEL {t}b"],
            4 => ["SINTERSTORE {t}a {t}c {t}c", "ZUNIONSTORE {t}b 1 {t}c"],
            _ => ["FLUSHALL", "PING"],
        };
        for line in lines {
            let said = client.says(line);
            assert!(!said.starts_with('-'), "{line}: {said}");
        }
        client.ask("DEL {t}a {t}b {t}c");
        while client.says("DBSIZE") != ":0\r\n" {
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// While slots go to and fro, elements change together, and none is lost.
#[test]
fn elements_move_with_their_slots() {
    const LANES: usize = 3;
    let servers = pool(2);
    let folders = [Folder::new(), Folder::new()];
    let nodes = nodes(&folders, &servers);
    let ranges = [0..=7_000, 7_001..=16_383];
    let pause = Duration::from_millis(50);
    let counts = while_slots_move(&nodes, &ranges, pause, LANES, |lane, routed, is_over| {
        let mut count = 0;
        while !is_over.load(Relaxed) {
            let field = count % 200;
            let reply = routed.says(&format!("HINCRBY h{lane} f{field} 1"));
            assert_eq!(reply, format!(":{}\r\n", count / 200 + 1));
            let reply = routed.says(&format!("ZADD z{lane} {count} m{count}"));
            assert_eq!(reply, ":1\r\n");
            let reply = routed.says(&format!("ZREVRANGE z{lane} 0 0"));
            let last = format!("*1\r\n${}\r\nm{count}\r\n", 1 + digits(count));
            assert_eq!(reply, last);
            // Two keys together.
            let both = ["a", "b"].map(|it| format!("SADD {{s{lane}}}{it} {count}"));
            routed.execute(both);
            count += 1;
        }
        assert!(routed.moved > 0);
        count
    });
    let mut routed = Routed::new(&nodes[0]);
    for (lane, count) in counts.into_iter().enumerate() {
        assert!(count > 0);
        let fields = format!(":{}\r\n", count.min(200));
        assert_eq!(routed.says(&format!("HLEN h{lane}")), fields);
        assert_eq!(
            routed.says(&format!("ZCARD z{lane}")),
            format!(":{count}\r\n")
        );
        for number in 0..count {
            let rank = routed.says(&format!("ZRANK z{lane} m{number}"));
            assert_eq!(rank, format!(":{number}\r\n"));
        }
        let both = ["a", "b"].map(|it| routed.says(&format!("SMEMBERS {{s{lane}}}{it}")));
        assert_eq!(both[0], both[1]);
        assert!(both[0].len() > 5, "some of them were executed");
    }
}

/// Who waits for an element when its slot moves is sent to the other node.
#[test]
fn who_waits_for_an_element_goes_with_its_slot() {
    let servers = pool(1);
    let folders = [Folder::new(), Folder::new()];
    let nodes = nodes(&folders, &servers);
    let (mut waits, mut other) = (nodes[0].client(), nodes[0].client());
    waits.send(b"BLPOP foo 0\r\n");
    while !other.says("INFO clients").contains("blocked_clients:1") {
        thread::sleep(Duration::from_millis(5));
    }
    other.ask("RPUSH bar x");
    move_slots(&nodes[0], 12182..=12182, &id(&nodes[1]));
    let moved = format!("-MOVED 12182 {}\r\n", nodes[1].address);
    assert_eq!(waits.reply(), moved.as_bytes());
    // It is served by whoever adds an element there.
    let (mut waits, mut other) = (nodes[1].client(), nodes[1].client());
    waits.send(b"BLPOP foo 0\r\n");
    assert_eq!(other.says("RPUSH foo a b"), ":2\r\n");
    assert_eq!(waits.reply(), b"*2\r\n$3\r\nfoo\r\n$1\r\na\r\n");
}

fn digits(number: usize) -> usize {
    number.to_string().len()
}

/// Commands at random while slots go to and fro; then the pool is lost, and the logs of all nodes
/// bring back what a server alone has. Twice.
#[test]
fn logs_bring_back_elements() {
    let folders = [Folder::new(), Folder::new(), Folder::new()];
    let dirs: Vec<_> = folders.iter().map(|it| it.0.join("store")).collect();
    let other = Folder::new();
    let alone = Running::new(&other);
    let mut theirs = alone.client();
    let mut draws = fastrand::Rng::with_seed(9);
    let mut servers = pool(2);
    for round in 0..2 {
        let nodes = nodes(&folders, &servers);
        let ids = nodes.each_ref().map(id);
        let mut routed = Routed::new(&nodes[0]);
        let mut owner = 0;
        for number in 0..2_000 {
            let line = command(&mut draws, 200);
            // Keys of many slots, so of several logs; commands of one key each.
            if line.split(' ').filter(|it| it.starts_with("{t}")).count() == 1 {
                let line = line.replace("{t}", "key");
                let (our, their) = (routed.says(&line), theirs.says(&line));
                let same = our == their || line.starts_with("EXPIRETIME") && is_about(&our, &their);
                assert!(same, "{round}, {number}: {line}\n{our}\n{their}");
            }
            if number % 40 == 0 {
                let to = (owner + draws.usize(1..3)) % 3;
                move_slots(&nodes[owner], 0..=16383, &ids[to]);
                owner = to;
            }
        }
        assert!(routed.moved > 5, "round {round}: {}", routed.moved);
        nodes.into_iter().for_each(|it| it.stop());
        servers = pool(3 - round);
        let reloaded = reload(&cluster(&servers), &dirs).unwrap();
        assert_eq!(format!(":{}\r\n", reloaded.keys), theirs.says("DBSIZE"));
        let back = node(&folders[0], cluster(&servers));
        let mut ours = back.client();
        let reads = [
            "LLEN", "TYPE", "HGETALL", "SMEMBERS", "SCARD", "HLEN", "ZCARD", "GET",
        ];
        for key in 0..KEYS {
            for read in reads {
                let line = format!("{read} key{key}");
                assert_eq!(ours.says(&line), theirs.says(&line), "{line}");
            }
            for line in [
                format!("ZRANGE key{key} 0 -1 WITHSCORES"),
                format!("LRANGE key{key} 0 -1"),
            ] {
                assert_eq!(ours.says(&line), theirs.says(&line), "{line}");
            }
        }
        back.stop();
    }
}

/// What is drawn at random is there: different members, or with repetition, and with their values.
#[test]
fn draws_are_of_what_is_there() {
    const MEMBERS: usize = 300;
    let (folder, other) = (Folder::new(), Folder::new());
    for server in [node(&folder, cluster(&pool(2))), Running::new(&other)] {
        let mut client = server.client();
        for number in 0..MEMBERS {
            client.ask(&format!("SADD s member{number}"));
            client.ask(&format!("HSET h member{number} member{number}"));
            client.ask(&format!("ZADD z {number} member{number}"));
        }
        let drawn = |reply: String| -> Vec<String> {
            let lines = reply.lines().filter(|it| it.starts_with('m'));
            lines.map(String::from).collect()
        };
        for command in ["SRANDMEMBER s", "HRANDFIELD h", "ZRANDMEMBER z"] {
            for (count, expected) in [(0, 0), (7, 7), (1000, MEMBERS), (-2000, 2000)] {
                let mut members = drawn(client.says(&format!("{command} {count}")));
                assert_eq!(members.len(), expected, "{command} {count}");
                let is_there = |it: &String| it[6..].parse::<usize>().unwrap() < MEMBERS;
                assert!(members.iter().all(is_there));
                let is_sorted = members.is_sorted();
                members.sort();
                members.dedup();
                assert!(count < 0 || members.len() == expected, "{command} {count}");
                // They come in no order, but by a chance of one in 300!.
                assert!(expected < 300 || !is_sorted, "{command} {count}");
            }
            assert_eq!(drawn(client.says(command)).len(), 1);
        }
        let pairs = drawn(client.says("HRANDFIELD h -50 WITHVALUES"));
        assert!(pairs.len() == 100 && pairs.chunks(2).all(|it| it[0] == it[1]));
        let scored = client.says("ZRANDMEMBER z -50 WITHSCORES");
        let lines: Vec<&str> = scored.lines().skip(1).collect();
        let has_score = |it: &[&str]| it[1].strip_prefix("member") == Some(it[3]);
        assert!(lines.len() == 200 && lines.chunks(4).all(has_score));
        let mut gone = drawn(client.says("SPOP s 100"));
        gone.extend(drawn(client.says("SPOP s")));
        gone.sort();
        gone.dedup();
        assert_eq!(
            (gone.len(), client.says("SCARD s")),
            (101, ":199\r\n".into())
        );
        let left = drawn(client.says("SMEMBERS s"));
        assert!(left.len() == 199 && left.iter().all(|it| !gone.contains(it)));
        assert_eq!(drawn(client.says("SPOP s 1000")).len(), 199);
        assert_eq!(client.says("EXISTS s"), ":0\r\n");
    }
}
