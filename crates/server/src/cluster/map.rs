//! Who has which slots, as a node last knew.

use std::net::SocketAddr;
use std::ops::RangeInclusive;

use timberline_remote::{ComputeId, Member};

use super::slot::{SLOTS, slot_at};

/// Who has which slots, and where nodes are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Map {
    /// How often it was changed.
    pub version: u64,
    owners: Vec<Option<ComputeId>>,
    /// All nodes that live, in the order of their numbers.
    pub nodes: Vec<(ComputeId, Option<SocketAddr>)>,
}

impl Map {
    /// What a member knows since it last looked, and these nodes.
    pub fn of(member: &Member, mut nodes: Vec<(ComputeId, Option<SocketAddr>)>) -> Map {
        let mut owners = vec![None; SLOTS.into()];
        let slots_of = |places: &RangeInclusive<u64>| {
            let slots = slot_at(*places.start())..=slot_at(*places.end());
            slots.map(usize::from)
        };
        let me = Some(member.compute());
        for (places, owner) in member.partitions() {
            // What was given to this member is its own once it has taken it.
            let owner = owner.filter(|_| owner != me);
            slots_of(&places).for_each(|slot| owners[slot] = owner);
        }
        for places in member.tree().partitions() {
            slots_of(&places).for_each(|slot| owners[slot] = me);
        }
        nodes.sort_unstable();
        Map {
            version: member.table_version(),
            owners,
            nodes,
        }
    }

    /// The node that has a slot.
    pub fn owner(&self, slot: u16) -> Option<ComputeId> {
        self.owners[usize::from(slot)]
    }

    /// Where a node is, if it lives.
    pub fn address(&self, node: ComputeId) -> Option<SocketAddr> {
        let at = self.nodes.binary_search_by_key(&node, |it| it.0).ok()?;
        self.nodes[at].1
    }

    /// Slots that have an owner, in ranges of one owner each.
    pub fn ranges(&self) -> Vec<(RangeInclusive<u16>, ComputeId)> {
        let mut ranges: Vec<(RangeInclusive<u16>, ComputeId)> = Vec::new();
        for (slot, owner) in (0..).zip(&self.owners) {
            let Some(owner) = *owner else { continue };
            match ranges.last_mut() {
                Some((range, last)) if *last == owner && range.end() + 1 == slot => {
                    *range = *range.start()..=slot;
                }
                _ => ranges.push((slot..=slot, owner)),
            }
        }
        ranges
    }

    /// The slots of a node.
    pub fn ranges_of(&self, node: ComputeId) -> Vec<RangeInclusive<u16>> {
        let ranges = self.ranges().into_iter();
        ranges.filter(|it| it.1 == node).map(|it| it.0).collect()
    }

    /// What a node is to give away next so that all have as many slots, and to whom, if one of them
    /// has less than three quarters of its share; or, with `to_empty`, only if it has none at all.
    /// All nodes compute the same of the same map, so they can give at the same time.
    pub fn next_gift(
        &self,
        from: ComputeId,
        to_empty: bool,
    ) -> Option<(RangeInclusive<u16>, ComputeId)> {
        let count = |node: ComputeId| self.owners.iter().filter(|it| **it == Some(node)).count();
        // A member that says no address serves nobody, or does not yet.
        let nodes = self.nodes.iter().filter(|it| it.1.is_some());
        let counts: Vec<_> = nodes.map(|&(node, _)| (node, count(node))).collect();
        if counts.is_empty() {
            return None;
        }
        let share = usize::from(SLOTS).div_ceil(counts.len());
        let gets = |has: usize| match to_empty {
            true => has == 0,
            false => has < share,
        };
        if !to_empty && counts.iter().all(|it| 4 * it.1 >= 3 * share) {
            return None;
        }
        // The surplus of the first goes to the first who lack something, and so on.
        let mut lacking = counts.iter().filter(|it| gets(it.1));
        let (mut to, mut lacks) = lacking.next().map(|it| (it.0, share - it.1))?;
        for &(node, has) in &counts {
            let mut surplus = has.saturating_sub(share);
            while surplus > 0 {
                if node == from {
                    return Some((self.last_slots(node, surplus.min(lacks))?, to));
                }
                let given = surplus.min(lacks);
                surplus -= given;
                lacks -= given;
                if lacks == 0 {
                    (to, lacks) = lacking.next().map(|it| (it.0, share - it.1))?;
                }
            }
        }
        None
    }

