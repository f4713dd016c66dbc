//! Where a tree begins: the first words of memory server 0.

use timberline_tree::btree::page::Page;

use crate::address::Address;
use crate::error::{Error, Result};
use crate::fabric::Connection;

/// Its address. No node lies there, so it also serves as "nowhere".
pub(crate) const SUPERBLOCK: Address = Address::new(0, 0);

const MAGIC: u64 = u64::from_le_bytes(*b"timberln");
const VERSION: u64 = 4;

/// The words after the lock: magic number, version, node bytes, root, whether leaves are shared.
const WORDS: usize = 5;
const FIRST: u64 = 8;
/// The root's place among them.
const ROOT: u64 = FIRST + 3 * 8;

/// What every compute server has to know about the tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Superblock {
    pub root: Address,
    /// Whether several compute servers write the same leaves, which have checksums then.
    pub shared_leaves: bool,
}

impl Superblock {
    /// Writes the superblock of a new tree.
    pub async fn create(self, connection: &Connection) -> Result<()> {
        let (root, shared) = (self.root.word(), self.shared_leaves.into());
        let words = [MAGIC, VERSION, Page::BYTES as u64, root, shared];
        connection.write(SUPERBLOCK.add(FIRST), words.into()).await
    }

    /// Whether a pool has none, of any version.
    pub async fn is_nowhere(connection: &Connection) -> Result<bool> {
        let words = connection.read(SUPERBLOCK.add(FIRST), WORDS).await?;
        Ok(words.iter().all(|&word| word == 0))
    }

    /// Reads it.
    pub async fn read(connection: &Connection) -> Result<Superblock> {
        let words = connection.read(SUPERBLOCK.add(FIRST), WORDS).await?;
        let no_tree = |reason: String| Err(Error::NoTree(reason));
        match words[..] {
            [MAGIC, VERSION, bytes, root, shared] if bytes == Page::BYTES as u64 => {
                Ok(Superblock {
                    root: Address::of_word(root),
                    shared_leaves: shared != 0,
                })
            }
            [MAGIC, VERSION, bytes, ..] => {
                no_tree(format!("its nodes have {bytes} bytes, not {}", Page::BYTES))
            }
            [MAGIC, version, ..] => no_tree(format!("its version is {version}, not {VERSION}")),
            _ => no_tree("memory server 0 does not begin with one".into()),
        }
    }

    /// Changes the root. The caller has the superblock's lock.
    pub async fn set_root(connection: &Connection, root: Address) -> Result<()> {
        let at = SUPERBLOCK.add(ROOT);
        connection.write(at, vec![root.word()]).await
    }
}
