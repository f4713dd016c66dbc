//! Where a walk goes next: into a layer, and from one border node of a layer to the next.

use timberline_placement::Access;
use timberline_sync::Restart;
use timberline_tier::Memory;

use super::ahead::{Above, ahead_of};
use super::scan::{Frame, Walk};
use crate::btree::node::{Body, Lanes, Lead, View, Work};
use crate::btree::tree::node_address;
use crate::range::Way;
use crate::value::Represent;

/// Where a walk enters a layer, or goes on in it.
pub(super) struct Entrance<'g, const WORDS: usize> {
    /// A node above the leaf, or the leaf.
    pub node: View<'g, WORDS>,
    /// Of the leaves behind this one, how many were prefetched.
    pub fetched: usize,
    /// Bytes of the key before the layer.
    pub depth: usize,
    /// The slice that the leaf covers, from which on entries are copied.
    pub word: u64,
    pub at_bound: bool,
}

/// Entering a leaf.
struct Enter<'w, 'g, M: Memory, const WORDS: usize, H: Represent>(
    &'w mut Walk<'g, M, WORDS, H>,
    Entrance<'g, WORDS>,
);

impl<M: Memory, const WORDS: usize, H: Represent> Work for Enter<'_, '_, M, WORDS, H> {
    type Output = Result<(), Restart>;

    #[inline(always)]
    fn run(self, lanes: impl Lanes) -> Self::Output {
        self.0.enter_by(lanes, self.1)
    }
}

impl<'g, M: Memory, const WORDS: usize, H: Represent> Walk<'g, M, WORDS, H> {
    /// Enters a leaf, and copies its entries from a slice on.
    pub(super) fn enter(&mut self, at: Entrance<'g, WORDS>) -> Result<(), Restart> {
        self.tree.search.run(Enter(self, at))
    }

    #[inline(always)]
    fn enter_by(&mut self, lanes: impl Lanes, at: Entrance<'g, WORDS>) -> Result<(), Restart> {
        let Entrance {
            mut node,
            fetched,
            depth,
            word,
            at_bound,
        } = at;
        let tree = self.tree;
        let mut above = None;
        while node.height() > 0 {
            let charge = |body: &_, index| {
                tree.charge_child(body, index);
                index
            };
            let (link, index) = node.child_for(lanes, word, charge)?;
            tree.prefetch_all(link.address());
            let child = link.read()?;
            node.validate()?;
            above = Some(Above {
                node,
                index,
                fetched,
            });
            node = child;
        }
        let leaf = node;
        // Most of the leaves above the start of a range are left for the layers below.
        if !at_bound && let Some(above) = &mut above {
            above.prefetch_leaves(tree, self.way, ahead_of::<WORDS>(self.wanted));
        }
        let start = self.entries.len();
        let (way, entries) = (self.way, &mut self.entries);
        // Each entry has at least one record in the walk, except the one at the bound.
        let most = self.wanted.saturating_add(1);
        let (beyond, ends) = leaf.copy_entries(entries, |body| {
            tree.charge_node(body);
            let rank = body.rank(lanes, word);
            let count = body.count();
            let (range, all) = match way {
                Way::Forward => (rank..count.min(rank.saturating_add(most)), count),
                Way::Backward => {
                    let end = rank + usize::from(rank < count && body.key(rank) == word);
                    (end.saturating_sub(most)..end, 0)
                }
            };
            let payloads = Body::<WORDS>::payload_offset(range.start);
            tree.memory()
                .charge_lines(node_address(body) + payloads, 8 * range.len());
            let beyond = match way {
                Way::Forward if range.end < all => (Some(body.key(range.end)), false),
                Way::Backward if range.start > all => (Some(body.key(range.start - 1)), false),
                _ => (way.behind(body), true),
            };
            (range, beyond)
        })?;
        if way == Way::Backward {
            entries[start..].reverse();
        }
        let end = entries.len();
        self.frames.push(Frame {
            leaf,
            above: above.filter(|_| ends),
            depth,
            start,
            next: start,
            end,
            asked: start,
            beyond,
            at_bound,
        });
        self.prefetch_below(at_bound);
        if M::CHARGES {
            for entry in &self.entries[start..] {
                if let Some(Lead::Record(record)) = entry.lead() {
                    tree.memory().charge_access(record.address(), record.used());
                }
            }
        }
        tree.note(*leaf, Access::Reuse, self.guard);
        Ok(())
    }

    /// Moves the last frame to the next leaf of its layer, if there is one.
    pub(super) fn next_leaf(&mut self) -> Result<(), Restart> {
        let Some(done) = self.frames.pop() else {
            return Ok(());
        };
        let first = self.frames.last().map_or(0, |above| above.end);
        self.entries.truncate(first);
        let Some(word) = done.beyond else {
            return Ok(());
        };
        let covers = |above: &Above<'g, WORDS>| above.node.get(|body| body.covers(word));
        let (node, fetched) = match (done.above, self.frames.last()) {
            (Some(above), _) if covers(&above) == Ok(true) => {
                (above.node, above.fetched.saturating_sub(1))
            }
            (_, None) => (self.tree.top(self.tree.store.pinned(self.guard))?, 0),
            (_, Some(above)) => {
                let lead = self.entries[above.next - 1].lead();
                let root = lead.and_then(Lead::root).ok_or(Restart)?;
                above.leaf.validate()?;
                let root = root.read()?;
                above.leaf.validate()?;
                (View::of(root)?, 0)
            }
        };
        self.enter(Entrance {
            node,
            fetched,
            depth: done.depth,
            word,
            at_bound: false,
        })
    }
}
