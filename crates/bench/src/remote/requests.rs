//! The requests of a workload.

use std::ops::RangeInclusive;

use timberline_remote::{RemoteTree, Result};

use super::Setting;
use super::workload::{Kind, Workload};
use crate::workload::{Permutation, Rng, Zipf};

/// Records that a scan reads.
const SCANNED: usize = 100;

/// What keys are asked for, and what for.
pub(super) struct Requests {
    workload: Workload,
    stride: u64,
    zipf: Zipf,
    permutation: Permutation,
}

impl Requests {
    pub fn new(setting: &Setting, workload: Workload) -> Requests {
        Requests {
            workload,
            stride: setting.stride(),
            zipf: Zipf::new(setting.records, setting.skew),
            permutation: Permutation::new(setting.records, Rng::new(setting.seed, u64::MAX)),
        }
    }

    /// Draws a loaded key within a partition: requests reach the server that has their key.
    pub fn key(&self, partition: &RangeInclusive<u64>, draws: &mut Rng) -> u64 {
        loop {
            let key = self.permutation.at(self.zipf.rank(draws)) * self.stride;
            if partition.contains(&key) {
                return key;
            }
        }
    }

    /// Draws a request whose key is in this partition of the tree's, and makes it.
    pub async fn make(
        &self,
        tree: &RemoteTree,
        partition: &RangeInclusive<u64>,
        draws: &mut Rng,
    ) -> Result<()> {
        let key = self.key(partition, draws);
        match self.workload.draw(draws) {
            Kind::Get => {
                let found = tree.get(key).await?;
                assert!(found.is_some(), "key {key} was loaded");
            }
            Kind::Update => {
                tree.update(key, draws.bits()).await?;
            }
            Kind::Insert => {
                let between = 1 + draws.below(self.stride - 1);
                let new = key.saturating_add(between).min(*partition.end());
                tree.insert(new, between).await?;
            }
            Kind::Scan => {
                let mut scan = tree.scan(key..=*partition.end())?.limit(SCANNED);
                while scan.next().await?.is_some() {}
            }
        }
        Ok(())
    }
}
