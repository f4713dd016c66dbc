//! Memory servers within this process.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use super::{Completion, Fabric, Operation};
use crate::address::{ComputeId, ServerId};
use crate::error::{Error, Result};
use crate::pool::{MemoryServer, Session};

/// Memory servers within this process: nothing to install, no network. The calling thread carries
/// every operation out.
///
/// Clones are the same compute server; [`client`](Self::client) is another one.
#[derive(Clone, Debug)]
pub struct InProcess {
    pool: Arc<Pool>,
    compute: ComputeId,
    /// With each memory server.
    sessions: Arc<[Arc<Session>]>,
}

#[derive(Debug)]
struct Pool {
    servers: Box<[MemoryServer]>,
    clients: AtomicU64,
    begin: Instant,
}

impl InProcess {
    /// So many memory servers of so many bytes each, and a compute server's way to them.
    ///
    /// # Errors
    /// The system refuses so much memory.
    pub fn new(servers: ServerId, bytes_each: usize) -> Result<InProcess> {
        let servers = (0..servers).map(|_| MemoryServer::new(bytes_each));
        let pool = Pool {
            servers: servers.collect::<Result<_>>()?,
            clients: AtomicU64::new(0),
            begin: Instant::now(),
        };
        Ok(InProcess::of(Arc::new(pool)))
    }

    /// Another compute server's way to the same memory servers.
    #[must_use]
    pub fn client(&self) -> InProcess {
        InProcess::of(Arc::clone(&self.pool))
    }

    fn of(pool: Arc<Pool>) -> InProcess {
        let number = pool.clients.fetch_add(1, Relaxed) + 1;
        let compute = ComputeId::new(number).expect("it is not 0");
        let sessions = pool.servers.iter().map(|server| server.session(compute));
        InProcess {
            sessions: sessions.collect(),
            compute,
            pool,
        }
    }
}

impl Fabric for InProcess {
    fn servers(&self) -> ServerId {
        self.pool.servers.len() as ServerId
    }

    fn compute(&self) -> ComputeId {
        self.compute
    }

    fn now(&self) -> Duration {
        self.pool.begin.elapsed()
    }

    fn start(&self, operation: Operation) -> Completion {
        let id = operation.server();
        let index = usize::from(id);
        Completion::ready(match self.pool.servers.get(index) {
            Some(server) => server.perform(&self.sessions[index], &operation),
            None => Err(Error::NoServer(id)),
        })
    }
}
