//! The quarter of the memory that clients may take together, in a process of its own: the server
//! looks at what all of it takes.

mod client;

use std::net::TcpStream;
use std::sync::{Mutex, MutexGuard, PoisonError};

use client::{Client, Folder, Running, encoded};

const MIB: usize = 1 << 20;
const OOM: &str = "-OOM command not allowed when used memory > 'maxmemory'.\r\n";
/// Bytes of a member.
const MEMBER: usize = 60_000;
/// Members of that length, and elements of a mebibyte: more than clients may take.
const MEMBERS: usize = 400;
const ELEMENTS: usize = 20;

/// One test at a time: they share the process's memory.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn member(nth: usize) -> Vec<u8> {
    let mut member = format!("{nth:05}").into_bytes();
    member.resize(MEMBER, b'x');
    member
}

/// Values of all types, each of more bytes than a reply may have.
fn fill(client: &mut Client<TcpStream>) {
    let value = vec![b'v'; MIB];
    client.command(&[b"SET", b"string", &value]);
    client.command(&[b"SADD", b"small", b"member"]);
    for nth in 0..ELEMENTS {
        let field = nth.to_string();
        client.command(&[b"HSET", b"hash", field.as_bytes(), &value]);
        client.command(&[b"RPUSH", b"list", &value]);
    }
    for nth in 0..MEMBERS {
        let member = member(nth);
        client.command(&[b"SADD", b"set", &member]);
        client.command(&[b"ZADD", b"sorted", b"1", &member]);
        client.command(&[b"SET", &member, b""]);
    }
}

/// A server with clients' memory for none of these, and a client.
fn server(folder: &Folder) -> (Running, Client<TcpStream>) {
    let server = Running::with(folder, |it| it.memory = 1 << 30);
    let mut client = server.client();
    fill(&mut client);
    assert_eq!(client.says("CONFIG SET maxmemory 64mb"), "+OK\r\n");
    (server, client)
}

/// What is too much is refused as a whole, changes nothing, and leaves replies before and behind
/// it as they are.
#[test]
fn replies_and_what_they_are_made_of_take_no_more_than_there_is() {
    let _alone = alone();
    let folder = Folder::new();
    let (_server, mut client) = server(&folder);
    let fields = (0..ELEMENTS).map(|it| format!(" {it}"));
    let fields: String = fields.collect();
    let too_much = [
        "SRANDMEMBER set -1048576",
        "HRANDFIELD hash -1048576 WITHVALUES",
        "ZRANDMEMBER sorted -1048576 WITHSCORES",
        "HGETALL hash",
        "HVALS hash",
        &format!("HMGET hash{fields}"),
        "HRANDFIELD hash 100 WITHVALUES",
        "HSCAN hash 0 COUNT 100",
        "SMEMBERS set",
        "SUNION set other",
        "SINTER set set",
        "SDIFF set other",
        "SDIFF set small",
        "SUNIONSTORE other set",
        "SRANDMEMBER set 400",
        "SSCAN set 0 COUNT 1000",
        "SPOP set 400",
        "LRANGE list 0 -1",
        "LPOP list 20",
        "LMPOP 1 list LEFT COUNT 20",
        "BLMPOP 0 1 list RIGHT COUNT 20",
        "ZRANGE sorted 0 -1",
        "ZRANGE sorted -inf +inf BYSCORE WITHSCORES",
        "ZRANGE sorted + - BYLEX REV",
        "ZUNION 1 sorted",
        "ZPOPMIN sorted 400",
        "ZSCAN sorted 0 COUNT 1000",
        "KEYS *",
        "SCAN 0 COUNT 1000",
        &format!("MGET{}", " string".repeat(ELEMENTS)),
        "COPY list other",
        "COPY sorted other",
    ];
    for command in too_much {
        client.send(format!("PING\r\n{command}\r\nPING\r\n").as_bytes());
        assert_eq!(client.reply(), b"+PONG\r\n");
        let said = client.reply();
        let said = String::from_utf8_lossy(&said[..said.len().min(100)]);
        // Commands that can take memory may be refused before they begin.
        assert_eq!(said, OOM, "{command}");
        assert_eq!(client.reply(), b"+PONG\r\n", "{command}");
    }
    let counts = ["HLEN hash", "LLEN list", "SCARD set", "ZCARD sorted"];
    let all = [ELEMENTS, ELEMENTS, MEMBERS, MEMBERS];
    for (command, count) in counts.iter().zip(all) {
        assert_eq!(client.says(command), format!(":{count}\r\n"));
    }
    assert_eq!(client.says("EXISTS other"), ":0\r\n");
    for (command, bytes) in [
        ("LRANGE list 0 3", 4 * MIB),
        ("LPOP list 4", 4 * MIB),
        ("SPOP set 50", 50 * MEMBER),
        ("SRANDMEMBER set", MEMBER),
        ("HRANDFIELD hash 4 WITHVALUES", 4 * MIB),
        ("ZRANDMEMBER sorted -50", 50 * MEMBER),
        ("SINTER set small", 0),
        ("SDIFF small set", 0),
    ] {
        assert!(client.ask(command).len() > bytes, "{command}");
    }
    assert_eq!(client.says("LLEN list"), ":16\r\n");
    assert_eq!(client.says("SCARD set"), ":350\r\n");

    // In a transaction, one is refused and the others are not.
    for command in ["MULTI", "LLEN list", "HGETALL hash", "LPOP none"] {
        client.ask(command);
    }
    assert_eq!(client.says("EXEC"), format!("*3\r\n:16\r\n{OOM}$-1\r\n"));
    let used: usize = client.info("memory", "mem_clients_normal");
    assert!(used < MIB, "{used}");
}

