//! `bf-tree`: a B-tree with a page cache of variable-length pages. Here all pages are in memory and
//! the cache has its default size. Values are byte strings, too.

use std::sync::Arc;

use bf_tree::{BfTree, Config, LeafInsertResult, LeafReadResult, ScanReturnField};

use crate::index::{BigEndian, Index, Scanned, Setting};

/// Words.
pub type Words = BigEndian<Bytes>;
/// Byte strings.
pub type Bytes = Arc<BfTree>;

/// A key of one byte and a value.
const SHORTEST_RECORD: usize = 9;

impl Index<[u8]> for Bytes {
    fn new(setting: &Setting) -> Result<Self, String> {
        let longest = setting.longest_key;
        let mut config = Config::default();
        config
            .cb_min_record_size(SHORTEST_RECORD)
            .cb_max_record_size(longest + 8)
            .cb_max_key_len(longest)
            .max_fence_len(2 * longest);
        let tree = BfTree::with_config(config, None).map_err(|error| format!("{error:?}"))?;
        Ok(Arc::new(tree))
    }

    #[inline]
    fn insert(&self, key: &[u8], value: u64) -> bool {
        BfTree::insert(self, key, &value.to_le_bytes()) == LeafInsertResult::Success
    }

    #[inline]
    fn get(&self, key: &[u8]) -> Option<u64> {
        let mut value = [0; 8];
        match self.read(key, &mut value) {
            LeafReadResult::Found(8) => Some(u64::from_le_bytes(value)),
            _ => None,
        }
    }

    #[inline]
    fn update(&self, key: &[u8], value: u64) -> bool {
        Index::insert(self, key, value)
    }

    #[inline]
    fn scan(&self, from: &[u8], limit: usize) -> Scanned {
        let mut scanned = Scanned::default();
        let Ok(mut records) = self.scan_with_count(from, limit, ScanReturnField::Value) else {
            return scanned;
        };
        let mut value = [0; 8];
        while let Some((_, 8)) = records.next(&mut value)
            && scanned.take(u64::from_le_bytes(value), limit)
        {}
        scanned
    }
}
