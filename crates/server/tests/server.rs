//! The server over real sockets.

mod client;

use client::{Folder, Running, encoded};
use timberline_server::Durability;

#[test]
fn what_was_written_is_there_after_a_restart() {
    let folder = Folder::new();
    for durability in [Durability::None, Durability::Interval, Durability::Each] {
        let server = Running::with(&folder, |it| it.durability = durability);
        let mut client = server.client();
        assert_eq!(client.says("FLUSHALL"), "+OK\r\n");
        assert_eq!(client.says("SET key value"), "+OK\r\n");
        assert_eq!(client.says("SET other value PX 100000000"), "+OK\r\n");
        server.stop();
        let server = Running::new(&folder);
        let mut client = server.client();
        assert_eq!(client.says("GET key"), "$5\r\nvalue\r\n");
        assert!(client.says("PTTL other").starts_with(":999"));
        assert_eq!(client.says("DBSIZE"), ":2\r\n");
    }
}

#[test]
fn commands_that_are_sent_at_once_are_answered_in_order() {
    let folder = Folder::new();
    let server = Running::new(&folder);
    let mut client = server.client();
    let mut sent = Vec::new();
    for number in 0..10_000 {
        let key = format!("key{}", number % 100);
        sent.extend(encoded(&[
            b"SET",
            key.as_bytes(),
            number.to_string().as_bytes(),
        ]));
        sent.extend(encoded(&[b"GET", key.as_bytes()]));
    }
    client.send(&sent);
    for number in 0..10_000 {
        assert_eq!(client.reply(), b"+OK\r\n");
        let number = number.to_string();
        let expected = format!("${}\r\n{number}\r\n", number.len());
        assert_eq!(client.reply(), expected.as_bytes());
    }
}

/// Where strings lie is looked for ahead, for some commands at the same time; what the commands
/// before do to them counts all the same.
#[test]
fn commands_that_are_sent_at_once_see_what_those_before_did() {
    let folder = Folder::new();
    let server = Running::new(&folder);
    let mut client = server.client();
    client.ask("SADD other a");
    let mut model = std::collections::BTreeMap::<String, String>::new();
    let (mut sent, mut expected) = (String::new(), String::new());
    for step in 0..20_000u32 {
        let random = step.wrapping_mul(0x9e37_79b9) >> 8;
        let (key, other) = (format!("k{}", random % 3), format!("k{}", random / 3 % 3));
        let bulk = |value: Option<&String>| match value {
            Some(value) => format!("${}\r\n{value}\r\n", value.len()),
            None => "$-1\r\n".into(),
        };
        let (command, reply) = match random / 9 % 16 {
            0..4 => (format!("GET {key}"), bulk(model.get(&key))),
            4..8 => {
                let number = model.get(&key).map_or(0, |it| it.parse::<u64>().unwrap());
                model.insert(key.clone(), (number + 1).to_string());
                (format!("INCR {key}"), format!(":{}\r\n", number + 1))
            }
            8 | 9 => {
                model.insert(key.clone(), step.to_string());
                (format!("SET {key} {step}"), "+OK\r\n".into())
            }
            10 | 11 => {
                model.insert(key.clone(), "7".into());
                model.insert(other.clone(), step.to_string());
                (format!("MSET {key} 7 {other} {step}"), "+OK\r\n".into())
            }
            12 => {
                let old = model.insert(key.clone(), "1".into());
                (format!("GETSET {key} 1"), bulk(old.as_ref()))
            }
            13 => {
                let values = [&key, &other].map(|it| bulk(model.get(it))).concat();
                (format!("MGET {key} {other}"), format!("*2\r\n{values}"))
            }
            14 => {
                let there = u8::from(model.contains_key(&key));
                // It is removed, and comes back behind another name.
                if let Some(value) = model.remove(&key) {
                    model.insert(other.clone(), value);
                    (format!("RENAME {key} {other}"), "+OK\r\n".into())
                } else {
                    (format!("EXISTS {key}"), format!(":{there}\r\n"))
                }
            }
            _ => {
                let removed = u8::from(model.remove(&key).is_some());
                (format!("DEL {key}"), format!(":{removed}\r\n"))
            }
        };
        sent += &format!("{command}\r\n");
        expected += &reply;
        if step % 500 == 499 {
            client.send(sent.as_bytes());
            let replies = String::from_utf8(client.next(expected.len())).unwrap();
            assert!(
                replies == expected,
                "up to {step}: {replies}\nnot {expected}"
            );
            (sent, expected) = (String::new(), String::new());
        }
    }
}

