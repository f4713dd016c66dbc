//! More connections and longer pipelines than anyone should send, in a process of its own: its
//! resident memory is looked at all the time.

mod client;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use client::{Client, Folder, Running, encoded};
use rustix::process::{Resource, getrlimit, setrlimit};

const MIB: usize = 1 << 20;
const LIMIT: usize = 192 * MIB;
/// Bytes of each of a pipeline's commands.
const ECHOED: usize = 128 << 10;
/// Connections at a time, where the process may have so many files.
const CROWD: usize = 10_000;
/// Files that are no connections.
const OTHER_FILES: u64 = 400;

/// One flood at a time: they share the process's memory and files.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Resident bytes of the process, by INFO.
fn used(client: &mut Client<TcpStream>) -> usize {
    client.info("memory", "used_memory")
}

/// Lets this process have as many files as it may, up to those of the crowd. Returns how many
/// connections it can have both ends of.
fn connections() -> usize {
    let mut limit = getrlimit(Resource::Nofile);
    let wanted = 2 * CROWD as u64 + OTHER_FILES;
    let most = limit.maximum.map_or(wanted, |it| it.min(wanted));
    limit.current = Some(limit.current.map_or(most, |it| it.max(most)));
    setrlimit(Resource::Nofile, limit).unwrap();
    let connections = (most.saturating_sub(OTHER_FILES) / 2) as usize;
    if connections < CROWD {
        println!("{connections} connections in place of {CROWD}: there may be {most} files");
    }
    connections
}

#[test]
fn ten_thousand_connections_are_served_within_the_limit() {
    let _alone = alone();
    let folder = Folder::new();
    let connections = connections();
    let server = Running::with(&folder, |it| {
        it.memory = LIMIT as u64;
        // The client that looks at the server is no part of the crowd.
        it.max_clients = connections + 1;
    });
    let mut client = server.client();
    assert_eq!(client.says("SET key value"), "+OK\r\n");
    let mut crowd = Vec::new();
    for nth in 0..connections {
        let mut stream = TcpStream::connect(server.address).unwrap();
        // Of each three, one says nothing, one has sent half of a command, one waits for an answer.
        let sent: &[u8] = match nth % 3 {
            0 => b"",
            1 => b"*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$100",
            _ => b"GET key\r\n",
        };
        stream.write_all(sent).unwrap();
        crowd.push(stream);
        if nth % 500 == 0 {
            assert!(used(&mut client) <= LIMIT, "after {nth} connections");
        }
    }
    for stream in crowd.iter_mut().skip(2).step_by(3) {
        let mut reply = [0; 11];
        stream.read_exact(&mut reply).unwrap();
        assert_eq!(&reply, b"$5\r\nvalue\r\n");
    }
    let clients = client.says("INFO clients");
    let connected = format!("connected_clients:{}\r\n", crowd.len() + 1);
    assert!(clients.contains(&connected), "{clients}");
    assert!(used(&mut client) <= LIMIT);
    println!("{} connections, {} bytes", crowd.len(), used(&mut client));
}

#[test]
fn a_pipeline_of_a_gibibyte_takes_no_more_than_its_share() {
    let _alone = alone();
    let folder = Folder::new();
    let server = Running::with(&folder, |it| it.memory = LIMIT as u64);
    let mut client = server.client();
    let command = encoded(&[b"ECHO", &[b'x'; ECHOED]]);
    let commands = (1 << 30) / command.len();
    let mut flood = TcpStream::connect(server.address).unwrap();
    let mut replies = flood.try_clone().unwrap();
    let writer = thread::spawn(move || {
        for _ in 0..commands {
            flood.write_all(&command).unwrap();
        }
        flood
    });
    let head = format!("${ECHOED}\r\n");
    let mut reply = vec![0; head.len() + ECHOED + 2];
    for nth in 0..commands {
        replies.read_exact(&mut reply).unwrap();
        assert!(reply.starts_with(head.as_bytes()));
        if nth % 100 == 0 {
            assert_eq!(client.says("PING"), "+PONG\r\n");
            assert!(used(&mut client) <= LIMIT, "after {nth} commands");
        }
    }
    writer.join().unwrap();
}
