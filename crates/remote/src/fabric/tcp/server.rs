//! The memory server's end of the TCP fabric.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::{Arc, Mutex, MutexGuard};

use super::PROTOCOL;
use crate::address::ComputeId;
use crate::error::Result;
use crate::fabric::handshake::Key;
use crate::fabric::listener::Listener;
use crate::fabric::{Reply, wire};
use crate::pool::{MemoryServer, Session};

/// Bytes that are read at a time.
const BUFFER: usize = 256 << 10;

/// A memory server that listens for compute servers on TCP.
pub struct TcpServer {
    listener: Arc<Listener>,
    shared: Arc<Shared>,
}

struct Shared {
    memory: MemoryServer,
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
            listener: Listener::bind(address, PROTOCOL, key)?,
            shared: Arc::new(Shared {
                memory,
                latest: Mutex::default(),
            }),
        })
    }

    /// The address that compute servers connect to.
    ///
    /// # Errors
    /// The socket is broken.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.address()
    }

    /// Serves compute servers until the process ends.
    ///
    /// # Errors
    /// Connections can be accepted no more.
    pub fn serve(&self) -> io::Result<()> {
        let shared = Arc::clone(&self.shared);
        let serve = move |compute, stream| shared.serve(compute, Arc::new(stream));
        self.listener.serve(serve)
    }
}

impl Shared {
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
    ) -> io::Result<Option<(usize, u64, Result<Reply>)>> {
        // Its own number in the pool is known to compute servers only.
        const SELF: u16 = 0;
        let request = wire::request(bytes, SELF)
            .map_err(|wire::Malformed| io::Error::from(io::ErrorKind::InvalidData))?;
        Ok(request.map(|(length, number, operation)| {
            (length, number, self.memory.perform(session, &operation))
        }))
    }
}
