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
        for (nth, name) in names.iter().enumerate() {
            sent.extend(encoded(&[b"GET", name]));
            if nth % 5 == 4 {
                sent.extend(encoded(&[b"GET", b"count"]));
                sent.extend(encoded(&[b"INCR", b"count"]));
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
