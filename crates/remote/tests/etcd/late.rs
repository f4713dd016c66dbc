//! An etcd whose clients get no answer to some requests, which are done later.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;

use timberline_remote::Etcd;

/// Stands between a member and an etcd.
pub struct Late {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    etcd: SocketAddr,
    holds: AtomicBool,
    /// Requests that were held back.
    held: Mutex<Vec<Vec<u8>>>,
}

impl Late {
    /// Before the etcd at this address.
    pub fn new(etcd: SocketAddr) -> Late {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            etcd,
            holds: AtomicBool::new(false),
            held: Mutex::default(),
        });
        let serving = Arc::clone(&shared);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let shared = Arc::clone(&serving);
                thread::spawn(move || shared.serve(client));
            }
        });
        Late { address, shared }
    }

    /// For members.
    pub fn etcd(&self) -> Etcd {
        Etcd::new(&format!("http://{}", self.address)).unwrap()
    }

    /// Transactions get no answer meanwhile, and are not done.
    pub fn while_changes_are_held_back<T>(&self, work: impl FnOnce() -> T) -> T {
        self.shared.holds.store(true, SeqCst);
        let result = work();
        self.shared.holds.store(false, SeqCst);
        result
    }

    /// Has them done now. Returns how many there were.
    pub fn let_go(&self) -> usize {
        let held = std::mem::take(&mut *self.shared.held.lock().unwrap());
        for request in &held {
            self.shared.answer(request);
        }
        held.len()
    }
}

impl Shared {
    fn serve(&self, mut client: TcpStream) {
        let Some(request) = request(&mut client) else {
            return;
        };
        if self.holds.load(SeqCst) && request.starts_with(b"POST /v3/kv/txn ") {
            self.held.lock().unwrap().push(request);
            return;
        }
        // Who does not wait for it any more has closed the connection.
        let _ = client.write_all(&self.answer(&request));
    }

    /// What etcd answers.
    fn answer(&self, request: &[u8]) -> Vec<u8> {
        let mut stream = TcpStream::connect(self.etcd).unwrap();
        // It ends the connection behind the answer then.
        let at = request.windows(2).position(|it| it == b"\r\n").unwrap();
        let (line, rest) = request.split_at(at);
        let asked = [line, b"\r\nConnection: close", rest].concat();
        stream.write_all(&asked).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        answer
    }
}

/// A request of HTTP, with its body. `None`: the connection ended before.
fn request(client: &mut TcpStream) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut part = [0; 4096];
    loop {
        let read = client.read(&mut part).ok().filter(|read| *read > 0)?;
        bytes.extend(&part[..read]);
        let text = String::from_utf8_lossy(&bytes);
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let lines = head.lines().filter_map(|it| it.split_once(": "));
        let mut lengths = lines.filter(|it| it.0.eq_ignore_ascii_case("content-length"));
        let length = lengths.next().map_or(0, |it| it.1.parse().unwrap());
        if body.len() >= length {
            return Some(bytes);
        }
    }
}
