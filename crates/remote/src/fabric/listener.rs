//! What the fabrics over networks share on a memory server: compute servers connect by TCP, and
//! prove who they are.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use super::handshake::{self, Key, Protocol};
use crate::address::ComputeId;

/// Compute servers at a time. Each has one connection and one thread here.
pub const MAX_CONNECTIONS: usize = 1_024;
/// For the first messages of a connection.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// A compute server that does not take its replies for so long is disconnected.
const SLOW: Duration = Duration::from_secs(10);

/// A socket that compute servers connect to.
pub struct Listener {
    socket: TcpListener,
    protocol: Protocol,
    key: Option<Key>,
    run: u64,
    connections: AtomicUsize,
}

impl Listener {
    /// Listens at an address for those who speak a protocol and, if there is a key, have it.
    ///
    /// # Errors
    /// The address is in use or not this machine's, or the system has no random numbers.
    pub fn bind(
        address: impl ToSocketAddrs,
        protocol: Protocol,
        key: Option<Key>,
    ) -> io::Result<Arc<Listener>> {
        Ok(Arc::new(Listener {
            socket: TcpListener::bind(address)?,
            protocol,
            key,
            run: handshake::new_run()?,
            connections: AtomicUsize::new(0),
        }))
    }

    /// The address that compute servers connect to.
    ///
    /// # Errors
    /// The socket is broken.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Serves compute servers, each on a thread of its own, until the process ends. Reading from
    /// their streams has no time limit.
    ///
    /// # Errors
    /// Connections can be accepted no more.
    pub fn serve(
        self: &Arc<Self>,
        serve: impl Fn(ComputeId, TcpStream) + Send + Sync + 'static,
    ) -> io::Result<()> {
        let serve = Arc::new(serve);
        for stream in self.socket.incoming() {
            let stream = match stream {
                Ok(stream) => stream,
                Err(error) if is_passing(&error) => {
                    thread::sleep(Duration::from_millis(10));
                    continue;
                }
                Err(error) => return Err(error),
            };
            let Some(place) = Place::take(self) else {
                continue;
            };
            let serve = Arc::clone(&serve);
            // Without a thread the connection ends, and the compute server tries again.
            let _ = thread::Builder::new().name("pool".into()).spawn(move || {
                if let Some(compute) = place.0.welcome(&stream) {
                    serve(compute, stream);
                }
            });
        }
        Ok(())
    }

    fn welcome(&self, stream: &TcpStream) -> Option<ComputeId> {
        stream.set_nodelay(true).ok()?;
        stream.set_read_timeout(Some(HANDSHAKE)).ok()?;
        stream.set_write_timeout(Some(SLOW)).ok()?;
        let key = self.key.as_ref();
        let compute = handshake::welcome(stream, self.protocol, key, self.run).ok()?;
        stream.set_read_timeout(None).ok()?;
        Some(compute)
    }
}

/// One of the connections that there may be.
struct Place(Arc<Listener>);

impl Place {
    fn take(listener: &Arc<Listener>) -> Option<Place> {
        let place = Place(Arc::clone(listener));
        let before = listener.connections.fetch_add(1, Relaxed);
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
