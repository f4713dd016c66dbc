//! Lists: short and long ones, across restarts, and clients that wait for their elements.

mod client;

use std::collections::VecDeque;
use std::net::TcpStream;

use client::{Client, Folder, Running};

/// A client that has sent a command which waits, once the server has begun to wait for it.
fn waiting(server: &Running, line: &str) -> Client<TcpStream> {
    let mut other = server.client();
    let before = blocked(&mut other);
    let mut client = server.client();
    client.send(format!("{line}\r\n").as_bytes());
    while blocked(&mut other) == before {}
    client
}

/// How many clients wait.
fn blocked(client: &mut Client<TcpStream>) -> usize {
    client.info("clients", "blocked_clients")
}

/// The elements of a list, from the reply to `LRANGE`.
fn elements(client: &mut Client<TcpStream>, key: &str) -> Vec<String> {
    let reply = client.says(&format!("LRANGE {key} 0 -1"));
    reply.lines().skip(2).step_by(2).map(String::from).collect()
}

#[test]
fn lists_are_those_of_a_model() {
    let folder = Folder::new();
    let mut server = Running::new(&folder);
    let mut client = server.client();
    let mut model: VecDeque<String> = VecDeque::new();
    let mut random = fastrand::Rng::with_seed(7);
    for step in 0..3000 {
        let len = model.len();
        // Longer and shorter by turns, so that it goes from one form to the other.
        let grows = step / 300 % 2 == 0;
        let value = format!("{}-{step}", "x".repeat(random.usize(..40)));
        let index = random.usize(..=len);
        match random.u32(..if grows { 6 } else { 14 }) {
            0 | 1 => {
                model.push_back(value.clone());
                client.ask(&format!("RPUSH list {value}"));
            }
            2 | 3 => {
                model.push_front(value.clone());
                client.ask(&format!("LPUSH list {value}"));
            }
            4 if index < len => {
                let line = format!("LINSERT list BEFORE {} {value}", model[index]);
                model.insert(index, value);
                client.ask(&line);
            }
            5 if index < len => {
                client.ask(&format!("LSET list {index} {value}"));
                model[index] = value;
            }
            6 | 7 => {
                model.pop_front();
                client.ask("LPOP list");
            }
            8 | 9 => {
                model.pop_back();
                client.ask("RPOP list");
            }
            10 | 11 if index < len => {
                // One that is there twice, too.
                let removed = model[index].clone();
                model.push_front(removed.clone());
                client.ask(&format!("LPUSH list {removed}"));
                client.ask(&format!("LREM list 0 {removed}"));
                model.retain(|it| *it != removed);
            }
            12 if random.u32(..20) == 0 => {
                let to = random.usize(index..=len);
                client.ask(&format!("LTRIM list {index} {}", to as i64 - 1));
                if to == 0 {
                    client.ask("DEL list");
                }
                model.truncate(to);
                model.drain(..index.min(to));
            }
            13 => {
                client.ask("LMOVE list list LEFT RIGHT");
                if len > 0 {
                    model.rotate_left(1);
                }
            }
            _ => {}
        }
        if step % 50 == 0 {
            assert_eq!(
                elements(&mut client, "list"),
                Vec::from(model.clone()),
                "at {step}"
            );
        }
        if step % 1000 == 999 {
            server.stop();
            server = Running::new(&folder);
            client = server.client();
            assert_eq!(elements(&mut client, "list"), Vec::from(model.clone()));
        }
    }
    // What is removed leaves nothing behind.
    client.ask("DEL list");
    assert_eq!(client.says("DBSIZE"), ":0\r\n");
}

#[test]
fn who_waits_longest_gets_the_first_element() {
    let folder = Folder::new();
    let server = Running::new(&folder);
    let mut client = server.client();
    let mut first = waiting(&server, "BLPOP a b 0");
    let mut second = waiting(&server, "BRPOP b a 0");
    let mut third = waiting(&server, "BLMOVE b c LEFT RIGHT 0");
    assert_eq!(client.says("RPUSH b 1 2 3"), ":3\r\n");
    assert_eq!(first.reply(), b"*2\r\n$1\r\nb\r\n$1\r\n1\r\n");
    assert_eq!(second.reply(), b"*2\r\n$1\r\nb\r\n$1\r\n3\r\n");
    assert_eq!(third.reply(), b"$1\r\n2\r\n");
    assert_eq!(client.says("LRANGE c 0 -1"), "*1\r\n$1\r\n2\r\n");
    assert_eq!(client.says("EXISTS a b"), ":0\r\n");
    // Elements that a moved one brings wake others.
    let mut chained = waiting(&server, "BLMPOP 0 2 x y RIGHT COUNT 5");
    let mut mover = waiting(&server, "BRPOPLPUSH z y 0");
    client.ask("RPUSH z e");
    assert_eq!(mover.reply(), b"$1\r\ne\r\n");
    assert_eq!(chained.reply(), b"*2\r\n$1\r\ny\r\n*1\r\n$1\r\ne\r\n");
    assert_eq!(blocked(&mut client), 0);
}

