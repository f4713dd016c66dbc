//! The addresses of a tree: one reserved range, with a part for each tier.
//!
//! A tier with a limit has addresses for all of it. A tier without a limit, or whose limit may be
//! raised without bounds, has twice the machine's memory in addresses. It has fewer where the
//! system refuses (`ulimit -v`, 32 bits), or where the arenas of this process would take more than
//! half of its addresses. Reserved addresses cost no memory, but no other mapping can use them.

use std::ops::{Deref, Range};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::config::{ArenasConfig, ArenasError, NO_LIMIT, TierConfig};
use crate::os::{self, PAGE, Reservation};

/// Half of a process's addresses. The closer all arenas together come to it, the fewer a tier
/// without a limit gets.
const HALF: usize = if usize::BITS == 64 { 1 << 46 } else { 1 << 30 };
/// The least that such a tier gets, if there are as many: 1 GiB on 64 bits, enough for as many
/// maps as Linux lets a process have mappings.
const MIN_TIER: usize = HALF >> 16;
/// Spare blocks make up for fragmentation: small chunks with gaps too small for a large one.
const SPARE: usize = 2;
/// The most bytes of addresses of one tree: page numbers have 32 bits.
const MAX_TREE: usize = PAGE.saturating_mul(u32::MAX as usize);

/// Bytes that the arenas of this process have reserved.
static RESERVED: AtomicUsize = AtomicUsize::new(0);

/// The addresses of one tree.
pub struct Addresses {
    range: Reservation,
    /// The tiers' parts, in order.
    pub parts: Vec<Range<usize>>,
}

impl Addresses {
    /// Reserves addresses for these tiers, in blocks of this many bytes.
    pub fn reserve(config: &ArenasConfig, block: usize) -> Result<Self, ArenasError> {
        let left = HALF.saturating_sub(RESERVED.load(Relaxed)) / 4;
        let unlimited = left.clamp(MIN_TIER, MIN_TIER.max(2 * os::memory_bytes()));
        let (mut blocks, mut is_scarce) = ((unlimited / block).max(1), false);
        loop {
            let reserved = Self::in_blocks(&share_out(config, block, blocks), block);
            match reserved {
                Err(_) if config.is_unlimited() && blocks > 1 => is_scarce = true,
                // Halve once more: the rest of the program needs addresses, too.
                Ok(_) if is_scarce && blocks > 1 => is_scarce = false,
                other => return other,
            }
            blocks /= 2;
        }
    }

    fn in_blocks(counts: &[usize], block: usize) -> Result<Self, ArenasError> {
        let total = counts.iter().sum::<usize>() * block;
        let range = Reservation::new(total, block).map_err(|e| ArenasError::Reserve(total, e))?;
        RESERVED.fetch_add(total, Relaxed);
        let mut end = range.base();
        let part = |&count: &usize| {
            let start = end;
            end += count * block;
            start..end
        };
        let parts = counts.iter().map(part).collect();
        Ok(Addresses { range, parts })
    }

    /// The addresses of all tiers.
    pub fn span(&self) -> Range<usize> {
        let end = self.parts.last().map_or(self.range.base(), |part| part.end);
        self.range.base()..end
    }
}

impl Deref for Addresses {
    type Target = Reservation;

    fn deref(&self) -> &Reservation {
        &self.range
    }
}

impl Drop for Addresses {
    fn drop(&mut self) {
        RESERVED.fetch_sub(self.span().len(), Relaxed);
    }
}

/// The number of blocks of each tier. First, each tier gets what its limit needs, or an equal share
/// of the rest if that is less. Then each gets, of the remaining blocks, what raising its limit
/// needs.
fn share_out(config: &ArenasConfig, block: usize, unlimited: usize) -> Vec<usize> {
    let blocks = |bytes: usize| match bytes {
        NO_LIMIT => unlimited,
        bytes => bytes.div_ceil(block) + SPARE,
    };
    let mut counts = vec![0; config.tiers.len()];
    let mut left = config.reach.min(MAX_TREE) / block;
    for wanted in [
        |tier: &TierConfig| tier.limit,
        |tier: &TierConfig| tier.limit.max(tier.most),
    ] {
        let missing = |tier: usize, has: usize| {
            let wanted = blocks(wanted(&config.tiers[tier]));
            wanted.saturating_sub(has)
        };
        let mut order: Vec<usize> = (0..counts.len()).collect();
        order.sort_by_key(|&tier| missing(tier, counts[tier]));
        for (given, tier) in order.into_iter().enumerate() {
            let share = left / (counts.len() - given);
            let more = missing(tier, counts[tier]).min(share);
            counts[tier] += more;
            left -= more;
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    fn shares(limits: &[usize], reach: usize) -> Vec<usize> {
        let mut config = ArenasConfig::growing();
        let with = |&limit: &usize| TierConfig::new(limit, Vec::new());
        config.tiers = limits.iter().map(with).collect();
        config.reach = reach;
        share_out(&config, MIB, 100)
    }

    #[test]
    fn tiers_get_what_they_can_use_and_share_the_rest() {
        let all = usize::MAX;
        assert_eq!(shares(&[10 * MIB, 3 * MIB + 1], all), [12, 6]);
        assert_eq!(shares(&[10 * MIB, NO_LIMIT], all), [12, 100]);
        assert_eq!(shares(&[10 * MIB, NO_LIMIT], 50 * MIB), [12, 38]);
        assert_eq!(shares(&[70 * MIB, NO_LIMIT], 50 * MIB), [25, 25]);
        assert_eq!(shares(&[NO_LIMIT, MIB, 90 * MIB], 51 * MIB), [24, 3, 24]);
        assert_eq!(shares(&[0, MIB], MIB), [0, 1]);
    }

    #[test]
    fn a_limit_that_may_be_raised_takes_what_the_others_leave() {
        let mut config = ArenasConfig::two_tiers(10 * MIB, 20 * MIB);
        config.tiers[0].most = NO_LIMIT;
        assert_eq!(share_out(&config, MIB, 100), [100, 22]);
        config.reach = 50 * MIB;
        assert_eq!(share_out(&config, MIB, 100), [28, 22]);
        config.tiers[1].limit = NO_LIMIT;
        assert_eq!(share_out(&config, MIB, 100), [12, 38]);
    }

    #[test]
    fn a_limit_beyond_what_pages_can_be_numbered_is_cut() {
        let blocks = shares(&[NO_LIMIT - 1, NO_LIMIT - 1], usize::MAX);
        let sum: usize = blocks.iter().sum();
        assert!(
            (MAX_TREE / MIB - 2..=MAX_TREE / MIB).contains(&sum),
            "{blocks:?}"
        );
    }
}