#[test]
fn what_is_no_string_becomes_one_when_many_are_set() {
    let folder = Folder::new();
    let server = Running::new(&folder);
    let mut client = server.client();
    client.ask("SADD b 1 2");
    assert_eq!(client.says("MSET a 1 b 2 c 3"), "+OK\r\n");
    assert_eq!(client.says("MSET a 4 b 5 c 6 a 7"), "+OK\r\n");
    let values = "*3\r\n$1\r\n7\r\n$1\r\n5\r\n$1\r\n6\r\n";
    assert_eq!(client.says("MGET a b c"), values);
    assert_eq!(client.says("DBSIZE"), ":3\r\n");
    assert!(client.says("MSET a 1 b").starts_with("-ERR wrong number"));
}

#[test]
fn increments_of_many_clients_are_all_there() {
    let folder = Folder::new();
    let server = Running::new(&folder);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let mut client = server.client();
            scope.spawn(move || {
                for _ in 0..250 {
                    client.send(b"INCR n\r\nINCR n\r\nMULTI\r\nINCR n\r\nINCR m\r\nEXEC\r\n");
                    for _ in 0..6 {
                        client.reply();
                    }
                }
            });
        }
    });
    assert_eq!(
        server.client().says("MGET n m"),
        "*2\r\n$4\r\n3000\r\n$4\r\n1000\r\n"
    );
}

/// Commands that were tried without waiting go on with the locks that they, or others, have.
#[test]
fn increments_that_wait_for_the_disk_are_all_there() {
    let folder = Folder::new();
    let server = Running::with(&folder, |it| it.durability = Durability::Each);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let mut client = server.client();
            scope.spawn(move || {
                for _ in 0..25 {
                    client.send(b"INCR n\r\nINCR m\r\nGET m\r\nINCR n\r\nLLEN m\r\nINCR n\r\n");
                    for expected in b"::$:-:" {
                        assert_eq!(client.reply()[0], *expected);
                    }
                }
            });
        }
    });
    assert_eq!(
        server.client().says("MGET n m"),
        "*2\r\n$3\r\n300\r\n$3\r\n100\r\n"
    );
}

#[test]
fn a_transaction_is_not_executed_if_a_watched_key_changed_or_expired() {
    let folder = Folder::new();
    let server = Running::new(&folder);
    let (mut one, mut two) = (server.client(), server.client());
    one.ask("SET a 1");
    one.ask("WATCH a b");
    two.ask("SET b 1");
    one.ask("MULTI");
    assert_eq!(one.says("SET a 2"), "+QUEUED\r\n");
    assert_eq!(one.says("EXEC"), "*-1\r\n");
    assert_eq!(one.says("GET a"), "$1\r\n1\r\n");
    // A write of its own counts too, UNWATCH ends it, and other keys do no harm.
    one.ask("WATCH a");
    two.ask("SET c 1");
    one.ask("MULTI");
    one.ask("SET a 2");
    assert_eq!(one.says("EXEC"), "*1\r\n+OK\r\n");
    one.ask("WATCH a");
    one.ask("SET a 3");
    one.ask("MULTI");
    assert_eq!(one.says("EXEC"), "*-1\r\n");
    one.ask("WATCH a");
    one.ask("SET a 4");
    one.ask("UNWATCH");
    one.ask("MULTI");
    assert_eq!(one.says("EXEC"), "*0\r\n");
    one.ask("SET a 1 PX 30");
    one.ask("WATCH a");
    while two.says("EXISTS a") != ":0\r\n" {}
    one.ask("MULTI");
    assert_eq!(one.says("EXEC"), "*-1\r\n");
}

#[test]
fn expired_keys_are_gone() {
    let folder = Folder::new();
    let server = Running::new(&folder);
    let mut client = server.client();
    client.ask("SET a 1 PX 20");
    client.ask("SET b 1");
    client.ask("PEXPIRE b 20");
    client.ask("SET c 1");
    client.ask("EXPIREAT c 1");
    assert_eq!(client.says("GET c"), "$-1\r\n");
    while client.says("EXISTS a b") != ":0\r\n" {}
    assert_eq!(client.says("TTL a"), ":-2\r\n");
    assert_eq!(client.says("DBSIZE"), ":0\r\n");
    assert_eq!(client.says("SET a 1 NX"), "+OK\r\n");
    assert_eq!(client.says("TTL a"), ":-1\r\n");
}

