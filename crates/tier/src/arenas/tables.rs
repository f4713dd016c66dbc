//! Side tables, whose pages are charged to a tier.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::{Arenas, ArenasError, Limit, bind};
use crate::TierId;
use crate::os::Reservation;
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
}
