//! etcd's JSON gateway: its v3 API as requests over HTTP, with keys and values in base64.

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::Value;

use super::urls::Etcd;
use crate::error::{Error, Result};
use crate::fabric::Completion;

/// The first version whose gateway is at `/v3`.
const OLDEST: (u64, u64) = (3, 4);

/// For so long at most one server is waited for if there are others.
const PATIENCE: Duration = Duration::from_secs(5);

/// Requests to etcd, each on a thread of its own: there are few, and none may wait for another.
pub(super) struct Gateway {
    servers: Arc<Servers>,
}

/// The servers of one etcd.
struct Servers {
    urls: Vec<String>,
    /// The one that is asked first.
    first: AtomicUsize,
    /// After which a request to one of them is given up.
    timeout: Duration,
}

/// What is asked of etcd.
struct Request {
    path: &'static str,
    body: Option<Value>,
    /// Whether another server may be asked for it where it may have been done already.
    may_repeat: bool,
}

/// Why a request failed.
enum Failed {
    /// Nothing was sent.
    Unreachable(Error),
    /// It may have been done, or may be done later.
    Unanswered(Error),
    /// etcd says that it was not done.
    Refused(Error),
}

impl Gateway {
    /// Whose requests are given up after this time, all servers together; but each has a second.
    pub fn new(etcd: &Etcd, timeout: Duration) -> Gateway {
        let urls = etcd.urls().to_vec();
        let timeout = match urls.len() as u32 {
            1 => timeout,
            several => PATIENCE.min(timeout / several),
        };
        let first = AtomicUsize::new(0);
        let servers = Arc::new(Servers {
            urls,
            first,
            timeout,
        });
        Gateway { servers }
    }

    /// Makes sure that an etcd is there which this understands.
    ///
    /// # Errors
    /// There is none: a line that says what is there.
    pub async fn check(&self) -> Result<()> {
        let version = self.send(Request {
            path: "/version",
            body: None,
            may_repeat: true,
        });
        let answer = version.await?;
        let version = answer["etcdserver"].as_str().unwrap_or_default();
        let mut parts = version.split('.').map(|it| it.parse().ok());
        match (parts.next().flatten(), parts.next().flatten()) {
            (Some(major), Some(minor)) if (major, minor) >= OLDEST => Ok(()),
            (Some(_), Some(_)) => Err(self.error(&format!(
                "it is version {version}; {}.{} or a later one is needed",
                OLDEST.0, OLDEST.1
            ))),
            _ => Err(self.error("what answers there is no etcd")),
        }
    }

    /// Calls a method by its path, such as `/v3/kv/range`, that may be done twice: it reads, or
    /// has to do with leases. Where a server doesn't answer, the next one is asked.
    ///
    /// # Errors
    /// No server of etcd answers, or etcd refuses.
    pub fn ask(&self, path: &'static str, body: Value) -> Completion<Result<Value>> {
        self.send(Request {
            path,
            body: Some(body),
            may_repeat: true,
        })
    }

    /// Calls a method that must not be done twice. Where a server can't be reached, the next one
    /// is asked; where one doesn't answer, the next call begins with the next one.
    ///
    /// # Errors
    /// etcd does not answer, and it may have been done or be done later; or it refuses.
    pub fn call(&self, path: &'static str, body: Value) -> Completion<Result<Value>> {
        self.send(Request {
            path,
            body: Some(body),
            may_repeat: false,
        })
    }

    /// What goes wrong at this etcd, as a line.
    pub fn error(&self, what: &str) -> Error {
        error(&self.servers.urls.join(","), what)
    }

    fn send(&self, request: Request) -> Completion<Result<Value>> {
        let (completion, completer) = Completion::pending();
        let servers = Arc::clone(&self.servers);
        let answers = completer.clone();
        let work = move || answers.complete(servers.answer(&request));
        let thread = thread::Builder::new().name("etcd".into()).spawn(work);
        if let Err(no_thread) = thread {
            completer.complete(Err(self.error(&no_thread.to_string())));
        }
        completion
    }
}

