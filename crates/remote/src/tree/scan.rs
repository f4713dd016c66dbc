//! Records in the order of their keys.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use timberline_sync::Restart;
use timberline_tree::btree::page::PageBody;

use super::RemoteTree;
use super::fetch::{Admission, Fetched};
use super::walk::Found;
use crate::error::Result;

/// Records of a range, in ascending order. Each is as it was at some time since the scan began.
pub struct Scan<'a> {
    tree: &'a RemoteTree,
    /// The keys that are left, after those in `records`.
    rest: Option<RangeInclusive<u64>>,
    records: VecDeque<(u64, u64)>,
}

impl RemoteTree {
    /// The records whose keys are within `keys`, all of which have to be this server's.
    ///
    /// # Errors
    /// Some are not.
    pub fn scan(&self, keys: RangeInclusive<u64>) -> Result<Scan<'_>> {
        if !keys.is_empty() {
            self.check_owned(*keys.start())?;
            self.check_owned(*keys.end())?;
        }
        Ok(Scan {
            tree: self,
            rest: (!keys.is_empty()).then_some(keys),
            records: VecDeque::new(),
        })
    }
}

impl Scan<'_> {
    /// The next record.
    ///
    /// # Errors
    /// A memory server does not answer. The same record can be asked for again.
    pub async fn next(&mut self) -> Result<Option<(u64, u64)>> {
        loop {
            if let Some(record) = self.records.pop_front() {
                return Ok(Some(record));
            }
            let Some(keys) = self.rest.clone() else {
                return Ok(None);
            };
            self.read_leaf(keys).await?;
        }
    }

    /// Takes the records of the next leaf.
    async fn read_leaf(&mut self, keys: RangeInclusive<u64>) -> Result<()> {
        let tree = self.tree;
        let key = *keys.start();
        let (upper, records) = loop {
            let missing = match tree.walk(key, 0) {
                Ok(Found::Here(leaf)) => match leaf.view.get(|body| records(body, &keys)) {
                    Ok(records) => break records,
                    Err(Restart) => continue,
                },
                Ok(Found::Missing(missing)) => missing,
                Ok(Found::Stale) => {
                    tree.refresh(key).await?;
                    continue;
                }
                Err(Restart) => continue,
            };
            match tree.fetch(key, missing, Admission::Draw).await? {
                Fetched::Again => {}
                Fetched::Loose(leaf) => break records(&leaf.page.lock(), &keys),
                Fetched::Stale => tree.refresh(key).await?,
            }
        };
        self.records = records;
        self.rest = (upper < *keys.end()).then(|| upper + 1..=*keys.end());
        Ok(())
    }
}

/// The upper fence of a leaf, and its records within a range.
fn records(leaf: &PageBody, keys: &RangeInclusive<u64>) -> (u64, VecDeque<(u64, u64)>) {
    let records = leaf.records().filter(|(key, _)| keys.contains(key));
    (leaf.upper(), records.collect())
}
