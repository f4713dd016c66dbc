//! Strings of up to 64 MiB, which are read and written in parts.

mod client;

use client::{Client, Folder, Running};

const MIB: usize = 1 << 20;
const MOST: usize = 64 * MIB;
const TOO_LONG: &[u8] = b"-ERR string exceeds maximum allowed size (proto-max-bulk-len)\r\n";

/// Bytes that are different everywhere.
fn value(seed: u64, bytes: usize) -> Vec<u8> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut value = vec![0; bytes];
    rng.fill(&mut value);
    value
}

fn bulk(value: &[u8]) -> Vec<u8> {
    [format!("${}\r\n", value.len()).as_bytes(), value, b"\r\n"].concat()
}

fn get<S: std::io::Read + std::io::Write>(client: &mut Client<S>, key: &str) -> Vec<u8> {
    client.command(&[b"GET", key.as_bytes()])
}

#[test]
fn the_longest_string_is_kept_and_what_is_longer_gets_an_error() {
    let folder = Folder::new();
    let server = Running::with(&folder, |it| it.memory = 2 << 30);
    let mut client = server.client();
    let longest = value(1, MOST);
    assert_eq!(client.command(&[b"SET", b"key", &longest]), b"+OK\r\n");
    assert!(get(&mut client, "key") == bulk(&longest));
    assert_eq!(client.says("STRLEN key"), format!(":{MOST}\r\n"));
    for (start, end) in [
        (0, 9),
        (MIB - 3, 2 * MIB + 3),
        (MOST - 5, MOST + 5),
        (MOST, MOST),
    ] {
        let reply = client.ask(&format!("GETRANGE key {start} {end}"));
        let part = longest.get(start..MOST.min(end + 1)).unwrap_or_default();
        assert!(reply == bulk(part), "{start} {end}");
    }
    assert_eq!(client.ask("APPEND key x"), TOO_LONG);
    assert_eq!(client.ask(&format!("SETRANGE key {MOST} x")), TOO_LONG);
    let longer = [&longest[..], b"x"].concat();
    assert_eq!(client.command(&[b"SET", b"key", &longer]), TOO_LONG);
    assert_eq!(
        client.command(&[b"SET", b"other", &longer, b"EX", b"10"]),
        TOO_LONG
    );
    assert_eq!(
        client.command(&[b"MSET", b"a", b"1", b"other", &longer]),
        TOO_LONG
    );
    assert_eq!(client.says("EXISTS a other"), ":0\r\n");
    assert_eq!(
        client.says(&format!("SETRANGE key {} xyz", MOST - 3)),
        format!(":{MOST}\r\n")
    );
    let reply = client.ask("GETRANGE key -4 -1");
    assert_eq!(
        reply,
        bulk(&[&longest[MOST - 4..MOST - 3], b"xyz"].concat())
    );
    assert_eq!(client.says("TYPE key"), "+string\r\n");
    assert_eq!(client.says("DEL key"), ":1\r\n");
    assert_eq!(client.ask("GET key"), b"$-1\r\n");
}

/// Beside a model, around the lengths at which values are put in pieces.
#[test]
fn parts_are_written_as_in_memory() {
    let folder = Folder::new();
    let server = Running::with(&folder, |it| it.memory = 1 << 30);
    let mut client = server.client();
    let mut rng = fastrand::Rng::with_seed(7);
    let mut model = Vec::new();
    for round in 0..60 {
        let near = |rng: &mut fastrand::Rng| {
            let places = [0, 100, MIB, MIB, 2 * MIB, 5 * MIB];
            (rng.choice(places).unwrap() + rng.usize(0..4)).saturating_sub(2)
        };
        let part = value(round, near(&mut rng));
        let long = |len: usize| format!(":{len}\r\n").into_bytes();
        match rng.u8(0..8) {
            0 => {
                assert_eq!(client.command(&[b"SET", b"key", &part]), b"+OK\r\n");
                model = part;
            }
            1..4 if model.len() < 12 * MIB => {
                model.extend_from_slice(&part);
                let reply = client.command(&[b"APPEND", b"key", &part]);
                assert_eq!(reply, long(model.len()));
            }
            4..7 => {
                let at = near(&mut rng);
                if !part.is_empty() {
                    model.resize(model.len().max(at + part.len()), 0);
                    model[at..at + part.len()].copy_from_slice(&part);
                }
                let reply =
                    client.command(&[b"SETRANGE", b"key", at.to_string().as_bytes(), &part]);
                assert_eq!(reply, long(model.len()));
            }
            _ => {
                assert_eq!(client.says("PEXPIRE key 3600000"), ":1\r\n");
                assert_eq!(client.says("RENAME key other"), "+OK\r\n");
                assert_eq!(client.says("COPY other key"), ":1\r\n");
                assert_eq!(client.says("DEL other"), ":1\r\n");
                let ttl = client.says("TTL key");
                assert!(
                    matches!(&ttl[..], ":3600\r\n" | ":3599\r\n" | ":3598\r\n"),
                    "{ttl}"
                );
            }
        }
        assert!(get(&mut client, "key") == bulk(&model), "round {round}");
        assert_eq!(client.ask("STRLEN key"), long(model.len()));
    }
}

#[test]
fn commands_on_whole_values_and_batches_of_many_take_long_ones() {
    let folder = Folder::new();
    let server = Running::with(&folder, |it| it.memory = 2 << 30);
    let mut client = server.client();
    let [a, b] = [1, 2].map(|seed| value(seed, 5 * MIB));
    assert_eq!(
        client.command(&[b"SET", b"key", &a, b"PX", b"100000"]),
        b"+OK\r\n"
    );
    assert!(client.command(&[b"SET", b"key", &b, b"KEEPTTL", b"GET"]) == bulk(&a));
    assert!(client.says("PTTL key") != ":-1\r\n");
    assert!(client.command(&[b"GETEX", b"key", b"PERSIST"]) == bulk(&b));
    assert_eq!(client.says("TTL key"), ":-1\r\n");
    assert!(client.command(&[b"GETSET", b"key", &a]) == bulk(&b));
    assert_eq!(
        client.says("INCR key"),
        "-ERR value is not an integer or out of range\r\n"
    );
    assert!(client.ask("GETDEL key") == bulk(&a));
    // More than a record takes, in one command.
    let values: Vec<_> = (0..40).map(|nth| value(nth, 700_000)).collect();
    let keys: Vec<_> = (0..40).map(|nth| format!("key {nth}")).collect();
    let pairs = keys.iter().zip(&values);
    let mut args = vec![&b"MSET"[..]];
    args.extend(pairs.flat_map(|(key, value)| [key.as_bytes(), value]));
    assert_eq!(client.command(&args), b"+OK\r\n");
    args[0] = b"MSETNX";
    assert_eq!(client.command(&args), b":0\r\n");
    args[0] = b"MGET";
    let mut step = 0;
    args.retain(|_| {
        step += 1;
        step == 1 || step % 2 == 0
    });
    let all: Vec<_> = values.iter().map(|it| bulk(it)).collect();
    assert!(client.command(&args) == [&b"*40\r\n"[..], &all.concat()].concat());
    // In place of a set, and not of one.
    client.ask("SADD set member");
    assert!(client.ask("APPEND set x").starts_with(b"-WRONGTYPE"));
    assert_eq!(client.command(&[b"SET", b"set", &a]), b"+OK\r\n");
    assert!(get(&mut client, "set") == bulk(&a));
    assert_eq!(client.says("DBSIZE"), ":41\r\n");
}
