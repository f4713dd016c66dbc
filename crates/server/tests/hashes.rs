//! Hashes and sets: small ones are one record, and become large ones.

mod client;

use std::collections::BTreeMap;
use std::net::TcpStream;

use client::{Client, Folder, Running};

/// Records that the server has written.
fn records(client: &mut Client<TcpStream>) -> u64 {
    client.info("persistence", "records_appended")
}

/// Names and values, from the reply to HGETALL.
fn fields(client: &mut Client<TcpStream>, key: &str) -> Vec<(String, String)> {
    let reply = client.says(&format!("HGETALL {key}"));
    let lines: Vec<&str> = reply.split("\r\n").skip(2).step_by(2).collect();
    let pairs = lines.chunks_exact(2);
    pairs.map(|it| (it[0].into(), it[1].into())).collect()
}

#[test]
fn a_small_hash_or_set_is_one_record() {
    let folder = Folder::new();
    let server = Running::new(&folder);
    let mut client = server.client();
    let mut written = |line: &str| {
        let before = records(&mut client);
        client.ask(line);
        records(&mut client) - before
    };
    assert_eq!(written("HSET h a 1 b 2 c 3 d 4"), 1);
    assert_eq!(written("HSET h a 5"), 1);
    assert_eq!(written("HSET h a 5"), 0, "nothing changes");
    assert_eq!(written("SADD s a b c"), 1);
    assert_eq!(written("SMOVE s t b"), 2);
    assert_eq!(written("HDEL h a b c d"), 1);
    assert_eq!(written("SREM s nobody"), 0);
    // Half a KiB is the limit: a record for each field then, and one for the key.
    let long = "x".repeat(300);
    assert_eq!(written(&format!("HSET l a {long} b 2 c 3")), 1);
    assert_eq!(written(&format!("HSET l d {long}")), 5);
    assert_eq!(written("HSET l b 3"), 1, "the number of fields is the same");
    // It stays so.
    assert_eq!(written("HDEL l a d"), 3);
    assert_eq!(written("HSET l b 2"), 1);
}

#[test]
fn a_hash_is_that_of_a_model_whatever_its_size() {
    let folder = Folder::new();
    let mut server = Running::new(&folder);
    let mut client = server.client();
    let mut random = fastrand::Rng::with_seed(3);
    let mut model: BTreeMap<String, String> = BTreeMap::new();
    for step in 0..4_000 {
        // Empty now and then: what comes next is small again.
        if step % 500 == 0 {
            client.ask("DEL hash");
            model.clear();
        }
        let name = format!("f{}", random.u32(..40));
        match random.u32(..10) {
            0..5 => {
                let value = "v".repeat(random.usize(..30)) + "1";
                client.ask(&format!("HSET hash {name} {value}"));
                model.insert(name, value);
            }
            5..7 => {
                let removed = client.says(&format!("HDEL hash {name}"));
                let existed = model.remove(&name).is_some();
                assert_eq!(removed, format!(":{}\r\n", u8::from(existed)));
            }
            7 => {
                let found = client.says(&format!("HSTRLEN hash {name}"));
                let length = model.get(&name).map_or(0, String::len);
                assert_eq!(found, format!(":{length}\r\n"));
            }
            8 => {
                client.ask("RENAME hash other");
                client.ask("COPY other hash");
                client.ask("DEL other");
            }
            _ => {
                let expected = model.clone().into_iter().collect::<Vec<_>>();
                assert_eq!(fields(&mut client, "hash"), expected);
            }
        }
        if step % 1_000 == 999 {
            server.stop();
            server = Running::new(&folder);
            client = server.client();
        }
    }
    assert_eq!(client.says("DBSIZE"), ":1\r\n");
}

/// A copy that expires is removed like any other key.
#[test]
fn a_copied_hash_expires_by_itself() {
    let folder = Folder::new();
    let server = Running::new(&folder);
    let mut client = server.client();
    let long = "x".repeat(600);
    client.ask("HSET small a 1");
    client.ask(&format!("HSET large a {long}"));
    for key in ["small", "large"] {
        client.ask(&format!("PEXPIRE {key} 1000"));
        client.ask(&format!("COPY {key} {key}2"));
        client.ask(&format!("PERSIST {key}"));
    }
    while client.says("DBSIZE") != ":2\r\n" {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert_eq!(client.says("EXISTS small large"), ":2\r\n");
}

/// Keys, fields and members that are too long: the error has the length that the client knows.
#[test]
fn names_that_are_too_long_are_told_with_their_limits() {
    let folder = Folder::new();
    let server = Running::new(&folder);
    let mut client = server.client();
    let name = |len: usize| "x".repeat(len);
    for (command, what, most) in [
        (&["SET", "NAME", "v"][..], "key", 65_534),
        (&["APPEND", "NAME", "v"], "key", 65_534),
        (&["RPUSH", "NAME", "v"], "key", 65_534),
        (&["ZADD", "NAME", "1", "m"], "key", 65_534),
        (
            &["SET", "NAME", "v", "EX", "100"],
            "key that expires",
            65_526,
        ),
        (&["HSET", "hash", "NAME", "v"], "field", 65_526),
        (&["SADD", "set", "NAME"], "member", 65_526),
        (&["ZADD", "sorted", "1", "NAME"], "member", 65_518),
        (&["ZINCRBY", "sorted", "1", "NAME"], "member", 65_518),
    ] {
        for (len, is_too_long) in [
            (most, false),
            (most + 1, true),
            (most + 9, true),
            (70_000, true),
        ] {
            let name = name(len);
            let args = command
                .iter()
                .map(|&it| if it == "NAME" { &name } else { it });
            let args: Vec<&[u8]> = args.map(str::as_bytes).collect();
            let reply = String::from_utf8(client.command(&args)).unwrap();
            // Where it is too long for a key, too, that it expires does not matter.
            let (what, most) = match what {
                "key that expires" if len > 65_534 => ("key", 65_534),
                _ => (what, most),
            };
            let said = format!("-ERR a {what} of {len} bytes: the longest have {most}\r\n");
            assert_eq!(reply == said, is_too_long, "{command:?} {len}: {reply}");
            assert_eq!(reply.starts_with('-'), is_too_long, "{reply}");
            client.says("FLUSHALL");
        }
    }
    let long = name(70_000);
    assert_eq!(client.command(&[b"GET", long.as_bytes()]), b"$-1\r\n");
    client.says("HSET hash field value");
    assert_eq!(
        client.command(&[b"HGET", b"hash", long.as_bytes()]),
        b"$-1\r\n"
    );
}
