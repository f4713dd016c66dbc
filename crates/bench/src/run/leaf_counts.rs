//! `all-fast`, which counts the accesses to each leaf, and its bytes. A tree reports
//! leaves only to its placement, so this is one.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use timberline_placement::{Access, LeafRef, MAX_SAMPLE_INTERVAL, NewNode, NodeKey, Placement};
use timberline_tier::TierId;
use timberline_tier::emulator::PAGE;

use super::index::PlacedIndex;
use super::plan::Load;
use super::threads::side_by_side;
use crate::bound::{self, Part};
use crate::report::Bounds;

/// Places every node in fast memory. On request, counts accesses to the leaves.
#[derive(Default)]
pub struct LeafCounts {
    counting: AtomicBool,
    /// Accesses reported while it counts.
    reports: AtomicU64,
    /// The leaf of the last access.
    last: Mutex<Option<(usize, NodeKey)>>,
}

impl Placement for LeafCounts {
    fn place(&self, _: NewNode) -> TierId {
        TierId::FAST
    }

    fn on_access(&self, leaf: LeafRef<'_>, _: Access) -> u32 {
        if !self.counting.load(Relaxed) {
            return MAX_SAMPLE_INTERVAL;
        }
        self.reports.fetch_add(1, Relaxed);
        let mut last = self.last.lock().expect("nothing panics while it is held");
        if last
            .as_ref()
            .is_none_or(|(address, _)| *address != leaf.address)
        {
            *last = Some((leaf.address, NodeKey::leaf(leaf.fence.to_bytes())));
        }
        1
    }
}

impl LeafCounts {
    /// The bounds for placements on a loaded, quiet map with this placement, within `fast` bytes.
    /// `None` if a workload's frequencies are unknown, if `interrupted` becomes true, or if the
    /// map's memory has one tier and reports nothing.
    ///
    /// Looks up each record once, from a thread of its own.
    ///
    /// # Errors
    /// One line: the system refuses that thread.
    pub fn bounds<I: PlacedIndex>(
        &self,
        map: &I,
        seed: u64,
        load: &Load,
        fast: usize,
        interrupted: &AtomicBool,
    ) -> Result<Option<Bounds>, String> {
        let Some(accesses) = load.requests.frequencies(seed) else {
            return Ok(None);
        };
        let keys = (0..load.requests.records()).map(|id| load.requests.key(id));
        let Some(leaves) = self.leaves(map, keys, &accesses, interrupted)? else {
            return Ok(None);
        };
        let pages = pages(&leaves);
        let leaves: Vec<Part> = leaves.into_iter().map(|(_, leaf)| leaf).collect();
        let bytes: f64 = leaves.iter().map(|leaf| leaf.bytes).sum();
        let budget = fast as f64;
        Ok(Some(Bounds {
            index: I::NAME.into(),
            workload: load.requests.name().into(),
            bound_page_fast_share: bound::fast_share(pages, budget),
            bound_leaf_fast_share: bound::fast_share(leaves, budget),
            bound_record_fast_share: bound::fast_share_of_records(
                &accesses,
                bytes / accesses.len() as f64,
                budget,
            ),
        }))
    }

    /// The leaves by address, each with the sum of its records' `accesses`, which are in the order
    /// of `keys`.
    fn leaves<I: PlacedIndex>(
        &self,
        map: &I,
        keys: impl Iterator<Item = u64> + Send,
        accesses: &[f32],
        interrupted: &AtomicBool,
    ) -> Result<Option<Vec<(usize, Part)>>, String> {
        self.counting.store(true, Relaxed);
        let count = |keys| self.count(map, keys, accesses, interrupted);
        let leaves = side_by_side([keys], &AtomicBool::new(false), count, || {});
        self.counting.store(false, Relaxed);
        Ok(leaves?.pop().flatten())
    }

    /// Repeats an access until it is reported: a sampling thread first skips some.
    fn is_reported(&self, access: impl Fn() -> Option<u64>) -> bool {
        let before = self.reports.load(Relaxed);
        (0..=MAX_SAMPLE_INTERVAL).any(|_| {
            access();
            self.reports.load(Relaxed) > before
        })
    }

    fn count<I: PlacedIndex>(
        &self,
        map: &I,
        keys: impl Iterator<Item = u64>,
        accesses: &[f32],
        interrupted: &AtomicBool,
    ) -> Option<Vec<(usize, Part)>> {
        let placed = map.placed();
        // Neighbouring records usually come in a row: a leaf is one run of them, or a few.
        let mut runs: Vec<(usize, Part)> = Vec::new();
        for (done, (key, accesses)) in keys.zip(accesses).enumerate() {
            if !self.is_reported(|| map.get(key)) {
                return None;
            }
            let last = self.last.lock().expect("nothing panics while it is held");
            let (address, leaf) = last.as_ref().expect("an access was reported");
            match runs.last_mut() {
                Some((same, part)) if same == address => part.accesses += f64::from(*accesses),
                _ => {
                    let bytes = placed.bytes_of(leaf) as f64;
                    let accesses = f64::from(*accesses);
                    runs.push((*address, Part { accesses, bytes }));
                }
            }
            if done % 4096 == 0 && interrupted.load(Relaxed) {
                return None;
            }
        }
        runs.sort_unstable_by_key(|(address, _)| *address);
        runs.dedup_by(|(address, run), (kept, leaf)| {
            let same = address == kept;
            if same {
                leaf.accesses += run.accesses;
            }
            same
        });
        Some(runs)
    }
}

/// The pages in which leaves begin; the leaves are in address order. A page is fast as a whole with
/// all its content; a leaf's data on other pages is counted with it.
fn pages(leaves: &[(usize, Part)]) -> Vec<Part> {
    let pages = leaves.chunk_by(|(one, _), (other, _)| one / PAGE == other / PAGE);
    let sum = |leaves: &[(usize, Part)], of: fn(&Part) -> f64| -> f64 {
        leaves.iter().map(|(_, leaf)| of(leaf)).sum()
    };
    let page = |leaves: &[(usize, Part)]| Part {
        accesses: sum(leaves, |leaf| leaf.accesses),
        bytes: sum(leaves, |leaf| leaf.bytes).max(PAGE as f64),
    };
    pages.map(page).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaves_are_of_the_page_that_they_begin_in() {
        let leaf = |address, accesses| {
            let bytes = 1024.0;
            (address, Part { accesses, bytes })
        };
        let leaves = [
            leaf(PAGE, 3.0),
            leaf(PAGE + 3072, 1.0),
            leaf(2 * PAGE, 2.0),
            leaf(9 * PAGE + 512, 5.0),
        ];
        let accesses = pages(&leaves).into_iter().map(|page| page.accesses);
        assert!(accesses.eq([4.0, 2.0, 5.0]));
        // With memory for two pages, pages get 9 of the 11 accesses, and leaves all of them.
        let budget = 2.0 * PAGE as f64;
        assert_eq!(bound::fast_share(pages(&leaves), budget), Some(9.0 / 11.0));
        let leaves = leaves.map(|(_, leaf)| leaf).to_vec();
        assert_eq!(bound::fast_share(leaves, budget), Some(1.0));
    }
}
