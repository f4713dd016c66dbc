//! Commands that name many records, and many commands of one client.

mod client;

use client::{Folder, Running, encoded};

const MIB: usize = 1 << 20;

/// Bytes that are different everywhere.
fn value(seed: u64, bytes: usize) -> Vec<u8> {
    let mut value = vec![0; bytes];
    fastrand::Rng::with_seed(seed).fill(&mut value);
    value
}

fn bulk(value: &[u8]) -> Vec<u8> {
    [format!("${}\r\n", value.len()).as_bytes(), value, b"\r\n"].concat()
}

/// Records of all lengths that one command names: some are read at the same time.
#[test]
fn a_command_that_names_many_gets_all_in_order() {
    let folder = Folder::new();
    let server = Running::new(&folder);
    let mut client = server.client();
    let mut rng = fastrand::Rng::with_seed(7);
    let mut names = Vec::<Vec<u8>>::new();
    let mut expected = Vec::new();
    for nth in 0..100 {
        // Most are short. Some are longer than what is read at the same time, or lie in pieces.
        let bytes = match nth % 10 {
            0 => 300 << 10,
            1 => 60 << 10,
            9 if nth % 30 == 9 => 2 * MIB,
            _ => rng.usize(0..2000),
        };
        let (key, value) = (format!("key {nth}"), value(nth, bytes));
        let set: [&[u8]; 3] = [b"SET", key.as_bytes(), &value];
        assert_eq!(client.command(&set), b"+OK\r\n");
        let field: [&[u8]; 4] = [b"HSET", b"hash", key.as_bytes(), &value];
        assert_eq!(client.command(&field), b":1\r\n");
        client.command(&[
            b"ZADD",
            b"sorted",
            nth.to_string().as_bytes(),
            key.as_bytes(),
        ]);
        names.push(key.into_bytes());
        expected.push(value);
        if nth % 7 == 0 {
            // The same key once more, one that is not there, and one of another type.
            names.extend([
                names[names.len() - 1].clone(),
                b"none".into(),
                b"hash".into(),
            ]);
            expected.extend([expected[expected.len() - 1].clone(), Vec::new(), Vec::new()]);
        }
    }
    drop(client);
    server.stop();
    // Now all records lie on the disk only.
    let server = Running::new(&folder);
    let mut client = server.client();
    let null = |name: &[u8]| matches!(name, b"none" | b"hash");
    // In a pipeline, with a key that changes among them.
    for (part, (names, expected)) in names.chunks(13).zip(expected.chunks(13)).enumerate() {
        let mut sent = Vec::new();
        for (nth, (name, value)) in names.iter().zip(expected).enumerate() {
            sent.extend(encoded(&[b"GET", name]));
            if nth % 5 == 4 {
                sent.extend(encoded(&[b"GET", b"count"]));
                sent.extend(encoded(&[b"INCR", b"count"]));
            }
            if nth % 3 == 1 && !null(name) {
                sent.extend(encoded(&[b"HGET", b"hash", name]));
                sent.extend(encoded(&[b"ZSCORE", b"sorted", name]));
                sent.extend(encoded(&[b"APPEND", name, b"more"]));
                sent.extend(encoded(&[b"GETRANGE", name, b"-4", b"-1"]));
                sent.extend(encoded(&[b"SET", name, value]));
            }
        }
        client.send(&sent);
        for (nth, (name, value)) in names.iter().zip(expected).enumerate() {
            let reply = client.reply();
            let is_none = reply.starts_with(b"$-1") || reply.starts_with(b"-WRONGTYPE");
            assert_eq!(is_none, null(name));
            assert!(is_none || reply == bulk(value));
            if nth % 5 == 4 {
                let count = 2 * part + nth / 5;
                let before = match count {
                    0 => b"$-1\r\n".to_vec(),
                    _ => bulk(count.to_string().as_bytes()),
                };
                assert_eq!(client.reply(), before);
                assert_eq!(client.reply(), format!(":{}\r\n", count + 1).as_bytes());
            }
            if nth % 3 == 1 && !null(name) {
                let score = name.rsplit(|&it| it == b' ').next().unwrap();
                let len = value.len() + 4;
                assert!(client.reply() == bulk(value));
                assert_eq!(client.reply(), bulk(score));
                assert_eq!(client.reply(), format!(":{len}\r\n").as_bytes());
                assert_eq!(client.reply(), bulk(b"more"));
                assert_eq!(client.reply(), b"+OK\r\n");
            }
        }
    }
    drop(client);
    server.stop();
    let server = Running::new(&folder);
    let mut client = server.client();
    for part in names.chunks(40).zip(expected.chunks(40)) {
        let mut wanted = format!("*{}\r\n", part.0.len()).into_bytes();
        let (mut fields, mut scores) = (wanted.clone(), wanted.clone());
        for (name, value) in part.0.iter().zip(part.1) {
            let is_null = null(name);
            let or_null = |reply: Vec<u8>| if is_null { b"$-1\r\n".to_vec() } else { reply };
            wanted.extend(or_null(bulk(value)));
            fields.extend(or_null(bulk(value)));
            let score = name.rsplit(|&it| it == b' ').next().unwrap();
            scores.extend(or_null(bulk(score)));
        }
        let mut ask = |command: &[&[u8]]| {
            let names = part.0.iter().map(|it| &it[..]);
            client.command(&command.iter().copied().chain(names).collect::<Vec<_>>())
        };
        assert!(ask(&[b"MGET"]) == wanted);
        assert!(ask(&[b"HMGET", b"hash"]) == fields);
        assert!(ask(&[b"ZMSCORE", b"sorted"]) == scores);
    }
    drop(client);
    server.stop();
    let server = Running::new(&folder);
    let mut client = server.client();
    // In a transaction.
    let there = names.iter().zip(&expected).filter(|it| !null(it.0));
    let there: Vec<_> = there.take(70).collect();
    let mut wanted = format!("*{}\r\n", 2 * there.len()).into_bytes();
    assert_eq!(client.ask("MULTI"), b"+OK\r\n");
    for (name, value) in &there {
        for command in [&[b"GET", &name[..]][..], &[b"HGET", b"hash", name]] {
            assert_eq!(client.command(command), b"+QUEUED\r\n");
            wanted.extend(bulk(value));
        }
    }
    assert!(client.ask("EXEC") == wanted);
    for (name, value) in names.iter().zip(&expected) {
        let reply = client.command(&[b"GET", name]);
        assert_eq!(
            reply.starts_with(b"$-1") || reply.starts_with(b"-WRONGTYPE"),
            null(name)
        );
        assert!(null(name) || reply == bulk(value));
    }
    let nulls = b"*2\r\n$-1\r\n$-1\r\n";
    assert_eq!(client.ask("HMGET nothing a b"), nulls);
    assert_eq!(client.ask("ZMSCORE nothing a b"), nulls);
}