#[test]
fn a_scan_returns_each_key_once() {
    let folder = Folder::new();
    let server = Running::new(&folder);
    let mut client = server.client();
    for number in 0..1000 {
        client.send(format!("SET key:{number} x\r\n").as_bytes());
    }
    (0..1000).for_each(|_| assert_eq!(client.reply(), b"+OK\r\n"));
    let (mut cursor, mut found) = ("0".to_string(), Vec::new());
    loop {
        let reply = client.says(&format!("SCAN {cursor} COUNT 7 MATCH key:*5"));
        let lines: Vec<&str> = reply.split("\r\n").collect();
        cursor = lines[2].into();
        found.extend(lines[5..].iter().step_by(2).map(|it| it.to_string()));
        found.retain(|it| !it.is_empty());
        if cursor == "0" {
            break;
        }
    }
    found.sort();
    let mut expected: Vec<_> = (0..1000)
        .filter(|it| it % 10 == 5)
        .map(|it| format!("key:{it}"))
        .collect();
    expected.sort();
    assert_eq!(found, expected);
    assert_eq!(client.says("SCAN 123456"), "-ERR invalid cursor\r\n");
}

#[test]
fn elements_go_with_their_keys_and_stay_over_a_restart() {
    let folder = Folder::new();
    let server = Running::new(&folder);
    let mut client = server.client();
    for number in 0..600 {
        let line =
            format!("HSET h f{number} x\r\nZADD z {number} m{number}\r\nSADD s {number}\r\n");
        client.send(line.as_bytes());
        (0..3).for_each(|_| assert_eq!(client.reply(), b":1\r\n"));
    }
    client.ask("SET h2 x");
    assert_eq!(client.says("DBSIZE"), ":4\r\n");
    // Each of these ends a key in another way.
    assert_eq!(client.says("DEL h"), ":1\r\n");
    assert_eq!(client.says("MSET z 1 z 2"), "+OK\r\n");
    assert_eq!(client.says("HSET h new 1"), ":1\r\n");
    assert_eq!(client.says("PEXPIRE s 1"), ":1\r\n");
    while client.says("EXISTS s") != ":0\r\n" {}
    assert_eq!(client.says("DBSIZE"), ":3\r\n");
    assert_eq!(client.says("SADD s a"), ":1\r\n");
    server.stop();
    let server = Running::new(&folder);
    let mut client = server.client();
    assert_eq!(client.says("DBSIZE"), ":4\r\n");
    assert_eq!(client.says("HGETALL h"), "*2\r\n$3\r\nnew\r\n$1\r\n1\r\n");
    assert_eq!(client.says("SMEMBERS s"), "*1\r\n$1\r\na\r\n");
    assert_eq!(client.says("GET z"), "$1\r\n2\r\n");
    // A sorted set that comes after the restart has none of the old elements.
    client.ask("DEL z");
    client.ask("ZADD z 1 a");
    assert_eq!(client.says("ZRANGE z 0 -1"), "*1\r\n$1\r\na\r\n");
    client.ask("FLUSHALL");
    assert_eq!(client.says("DBSIZE"), ":0\r\n");
}

#[test]
fn subscribers_get_messages_in_order() {
    let folder = Folder::new();
    let server = Running::new(&folder);
    let (mut one, mut two) = (server.client(), server.client());
    assert_eq!(
        one.says("SUBSCRIBE a"),
        "*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n"
    );
    assert_eq!(
        one.says("PSUBSCRIBE b*"),
        "*3\r\n$10\r\npsubscribe\r\n$2\r\nb*\r\n:2\r\n"
    );
    assert_eq!(two.says("PUBLISH a 1"), ":1\r\n");
    assert_eq!(two.says("PUBLISH bc 2"), ":1\r\n");
    assert_eq!(two.says("PUBLISH c 3"), ":0\r\n");
    assert_eq!(
        one.reply(),
        b"*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\n1\r\n"
    );
    assert_eq!(
        one.reply(),
        b"*4\r\n$8\r\npmessage\r\n$2\r\nb*\r\n$2\r\nbc\r\n$1\r\n2\r\n"
    );
    assert!(one.says("GET a").starts_with("-ERR Can't execute 'get'"));
    drop(one);
    while two.says("PUBSUB NUMPAT") != ":0\r\n" {}
    assert_eq!(two.says("PUBLISH a 1"), ":0\r\n");
}