/// Subscribers who do not read are disconnected when there is no memory for their messages; one
/// who reads gets all of them.
#[test]
fn messages_that_nobody_reads_take_no_more_than_there_is() {
    const SLOW: usize = 5;
    const LIMIT: usize = 128 * MIB;
    let _alone = alone();
    let folder = Folder::new();
    let server = Running::with(&folder, |it| it.memory = LIMIT as u64);
    let (mut reader, mut publisher) = (server.client(), server.client());
    reader.ask("SUBSCRIBE news");
    let mut slow = Vec::new();
    for _ in 0..SLOW {
        let mut client = server.client();
        client.ask("SUBSCRIBE news");
        slow.push(client);
    }
    let message = vec![b'm'; MIB / 4];
    let mut published = 0;
    loop {
        let receivers = publisher.command(&[b"PUBLISH", b"news", &message]);
        published += 1;
        let received = reader.reply();
        assert_eq!(received, encoded(&[b"message", b"news", &message]));
        let used: usize = publisher.info("memory", "mem_clients_normal");
        assert!(used <= LIMIT / 4 + MIB, "{used} bytes of messages");
        if receivers == b":1\r\n" {
            break;
        }
        assert!(published < 4000, "who does not read is still there");
    }
    let ended: usize = publisher.info("stats", "evicted_clients");
    assert_eq!(ended, SLOW);
    // What they got is whole messages, and then the connection ends.
    for mut client in slow {
        let all = client.rest();
        assert!(all.len() < published * (message.len() + 64));
    }
    while publisher.info::<usize>("memory", "mem_clients_normal") > MIB {
        std::thread::yield_now();
    }
}

/// What a connection has the server remember counts, until it is forgotten.
#[test]
fn names_that_clients_have_the_server_remember_count() {
    const LIMIT: usize = 128 * MIB;
    let _alone = alone();
    let folder = Folder::new();
    let server = Running::with(&folder, |it| it.memory = LIMIT as u64);
    let (mut client, mut looker) = (server.client(), server.client());
    let mut counted = || looker.info::<usize>("memory", "mem_clients_normal");
    let names: Vec<Vec<u8>> = (0..50).map(member).collect();
    let all = names.len() * MEMBER;
    for (kept, forgotten) in [
        ("WATCH", "UNWATCH"),
        ("WATCH", "EXEC"),
        ("SUBSCRIBE", "RESET"),
        ("PSUBSCRIBE", "RESET"),
        ("SSUBSCRIBE", "RESET"),
        ("CLIENT", "RESET"),
    ] {
        for name in &names {
            let setname: [&[u8]; 3] = [b"CLIENT", b"SETNAME", &name.repeat(names.len())];
            match kept {
                "CLIENT" => client.command(&setname),
                _ => client.command(&[kept.as_bytes(), name]),
            };
        }
        assert!(counted() > all, "{kept}");
        if forgotten == "EXEC" {
            client.ask("MULTI");
        }
        client.ask(forgotten);
        // One more command, so that the connection has told what it takes.
        client.ask("PING");
        client.ask("PING");
        assert!(counted() < MIB, "{forgotten}");
    }
    for name in &names {
        for command in ["SUBSCRIBE", "UNSUBSCRIBE", "PSUBSCRIBE", "PUNSUBSCRIBE"] {
            client.command(&[command.as_bytes(), name]);
        }
    }
    client.ask("PING");
    assert!(counted() < MIB);

    // Who goes on is disconnected.
    let ended = (0..1000).any(|nth| {
        assert!(counted() <= LIMIT / 4 + MIB, "{nth} names");
        let command = encoded(&[b"SUBSCRIBE", &member(nth)]);
        client.try_send(&command);
        // The same with another head, and their number behind it.
        let bytes = command.len() + format!(":{}\r\n", nth + 1).len();
        client.next(bytes).len() < bytes
    });
    assert!(ended);
}
