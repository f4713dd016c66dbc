//! Many lookups at once: the group descends level by level, and each node is asked for a round before it is read,
//! so the memory's latencies overlap instead of adding up.
//!
//! This is group prefetching (Chen, Ailamaki, Gibbons, Mowry, ICDE 2004). A lookup that a writer disturbs
//! drops out of its group and is done alone.

use timberline_placement::Access;
use timberline_sync::Restart;
use timberline_sync::Snapshot;
use timberline_sync::epoch::{self, Guard};
use timberline_tier::Memory;

use super::node::{Body, HEADER, Link};
use super::tree::Tree;

/// Lookups in flight; beyond the line buffers of a core more do not help.
pub(super) const GROUP: usize = 16;

impl<M: Memory, const WORDS: usize> Tree<M, WORDS> {
    /// The values of up to [`GROUP`] keys.
    pub fn get_group(&self, keys: &[u64], values: &mut [Option<u64>]) {
        let guard = epoch::pin();
        if self.descend_together(keys, values, &guard).is_err() {
            for (&key, value) in keys.iter().zip(values) {
                *value = self.get(key);
            }
        }
    }

    fn descend_together(
        &self,
        keys: &[u64],
        values: &mut [Option<u64>],
        guard: &Guard,
    ) -> Result<(), Restart> {
        let root = self.root.read()?;
        let (link, height) = root.get(|root| (root.node(), root.height()))?;
        let top = link.node::<WORDS>(guard).read()?;
        root.validate()?;
        let mut nodes: [Option<Snapshot<'_, Body<WORDS>>>; GROUP] = [Some(top); GROUP];
        let mut links = [link; GROUP];
        for _ in 0..height {
            for (index, &key) in keys.iter().enumerate() {
                let Some(node) = nodes[index] else { continue };
                let child = node.get(|body| {
                    self.visit(body);
                    body.child(body.child_for(self.search, key))
                });
                match child {
                    Ok(link) => {
                        self.memory()
                            .prefetch(link.address(), HEADER + 8 * Self::CAPACITY);
                        links[index] = link;
                    }
                    Err(Restart) => nodes[index] = None,
                }
            }
            for index in 0..keys.len() {
                if let Some(parent) = nodes[index] {
                    nodes[index] = Self::step(parent, links[index], guard).ok();
                }
            }
        }
        for (index, &key) in keys.iter().enumerate() {
            let found = nodes[index].map(|leaf| {
                let found = leaf.get(|body| self.look_up(body, key))?;
                self.note(leaf, Access::Reuse);
                Ok(found)
            });
            values[index] = match found {
                Some(Ok(value)) => value,
                Some(Err(Restart)) | None => self.get(key),
            };
        }
        Ok(())
    }

    fn step<'g>(
        parent: Snapshot<'g, Body<WORDS>>,
        link: Link,
        guard: &'g Guard,
    ) -> Result<Snapshot<'g, Body<WORDS>>, Restart> {
        let child = link.node(guard).read()?;
        parent.validate()?;
        Ok(child)
    }
}
