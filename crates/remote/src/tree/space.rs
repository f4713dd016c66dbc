//! Addresses for new nodes.

use std::sync::{Mutex, MutexGuard};

use crate::address::{Address, ServerId};
use crate::error::Result;
use crate::fabric::Connection;
use crate::pool::NODES;

/// Free addresses of a memory server that a compute server keeps.
const KEPT: usize = NODES;

/// Nodes of the pool that this compute server has, and has not used.
pub(super) struct Space {
    /// Of each memory server, addresses that hold no node.
    free: Vec<Mutex<Vec<Address>>>,
}

impl Space {
    pub fn new(servers: ServerId) -> Space {
        Space {
            free: (0..servers).map(|_| Mutex::default()).collect(),
        }
    }

    /// An address for a node on a server.
    ///
    /// # Errors
    /// The server is full, or did not answer.
    pub async fn take(&self, connection: &Connection, server: ServerId) -> Result<Address> {
        let server = server % self.free.len() as ServerId;
        loop {
            if let Some(address) = self.of(server).pop() {
                return Ok(address);
            }
            let nodes = connection.allocate(server).await?;
            self.of(server).extend(nodes.into_iter().rev());
        }
    }

    /// Takes back an address where no node is.
    pub fn give_back(&self, address: Address) {
        self.of(address.server()).push(address);
    }

    /// Takes back an address where a node was that nothing leads to any more. The memory server
    /// gets it if this compute server has others.
    pub async fn free(&self, connection: &Connection, address: Address) {
        {
            let mut free = self.of(address.server());
            if free.len() < KEPT {
                return free.push(address);
            }
        }
        // Without an answer the node may have been given to another compute server: it is left.
        let _ = connection.give_back(address).await;
    }

    /// All addresses that hold no node: they are this compute server's no more.
    pub fn take_all(&self) -> Vec<Address> {
        let servers = 0..self.free.len() as ServerId;
        let all = servers.flat_map(|server| std::mem::take(&mut *self.of(server)));
        all.collect()
    }

    fn of(&self, server: ServerId) -> MutexGuard<'_, Vec<Address>> {
        let free = &self.free[usize::from(server)];
        free.lock().unwrap_or_else(|it| it.into_inner())
    }
}
