//! As much HTTP as a local page needs: a GET without a body, one response, then close.
//!
//! Invariants: reading a request takes bounded memory and time, whatever arrives; only requests
//! with this machine's loopback address in `Host` are answered, so that no page of another site can
//! read along through a name that resolves to it (DNS rebinding).

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

/// The maximum size of a request, bytes; browsers send a few hundred.
const HEAD: usize = 8 << 10;
/// The maximum number of header lines.
const LINES: usize = 64;
/// Timeout for a client to send its request and to receive the response.
const PATIENCE: Duration = Duration::from_secs(2);

/// The page's content policy: it may connect to this server only.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// A response.
pub struct Answer {
    pub status: &'static str,
    pub kind: &'static str,
    pub body: Vec<u8>,
}

impl Answer {
    /// A text response of one line, or a one-line error.
    pub fn line(status: &'static str, line: &str) -> Answer {
        Answer {
            status,
            kind: "text/plain; charset=utf-8",
            body: format!("{line}\n").into_bytes(),
        }
    }
}

/// Reads one request and responds with `page` of its path; `None` is a 404.
///
/// # Errors
/// The client is gone, or too slow.
pub fn serve(mut stream: TcpStream, page: impl Fn(&str) -> Option<Answer>) -> io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let port = stream.local_addr()?.port();
    let deadline = Instant::now() + PATIENCE;
    let mut head = Vec::new();
    let request = loop {
        if let Some(request) = parse(&head, port) {
            break request;
        }
        if head.len() >= HEAD {
            break Err(Answer::line(
                "431 Request Header Fields Too Large",
                "the request is too long",
            ));
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break Err(Answer::line(
                "408 Request Timeout",
                "the request does not end",
            ));
        }
        stream.set_read_timeout(Some(left))?;
        let mut part = [0; 1024];
        match stream.read(&mut part)? {
            0 => return Ok(()),
            read => head.extend_from_slice(&part[..read]),
        }
    };
    let (answer, with_body) = match request {
        Ok(Request { path, with_body }) => {
            let nothing = || Answer::line("404 Not Found", "not found");
            (page(&path).unwrap_or_else(nothing), with_body)
        }
        Err(answer) => (answer, true),
    };
    let body: &[u8] = if with_body { &answer.body } else { &[] };
    let head = format!(
        "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nContent-Security-Policy: {POLICY}\r\n\
         Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nCross-Origin-Resource-Policy: same-origin\r\n\
         Allow: GET, HEAD\r\nConnection: close\r\n\r\n",
        answer.status,
        answer.kind,
        answer.body.len(),
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body)?;
    // Closing with unread input would reset the connection, and the client might lose the response.
    stream.shutdown(Shutdown::Write)?;
    let mut rest = [0; 1024];
    while Instant::now() < deadline && stream.read(&mut rest)? > 0 {}
    Ok(())
}

/// A parsed request.
#[derive(PartialEq, Debug)]
struct Request {
    path: String,
    with_body: bool,
}

/// Parses the head of a request to a server on this port; `None` until it is complete.
fn parse(head: &[u8], port: u16) -> Option<Result<Request, Answer>> {
    let mut lines = [httparse::EMPTY_HEADER; LINES];
    let mut request = httparse::Request::new(&mut lines);
    match request.parse(head) {
        Ok(httparse::Status::Partial) => return None,
        Ok(httparse::Status::Complete(_)) => {}
        Err(error) => {
            let line = format!("malformed request: {error}");
            return Some(Err(Answer::line("400 Bad Request", &line)));
        }
    }
    let mut hosts = request
        .headers
        .iter()
        .filter(|line| line.name.eq_ignore_ascii_case("host"));
    let is_ours = match (hosts.next(), hosts.next()) {
        (Some(host), None) => is_ours(host.value, port),
        _ => false,
    };
    if !is_ours {
        let line = format!("the host must be 127.0.0.1:{port}");
        return Some(Err(Answer::line("421 Misdirected Request", &line)));
    }
    let with_body = match request.method {
        Some("GET") => true,
        Some("HEAD") => false,
        _ => {
            let line = "only GET and HEAD are supported";
            return Some(Err(Answer::line("405 Method Not Allowed", line)));
        }
    };
    let path = request.path.unwrap_or("/");
    let path = path.split('?').next().unwrap_or(path).to_string();
    Some(Ok(Request { path, with_body }))
}

/// Whether `Host` names the loopback address and this port. Browsers omit port 80.
fn is_ours(host: &[u8], port: u16) -> bool {
    let host = String::from_utf8_lossy(host).to_ascii_lowercase();
    let (name, named) = match host.rsplit_once(':') {
        Some((name, port)) => (name, port.parse().ok()),
        None => (host.as_str(), Some(80)),
    };
    matches!(name, "127.0.0.1" | "localhost") && named == Some(port)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(head: &str) -> &'static str {
        match parse(head.as_bytes(), 8080) {
            None => "incomplete",
            Some(Ok(_)) => "ok",
            Some(Err(answer)) => &answer.status[..3],
        }
    }

    #[test]
    fn a_request_has_a_path_and_ends_with_an_empty_line() {
        let whole = "GET /snapshot?n=1 HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n";
        for end in 0..whole.len() {
            assert_eq!(status(&whole[..end]), "incomplete");
        }
        let Some(Ok(request)) = parse(whole.as_bytes(), 8080) else {
            panic!("it is complete")
        };
        assert_eq!(
            (request.path.as_str(), request.with_body),
            ("/snapshot", true)
        );
    }

    #[test]
    fn only_who_names_this_machine_is_answered() {
        let of = |host: &str| status(&format!("GET / HTTP/1.1\r\n{host}\r\n\r\n"));
        assert_eq!(of("Host: localhost:8080"), "ok");
        assert_eq!(of("host: LOCALHOST:8080"), "ok");
        for host in [
            "Host: evil.example:8080",
            "Host: 127.0.0.1.evil.example:8080",
            "Host: 127.0.0.1:8081",
            "Host: 127.0.0.1",
            "Host: ",
            "Accept: */*",
            "Host: 127.0.0.1:8080\r\nHost: evil.example",
        ] {
            assert_eq!(of(host), "421", "{host}");
        }
        assert!(is_ours(b"127.0.0.1", 80));
    }

    #[test]
    fn other_methods_and_other_protocols_are_refused() {
        for method in ["POST", "PUT", "DELETE", "OPTIONS", "CONNECT"] {
            let head = format!("{method} / HTTP/1.1\r\nHost: localhost:8080\r\n\r\n");
            assert_eq!(status(&head), "405", "{method}");
        }
        assert_eq!(
            status("HEAD / HTTP/1.1\r\nHost: localhost:8080\r\n\r\n"),
            "ok"
        );
        assert_eq!(status("\x16\x03\x01 hello"), "400");
        let lines = "A: b\r\n".repeat(LINES + 1);
        assert_eq!(status(&format!("GET / HTTP/1.1\r\n{lines}\r\n")), "400");
    }
}
