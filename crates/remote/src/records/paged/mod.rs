//! Ordered maps of bytes in pages of the pool.
//!
//! A map is a B+tree of pages. Its root is some hundred bytes that the caller keeps, in the value
//! of a record: a map of few entries is only that. **A change copies** the pages on the way to what
//! it changes (shadow paging; Lorie: "Physical Integrity in a Large Segmented Database", TODS
//! 1977), and makes a new root. When the caller has put that in the place of the old one, by one
//! write, the map has changed, by all or nothing, whoever dies when; then the pages that only the
//! old root leads to are freed. Who dies in between leaves pages that nothing leads to, which are
//! lost to the pool.
//!
//! Inner nodes count the entries below their children, so entries are found by rank, and ranges are
//! counted, in the time of a lookup.
//!
//! | file | noun |
//! |---|---|
//! | `node.rs` | the bytes of a node |
//! | `change.rs` | a new root with changes |
//! | `walk.rs` | entries in order |

mod change;
mod node;
mod walk;

use std::borrow::Cow;

use super::Records;
use super::page::Page;
use crate::error::Result;
use node::View;

pub use change::Changed;
pub use walk::Walk;

/// The most bytes of a page, so that it is a block of a node: that has 24 more.
const PAGE_BYTES: usize = 1000;
/// The most bytes of a root, so that it is a block of a node with what its record has beside it.
const ROOT_BYTES: usize = 800;
/// Pages that are read or written at a time.
const AT_A_TIME: usize = 16;

/// The root of an ordered map of bytes, of which the caller keeps the [bytes](PagedMap::bytes).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PagedMap(Vec<u8>);

impl Default for PagedMap {
    fn default() -> PagedMap {
        PagedMap(node::encode(0, &[]))
    }
}

impl PagedMap {
    /// The map that had these bytes.
    pub fn of_bytes(bytes: &[u8]) -> PagedMap {
        PagedMap(bytes.into())
    }

    /// What to keep: at most 800 bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// How many entries it has.
    pub fn count(&self) -> u64 {
        View::of(&self.0).count()
    }
}

/// Maps are read and changed by one at a time. Nobody may hand over the keys meanwhile whose
/// records have their roots.
impl Records {
    /// The value of a key: O(height) reads, none if the root is all.
    ///
    /// # Errors
    /// A memory server does not answer, or this compute server was taken for dead.
    pub async fn get_in(&self, map: &PagedMap, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut bytes = Cow::Borrowed(map.bytes());
        loop {
            let view = View::of(&bytes);
            if view.level == 0 {
                let found = view.entries().find(|it| it.0 >= key);
                let found = found.filter(|it| it.0 == key);
                return Ok(found.map(|it| it.1.to_vec()));
            }
            let Some(child) = view.child_of(key) else {
                return Ok(None);
            };
            bytes = Cow::Owned(self.read_page(child.page).await?);
        }
    }

    /// Frees all pages of a map that nobody has any more. What does not answer keeps them.
    pub async fn free_map(&self, map: &PagedMap) {
        let mut pages: Vec<(Page, u8)> = Vec::new();
        let below = |bytes: &[u8], pages: &mut Vec<(Page, u8)>| {
            let view = View::of(bytes);
            if let Some(level) = view.level.checked_sub(1) {
                pages.extend(view.children().map(|it| (it.1.page, level)));
            }
        };
        below(map.bytes(), &mut pages);
        while let Some((page, level)) = pages.pop() {
            if level > 0
                && let Ok(bytes) = self.read_page(page).await
            {
                below(&bytes, &mut pages);
            }
            self.free_page(page).await;
        }
    }
}