impl Servers {
    /// What the first server says that can be asked.
    fn answer(&self, request: &Request) -> Result<Value> {
        let first = self.first.load(Relaxed);
        let mut left = self.urls.len();
        loop {
            let server = (first + self.urls.len() - left) % self.urls.len();
            left -= 1;
            let failed = match request.send(&self.urls[server], self.timeout) {
                Ok(answer) => return Ok(answer),
                Err(Failed::Refused(error)) => return Err(error),
                Err(failed) => failed,
            };
            self.first.store((server + 1) % self.urls.len(), Relaxed);
            match failed {
                Failed::Unanswered(error) if !request.may_repeat => return Err(error),
                Failed::Unreachable(error) | Failed::Unanswered(error) if left == 0 => {
                    return Err(error);
                }
                _ => {}
            }
        }
    }
}

impl Request {
    fn send(&self, url: &str, timeout: Duration) -> std::result::Result<Value, Failed> {
        let at = format!("{url}{}", self.path);
        let request = match &self.body {
            Some(body) => minreq::post(at).with_body(body.to_string()),
            None => minreq::get(at),
        };
        let seconds = timeout.as_secs_f64().ceil().max(1.0) as u64;
        let response = request.with_timeout(seconds).send();
        let response = response.map_err(|failed| {
            let line = error(url, &reason(&failed));
            match is_unreachable(&failed) {
                true => Failed::Unreachable(line),
                false => Failed::Unanswered(line),
            }
        })?;
        let answer: Option<Value> = serde_json::from_slice(response.as_bytes()).ok();
        match (response.status_code, answer) {
            (200, Some(answer)) => Ok(answer),
            (status, answer) => {
                let said = answer.and_then(|it| Some(it.get("error")?.as_str()?.to_owned()));
                let said =
                    said.unwrap_or_else(|| format!("HTTP status {status}, and no etcd's answer"));
                let line = error(url, &said);
                // Such as a server that is cut off from the others.
                match status >= 500 {
                    true => Err(Failed::Unanswered(line)),
                    false => Err(Failed::Refused(line)),
                }
            }
        }
    }
}

fn error(url: &str, what: &str) -> Error {
    Error::Etcd(format!("etcd at {url}: {what}"))
}

/// Whether there was no connection to send a request by.
fn is_unreachable(failed: &minreq::Error) -> bool {
    match failed {
        minreq::Error::AddressNotFound => true,
        minreq::Error::IoError(io) => matches!(
            io.kind(),
            ErrorKind::ConnectionRefused
                | ErrorKind::HostUnreachable
                | ErrorKind::NetworkUnreachable
        ),
        _ => false,
    }
}

/// Why a request failed, as a line.
fn reason(failed: &minreq::Error) -> String {
    match failed {
        minreq::Error::IoError(io) if io.kind() == ErrorKind::TimedOut => {
            "it does not answer".into()
        }
        minreq::Error::IoError(io) => io.to_string(),
        other => other.to_string(),
    }
}

/// A key or a value for the gateway.
pub(super) fn encoded(bytes: impl AsRef<[u8]>) -> String {
    BASE64.encode(bytes)
}

/// A key or a value of the gateway.
pub(super) fn decoded(value: &Value) -> Option<Vec<u8>> {
    match value {
        // Empty ones are left out.
        Value::Null => Some(Vec::new()),
        Value::String(text) => BASE64.decode(text).ok(),
        _ => None,
    }
}

