//! A client that goes where it is sent, and knows which nodes were cut off.

use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

/// Without a reply for so long, a node that can be reached has hung.
const HANG: Duration = Duration::from_secs(120);
/// Between two looks whether the node was cut off.
const TICK: Duration = Duration::from_millis(100);

/// Addresses that cannot be reached just now.
#[derive(Default)]
pub struct CutOff(Mutex<Option<String>>);

impl CutOff {
    pub fn set(&self, address: Option<&str>) {
        *self.0.lock().unwrap() = address.map(String::from);
    }

    fn is(&self, address: &str) -> bool {
        self.0.lock().unwrap().as_deref() == Some(address)
    }
}

/// What came of a command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reply {
    /// In one line: of a string its text.
    Is(String),
    /// It was refused, or may have been done.
    Error(String),
    /// There is no connection, or it ended: the command may have been done.
    None,
}

/// Connections to nodes.
pub struct Client<'a> {
    nodes: &'a [String],
    at: String,
    turn: usize,
    streams: HashMap<String, TcpStream>,
    cut_off: &'a CutOff,
}

impl<'a> Client<'a> {
    /// Of these nodes; it is sent to others.
    pub fn new(nodes: &'a [String], cut_off: &'a CutOff) -> Client<'a> {
        Client {
            at: nodes[0].clone(),
            nodes,
            turn: 0,
            streams: HashMap::new(),
            cut_off,
        }
    }

    /// What a command comes to, at the node that serves it as far as nodes know.
    pub fn says(&mut self, line: &str) -> Reply {
        for _ in 0..3 {
            let reply = self.ask(line);
            let Some(reply) = reply else {
                self.streams.remove(&self.at);
                self.go_on();
                return Reply::None;
            };
            match reply.strip_prefix("-MOVED ") {
                Some(to) => self.at = to.rsplit(' ').next().unwrap().into(),
                None if reply.starts_with('-') => {
                    self.go_on();
                    return Reply::Error(reply);
                }
                None => return Reply::Is(reply),
            }
        }
        self.go_on();
        Reply::Error("-MOVED to and fro".into())
    }

    /// What a command comes to at the node where this is, which may not have the key.
    pub fn says_here(&mut self, line: &str) -> Reply {
        match self.ask(line) {
            None => {
                self.streams.remove(&self.at);
                Reply::None
            }
            Some(reply) if reply.starts_with('-') => Reply::Error(reply),
            Some(reply) => Reply::Is(reply),
        }
    }

    /// Any other node knows more, or will.
    fn go_on(&mut self) {
        self.turn += 1;
        self.at
            .clone_from(&self.nodes[self.turn % self.nodes.len()]);
    }

    fn ask(&mut self, line: &str) -> Option<String> {
        if self.cut_off.is(&self.at) {
            thread::sleep(Duration::from_millis(5));
            return None;
        }
        if !self.streams.contains_key(&self.at) {
            let address = self.at.parse().unwrap();
            let stream = TcpStream::connect_timeout(&address, Duration::from_secs(1)).ok()?;
            stream.set_read_timeout(Some(TICK)).unwrap();
            self.streams.insert(self.at.clone(), stream);
        }
        let (at, cut_off) = (self.at.clone(), self.cut_off);
        let stream = self.streams.get_mut(&at)?;
        stream.write_all(format!("{line}\r\n").as_bytes()).ok()?;
        let mut bytes = Vec::new();
        let begun = Instant::now();
        loop {
            if let Some(reply) = whole(&bytes) {
                return Some(reply);
            }
            let mut part = [0; 4096];
            match stream.read(&mut part) {
                Ok(0) => return None,
                Ok(read) => bytes.extend(&part[..read]),
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => {
                        if cut_off.is(&at) {
                            return None;
                        }
                        assert!(begun.elapsed() < HANG, "{line}: {at} does not reply");
                    }
                    _ => return None,
                },
            }
        }
    }
}

/// A reply in one line, if it is whole.
fn whole(bytes: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(bytes).unwrap();
    let (line, rest) = text.split_once("\r\n")?;
    match line.strip_prefix('$').filter(|it| *it != "-1") {
        None => Some(line.into()),
        Some(length) => {
            let text = rest.strip_suffix("\r\n")?;
            (length.parse() == Ok(text.len())).then(|| text.into())
        }
    }
}
