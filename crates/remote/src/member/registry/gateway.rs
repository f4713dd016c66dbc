//! etcd's JSON gateway: its v3 API as requests over HTTP, with keys and values in base64.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::Value;

use crate::error::{Error, Result};
use crate::fabric::Completion;

/// The first version whose gateway is at `/v3`.
const OLDEST: (u64, u64) = (3, 4);

/// For so long who only asks if it is there waits.
const LONGEST: Duration = Duration::from_secs(5);

/// Where etcd is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Etcd {
    url: String,
}

impl Etcd {
    /// By the URL that it serves clients at, such as `http://127.0.0.1:2379`.
    ///
    /// # Errors
    /// It is none: a line that says so.
    pub fn new(url: &str) -> std::result::Result<Etcd, String> {
        let url = url.trim_end_matches('/');
        let refused = |why: &str| Err(format!("{url}: {why}, such as http://127.0.0.1:2379"));
        let Some(rest) = url.strip_prefix("http://") else {
            return refused("a URL that begins with http://");
        };
        let Some((host, port)) = rest.rsplit_once(':') else {
            return refused("a URL with a port");
        };
        let is_host = |it: char| it.is_ascii_alphanumeric() || "-._:[]".contains(it);
        match !host.is_empty() && host.chars().all(is_host) && port.parse::<u16>().is_ok() {
            true => Ok(Etcd { url: url.into() }),
            false => refused("a host and a port, and nothing else"),
        }
    }

    /// Makes sure that an etcd is there which members understand.
    ///
    /// # Errors
    /// There is none that answers within five seconds: a line that says what is there.
    pub async fn check(&self) -> Result<()> {
        Gateway::new(self, LONGEST).check().await
    }
}

/// Requests to etcd, each on a thread of its own: there are few, and none may wait for another.
pub(super) struct Gateway {
    url: Arc<str>,
    /// After which a request is given up.
    timeout: Duration,
}

impl Gateway {
    /// To the etcd of this URL.
    pub fn new(etcd: &Etcd, timeout: Duration) -> Gateway {
        Gateway {
            url: etcd.url.as_str().into(),
            timeout,
        }
    }

    /// Makes sure that an etcd is there which this understands.
    ///
    /// # Errors
    /// There is none: a line that says what is there.
    pub async fn check(&self) -> Result<()> {
        let answer = self.send("/version", None).await?;
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

    /// Calls a method by its path, such as `/v3/kv/range`.
    ///
    /// # Errors
    /// etcd does not answer, or refuses.
    pub fn call(&self, path: &'static str, body: Value) -> Completion<Result<Value>> {
        self.send(path, Some(body))
    }

    /// What goes wrong at this etcd, as a line.
    pub fn error(&self, what: &str) -> Error {
        error(&self.url, what)
    }

    fn send(&self, path: &'static str, body: Option<Value>) -> Completion<Result<Value>> {
        let (completion, completer) = Completion::pending();
        let (url, timeout) = (Arc::clone(&self.url), self.timeout);
        let answers = completer.clone();
        let work = move || answers.complete(request(&url, path, body, timeout));
        let thread = thread::Builder::new().name("etcd".into()).spawn(work);
        if let Err(no_thread) = thread {
            completer.complete(Err(self.error(&no_thread.to_string())));
        }
        completion
    }
}

fn error(url: &str, what: &str) -> Error {
    Error::Etcd(format!("etcd at {url}: {what}"))
}

fn request(url: &str, path: &str, body: Option<Value>, timeout: Duration) -> Result<Value> {
    let at = format!("{url}{path}");
    let request = match body {
        Some(body) => minreq::post(at).with_body(body.to_string()),
        None => minreq::get(at),
    };
    let seconds = timeout.as_secs_f64().ceil().max(1.0) as u64;
    let response = request.with_timeout(seconds).send();
    let response = response.map_err(|failed| error(url, &reason(&failed)))?;
    let answer: Option<Value> = serde_json::from_slice(response.as_bytes()).ok();
    match (response.status_code, answer) {
        (200, Some(answer)) => Ok(answer),
        (status, answer) => {
            let said = answer.and_then(|it| Some(it.get("error")?.as_str()?.to_owned()));
            let said =
                said.unwrap_or_else(|| format!("HTTP status {status}, and no etcd's answer"));
            Err(error(url, &said))
        }
    }
}

/// Why a request failed, as a line.
fn reason(failed: &minreq::Error) -> String {
    match failed {
        minreq::Error::IoError(io) if io.kind() == std::io::ErrorKind::TimedOut => {
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

    use super::*;

    #[test]
    fn urls_are_of_hosts_and_ports() {
        for good in [
            "http://127.0.0.1:2379",
            "http://etcd-1.x:2379/",
            "http://[::1]:1",
        ] {
            assert!(Etcd::new(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "127.0.0.1:2379",
            "https://a:2379",
            "http://a",
            "http://:1",
            "http://a:b",
            "http://a:99999",
            "http://a:1/v3",
            "http://a b:1",
            "http://a@b:1",
        ] {
            let line = Etcd::new(bad).unwrap_err();
            assert!(line.contains("such as http://127.0.0.1:2379"), "{line}");
            assert!(!line.contains('\n'));
        }
    }

    /// What `answers` says to the first request.
    fn answered(answers: &'static str) -> Result<()> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let server = thread::spawn(move || {
            let (mut client, _) = listener.accept().unwrap();
            let _ = client.read(&mut [0; 1024]).unwrap();
            client.write_all(answers.as_bytes()).unwrap();
        });
        let gateway = Gateway::new(&Etcd::new(&url).unwrap(), Duration::from_secs(5));
        let result = timberline_io::wait_for(gateway.check());
        server.join().unwrap();
        result
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
        let refused = Gateway::new(&Etcd::new("http://127.0.0.1:1").unwrap(), Duration::ZERO);
        let refused = timberline_io::wait_for(refused.check())
            .unwrap_err()
            .to_string();
        assert!(refused.contains("127.0.0.1:1"), "{refused}");
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
