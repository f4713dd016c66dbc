//! Metrics and health over HTTP.

mod client;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use client::{Folder, Running};

fn serving(folder: &Folder) -> Running {
    Running::with(folder, |it| {
        it.metrics = Some("127.0.0.1:0".parse().unwrap())
    })
}

/// The whole answer to some bytes.
fn answer(server: &Running, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(server.metrics.unwrap()).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    stream.write_all(request).unwrap();
    let mut answer = String::new();
    // A connection that is closed with bytes unread may be reset.
    let _ = stream.read_to_string(&mut answer);
    answer
}

fn get(server: &Running, path: &str) -> (String, String) {
    let answer = answer(
        server,
        format!("GET {path} HTTP/1.1\r\nHost: it\r\n\r\n").as_bytes(),
    );
    let (head, body) = answer.split_once("\r\n\r\n").expect("it is an answer");
    let length = format!("Content-Length: {}\r\n", body.len());
    assert!(format!("{head}\r\n").contains(&length), "{answer}");
    (head.lines().next().unwrap().to_owned(), body.to_owned())
}

#[test]
fn metrics_count_what_clients_did() {
    let folder = Folder::new();
    let server = serving(&folder);
    let mut client = server.client();
    for nth in 0..3 {
        assert_eq!(client.says(&format!("SET key{nth} value")), "+OK\r\n");
    }
    let (status, body) = get(&server, "/metrics");
    assert_eq!(status, "HTTP/1.1 200 OK");
    let figure = |name: &str| {
        let line = body
            .lines()
            .find_map(|line| line.strip_prefix(&format!("timberline_{name} ")));
        line.unwrap_or_else(|| panic!("{name}: {body}"))
            .parse::<f64>()
            .unwrap()
    };
    assert_eq!(figure("keys"), 3.0);
    assert_eq!(figure("commands_total"), 3.0);
    assert_eq!(figure("connected_clients"), 1.0);
    assert!(figure("memory_resident_bytes") > 0.0);
    // Each figure has its help and its type.
    let lines = body.lines().collect::<Vec<_>>();
    for three in lines.chunks(3) {
        let name = three[2].split(' ').next().unwrap();
        assert!(
            three[0].starts_with(&format!("# HELP {name} ")),
            "{three:?}"
        );
        assert!(
            three[1].starts_with(&format!("# TYPE {name} ")),
            "{three:?}"
        );
    }
    server.stop();
}

#[test]
fn a_server_that_takes_writes_is_well() {
    let folder = Folder::new();
    let server = serving(&folder);
    assert_eq!(
        get(&server, "/health"),
        ("HTTP/1.1 200 OK".into(), "ok\n".into())
    );
    let head = answer(&server, b"HEAD /health HTTP/1.1\r\n\r\n");
    assert!(
        head.starts_with("HTTP/1.1 200 OK") && head.ends_with("\r\n\r\n"),
        "{head}"
    );
}

#[test]
fn other_requests_are_refused_and_the_server_goes_on() {
    let folder = Folder::new();
    let server = serving(&folder);
    let (status, body) = get(&server, "/secrets");
    assert_eq!(status, "HTTP/1.1 404 Not Found");
    assert_eq!(body, "possible: /metrics, /health\n");
    let posted = answer(&server, b"POST /metrics HTTP/1.1\r\n\r\n");
    assert!(posted.starts_with("HTTP/1.1 405 "), "{posted}");
    for hostile in [
        &vec![b'x'; 100_000][..],
        b"\r\n\r\n",
        b"GET\r\n\r\n",
        b"\xff\xfe\r\n\r\n",
    ] {
        let said = answer(&server, hostile);
        assert!(said.is_empty() || said.starts_with("HTTP/1.1 40"), "{said}");
    }
    assert_eq!(get(&server, "/health").0, "HTTP/1.1 200 OK");
}