/// Each record is read once, however large the replies are.
#[test]
fn a_pipeline_reads_each_record_once() {
    let folder = Folder::new();
    let server = Running::new(&folder);
    let mut client = server.client();
    let keys: Vec<String> = (0..64).map(|nth| format!("key {nth}")).collect();
    for (nth, key) in (0..).zip(&keys) {
        let value = value(nth, 60 << 10);
        client.command(&[b"SET", key.as_bytes(), &value]);
        client.command(&[b"HSET", b"hash", key.as_bytes(), &value]);
    }
    drop(client);
    server.stop();
    let server = Running::new(&folder);
    let mut client = server.client();
    let read =
        |client: &mut client::Client<_>| -> u64 { client.info("stats", "records_read_from_disk") };
    for (nth, keys) in (0..).zip(keys.chunks(16)) {
        let before = read(&mut client);
        let mut sent = Vec::new();
        for key in keys {
            sent.extend(match nth % 2 {
                0 => encoded(&[b"GET", key.as_bytes()]),
                _ => encoded(&[b"HGET", b"hash", key.as_bytes()]),
            });
        }
        client.send(&sent);
        for (at, _) in (16 * nth..).zip(keys) {
            assert!(client.reply() == bulk(&value(at, 60 << 10)));
        }
        let more = read(&mut client) - before;
        // And that of the hash itself.
        assert!((16..=17).contains(&more), "{more}");
    }
}

/// Commands on a few keys, so that many of one pipeline set the same string.
fn commands(rng: &mut fastrand::Rng, count: usize) -> Vec<String> {
    let names = ["set", "incr", "decr", "incrby", "decrby", "zadd", "others"];
    let mut name = names[0];
    let command = |_| {
        // As a client sends them: mostly the same.
        if rng.u8(..) < 60 {
            name = names[rng.usize(..names.len())];
        }
        let key = format!("key{}", rng.u8(..24));
        let number = match rng.u8(..40) {
            0 => "much".to_owned(),
            1 => i64::MAX.to_string(),
            _ => rng.i16(..).to_string(),
        };
        let set = format!("set{}", rng.u8(..2));
        let member = rng.u8(..30);
        match (name, rng.u8(..16)) {
            ("set" | "incrby" | "decrby", _) => format!("{name} {key} {number}"),
            ("incr" | "decr", _) => format!("{name} {key}"),
            ("zadd", 0) => format!("zadd {set} nx {member} {member}"),
            ("zadd", 1) => format!("zincrby {set} {member} {member}"),
            ("zadd", 2) => format!("zadd {key} {number} {member}"),
            ("zadd", _) => format!("zadd {set} {} {member}", rng.u8(..4)),
            (_, 0) => format!("set {key} {number} get"),
            (_, 1) => format!("set {key} {number} px 100000"),
            (_, 2) => format!("hset {key} field {number}"),
            (_, 3) => format!("incr {key} {number}"),
            (_, 4) => format!("append {key} 1"),
            (_, 5) => format!("persist {key}"),
            (_, 6) => format!("type {key}"),
            (_, 7) => format!("del {key}"),
            (_, 8) => format!("del {set}"),
            (_, 9) => format!("zrange {set} 0 -1 withscores"),
            (_, 10) => format!("zcard {set}"),
            (_, 11) => format!("zrem {set} {member}"),
            (_, 12) => format!("expire {set} 100"),
            _ => format!("get {key}"),
        }
    };
    (0..count).map(command).collect()
}

