//! What a walk will read next, so that the CPU fetches it meanwhile.
//!
//! A walk reads some lines of every border node, then what its entries lead to. If it asked for
//! each of these when it needs it, it would wait once a border node and once a layer. So it asks
//!
//! - for the leaves behind the present one in its layer, as many as the records that are wanted
//!   fill: their addresses are in the inner node above;
//! - for all records of the present leaf, and for those of the next one, if the present one has
//!   any: that leaf was asked for before;
//! - in the last leaf of a layer, for what the next entries of the layer above lead to, more of
//!   them if the layer is small, as the next ones will be; and for what the first of these leads to
//!   further on, since that was asked for a layer ago;
//! - near the end of a leaf with layers, for the next leaf, and at the end for what that leads to.
//!
//! Nothing here is validated, because nothing is done with it but to fetch it.

use timberline_tier::{Memory, hint};

use super::Tree;
use super::scan::{Frame, Walk};
use crate::btree::node::{Body, Lead, LeafEntry, View, has_more};
use crate::range::Way;
use crate::value::Represent;

/// The most leaves of a layer that are asked for ahead.
const LEAVES: usize = 4;
/// Layers that are asked for ahead, if they are small; and otherwise.
const SMALL_LAYERS: usize = 6;
const LARGE_LAYERS: usize = 1;
/// Bytes of a record that are asked for: what those of most keys have.
const RECORD: usize = 48;

/// The leaves that `wanted` records fill, if nothing lies below them.
#[inline(always)]
pub(super) fn ahead_of<const WORDS: usize>(wanted: usize) -> usize {
    (wanted / Body::<WORDS>::CAPACITY).min(LEAVES)
}

/// The inner node above a leaf.
pub(super) struct Above<'g, const WORDS: usize> {
    pub node: View<'g, WORDS>,
    /// The leaf's index in it.
    pub index: usize,
    /// How many leaves behind this one were asked for.
    pub fetched: usize,
}

impl<'g, const WORDS: usize> Above<'g, WORDS> {
    /// Asks for the leaves behind this one, up to `ahead` of them.
    #[inline(always)]
    pub fn prefetch_leaves<M: Memory, H: Represent>(
        &mut self,
        tree: &Tree<M, WORDS, H>,
        way: Way,
        ahead: usize,
    ) {
        while self.fetched < ahead {
            self.fetched += 1;
            let Some(leaf) = self.leaf_behind(way, self.fetched) else {
                break;
            };
            tree.prefetch_all(leaf);
        }
    }

    /// Where the leaf this many behind lies.
    #[inline(always)]
    fn leaf_behind(&self, way: Way, behind: usize) -> Option<usize> {
        let index = self.index_behind(way, behind)?;
        let address =
            |body: &Body<WORDS>| (index < body.count()).then(|| body.child_address(index));
        self.node.get(address).ok().flatten()
    }

    #[inline(always)]
    fn index_behind(&self, way: Way, behind: usize) -> Option<usize> {
        match way {
            Way::Forward => Some(self.index + behind),
            Way::Backward => self.index.checked_sub(behind),
        }
    }

    /// Whether the leaf is the last one below this node.
    #[inline(always)]
    fn is_at_end(&self, way: Way) -> bool {
        self.leaf_behind(way, 1).is_none()
    }

    /// Asks for what the entries of the next leaf lead to.
    #[inline(always)]
    fn prefetch_leads(&self, way: Way) {
        let next = self.index_behind(way, 1);
        let next = next.and_then(|index| self.node.child(index).ok());
        // A leaf that is being written is not waited for.
        if let Some(Ok(leaf)) = next.map(|link| link.try_read()) {
            leaf.prefetch_leads(RECORD);
        }
    }
}

