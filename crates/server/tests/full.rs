//! A server whose store is full.

mod client;

use client::{Folder, Running};

/// It starts, serves and deletes; what is made when there is space again has elements of its own.
#[test]
fn a_server_starts_while_its_store_is_full() {
    let folder = Folder::new();
    let start = || {
        Running::with(&folder, |it| {
            (it.capacity, it.segment_bytes) = (8 << 20, 256 << 10);
        })
    };
    let value = [b'x'; 10_000];
    let mut keys = 0;
    let server = start();
    let mut client = server.client();
    loop {
        let said = client.command(&[b"SET", format!("key{keys}").as_bytes(), &value]);
        if said != b"+OK\r\n" {
            let full = b"-ERR the store is full";
            assert!(said.starts_with(full), "{}", said.escape_ascii());
            break;
        }
        keys += 1;
    }
    drop(client);
    server.stop();
    for restart in 0..4 {
        let server = start();
        let mut client = server.client();
        assert_eq!(client.says("DBSIZE"), format!(":{keys}\r\n"), "{restart}");
        assert_eq!(client.says("STRLEN key0"), ":10000\r\n");
        drop(client);
        server.stop();
    }
    let server = start();
    let mut client = server.client();
    for nth in 1..keys {
        assert_eq!(client.says(&format!("DEL key{nth}")), ":1\r\n");
    }
    let fill = |client: &mut client::Client<std::net::TcpStream>, key: &str| {
        for field in 0..200 {
            let set = format!("HSET {key} {key}{field} {}", "y".repeat(100));
            assert_eq!(client.says(&set), ":1\r\n");
        }
    };
    fill(&mut client, "one");
    drop(client);
    server.stop();
    let server = start();
    let mut client = server.client();
    fill(&mut client, "two");
    for key in ["one", "two"] {
        assert_eq!(client.says(&format!("HLEN {key}")), ":200\r\n");
        assert_eq!(client.says(&format!("HSTRLEN {key} {key}7")), ":100\r\n");
        assert_eq!(client.says(&format!("DEL {key}")), ":1\r\n");
    }
    drop(client);
    server.stop();
}
