//! Memory of blocks: parts of nodes, in sizes of powers of two.
//!
//! A buddy allocator (Knowlton: "A Fast Storage Allocator", CACM 1965): a block is split into two
//! of half its size, and two free halves are one again. So nodes whose blocks are all free go back
//! to their memory server. A block belongs to the compute server that freed it, whoever had split
//! its node.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard};

use crate::address::{Address, ServerId};
use crate::cache::Flights;
use crate::error::{Error, Result};
use crate::fabric::Connection;
use crate::pool::NODES;

use super::block::{SIZES, bytes_of};

/// The size of a node.
pub(super) const NODE: u8 = SIZES - 1;
/// Free nodes of a memory server that a compute server keeps.
const KEPT: usize = NODES;

/// Free blocks of this compute server.
pub(super) struct Blocks {
    /// Of each memory server.
    free: Vec<Mutex<Free>>,
    /// Who asks a memory server for more.
    asking: Flights,
}

/// Offsets of free blocks by size.
#[derive(Default)]
struct Free([BTreeSet<u64>; SIZES as usize]);

impl Free {
    fn take(&mut self, size: u8) -> Option<u64> {
        let found = (size..SIZES).find(|&it| !self.of(it).is_empty())?;
        let offset = self.of(found).pop_first()?;
        // The upper halves stay.
        for half in size..found {
            self.of(half).insert(offset + bytes_of(half) as u64);
        }
        Some(offset)
    }

    fn put(&mut self, mut offset: u64, mut size: u8) {
        while size < NODE && self.of(size).remove(&(offset ^ bytes_of(size) as u64)) {
            offset &= !(bytes_of(size) as u64);
            size += 1;
        }
        self.of(size).insert(offset);
    }

    fn of(&mut self, size: u8) -> &mut BTreeSet<u64> {
        &mut self.0[usize::from(size)]
    }
}

impl Blocks {
    pub fn new(servers: ServerId) -> Blocks {
        Blocks {
            free: (0..servers).map(|_| Mutex::default()).collect(),
            asking: Flights::default(),
        }
    }

    /// A block of a size, on the memory server of this number or the first one after it that has
    /// memory.
    ///
    /// # Errors
    /// All memory servers are full, or one did not answer.
    pub async fn take(&self, connection: &Connection, server: u64, size: u8) -> Result<Address> {
        let servers = self.free.len() as u64;
        let mut result = Err(Error::PoolFull(0));
        for tried in 0..servers {
            let server = ((server + tried) % servers) as ServerId;
            result = self.take_on(connection, server, size).await;
            if !matches!(result, Err(Error::PoolFull(_))) {
                break;
            }
        }
        result
    }

    async fn take_on(
        &self,
        connection: &Connection,
        server: ServerId,
        size: u8,
    ) -> Result<Address> {
        let take = || self.of(server).take(size);
        let at = |offset| Address::new(server, offset);
        loop {
            if let Some(offset) = take() {
                return Ok(at(offset));
            }
            let _turn = self.asking.begin(at(0)).await;
            // Who had the turn before may have brought some.
            if let Some(offset) = take() {
                return Ok(at(offset));
            }
            let nodes = connection.allocate(server).await?;
            let mut free = self.of(server);
            for node in nodes {
                free.put(node.offset(), NODE);
            }
        }
    }

    /// Takes back a block that nothing leads to any more.
    pub async fn free(&self, connection: &Connection, at: Address, size: u8) {
        let spare = {
            let mut free = self.of(at.server());
            free.put(at.offset(), size);
            match free.of(NODE).len() > KEPT {
                true => free.of(NODE).pop_last(),
                false => None,
            }
        };
        if let Some(offset) = spare {
            // Without an answer the node may have been given to another compute server: it is left.
            let _ = connection
                .give_back(Address::new(at.server(), offset))
                .await;
        }
    }

    /// Gives all nodes back whose blocks are all free. The others are lost to the pool when this
    /// compute server goes.
    pub async fn give_back(&self, connection: &Connection) {
        for server in 0..self.free.len() as ServerId {
            let nodes = std::mem::take(self.of(server).of(NODE));
            for offset in nodes {
                let _ = connection.give_back(Address::new(server, offset)).await;
            }
        }
    }

    fn of(&self, server: ServerId) -> MutexGuard<'_, Free> {
        let free = &self.free[usize::from(server)];
        free.lock().unwrap_or_else(|it| it.into_inner())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn blocks_do_not_overlap_and_become_nodes_again() {
        let mut free = Free::default();
        let nodes = [1 << 18, (1 << 18) + 1024, 1 << 20];
        nodes.iter().for_each(|&it| free.put(it, NODE));
        let mut draws = fastrand::Rng::with_seed(3);
        let mut used = BTreeMap::new();
        for _ in 0..2_000 {
            let size = draws.u8(0..SIZES);
            let victim = used.keys().nth(draws.usize(0..8)).copied();
            match victim.filter(|_| draws.bool()) {
                Some(offset) => free.put(offset, used.remove(&offset).unwrap()),
                None => {
                    if let Some(offset) = free.take(size) {
                        let end = offset + bytes_of(size) as u64;
                        assert!(offset.is_multiple_of(bytes_of(size) as u64));
                        let next = used.range(offset..).next();
                        assert!(next.is_none_or(|(&next, _)| end <= next));
                        let last = used.range(..offset).next_back();
                        let end_of = |(at, size): (&u64, &u8)| at + bytes_of(*size) as u64;
                        assert!(last.is_none_or(|it| end_of(it) <= offset));
                        used.insert(offset, size);
                    }
                }
            }
        }
        assert!(used.len() > 3);
        for (offset, size) in used {
            free.put(offset, size);
        }
        assert_eq!(*free.of(NODE), BTreeSet::from(nodes));
        assert!((0..NODE).all(|size| free.of(size).is_empty()));
    }
}
