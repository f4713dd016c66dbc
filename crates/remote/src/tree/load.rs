//! Loading a tree into an empty pool.

use std::collections::VecDeque;
use std::sync::Arc;

use timberline_tree::btree::page::Page;

use super::space::Space;
use crate::address::{Address, ServerId};
use crate::child::{address_in, word_with};
use crate::error::{Error, Result};
use crate::fabric::{Completion, Connection, Fabric, Operation};
use crate::image::{LOCK_BYTES, Sums, image_of, written};
use crate::pool::contacts::ORIGIN;
use crate::pool::directory::Partitions;
use crate::pool::{CHUNK, Origin, PoolLock, Superblock};
use crate::tree::LOAD_FILL;

/// Writes that are under way at a time.
const DEPTH: usize = 32;

/// How a tree is laid out when it is made.
#[derive(Clone, Debug)]
pub struct Layout {
    /// The first key of every partition but the first, ascending. No leaf spans two partitions.
    pub boundaries: Vec<u64>,
    /// The part of a node's entries that is used, more than 0 and at most 1.
    pub fill: f64,
    /// Subtrees of this height lie on one memory server each.
    pub subtree_height: u8,
    /// Whether several compute servers write the same leaves ([`Direct`](crate::Direct)). Then
    /// leaves have checksums, and there are no partitions.
    pub shared_leaves: bool,
}

impl Default for Layout {
    /// One partition.
    fn default() -> Layout {
        Layout {
            boundaries: Vec::new(),
            fill: LOAD_FILL,
            subtree_height: 2,
            shared_leaves: false,
        }
    }
}

/// Makes a tree of these records, whose keys ascend; there may be none. Nobody must use the pool
/// meanwhile.
///
/// # Errors
/// The keys don't ascend; the pool has a tree already, or is full; or a memory server does not
/// answer.
pub async fn load(
    fabric: Arc<dyn Fabric>,
    layout: Layout,
    records: impl IntoIterator<Item = (u64, u64)>,
) -> Result<()> {
    let connection = Connection::new(fabric);
    if !Superblock::is_nowhere(&connection).await? {
        return Err(Error::PoolInUse);
    }
    let loader = Loader {
        space: Space::new(connection.servers()),
        connection: &connection,
        entries: ((Page::CAPACITY as f64 * layout.fill) as usize).clamp(2, Page::CAPACITY),
        subtree_height: layout.subtree_height,
        shared_leaves: layout.shared_leaves,
        under_way: VecDeque::new(),
        levels: Vec::new(),
    };
    loader.load(&layout.boundaries, records).await
}

/// Makes a tree without records, unless the pool has one already. Others may do the same at the
/// same time. Says whether it did. A pool that has a tree has its `origin` already.
///
/// # Errors
/// The pool has no tree but is in use, or is full; or a memory server does not answer.
pub async fn load_if_empty(
    fabric: Arc<dyn Fabric>,
    layout: Layout,
    origin: Origin,
) -> Result<bool> {
    let connection = Connection::new(fabric.clone());
    if !Superblock::is_nowhere(&connection).await? {
        return Ok(false);
    }
    let lock = PoolLock::take(&connection, ORIGIN).await?;
    let made = async {
        if !Superblock::is_nowhere(&connection).await? {
            return Ok(false);
        }
        for server in 0..connection.servers() {
            if connection.load(server).await?.allocated_bytes > CHUNK as u64 {
                return Err(Error::NotEmpty(server));
            }
        }
        origin.write(&connection).await?;
        load(fabric, layout, []).await.map(|()| true)
    };
    let made = made.await;
    lock.release(&connection).await?;
    made
}

struct Loader<'a> {
    connection: &'a Connection,
    space: Space,
    entries: usize,
    subtree_height: u8,
    shared_leaves: bool,
    under_way: VecDeque<Completion>,
    levels: Vec<Level>,
}

