//! A subject whose pages are placed, and not its nodes: its scheme, between the emulator's page map
//! and a worker.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use timberline_placement::workers::{Next, Waker, Worker};
use timberline_placement::{Placed, View};
use timberline_research::pages::{Moment, PageCounts, PageScheme, PageTable, Paged, Tally};
use timberline_tier::emulator::{Emulated, PAGE, PageMap, spend};
use timberline_tier::{Memory, TierId};

/// A sample in so many missing lines makes an oracle: few enough to be quick, and in no step with
/// the lines of a visit.
const ORACLE_SAMPLES: u32 = 7;

/// See the [module's text](self).
pub struct PageSide {
    pages: PageMap,
    paged: Arc<Paged>,
    done: Arc<AtomicU64>,
    /// Of the scheme that is told what will be asked.
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

    /// What works in the background.
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

    /// Takes what was loaded into use, in the order in which memory was taken: nobody watched
    /// meanwhile.
    pub fn settle(&self, memory: &Emulated) {
        let arenas = memory.arenas();
        let chunks = (0..arenas.tiers()).flat_map(|tier| arenas.committed(TierId(tier as u8)));
        let pages = chunks.flat_map(|chunk| chunk.step_by(PAGE));
        self.paged
            .place(pages.map(|address| memory.page_of(address)));
    }

    /// Whether it is to be told what will be asked.
    pub fn is_oracle(&self) -> bool {
        self.counts.is_some()
    }

    /// From now on, until [`PageSide::arrange`], missing lines are counted. All pages are fast
    /// meanwhile, so that counting takes no longer than it must.
    pub fn begin_counting(&self) {
        self.count(true, TierId::FAST);
        self.pages.sample_every(ORACLE_SAMPLES);
    }

    /// Places the pages by what was counted.
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

    /// So many more requests were done.
    pub fn did(&self, requests: u64) {
        self.done.fetch_add(requests, Relaxed);
    }

    /// The pages as they are.
    pub fn tally(&self) -> Tally {
        self.paged.tally()
    }

    /// What the scheme believes now.
    pub fn view(&self) -> Option<View> {
        self.paged.view()
    }

    /// The fast share that the best pages have by what was counted, if that was done.
    pub fn bound(&self) -> Option<f64> {
        self.bound
    }
}

/// Takes the scheme's steps, and for as long as they are said to take.
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

    /// The time is the memory's, which stands still while others have their turn.
    fn step(&mut self, _: &dyn Placed, _: Duration) -> Next {
        let turn = self.paged.step(Moment {
            now: self.pages.now(),
            done: self.done.load(Relaxed),
        });
        spend(turn.cost);
        Next::After(turn.next)
    }
}
