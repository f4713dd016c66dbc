//! Clients whose commands wait for a pause, and clients that send none.

mod client;

use client::{Folder, Running};

/// Longer than any test takes.
const LONG: &str = "CLIENT PAUSE 100000000";

#[test]
fn what_is_paused_is_done_behind_the_pause() {
    let folder = Folder::new();
    let server = Running::new(&folder);
    let (mut admin, mut writer, mut reader) = (server.client(), server.client(), server.client());
    writer.ask("MULTI");
    writer.ask("INCR count");
    assert_eq!(admin.says(&format!("{LONG} WRITE")), "+OK\r\n");
    writer.send(b"EXEC\r\nSET key value\r\nGET key\r\n");
    for _ in 0..100 {
        assert_eq!(reader.says("EXISTS count key"), ":0\r\n");
    }
    assert_eq!(reader.says("MULTI"), "+OK\r\n");
    assert_eq!(reader.says("GET key"), "+QUEUED\r\n");
    assert_eq!(reader.says("EXEC"), "*1\r\n$-1\r\n");
    assert_eq!(admin.says("CLIENT UNPAUSE"), "+OK\r\n");
    assert_eq!(writer.reply(), b"*1\r\n:1\r\n");
    assert_eq!(writer.reply(), b"+OK\r\n");
    assert_eq!(writer.reply(), b"$5\r\nvalue\r\n");

    // It ends by itself.
    assert_eq!(admin.says("CLIENT PAUSE 50"), "+OK\r\n");
    assert_eq!(reader.says("PING"), "+PONG\r\n");
    assert_eq!(writer.says("PING"), "+PONG\r\n");

    // Replies to what came before are not held back, and times begin when a command is done.
    writer.send(format!("{LONG} WRITE\r\nSET a 1 PX 60000\r\n").as_bytes());
    assert_eq!(writer.reply(), b"+OK\r\n");
    let mut now = || {
        let reply = reader.says("TIME");
        let numbers: Vec<i64> = reply.lines().filter_map(|it| it.parse().ok()).collect();
        1000 * numbers[0] + numbers[1] / 1000
    };
    let began = now();
    let later = loop {
        match now() {
            later if later > began + 50 => break later,
            _ => {}
        }
    };
    assert_eq!(admin.says("CLIENT UNPAUSE"), "+OK\r\n");
    assert_eq!(writer.reply(), b"+OK\r\n");
    let ends_at = admin.says("PEXPIRETIME a");
    let ends_at: i64 = ends_at[1..].trim_end().parse().unwrap();
    assert!(ends_at >= later + 60_000);

    // Clients that are gone are not waited for.
    let mut leaving = server.client();
    assert_eq!(admin.says(LONG), "+OK\r\n");
    leaving.send(b"SET left 1\r\n");
    drop(leaving);
    while admin.says("CLIENT LIST TYPE normal").matches("id=").count() > 3 {}
    assert_eq!(admin.says("CLIENT UNPAUSE"), "+OK\r\n");
    assert_eq!(admin.says("EXISTS left"), ":0\r\n");

    // A client that waits can be killed, and the server stopped.
    assert_eq!(admin.says(LONG), "+OK\r\n");
    let id = admin.says("CLIENT ID");
    for client in [&mut writer, &mut reader] {
        client.send(b"PING\r\nSET key other\r\n");
    }
    let others = "CLIENT KILL TYPE normal SKIPME yes";
    assert_eq!(admin.says(others), ":2\r\n");
    assert_eq!((writer.rest(), reader.rest()), (Vec::new(), Vec::new()));
    assert_eq!(admin.says("CLIENT ID"), id);
    assert_eq!(admin.says("CLIENT UNPAUSE"), "+OK\r\n");
    assert_eq!(admin.says("GET key"), "$5\r\nvalue\r\n");
    assert_eq!(admin.says(LONG), "+OK\r\n");
    server.client().send(b"GET key\r\n");
    server.stop();
}

#[test]
fn a_client_that_sends_nothing_is_disconnected() {
    let folder = Folder::new();
    let server = Running::new(&folder);
    // With protocol 3 a subscriber has all commands, and is never idle.
    let mut admin = server.client();
    admin.ask("HELLO 3");
    admin.ask("SUBSCRIBE other");
    let (mut idle, mut blocked, mut subscriber) =
        (server.client(), server.client(), server.client());
    idle.ask("PING");
    subscriber.ask("SUBSCRIBE news");
    blocked.send(b"BLPOP list 0\r\n");
    for wrong in ["-1", "x", ""] {
        let said = admin.command(&[b"CONFIG", b"SET", b"timeout", wrong.as_bytes()]);
        assert!(said.starts_with(b"-ERR CONFIG SET failed"), "{wrong}");
    }
    assert_eq!(admin.says("CONFIG SET timeout 1"), "+OK\r\n");
    assert!(admin.says("CONFIG GET timeout").ends_with("$1\r\n1\r\n"));
    assert!(idle.rest().is_empty());
    // Who waits for something is not idle.
    assert_eq!(admin.says("CONFIG SET timeout 0"), "+OK\r\n");
    assert_eq!(admin.says("RPUSH list element"), ":1\r\n");
    assert_eq!(blocked.reply(), b"*2\r\n$4\r\nlist\r\n$7\r\nelement\r\n");
    assert_eq!(admin.says("PUBLISH news message"), ":1\r\n");
    assert!(subscriber.reply().ends_with(b"message\r\n"));
}