impl<'g, M: Memory, const WORDS: usize, H: Represent> Walk<'g, M, WORDS, H> {
    /// Asks for what lies below and behind the last frame's leaf, which was just entered.
    #[inline(always)]
    pub(super) fn prefetch_below(&mut self, at_bound: bool) {
        let Some((frame, above)) = self.frames.split_last_mut() else {
            return;
        };
        let entries = &self.entries[frame.next..frame.end];
        let (mut records, mut layers) = (0, 0);
        let more = entries.iter().fold(0, |more, entry| more | entry.key);
        if has_more(more & 0xff) {
            for entry in entries {
                match entry.lead() {
                    None => {}
                    Some(Lead::Record(record)) => {
                        hint::prefetch(record.address(), RECORD);
                        records += 1;
                    }
                    Some(Lead::Layer(_) | Lead::Skip(_)) => layers += 1,
                }
            }
            // The entry at the bound is read at once, and may be all that there is to read.
            if layers > 0 && !at_bound {
                frame.prefetch_leads(self.tree, &self.entries, SMALL_LAYERS);
            }
        }
        // Layers have records of their own.
        let left = self.wanted.saturating_sub(entries.len() + layers);
        if left == 0 {
            return;
        }
        let mut window = SMALL_LAYERS;
        if let Some(of_leaf) = &mut frame.above {
            // Where most entries are layers, the next leaf is far.
            if layers <= entries.len() / 4 {
                of_leaf.prefetch_leaves(self.tree, self.way, ahead_of::<WORDS>(left).max(1));
            }
            if records > 0 {
                of_leaf.prefetch_leads(self.way);
            }
            if !of_leaf.is_at_end(self.way) {
                return;
            }
            window = LARGE_LAYERS;
        }
        let Some(above) = above.last_mut() else {
            return;
        };
        above.prefetch_leads(self.tree, &self.entries, window);
        if above.next + window > above.end
            && let Some(of_leaf) = &mut above.above
        {
            of_leaf.prefetch_leaves(self.tree, self.way, 1);
            if above.next == above.end {
                of_leaf.prefetch_leads(self.way);
            }
        }
        if let Some(next) = self.entries[..above.end].get(above.next) {
            prefetch_further(self.tree, self.way, next);
        }
    }
}

impl<const WORDS: usize> Frame<'_, WORDS> {
    /// Asks for what the next entries lead to, of all that were copied: for this many.
    #[inline(always)]
    fn prefetch_leads<M: Memory, H: Represent>(
        &mut self,
        tree: &Tree<M, WORDS, H>,
        entries: &[LeafEntry<'_, WORDS>],
        many: usize,
    ) {
        let (from, to) = (self.next.max(self.asked), self.end.min(self.next + many));
        if from < to {
            for entry in &entries[from..to] {
                prefetch_lead(tree, entry);
            }
            self.asked = to;
        }
    }
}

/// Asks for what an entry leads to.
#[inline(always)]
fn prefetch_lead<M: Memory, const WORDS: usize, H: Represent>(
    tree: &Tree<M, WORDS, H>,
    entry: &LeafEntry<'_, WORDS>,
) {
    match entry.lead() {
        None => {}
        Some(Lead::Record(record)) => hint::prefetch(record.address(), RECORD),
        Some(Lead::Layer(root)) => tree.prefetch_all(std::ptr::from_ref(root).addr()),
        Some(Lead::Skip(skip)) => hint::prefetch_lines(skip.address(), 1),
    }
}

/// Asks for what lies behind the first step from an entry down, which is in the cache.
#[inline(always)]
fn prefetch_further<M: Memory, const WORDS: usize, H: Represent>(
    tree: &Tree<M, WORDS, H>,
    way: Way,
    entry: &LeafEntry<'_, WORDS>,
) {
    match entry.lead() {
        Some(Lead::Skip(skip)) => tree.prefetch_all(std::ptr::from_ref(skip.root()).addr()),
        Some(Lead::Layer(root)) => {
            let first = |body: &Body<WORDS>| match (body.height(), body.count()) {
                (0, _) | (_, 0) => None,
                (_, count) => Some(body.child_address(way.first_of(count))),
            };
            let first = root.try_read().ok().and_then(|root| root.get(first).ok());
            if let Some(Some(child)) = first {
                tree.prefetch_all(child);
            }
        }
        Some(Lead::Record(_)) | None => {}
    }
}
