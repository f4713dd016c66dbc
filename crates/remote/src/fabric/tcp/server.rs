//! The memory server's end of the TCP fabric.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use super::handshake::{self, Key};
use super::wire;
use crate::address::ComputeId;
use crate::error::Result;
use crate::pool::{MemoryServer, Session};

/// Compute servers at a time. Each has one connection and one thread here.
pub const MAX_CONNECTIONS: usize = 1_024;
/// For the first messages of a connection.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// A compute server that does not take its replies for so long is disconnected.
const SLOW: Duration = Duration::from_secs(10);
/// Bytes that are read at a time.
const BUFFER: usize = 256 << 10;

/// A memory server that listens for compute servers on TCP.
pub struct TcpServer {
    listener: TcpListener,
    shared: Arc<Shared>,
}

struct Shared {
    memory: MemoryServer,
    key: Option<Key>,
    run: u64,
    connections: AtomicUsize,
    /// The latest connection of each compute server.
    latest: Mutex<HashMap<ComputeId, Arc<TcpStream>>>,
}

impl TcpServer {
    /// Listens at an address. Without a key, everybody who can connect may read and write all of
    /// the memory.
    ///
    /// # Errors
    /// The address is in use or not this machine's, or there is no memory.
    pub fn bind(
        address: impl ToSocketAddrs,
        memory: MemoryServer,
        key: Option<Key>,
    ) -> io::Result<TcpServer> {
        Ok(TcpServer {
            listener: TcpListener::bind(address)?,
            shared: Arc::new(Shared {
                memory,
                key,
                run: handshake::new_run()?,
                connections: AtomicUsize::new(0),
                latest: Mutex::default(),
            }),
        })
    }

    /// The address that compute servers connect to.
    ///
    /// # Errors
    /// The socket is broken.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves compute servers until the process ends.
    ///
    /// # Errors
    /// Connections can be accepted no more.
    pub fn serve(&self) -> io::Result<()> {
        for stream in self.listener.incoming() {
            let stream = match stream {
                Ok(stream) => stream,
                Err(error) if is_passing(&error) => {
                    thread::sleep(Duration::from_millis(10));
                    continue;
                }
                Err(error) => return Err(error),
            };
            let Some(place) = Place::take(&self.shared) else {
                continue;
            };
            // Without a thread the connection ends, and the compute server tries again.
            let _ = thread::Builder::new()
                .name("pool".into())
                .spawn(move || place.0.connection(stream));
        }
        Ok(())
    }
}

/// One of the connections that there may be.
struct Place(Arc<Shared>);

impl Place {
    fn take(shared: &Arc<Shared>) -> Option<Place> {
        let place = Place(Arc::clone(shared));
        let before = shared.connections.fetch_add(1, Relaxed);
        (before < MAX_CONNECTIONS).then_some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Relaxed);
    }
}

/// Whether an error of `accept` is about one connection, or about descriptors that come back.
fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted};
    let kinds = [ConnectionAborted, ConnectionReset, Interrupted];
    // EMFILE and ENFILE have no kind.
    kinds.contains(&error.kind()) || matches!(error.raw_os_error(), Some(23 | 24))
}

impl Shared {
    /// Serves one compute server until it goes, or breaks the protocol.
    fn connection(&self, stream: TcpStream) {
        let prepare = || {
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(HANDSHAKE))?;
            stream.set_write_timeout(Some(SLOW))
        };
        if prepare().is_err() {
            return;
        }
        let Ok(compute) = handshake::welcome(&stream, self.key.as_ref(), self.run) else {
            return;
        };
        if stream.set_read_timeout(None).is_ok() {
            self.serve(compute, Arc::new(stream));
        }
    }

    /// Serves a compute server on its latest connection, after the one before has ended.
    fn serve(&self, compute: ComputeId, stream: Arc<TcpStream>) {
        let session = self.memory.session(compute);
        if let Some(before) = self.latest().insert(compute, Arc::clone(&stream)) {
            // It may have ended by itself.
            let _ = before.shutdown(Shutdown::Both);
        }
        let _turn = session.take_turn();
        // An error ends this connection; the compute server sees that.
        let _ = self.requests(&session, &stream);
        let mut latest = self.latest();
        if latest
            .get(&compute)
            .is_some_and(|it| Arc::ptr_eq(it, &stream))
        {
            latest.remove(&compute);
        }
    }

    fn latest(&self) -> MutexGuard<'_, HashMap<ComputeId, Arc<TcpStream>>> {
        self.latest.lock().unwrap_or_else(|it| it.into_inner())
    }

    /// Carries out requests in their order. Replies to all that arrived together leave together.
    fn requests(&self, session: &Session, mut stream: &TcpStream) -> io::Result<()> {
        let mut bytes = vec![0; BUFFER];
        let mut filled = 0;
        let mut replies = Vec::with_capacity(BUFFER);
        loop {
            let read = stream.read(&mut bytes[filled..])?;
            if read == 0 {
                return Ok(());
            }
            filled += read;
            let mut done = 0;
            while let Some((length, number, result)) =
                self.request(session, &bytes[done..filled])?
            {
                done += length;
                wire::put_reply(&mut replies, number, &result);
                if replies.len() >= BUFFER {
                    stream.write_all(&replies)?;
                    replies.clear();
                }
            }
            stream.write_all(&replies)?;
            replies.clear();
            bytes.copy_within(done..filled, 0);
            filled -= done;
            if filled == bytes.len() {
                // The longest request is longer than the buffer was at first.
                bytes.resize(2 * bytes.len(), 0);
            }
        }
    }

    /// Carries out the first request, if it is whole.
    fn request(
        &self,
        session: &Session,
        bytes: &[u8],
    ) -> io::Result<Option<(usize, u64, Result<crate::fabric::Reply>)>> {
        // Its own number in the pool is known to compute servers only.
        const SELF: u16 = 0;
        let request = wire::request(bytes, SELF)
            .map_err(|wire::Malformed| io::Error::from(io::ErrorKind::InvalidData))?;
        Ok(request.map(|(length, number, operation)| {
            (length, number, self.memory.perform(session, &operation))
        }))
    }
}