#[test]
fn lists_that_appear_by_other_commands_wake_who_waits() {
    let folder = Folder::new();
    let server = Running::new(&folder);
    let mut client = server.client();
    for command in [
        "RENAME from to",
        "COPY from to",
        "RENAMENX from to",
        "LMOVE from to LEFT LEFT",
    ] {
        let mut waiter = waiting(&server, "BLPOP to 0");
        client.ask("RPUSH from e");
        client.ask(command);
        assert_eq!(
            waiter.reply(),
            b"*2\r\n$2\r\nto\r\n$1\r\ne\r\n",
            "{command}"
        );
        client.ask("DEL from");
    }
    // A transaction's changes are seen together; what it takes back, nobody gets.
    let mut waiter = waiting(&server, "BLPOP to 0");
    client.send(b"MULTI\r\nRPUSH to 1\r\nDEL to\r\nSET to s\r\nEXEC\r\n");
    (0..5).for_each(|_| drop(client.reply()));
    client.send(b"MULTI\r\nDEL to\r\nRPUSH to 1\r\nRPUSH to 2\r\nLPOP to\r\nEXEC\r\n");
    (0..6).for_each(|_| drop(client.reply()));
    assert_eq!(waiter.reply(), b"*2\r\n$2\r\nto\r\n$1\r\n2\r\n");
}

#[test]
fn waiting_ends_with_its_time_and_with_its_client() {
    let folder = Folder::new();
    let server = Running::new(&folder);
    let mut client = server.client();
    assert_eq!(client.says("BLPOP none 0.05"), "*-1\r\n");
    // Replies to commands before are sent, and those behind wait.
    let mut waiter = server.client();
    waiter.send(b"PING\r\nBLPOP a 0\r\nPING\r\nLLEN a\r\n");
    assert_eq!(waiter.reply(), b"+PONG\r\n");
    while blocked(&mut client) == 0 {}
    client.ask("RPUSH a 1 2");
    assert_eq!(waiter.reply(), b"*2\r\n$1\r\na\r\n$1\r\n1\r\n");
    assert_eq!(waiter.reply(), b"+PONG\r\n");
    assert_eq!(waiter.reply(), b":1\r\n");
    client.ask("DEL a");
    // Those who are gone or killed take nothing.
    drop(waiting(&server, "BLPOP a 0"));
    while blocked(&mut client) > 0 {}
    let mut killed = waiting(&server, "BLPOP a 0\r\nPING");
    let listed = client.says("CLIENT LIST");
    let line = listed.lines().rfind(|it| it.contains("cmd=blpop")).unwrap();
    let id = line.split_once("id=").unwrap().1.split(' ').next().unwrap();
    assert_eq!(client.says(&format!("CLIENT KILL ID {id}")), ":1\r\n");
    assert_eq!(killed.rest(), b"");
    while blocked(&mut client) > 0 {}
    client.ask("RPUSH a 1");
    assert_eq!(client.says("LLEN a"), ":1\r\n");
    // Another client ends the wait, and what is behind it goes on.
    for (how, reply) in [
        ("", "*-1"),
        (" TIMEOUT", "*-1"),
        (" error", "-UNBLOCKED client unblocked via CLIENT UNBLOCK"),
    ] {
        let mut waiter = server.client();
        let id = waiter.says("CLIENT ID");
        let unblock = format!("CLIENT UNBLOCK {}{how}", &id[1..id.len() - 2]);
        assert_eq!(client.says(&unblock), ":0\r\n", "it does not wait");
        waiter.send(b"BLPOP none 0\r\nPING\r\n");
        while blocked(&mut client) == 0 {}
        assert_eq!(client.says(&unblock), ":1\r\n");
        assert_eq!(waiter.reply(), format!("{reply}\r\n").as_bytes());
        assert_eq!(waiter.reply(), b"+PONG\r\n");
        assert_eq!(client.says(&unblock), ":0\r\n", "it does not wait any more");
        assert_eq!(waiter.says("BLPOP none 0.01"), "*-1\r\n");
    }
    // A server stops although clients wait.
    let mut last = waiting(&server, "BLPOP none 0");
    server.stop();
    assert_eq!(last.rest(), b"");
}

#[test]
fn many_workers_share_a_queue() {
    let folder = Folder::new();
    let server = Running::new(&folder);
    const EACH: usize = 200;
    let mut taken: Vec<String> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..4)
            .map(|_| {
                let mut client = server.client();
                scope.spawn(move || {
                    let take = |_| {
                        client
                            .says("BLPOP jobs 0")
                            .lines()
                            .nth(4)
                            .unwrap()
                            .to_string()
                    };
                    (0..EACH).map(take).collect::<Vec<_>>()
                })
            })
            .collect();
        for producer in 0..2 {
            let mut client = server.client();
            scope.spawn(move || {
                for job in 0..2 * EACH {
                    client.ask(&format!("RPUSH jobs {producer}-{job:03}"));
                }
            });
        }
        workers
            .into_iter()
            .flat_map(|it| it.join().unwrap())
            .collect()
    });
    taken.sort();
    let all = (0..2).flat_map(|it| (0..2 * EACH).map(move |job| format!("{it}-{job:03}")));
    assert_eq!(taken, all.collect::<Vec<_>>());
    assert_eq!(server.client().says("EXISTS jobs"), ":0\r\n");
}
