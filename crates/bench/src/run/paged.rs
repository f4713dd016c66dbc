//! Page placement for a subject: a scheme, between the emulator's page map and a worker.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use timberline_placement::workers::{Next, Waker, Worker};
use timberline_placement::{Placed, View};
use timberline_research::pages::{Moment, PageCounts, PageScheme, PageTable, Paged, Tally};
use timberline_tier::emulator::{Emulated, PAGE, PageMap, spend};
use timberline_tier::{Memory, TierId};

/// Sampling interval of an oracle, in cache misses: large enough to be quick, and not in step with
/// the lines of a visit.
const ORACLE_SAMPLES: u32 = 7;

/// The page placement of a subject; see the [module](self).
pub struct PageSide {
    pages: PageMap,
    paged: Arc<Paged>,
    done: Arc<AtomicU64>,
    /// The pages of a scheme that knows the requests in advance.
    counts: Option<Arc<PageCounts>>,
    bound: Option<f64>,
}

impl PageSide {
    /// A scheme of pages, for a map without records in this memory. An oracle counts first.
    pub fn new(
        make: impl FnOnce(&mut PageTable) -> Box<dyn PageScheme>,
        mut table: PageTable,
        is_oracle: bool,
        memory: &Emulated,
    ) -> PageSide {
        let pages = memory.pages();
        let scheme = make(&mut table);
        let paged = Arc::new(Paged::new(scheme, table));
        let counts = is_oracle.then(|| Arc::new(PageCounts::new(pages.pages())));
        match &counts {
            Some(counts) => memory.watch_pages(counts.clone()),
            None => memory.watch_pages(paged.clone()),
        }
        PageSide {
            pages,
            paged,
            done: Arc::default(),
            counts,
            bound: None,
        }
    }

    /// Its background worker.
    pub fn workers(&self) -> Vec<Box<dyn Worker>> {
        if self.is_oracle() {
            return Vec::new();
        }
        vec![Box::new(PageWorker {
            pages: self.pages.clone(),
            paged: self.paged.clone(),
            done: self.done.clone(),
        })]
    }

    /// Enters the loaded pages in the order of their allocation, since nothing tracked them while
    /// loading.
    pub fn settle(&self, memory: &Emulated) {
        let arenas = memory.arenas();
        let chunks = (0..arenas.tiers()).flat_map(|tier| arenas.committed(TierId(tier as u8)));
        let pages = chunks.flat_map(|chunk| chunk.step_by(PAGE));
        self.paged
            .place(pages.map(|address| memory.page_of(address)));
    }

    /// Whether the scheme knows the requests in advance.
    pub fn is_oracle(&self) -> bool {
        self.counts.is_some()
    }

    /// Counts cache misses from now until [`PageSide::arrange`]. All pages are fast meanwhile, to
    /// make counting quick.
    pub fn begin_counting(&self) {
        self.count(true, TierId::FAST);
        self.pages.sample_every(ORACLE_SAMPLES);
    }

    /// Places the pages by their counts.
    pub fn arrange(&mut self) {
        self.count(false, TierId::SLOW);
        self.bound = self
            .counts
            .as_ref()
            .and_then(|counts| counts.arrange(&self.paged));
    }

    fn count(&self, on: bool, tier: TierId) {
        for page in 0..self.pages.pages() {
            self.pages.arm(page, false);
            self.pages.count(page, on);
            self.pages.set_tier(page, tier);
        }
    }

    pub fn did(&self, requests: u64) {
        self.done.fetch_add(requests, Relaxed);
    }

    /// The current pages.
    pub fn tally(&self) -> Tally {
        self.paged.tally()
    }

    /// The scheme's current state.
    pub fn view(&self) -> Option<View> {
        self.paged.view()
    }

    /// The fast share of the best pages by the counts, if there are any.
    pub fn bound(&self) -> Option<f64> {
        self.bound
    }
}

/// Executes the scheme's steps, each for as long as it should take.
struct PageWorker {
    pages: PageMap,
    paged: Arc<Paged>,
    done: Arc<AtomicU64>,
}

impl Worker for PageWorker {
    fn name(&self) -> &'static str {
        "pages"
    }

    fn waker(&self) -> Waker {
        self.paged.waker()
    }

    /// The memory's time, which stands still during turns of other maps.
    fn step(&mut self, _: &dyn Placed, _: Duration) -> Next {
        let turn = self.paged.step(Moment {
            now: self.pages.now(),
            done: self.done.load(Relaxed),
        });
        spend(turn.cost);
        Next::After(turn.next)
    }
}