/// A number of the gateway: 64 bits are a string, and 0 is left out.
pub(super) fn number(value: &Value) -> Option<i64> {
    match value {
        Value::Null => Some(0),
        Value::String(text) => text.parse().ok(),
        other => other.as_i64(),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use serde_json::json;
    use timberline_io::wait_for;

    use super::*;

    /// Where no server is.
    const NOBODY: &str = "http://127.0.0.1:1";

    /// A server that says this to every request, or nothing at all. Its URL.
    fn server(answer: Option<&'static str>) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        thread::spawn(move || {
            let mut silent = Vec::new();
            for mut client in listener.incoming().flatten() {
                let _ = client.read(&mut [0; 1024]);
                match answer {
                    Some(answer) => drop(client.write_all(answer.as_bytes())),
                    None => silent.push(client),
                }
            }
        });
        url
    }

    fn gateway(urls: &[&str]) -> Gateway {
        Gateway::new(&Etcd::new(&urls.join(",")).unwrap(), Duration::from_secs(5))
    }

    fn answered(answer: &'static str) -> Result<()> {
        wait_for(gateway(&[&server(Some(answer))]).check())
    }

    #[test]
    fn what_is_no_etcd_or_too_old_is_said() {
        for (answers, said) in [
            (
                "HTTP/1.1 200 OK\r\n\r\n{\"etcdserver\":\"3.2.17\"}",
                "it is version 3.2.17; 3.4",
            ),
            (
                "HTTP/1.1 200 OK\r\n\r\n{\"etcdserver\":\"2.3.8\"}",
                "it is version 2.3.8; 3.4",
            ),
            ("HTTP/1.1 200 OK\r\n\r\n{\"name\":\"x\"}", "no etcd"),
            ("HTTP/1.1 404 Not Found\r\n\r\nnothing", "HTTP status 404"),
            ("HTTP/1.1 200 OK\r\n\r\n<html>", "no etcd's answer"),
            ("hello\r\n", "etcd at http://127.0.0.1"),
            ("", "etcd at http://127.0.0.1"),
        ] {
            let Err(Error::Etcd(line)) = answered(answers) else {
                panic!("{answers} was taken for etcd");
            };
            assert!(line.contains(said) && !line.contains('\n'), "{line}");
        }
        let good = "HTTP/1.1 200 OK\r\n\r\n{\"etcdserver\":\"3.5.0\"}";
        assert_eq!(answered(good), Ok(()));
        let refused = wait_for(gateway(&[NOBODY]).check()).unwrap_err();
        assert!(refused.to_string().contains(NOBODY), "{refused}");
    }

    /// What may be done twice is. What must not be is asked for elsewhere only if it cannot have
    /// been done.
    #[test]
    fn where_a_server_does_not_answer_another_one_is_asked() {
        let good = server(Some("HTTP/1.1 200 OK\r\n\r\n{}"));
        let cut_off = server(Some("HTTP/1.1 503 -\r\n\r\n{\"error\":\"no leader\"}"));
        let silent = server(None);
        let ask = |gateway: &Gateway| wait_for(gateway.ask("/v3/kv/range", json!({})));
        let call = |gateway: &Gateway| wait_for(gateway.call("/v3/kv/txn", json!({})));
        assert!(call(&gateway(&[NOBODY, &good])).is_ok());
        for bad in [&silent, &cut_off] {
            assert!(ask(&gateway(&[bad, &good])).is_ok());
            let gateway = gateway(&[bad, &good]);
            let line = call(&gateway).unwrap_err().to_string();
            assert!(line.contains(bad.as_str()), "{line}");
            assert!(call(&gateway).is_ok(), "it begins with the other one");
        }
        let line = ask(&gateway(&[&silent, &cut_off, NOBODY])).unwrap_err();
        assert!(line.to_string().contains(NOBODY), "{line}");
        // Who refuses has answered.
        let refuses = server(Some("HTTP/1.1 404 -\r\n\r\n{\"error\":\"no such lease\"}"));
        let line = ask(&gateway(&[&refuses, &good])).unwrap_err();
        assert!(line.to_string().contains("no such lease"), "{line}");
    }

    #[test]
    fn numbers_and_bytes_are_the_gateways() {
        assert_eq!(number(&json!("-5")), Some(-5));
        assert_eq!(number(&Value::Null), Some(0));
        assert_eq!(number(&json!("x")), None);
        let bytes = [0, 255, 7];
        assert_eq!(decoded(&json!(encoded(bytes))), Some(bytes.to_vec()));
        assert_eq!(decoded(&json!("?")), None);
    }
}
