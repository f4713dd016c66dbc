//! Messages for the subscribers of other nodes: published at one node, delivered by all.
//!
//! A node connects to another as a client does, with its own password, when it has the first
//! message for it. Messages arrive in the order in which they were published here, at most once, as
//! in Redis' cluster: what a node that can't be reached was to get is dropped.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::timeout;

use crate::resp::Writer;
use crate::shared::Shared;

/// Bytes of messages that wait for a node; beyond them they are dropped.
const MOST: usize = 32 << 20;
/// How long a node has to accept a connection, or a message.
const PATIENCE: Duration = Duration::from_secs(2);

type Message = Arc<[u8]>;

/// What is published here for subscribers elsewhere.
pub(crate) struct Bus {
    messages: UnboundedSender<Message>,
    /// Until it is run.
    published: Mutex<Option<UnboundedReceiver<Message>>>,
}

impl Default for Bus {
    fn default() -> Bus {
        let (messages, published) = unbounded_channel();
        Bus {
            messages,
            published: Mutex::new(Some(published)),
        }
    }
}

impl Bus {
    /// Sends a message to all other nodes.
    pub fn publish(&self, channel: &[u8], message: &[u8]) {
        let bytes = command(&[b"CLUSTER", b"PUBLISH", channel, message]);
        // Nobody receives it while the server stops.
        let _ = self.messages.send(bytes.into());
    }
}

/// A node that was sent something.
struct Peer {
    messages: UnboundedSender<Message>,
    waiting: Arc<AtomicUsize>,
}

/// Sends what is published here, for ever.
pub(crate) async fn run(shared: Arc<Shared>) {
    let published = &shared.bus.published;
    let published = published
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .take();
    let (Some(node), Some(mut published)) = (shared.keyspace.node(), published) else {
        return;
    };
    let mut peers = HashMap::new();
    while let Some(message) = published.recv().await {
        let map = node.map();
        peers.retain(|id, _| map.nodes.iter().any(|it| it.0 == *id));
        for &(id, address) in &map.nodes {
            let Some(address) = address.filter(|_| id != node.id()) else {
                continue;
            };
            let peer: &mut Peer = peers.entry(id).or_insert_with(|| {
                let (messages, received) = unbounded_channel();
                let waiting = Arc::new(AtomicUsize::new(0));
                let sending = send(Arc::clone(&shared), address, received, Arc::clone(&waiting));
                tokio::task::spawn_local(sending);
                Peer { messages, waiting }
            });
            if peer.waiting.fetch_add(message.len(), Relaxed) > MOST {
                peer.waiting.fetch_sub(message.len(), Relaxed);
                continue;
            }
            let _ = peer.messages.send(Arc::clone(&message));
        }
    }
}

/// Sends messages to a node until it is gone.
async fn send(
    shared: Arc<Shared>,
    address: SocketAddr,
    mut messages: UnboundedReceiver<Message>,
    waiting: Arc<AtomicUsize>,
) {
    let mut stream: Option<TcpStream> = None;
    while let Some(message) = messages.recv().await {
        if stream.is_none() {
            let connected = timeout(PATIENCE, connect(&shared, address)).await;
            stream = connected.ok().and_then(Result::ok);
        }
        if let Some(connected) = &mut stream {
            let written = timeout(PATIENCE, connected.write_all(&message)).await;
            if !matches!(written, Ok(Ok(()))) {
                stream = None;
            }
        }
        waiting.fetch_sub(message.len(), Relaxed);
    }
}

/// Connects to a node, which sends no replies from then on.
async fn connect(shared: &Shared, address: SocketAddr) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    if let Some(password) = shared.config.password() {
        let auth = command(&[b"AUTH", password.as_bytes()]);
        stream.write_all(&auth).await?;
        let mut reply = [0; 5];
        stream.read_exact(&mut reply).await?;
        if reply != *b"+OK\r\n" {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
    }
    let quiet = command(&[b"CLIENT", b"REPLY", b"OFF"]);
    stream.write_all(&quiet).await?;
    Ok(stream)
}

fn command(words: &[&[u8]]) -> Vec<u8> {
    let mut out = Writer::default();
    out.array(words.len());
    words.iter().for_each(|it| out.bulk(it));
    out.bytes
}
