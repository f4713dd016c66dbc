//! Input that is made to do harm.

mod client;

use std::io::Write;
use std::net::TcpStream;

use client::{Folder, Running, encoded};

#[test]
fn what_is_no_command_ends_its_connection_only() {
    let folder = Folder::new();
    let server = Running::new(&folder);
    for (sent, reply) in [
        (
            &b"*1\r\n$-1\r\n"[..],
            "-ERR Protocol error: invalid bulk length\r\n",
        ),
        (
            b"*1\r\n$999999999999\r\n",
            "-ERR Protocol error: invalid bulk length\r\n",
        ),
        (
            b"*2147483648\r\n",
            "-ERR Protocol error: invalid multibulk length\r\n",
        ),
        (
            b"*1\r\n@1\r\n",
            "-ERR Protocol error: expected '$', got '@'\r\n",
        ),
        (
            b"SET \"a\r\n",
            "-ERR Protocol error: unbalanced quotes in request\r\n",
        ),
        (
            b"PING\r\n*1\r\n$a\r\n",
            "+PONG\r\n-ERR Protocol error: invalid bulk length\r\n",
        ),
    ] {
        let mut client = server.client();
        client.send(sent);
        assert_eq!(String::from_utf8(client.rest()).unwrap(), reply);
    }
    assert_eq!(server.client().says("PING"), "+PONG\r\n");
}

#[test]
fn who_has_not_authenticated_may_send_little_and_is_told_so() {
    let folder = Folder::new();
    let server = Running::with(&folder, |it| it.password = Some("secret".into()));
    for (sent, words) in [
        ("*11\r\n", "unauthenticated multibulk length"),
        ("*1\r\n$16385\r\n", "unauthenticated bulk length"),
        ("*1048577\r\n", "invalid multibulk length"),
        ("*x\r\n", "invalid multibulk length"),
        ("*1\r\n$x\r\n", "invalid bulk length"),
        ("*1\r\n$-1\r\n", "invalid bulk length"),
    ] {
        let mut client = server.client();
        client.send(sent.as_bytes());
        let said = String::from_utf8(client.rest()).unwrap();
        assert_eq!(said, format!("-ERR Protocol error: {words}\r\n"));
    }
}

#[test]
fn halves_of_commands_are_forgotten_with_their_connections() {
    let folder = Folder::new();
    let server = Running::new(&folder);
    let whole = encoded(&[b"SET", b"key", b"value"]);
    for end in 0..whole.len() {
        server.client().send(&whole[..end]);
    }
    let mut client = server.client();
    assert_eq!(client.says("EXISTS key"), ":0\r\n");
    for byte in whole {
        client.send(&[byte]);
    }
    assert_eq!(client.reply(), b"+OK\r\n");
}

#[test]
fn many_connections_with_halves_of_commands_leave_the_server_serving() {
    let folder = Folder::new();
    let server = Running::new(&folder);
    let mut clients = Vec::new();
    for _ in 0..500 {
        let mut client = server.client();
        client.send(b"*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$100000000\r\nabc");
        clients.push(client);
    }
    assert_eq!(server.client().says("PING"), "+PONG\r\n");
    drop(clients);
    let mut client = server.client();
    while !client
        .says("INFO clients")
        .contains("connected_clients:1\r\n")
    {}
}

#[test]
fn a_command_that_takes_too_much_memory_ends_its_connection() {
    let folder = Folder::new();
    let server = Running::with(&folder, |it| it.memory = 32 << 20);
    let mut stream = TcpStream::connect(server.address).unwrap();
    let head = b"*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$500000000\r\n";
    let piece = vec![b'x'; 1 << 20];
    let mut sent = 0;
    let mut result = stream.write_all(head);
    while result.is_ok() && sent < 500 << 20 {
        result = stream.write_all(&piece);
        sent += piece.len();
    }
    assert!(result.is_err(), "the server took {sent} bytes");
    assert_eq!(server.client().says("PING"), "+PONG\r\n");
}

/// A name that is empty is none, whatever was sent in front of it.
#[test]
fn an_empty_name_is_not_the_one_before() {
    let folder = Folder::new();
    let server = Running::new(&folder);
    let mut client = server.client();
    client.send(b"INCR n\r\n*2\r\n$0\r\n\r\n$1\r\nn\r\nGET n\r\n");
    assert_eq!(client.reply(), b":1\r\n");
    let unknown = b"-ERR unknown command '', with args beginning with: 'n' \r\n";
    assert_eq!(client.reply(), unknown);
    assert_eq!(client.reply(), b"$1\r\n1\r\n");
}

#[test]
fn a_client_that_does_not_read_is_not_waited_for_by_others_and_keeps_no_lock() {
    let folder = Folder::new();
    let server = Running::new(&folder);
    let value = "x".repeat(100_000);
    assert_eq!(
        server.client().says(&format!("SET key {value}")),
        "-ERR Protocol error: too big inline request\r\n"
    );
    let mut client = server.client();
    assert_eq!(
        client.command(&[b"SET", b"key", value.as_bytes()]),
        b"+OK\r\n"
    );
    let slow: Vec<_> = (0..4)
        .map(|_| {
            let mut slow = server.client();
            slow.send("GET key\r\n".repeat(1000).as_bytes());
            slow
        })
        .collect();
    assert_eq!(client.says("SET key small"), "+OK\r\n");
    assert_eq!(client.says("GET key"), "$5\r\nsmall\r\n");
    let buffers: usize = client.info("memory", "mem_clients_normal");
    assert!(buffers < 4 << 20, "{buffers}");
    drop(slow);
}

#[test]
fn requests_of_browsers_end_their_connections_before_what_follows_is_executed() {
    let folder = Folder::new();
    let server = Running::new(&folder);
    let set = encoded(&[b"SET", b"key", b"value"]);
    for sent in [
        &b"POST / HTTP/1.1\r\nHost: 127.0.0.1:6379\r\n\r\n"[..],
        b"post\r\n",
        b"hOsT: x\r\n",
        &encoded(&[b"Post", b"/"]),
        &encoded(&[b"HOST:"]),
        b"Host: \"x\"\r\nCookie: \"half\r\n",
    ] {
        let mut client = server.client();
        client.send(&[sent, &set].concat());
        assert_eq!(client.rest(), b"", "{}", sent.escape_ascii());
    }
    let mut client = server.client();
    client.send(&[&b"MULTI\r\nSET key value\r\nHost: x\r\nEXEC\r\n"[..], &set].concat());
    assert_eq!(client.rest(), b"+OK\r\n+QUEUED\r\n");
    let mut client = server.client();
    assert_eq!(client.says("EXISTS key"), ":0\r\n");
    // Only as a command's name.
    assert_eq!(client.says("SET host: post"), "+OK\r\n");
    assert_eq!(client.says("GET host:"), "$4\r\npost\r\n");
}
