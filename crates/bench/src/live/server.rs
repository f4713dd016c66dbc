//! Serves the page and snapshots of the live state, on the loopback address only, from its own
//! threads.
//!
//! Each connection is one request and has a thread. The number of threads is bounded, and further
//! connections are closed. So a slow or greedy client delays only other clients.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use super::http::{self, Answer};
use super::lock;
use super::state::State;
use crate::page;

/// The maximum number of concurrent connections.
const CLIENTS: usize = 16;

/// Serves until the process ends. Returns the address.
///
/// # Errors
/// The port is in use, or not allowed.
pub fn start(port: u16, state: Arc<Mutex<State>>) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    let address = listener.local_addr()?;
    let thread = thread::Builder::new().name("live".into());
    thread.spawn(move || listen(&listener, &state))?;
    Ok(address)
}

fn listen(listener: &TcpListener, state: &Arc<Mutex<State>>) {
    let clients = Arc::new(AtomicUsize::new(0));
    for stream in listener.incoming() {
        let Ok(stream) = stream else {
            // Possibly out of file descriptors: wait before the next accept.
            thread::sleep(Duration::from_millis(100));
            continue;
        };
        if clients.fetch_add(1, Relaxed) >= CLIENTS {
            clients.fetch_sub(1, Relaxed);
            continue;
        }
        let (state, at_work) = (Arc::clone(state), Arc::clone(&clients));
        let thread = thread::Builder::new().name("live-client".into());
        let spawned = thread.spawn(move || {
            answer(stream, &state);
            at_work.fetch_sub(1, Relaxed);
        });
        if spawned.is_err() {
            clients.fetch_sub(1, Relaxed);
        }
    }
}

fn answer(stream: TcpStream, state: &Mutex<State>) {
    // Errors are ignored: the client is gone, or too slow.
    let _ = http::serve(stream, |path| file(path, state));
}

fn file(path: &str, state: &Mutex<State>) -> Option<Answer> {
    let (kind, body) = match path {
        "/" => ("text/html; charset=utf-8", page::live().into_bytes()),
        "/page.css" => ("text/css; charset=utf-8", page::style().into_bytes()),
        "/page.js" => ("text/javascript; charset=utf-8", page::SCRIPT.into()),
        "/snapshot" => ("application/json", lock(state).snapshot()),
        _ => return None,
    };
    Some(Answer {
        status: "200 OK",
        kind,
        body,
    })
}
