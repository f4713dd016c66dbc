//! A buddy allocator of a tier's pages, for chunks.
//!
//! Invariants: a vacant block has `1 << order` pages and starts at a multiple of that; two blocks
//! that would make one of the next order are one, up to the top order. Blocks of the top order
//! that were never taken are not listed one by one: they are `fresh`.

use std::collections::BTreeSet;
use std::ops::Range;

/// The vacant pages of a tier, by their number from its start.
pub struct Vacant {
    /// First pages of the vacant blocks, by order.
    blocks: Vec<BTreeSet<u32>>,
    fresh: Range<u32>,
}

impl Vacant {
    /// All of `pages` pages, a multiple of `1 << top`, the most that can be taken at once.
    pub fn new(pages: u32, top: u32) -> Self {
        debug_assert!(pages.is_multiple_of(1 << top));
        Vacant {
            blocks: vec![BTreeSet::new(); top as usize + 1],
            fresh: 0..pages,
        }
    }

    /// Takes this many contiguous pages, aligned to their number rounded up to a power of two. They
    /// come from the lowest of the smallest sufficient blocks, so that large ones stay whole.
    pub fn take(&mut self, pages: u32) -> Option<u32> {
        let order = pages.next_power_of_two().ilog2() as usize;
        let first = self.take_block(order)?;
        self.give(first + pages, (1 << order) - pages);
        Some(first)
    }

    fn take_block(&mut self, order: usize) -> Option<u32> {
        let top = self.blocks.len() - 1;
        let (mut from, block) = match (order..=top).find(|&from| !self.blocks[from].is_empty()) {
            Some(from) => (from, self.blocks[from].pop_first()?),
            None if self.fresh.is_empty() => return None,
            None => {
                let block = self.fresh.start;
                self.fresh.start += 1 << top;
                (top, block)
            }
        };
        while from > order {
            from -= 1;
            self.blocks[from].insert(block + (1 << from));
        }
        Some(block)
    }

    /// Returns contiguous pages, all or a part of those that were taken at once.
    pub fn give(&mut self, mut first: u32, mut pages: u32) {
        let top = self.blocks.len() as u32 - 1;
        while pages > 0 {
            let order = first.trailing_zeros().min(pages.ilog2()).min(top);
            self.give_block(first, order);
            first += 1 << order;
            pages -= 1 << order;
        }
    }

    fn give_block(&mut self, mut block: u32, order: u32) {
        let mut order = order as usize;
        while order + 1 < self.blocks.len() && self.blocks[order].remove(&(block ^ (1 << order))) {
            block &= !(1 << order);
            order += 1;
        }
        self.blocks[order].insert(block);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_taken_once_aligned_and_merge_again() {
        const PAGES: u32 = 3 << 6;
        let mut vacant = Vacant::new(PAGES, 6);
        for round in 1..8 {
            let mut taken = [false; PAGES as usize];
            let mut held = Vec::new();
            for step in 0.. {
                let pages = 1 + step * round % 64;
                let Some(first) = vacant.take(pages) else {
                    break;
                };
                assert!(first.is_multiple_of(pages.next_power_of_two()));
                for page in first..first + pages {
                    let before = std::mem::replace(&mut taken[page as usize], true);
                    assert!(!before, "page {page} taken twice");
                }
                held.push((first, pages));
                if step % 3 == 0 {
                    let (first, pages) = held.swap_remove(held.len() / 2);
                    vacant.give(first, pages);
                    taken[first as usize..(first + pages) as usize].fill(false);
                }
            }
            // The rest can be taken page by page, so none was lost.
            while let Some(page) = vacant.take(1) {
                assert!(!taken[page as usize]);
                held.push((page, 1));
            }
            assert_eq!(held.iter().map(|&(_, pages)| pages).sum::<u32>(), PAGES);
            for (first, pages) in held {
                vacant.give(first, pages);
            }
            let whole = [(); 3].map(|()| vacant.take(64).expect("all merged again"));
            assert_eq!(vacant.take(1), None);
            for first in whole {
                vacant.give(first, 64);
            }
        }
    }
}