/// Strings and scores that are set in a row are written together, and nobody can tell.
#[test]
fn a_pipeline_says_what_its_commands_say_one_by_one() {
    let mut rng = fastrand::Rng::with_seed(fastrand::u64(..));
    let seed = rng.get_seed();
    let folders = [Folder::new(), Folder::new()];
    let servers = folders.each_ref().map(Running::new);
    let [mut pipelined, mut one_by_one] = servers.each_ref().map(Running::client);
    for _ in 0..400 {
        let count = rng.usize(1..40);
        let commands = commands(&mut rng, count);
        let sent: Vec<u8> = commands
            .iter()
            .flat_map(|it| encoded(&it.split(' ').map(str::as_bytes).collect::<Vec<_>>()))
            .collect();
        pipelined.send(&sent);
        for command in &commands {
            let (reply, expected) = (pipelined.reply(), one_by_one.ask(command));
            assert_eq!(
                String::from_utf8_lossy(&reply),
                String::from_utf8_lossy(&expected),
                "{command} of {commands:?}, seed {seed}"
            );
        }
    }
    let counted = |client: &mut client::Client<_>| -> u64 {
        client.info("stats", "total_commands_processed")
    };
    assert_eq!(counted(&mut pipelined), counted(&mut one_by_one), "{seed}");
}

/// Who watches one of the strings, too.
#[test]
fn strings_that_are_set_in_a_row_end_a_watch() {
    let folder = Folder::new();
    let server = Running::new(&folder);
    let (mut watcher, mut writer) = (server.client(), server.client());
    for value in ["1", "2"] {
        for key in ["first", "other", "last"] {
            assert_eq!(watcher.ask(&format!("WATCH {key}")), b"+OK\r\n");
            let set = |key: &str| encoded(&[b"SET", key.as_bytes(), value.as_bytes()]);
            writer.send(&["first", "middle", "last"].map(set).concat());
            for _ in 0..3 {
                assert_eq!(writer.reply(), b"+OK\r\n");
            }
            watcher.ask("MULTI");
            watcher.ask("GET middle");
            let expected = match key {
                "other" => format!("*1\r\n$1\r\n{value}\r\n"),
                _ => "*-1\r\n".into(),
            };
            assert_eq!(watcher.ask("EXEC"), expected.as_bytes());
        }
    }
}

/// A command is looked at once, whatever comes before it.
#[test]
fn what_a_pipeline_may_not_do_is_refused_once() {
    let folder = Folder::new();
    let server = Running::new(&folder);
    let (mut admin, mut bob) = (server.client(), server.client());
    admin.ask("ACL SETUSER bob on >secret ~may* +@all");
    assert_eq!(bob.ask("AUTH bob secret"), b"+OK\r\n");
    let set = |key: &str| encoded(&[b"SET", key.as_bytes(), b"1"]);
    for nth in 0..2 {
        bob.send(&["may 1", "may 2", "other", "may 3"].map(set).concat());
        for is_refused in [false, false, true, false] {
            let reply = bob.reply();
            assert_eq!(reply.starts_with(b"-NOPERM"), is_refused);
            assert_eq!(reply == b"+OK\r\n", !is_refused);
        }
        let log = admin.says("ACL LOG");
        assert!(log.contains(&format!("count\r\n:{}\r\n", nth + 1)), "{log}");
    }
}

/// The same of scores: who watches the set, and a set that is removed in between.
#[test]
fn scores_that_are_set_in_a_row_end_a_watch() {
    let folder = Folder::new();
    let server = Running::new(&folder);
    let (mut watcher, mut writer) = (server.client(), server.client());
    for (nth, is_changed) in [(1, true), (1, false), (2, true)] {
        watcher.ask("ZADD set 0 member");
        assert_eq!(watcher.ask("WATCH set"), b"+OK\r\n");
        let score = nth.to_string();
        let add = |member: &str| encoded(&[b"ZADD", b"set", score.as_bytes(), member.as_bytes()]);
        writer.send(&["a", "b", "c"].map(add).concat());
        for _ in 0..3 {
            writer.reply();
        }
        watcher.ask("MULTI");
        watcher.ask("ZCARD set");
        let expected: &[u8] = if is_changed {
            b"*-1\r\n"
        } else {
            b"*1\r\n:4\r\n"
        };
        assert_eq!(watcher.ask("EXEC"), expected);
    }
    assert_eq!(watcher.ask("DEL set"), b":1\r\n");
    let add = |member: &str| encoded(&[b"ZADD", b"set", b"1", member.as_bytes()]);
    writer.send(
        &[
            add("a"),
            add("b"),
            encoded(&[b"DEL", b"set"]),
            add("c"),
            add("d"),
        ]
        .concat(),
    );
    for _ in 0..5 {
        assert_eq!(writer.reply(), b":1\r\n");
    }
    let all = watcher.says("ZRANGE set 0 -1 WITHSCORES");
    assert_eq!(all, "*4\r\n$1\r\nc\r\n$1\r\n1\r\n$1\r\nd\r\n$1\r\n1\r\n");
}
