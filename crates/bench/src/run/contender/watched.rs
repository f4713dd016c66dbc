//! A contender, for whoever looks on while it has its turn.

use timberline_placement::View;
use timberline_tier::TierId;

use super::Contender;
use crate::report::progress::{Levels, MemoryUse, Watched};
use crate::run::index::PlacedIndex;
use crate::substrate::Substrate;

impl<I: PlacedIndex> Watched for Contender<I> {
    fn index(&self) -> &'static str {
        I::NAME
    }

    fn placement(&self) -> &'static str {
        self.name
    }

    fn is_emulated(&self) -> bool {
        I::Memory::EMULATED
    }

    fn memory(&self) -> MemoryUse {
        let fast = self.fast_bytes();
        let in_slow_arena = self.map.placed().fill(TierId::SLOW).used;
        MemoryUse {
            of_pages: self.is_of_pages(),
            fast_bytes: fast as u64,
            // Fast pages are in that arena, too.
            slow_bytes: match self.is_of_pages() {
                true => in_slow_arena.saturating_sub(fast),
                false => in_slow_arena,
            } as u64,
            budget_bytes: self.budget.map(|bytes| bytes as u64),
        }
    }

    fn view(&self) -> Option<View> {
        match &self.pages {
            Some(pages) => pages.view(),
            None => self.placement.view(),
        }
    }

    fn levels(&self) -> Option<Levels> {
        if self.is_of_pages() {
            return None;
        }
        let stats = self.map.stats();
        Some(Levels {
            fills: Self::levels_of(&stats),
            above_boundary: stats.above_boundary as u64,
        })
    }
}