#[test]
fn a_message_that_comes_while_a_client_does_not_read_is_not_forgotten() {
    let folder = Folder::new();
    let server = Running::with(&folder, |options| options.threads = 1);
    let (mut slow, mut other) = (server.client(), server.client());
    let long = vec![b'x'; 24 << 20];
    other.send(&encoded(&[b"SET", b"long", &long]));
    assert_eq!(other.reply(), b"+OK\r\n");
    slow.ask("HELLO 3");
    slow.ask("SUBSCRIBE news");
    // More than the sockets have room for.
    slow.send(b"GET long\r\n");
    assert_eq!(slow.next(1), b"$");
    assert_eq!(other.says("PUBLISH news now"), ":1\r\n");
    let rest = format!("{}\r\n", long.len()).len() + long.len() + 2;
    assert_eq!(slow.next(rest).len(), rest);
    let message = ">3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$3\r\nnow\r\n";
    assert_eq!(slow.next(message.len()), message.as_bytes());
}

#[test]
fn a_password_is_asked_for() {
    let folder = Folder::new();
    let server = Running::with(&folder, |it| it.password = Some("secret".into()));
    let mut client = server.client();
    assert_eq!(client.says("GET a"), "-NOAUTH Authentication required.\r\n");
    assert!(client.says("AUTH wrong").starts_with("-WRONGPASS"));
    assert_eq!(client.says("AUTH secret"), "+OK\r\n");
    assert_eq!(client.says("GET a"), "$-1\r\n");
    let mut other = server.client();
    assert!(
        other
            .says("HELLO 3 AUTH default secret")
            .starts_with("%7\r\n")
    );
    assert_eq!(other.says("GET a"), "_\r\n");
    let mut stranger = server.client();
    stranger.send(b"*11\r\n");
    assert_eq!(
        stranger.rest(),
        b"-ERR Protocol error: unauthenticated multibulk length\r\n"
    );
}

#[test]
fn more_clients_than_may_be_are_refused() {
    let folder = Folder::new();
    let server = Running::with(&folder, |it| it.max_clients = 3);
    let mut clients: Vec<_> = (0..3).map(|_| server.client()).collect();
    for client in &mut clients {
        assert_eq!(client.says("PING"), "+PONG\r\n");
    }
    assert_eq!(
        server.client().rest(),
        b"-ERR max number of clients reached\r\n"
    );
    drop(clients.pop());
    while server.client().says("PING") != "+PONG\r\n" {}
}

#[test]
fn a_client_can_be_killed_and_the_server_shut_down() {
    let folder = Folder::new();
    let server = Running::new(&folder);
    let (mut one, mut two) = (server.client(), server.client());
    let id = one.says("CLIENT ID");
    let id = id.trim_start_matches(':').trim();
    assert_eq!(two.says(&format!("CLIENT KILL ID {id}")), ":1\r\n");
    assert_eq!(one.rest(), b"");
    two.send(b"SHUTDOWN\r\n");
    assert_eq!(two.rest(), b"");
    server.stop();
}

#[test]
fn replies_can_be_switched_off() {
    let folder = Folder::new();
    let server = Running::new(&folder);
    let mut client = server.client();
    client
        .send(b"CLIENT REPLY OFF\r\nSET a 1\r\nGET a\r\nCLIENT REPLY ON\r\nCLIENT REPLY SKIP\r\n");
    client.send(b"GET a\r\nGET b\r\n");
    assert_eq!(client.reply(), b"+OK\r\n");
    assert_eq!(client.reply(), b"$-1\r\n");
}

#[test]
fn a_cache_has_strings_only() {
    let folder = Folder::new();
    let server = Running::with(&folder, |it| {
        (it.evict, it.capacity) = (true, 1 << 30);
    });
    let mut client = server.client();
    assert_eq!(client.says("SET key value"), "+OK\r\n");
    assert_eq!(client.says("GET key"), "$5\r\nvalue\r\n");
    for command in ["HSET h f v", "SADD s m", "ZADD z 1 m", "ZRANGE z 0 -1"] {
        let said = client.says(command);
        assert!(said.starts_with("-ERR this server is a cache"), "{said}");
    }
    assert!(client.says("INFO stats").contains("evicted_keys:0"));
}

