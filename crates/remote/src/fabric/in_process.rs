//! Memory servers within this process.

use std::sync::Arc;

use super::{Completion, Fabric, Operation};
use crate::address::ServerId;
use crate::error::{Error, Result};
use crate::pool::MemoryServer;

/// Memory servers within this process: nothing to install, no network. The calling thread carries
/// every operation out.
#[derive(Clone, Debug)]
pub struct InProcess {
    servers: Arc<[MemoryServer]>,
}

impl InProcess {
    /// So many memory servers of so many bytes each.
    ///
    /// # Errors
    /// The system refuses so much memory.
    pub fn new(servers: ServerId, bytes_each: usize) -> Result<InProcess> {
        let servers = (0..servers).map(|_| MemoryServer::new(bytes_each));
        Ok(InProcess {
            servers: servers.collect::<Result<_>>()?,
        })
    }
}

impl Fabric for InProcess {
    fn servers(&self) -> ServerId {
        self.servers.len() as ServerId
    }

    fn start(&self, operation: Operation) -> Completion {
        let id = operation.server();
        let server = self.servers.get(usize::from(id)).ok_or(Error::NoServer(id));
        Completion::ready(server.and_then(|server| server.perform(&operation)))
    }
}
