//! Side tables, whose pages are charged to a tier.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::{Arenas, ArenasError, Limit, Tier, bind};
use crate::TierId;
use crate::os::{PAGE, Reservation};
use crate::side::Cover;

impl Arenas {
    /// Binds memory of a side table to a tier's NUMA nodes.
    pub(crate) fn bind(
        &self,
        tier: TierId,
        table: &Reservation,
        offset: usize,
        bytes: usize,
    ) -> Result<(), ArenasError> {
        bind(tier, &self.tiers[tier.index()].nodes, table, offset, bytes)
    }

    /// Charges a tier for memory of a side table, and commits it.
    pub(crate) fn commit_table(
        &self,
        tier: TierId,
        table: &Reservation,
        offset: usize,
        bytes: usize,
    ) -> Result<(), Limit> {
        let this = &self.tiers[tier.index()];
        if !this.budget.charge(bytes) {
            return Err(Limit::Budget);
        }
        this.tables.fetch_add(bytes, Relaxed);
        let committed = this.commit(table, offset, bytes);
        committed.inspect_err(|_| self.decommit_table(tier, table, offset, bytes))
    }

    /// Decommits and releases what [`Arenas::commit_table`] committed.
    #[allow(unsafe_code)]
    pub(crate) fn decommit_table(
        &self,
        tier: TierId,
        table: &Reservation,
        offset: usize,
        bytes: usize,
    ) {
        let this = &self.tiers[tier.index()];
        // SAFETY: tables consist of atomics.
        unsafe { table.decommit(offset, bytes) };
        this.tables.fetch_sub(bytes, Relaxed);
        this.budget.release(bytes);
    }

    /// Attaches a side table, whose pages are committed and decommitted with the chunks from now
    /// on. Returns `false` if there is another one, or a chunk already.
    pub(crate) fn attach(&self, side: Arc<Cover>) -> bool {
        let is_unused = self
            .tiers
            .iter()
            .all(|tier| tier.budget.used() == tier.tables.load(Relaxed));
        is_unused && self.side.set(side).is_ok()
    }

    /// Leaves `bytes` more of a tier to a side table that grows while chunks take the rest.
    pub(crate) fn set_aside(&self, tier: TierId, bytes: usize) {
        let set_aside = &self.tiers[tier.index()].set_aside;
        set_aside.fetch_add(bytes, Relaxed);
    }

    /// The table has so many of these bytes now.
    pub(crate) fn take_set_aside(&self, tier: TierId, bytes: usize) {
        let set_aside = &self.tiers[tier.index()].set_aside;
        set_aside.fetch_sub(bytes, Relaxed);
    }
}

/// At most this part of a tier's limit is left to tables.
const LEFT: usize = 64;

impl Tier {
    /// Bytes that chunks leave to side tables.
    pub(super) fn left_to_tables(&self) -> usize {
        let most = self.budget.limit() / LEFT / PAGE * PAGE;
        self.set_aside.load(Relaxed).min(most)
    }
}
