//! A subject, as an observer sees it during its turn.

use timberline_placement::View;
use timberline_tier::{Memory, TierId};

use super::Subject;
use crate::report::progress::{Levels, MemoryUse, Watched};
use crate::run::index::PlacedIndex;
use crate::substrate::Substrate;

impl<I: PlacedIndex> Watched for Subject<I> {
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
        let arenas = self.map.memory().arenas();
        let bytes = |bytes: usize| bytes as u64;
        // The kernel has no budget setting; the hog leaves that much free.
        let budget = self.budget.filter(|_| !self.is_kernels());
        let usable = match self.is_of_pages() {
            true => budget,
            false => budget.map(|_| arenas.usable(TierId::FAST)),
        };
        let committed = (!self.is_of_pages()).then(|| self.committed().0);
        MemoryUse {
            of_pages: self.is_of_pages(),
            used_bytes: bytes(arenas.used(TierId::FAST) + arenas.used(TierId::SLOW)),
            committed_bytes: committed.map(bytes),
            budget_bytes: budget.map(bytes),
            usable_bytes: usable.map(bytes),
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
            copies_bytes: stats.copies_bytes as u64,
        })
    }
}
