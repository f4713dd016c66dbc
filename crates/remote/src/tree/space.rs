//! Addresses for new nodes.

use std::sync::{Mutex, MutexGuard};

use timberline_tree::btree::page::Page;

use crate::address::{Address, ServerId};
use crate::error::Result;
use crate::fabric::Connection;
use crate::pool::CHUNK;

/// Chunks of the pool that this compute server has, cut into nodes.
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
            let chunk = connection.allocate(server).await?;
            let nodes = (0..CHUNK).step_by(Page::BYTES).rev();
            self.of(server)
                .extend(nodes.map(|offset| chunk.add(offset as u64)));
        }
    }

    /// Takes back an address where no node is.
    pub fn give_back(&self, address: Address) {
        self.of(address.server()).push(address);
    }

    fn of(&self, server: ServerId) -> MutexGuard<'_, Vec<Address>> {
        let free = &self.free[usize::from(server)];
        free.lock().unwrap_or_else(|it| it.into_inner())
    }
}