    /// The last slots of a node that are one range, at most this many.
    fn last_slots(&self, node: ComputeId, most: usize) -> Option<RangeInclusive<u16>> {
        let range = self.ranges_of(node).pop()?;
        let least = range.end().saturating_sub(most as u16 - 1);
        Some(least.max(*range.start())..=*range.end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(number: u64) -> ComputeId {
        ComputeId::new(number).unwrap()
    }

    fn map(nodes: u64, owner: impl Fn(u16) -> Option<u64>) -> Map {
        let address = SocketAddr::from(([127, 0, 0, 1], 6379));
        Map {
            version: 1,
            owners: (0..SLOTS).map(|slot| owner(slot).map(node)).collect(),
            nodes: (1..=nodes).map(|it| (node(it), Some(address))).collect(),
        }
    }

    #[test]
    fn ranges_are_of_one_owner() {
        let map = map(2, |slot| match slot {
            0..100 => Some(1),
            100..200 => None,
            200 => Some(1),
            201..SLOTS => Some(2),
            _ => None,
        });
        let last = SLOTS - 1;
        let expected = [
            (0..=99, node(1)),
            (200..=200, node(1)),
            (201..=last, node(2)),
        ];
        assert_eq!(map.ranges(), expected);
        assert_eq!(map.ranges_of(node(1)), [0..=99, 200..=200]);
        assert_eq!(map.owner(150), None);
    }

    #[test]
    fn nodes_with_few_slots_get_as_many_as_the_others() {
        for nodes in 2..9 {
            for owners in 1..nodes {
                let mut map = map(nodes, |slot| Some(u64::from(slot) % owners + 1));
                // Ranges, as moves make them.
                map.owners.sort();
                let mut moves = 0;
                while let Some((from, (slots, to))) =
                    (1..=nodes).find_map(|from| Some((from, map.next_gift(node(from), false)?)))
                {
                    for slot in slots {
                        assert_eq!(map.owners[usize::from(slot)], Some(node(from)));
                        map.owners[usize::from(slot)] = Some(to);
                    }
                    moves += 1;
                    assert!(moves < 100);
                }
                for number in 1..=nodes {
                    let owned = map.owners.iter().filter(|it| **it == Some(node(number)));
                    let wanted = 3 * usize::from(SLOTS) / (4 * nodes as usize);
                    assert!(owned.count() >= wanted, "{nodes} nodes, {owners} owners");
                }
            }
        }
    }

    #[test]
    fn a_node_without_slots_alone_gets_some() {
        // The first has few, as it may be asked for much of them.
        let mut map = map(3, |slot| Some(u64::from(slot >= 100) + 1));
        assert_eq!(map.next_gift(node(1), true), None);
        let (slots, to) = map.next_gift(node(2), true).unwrap();
        assert_eq!((*slots.end(), to), (SLOTS - 1, node(3)));
        for slot in slots {
            map.owners[usize::from(slot)] = Some(to);
        }
        assert!((1..=3).all(|it| map.next_gift(node(it), true).is_none()));
        assert!((1..=3).any(|it| map.next_gift(node(it), false).is_some()));
    }

    #[test]
    fn nothing_moves_where_all_have_about_as_many() {
        let map = map(3, |slot| Some(u64::from(slot / 6_000) + 1));
        assert!((1..=3).all(|it| map.next_gift(node(it), false).is_none()));
        let mut silent = map.clone();
        silent.nodes.push((node(4), None));
        assert!((1..=3).all(|it| silent.next_gift(node(it), false).is_none()));
    }
}