/// Nobody looks at them; those that got another time or none stay.
#[test]
fn keys_go_when_they_expire() {
    let folder = Folder::new();
    {
        let server = Running::new(&folder);
        let mut client = server.client();
        client.send(b"SET stays value PX 100\r\nPERSIST stays\r\n");
        client.send(b"SET later value PX 100\r\nPEXPIRE later 100000000\r\n");
        client.send(b"SADD set a b c\r\nPEXPIRE set 100\r\n");
        client.send(b"SET old value PX 100\r\nRENAME old new\r\n");
        for expected in ["+OK", ":1", "+OK", ":1", ":3", ":1", "+OK", "+OK"] {
            assert_eq!(client.reply(), format!("{expected}\r\n").as_bytes());
        }
        for nth in 0..1000 {
            client.says(&format!("SET key{nth} value PX 100"));
        }
        wait_for_keys(&mut client, 2);
        assert_eq!(client.says("GET stays"), "$5\r\nvalue\r\n");
        assert_eq!(client.says("GET later"), "$5\r\nvalue\r\n");
        assert!(client.says("INFO stats").contains("expired_keys:1002"));
        assert_eq!(client.says("SET last value PX 100"), "+OK\r\n");
    }
    // Timers are on the disk.
    let server = Running::new(&folder);
    wait_for_keys(&mut server.client(), 2);
}

fn wait_for_keys(client: &mut client::Client<std::net::TcpStream>, keys: usize) {
    let expected = format!(":{keys}\r\n");
    while client.says("DBSIZE") != expected {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

#[test]
fn members_and_strings_that_are_set_at_once_are_what_was_sent_last() {
    let folder = Folder::new();
    let server = Running::new(&folder);
    let mut client = server.client();
    let mut sent = Vec::new();
    let member = |number: u32| format!("m{}", number % 50);
    for number in 0..5_000u32 {
        let score = (number * 7919 % 1000).to_string();
        let key = if number % 3 == 0 { "set" } else { "other" };
        let args = [&b"ZADD"[..], key.as_bytes(), score.as_bytes()];
        sent.extend(encoded(&[&args[..], &[member(number).as_bytes()]].concat()));
    }
    client.send(&sent);
    let mut seen = std::collections::BTreeSet::new();
    for number in 0..5_000u32 {
        let is_new = seen.insert((number % 3 == 0, member(number)));
        let expected = format!(":{}\r\n", u8::from(is_new));
        assert_eq!(client.reply(), expected.as_bytes());
    }
    for key in ["set", "other"] {
        assert_eq!(client.says(&format!("ZCARD {key}")), ":50\r\n");
        // Each member has one place in the order of scores, that of its last score.
        let mut last = std::collections::BTreeMap::new();
        for number in (0..5_000u32).filter(|it| (it % 3 == 0) == (key == "set")) {
            last.insert(member(number), number * 7919 % 1000);
        }
        let mut places: Vec<_> = last
            .into_iter()
            .map(|(name, score)| (score, name))
            .collect();
        places.sort();
        let flat = places
            .iter()
            .flat_map(|it| [it.1.clone(), it.0.to_string()]);
        let flat: Vec<String> = flat
            .map(|it| format!("${}\r\n{it}\r\n", it.len()))
            .collect();
        let expected = format!("*{}\r\n{}", flat.len(), flat.concat());
        assert_eq!(
            client.says(&format!("ZRANGE {key} 0 -1 WITHSCORES")),
            expected
        );
    }
    // What is a sorted set is no string, and the other way round.
    client.send(b"SET set 1\r\nINCR set\r\nZADD set 1 m\r\nZADD string 1 m\r\nSET string 1\r\n");
    for expected in ["+OK", ":2", "-WRONGTYPE", ":1", "+OK"] {
        assert!(
            client.reply().starts_with(expected.as_bytes()),
            "{expected}"
        );
    }
    assert_eq!(client.says("TYPE string"), "+string\r\n");
    assert_eq!(client.says("DBSIZE"), ":3\r\n");
}