/// The last node of a level, which is not written yet.
#[derive(Default)]
struct Level {
    entries: Vec<(u64, u64)>,
    /// The node's lower fence.
    lower: u64,
    /// Nodes of the level that were written.
    nodes: usize,
}

impl Loader<'_> {
    async fn load(
        mut self,
        boundaries: &[u64],
        records: impl IntoIterator<Item = (u64, u64)>,
    ) -> Result<()> {
        let partitions = Partitions::new(boundaries)?;
        let mut boundaries = boundaries.iter().copied().peekable();
        let mut last = None;
        self.levels.push(Level::default());
        for (key, value) in records {
            if last.is_some_and(|last| key <= last) {
                return Err(Error::OutOfOrder(key));
            }
            last = Some(key);
            while let Some(boundary) = boundaries.next_if(|&it| it <= key) {
                self.cut(boundary).await?;
            }
            if self.levels[0].entries.len() == self.entries {
                self.cut(key).await?;
            }
            self.levels[0].entries.push((key, value));
        }
        for boundary in boundaries {
            self.cut(boundary).await?;
        }
        let root = self.finish().await?;
        while let Some(write) = self.under_way.pop_front() {
            write.await?;
        }
        partitions.write(self.connection).await?;
        let superblock = Superblock {
            root,
            shared_leaves: self.shared_leaves,
        };
        superblock.create(self.connection).await
    }

    /// Ends the last leaf before this key, and all nodes above it that are full.
    async fn cut(&mut self, next: u64) -> Result<()> {
        let mut height = 0;
        // A leaf ends nowhere twice: a boundary may be the first key of a full leaf.
        if next == self.levels[0].lower && self.levels[0].entries.is_empty() {
            return Ok(());
        }
        loop {
            let (lower, word) = self.end_node(height, next - 1).await?;
            self.levels[height].lower = next;
            height += 1;
            if height == self.levels.len() {
                self.levels.push(Level::default());
            }
            self.levels[height].entries.push((lower, word));
            if self.levels[height].entries.len() < self.entries {
                return Ok(());
            }
        }
    }

    /// Ends the last node of every level: each has entries, as the last leaf is above all cuts.
    /// Returns the root, which is an inner node.
    async fn finish(&mut self) -> Result<Address> {
        let mut height = 0;
        loop {
            let (lower, word) = self.end_node(height, u64::MAX).await?;
            height += 1;
            if height == self.levels.len() {
                if height > 1 {
                    return Ok(address_in(word));
                }
                self.levels.push(Level::default());
            }
            self.levels[height].entries.push((lower, word));
        }
    }

    /// Writes the last node of a level. Returns its lower fence and the word that leads to it.
    async fn end_node(&mut self, height: usize, upper: u64) -> Result<(u64, u64)> {
        let server = self.server_of(height);
        let address = self.space.take(self.connection, server).await?;
        let level = &mut self.levels[height];
        let page = Page::new();
        let lock = page.lock();
        lock.reset(height as u8, level.lower, upper);
        for (index, (key, word)) in level.entries.drain(..).enumerate() {
            lock.insert(index, key, word);
        }
        level.nodes += 1;
        let sums = match self.shared_leaves {
            true => Sums::All,
            false => Sums::Inner,
        };
        let words = written(&image_of(&lock, sums, |word| word));
        if self.under_way.len() == DEPTH {
            let oldest = self.under_way.pop_front().expect("there are some");
            oldest.await?;
        }
        let write = Operation::Write(address.add(LOCK_BYTES), words);
        self.under_way.push_back(self.connection.start(write));
        Ok((lock.lower(), word_with(address, lock.count())))
    }

    /// The memory server of a level's last node: that of its subtree, or the next one.
    fn server_of(&self, height: usize) -> ServerId {
        let top = usize::from(self.subtree_height).max(height);
        // The subtree's number, if it has been begun: as many as were ended at its height.
        let subtree = self.levels.get(top).map_or(0, |level| level.nodes);
        (subtree % usize::from(self.connection.servers())) as ServerId
    }
}
