//! A page scheme at work: called by threads that fault, by the processor's samples, and by its
//! worker.

use std::sync::Mutex;
use std::time::Duration;

use timberline_tier::emulator::{PageEvent, PageWatch};

use super::{Moment, PageScheme, PageTable};
use timberline_placement::View;
use timberline_placement::workers::{Waker, lock};

/// A scheme with its table. The lock is held for one call of the scheme, never while anything is
/// paid for.
pub struct Paged {
    waker: Waker,
    state: Mutex<State>,
}

struct State {
    scheme: Box<dyn PageScheme>,
    table: PageTable,
}

/// The result of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Turn {
    /// How long its work takes.
    pub cost: Duration,
    /// How long after that the next one is due.
    pub next: Duration,
}

/// Pages by tier, and moves so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// Pages in fast memory.
    pub fast: usize,
    /// The most of them at any moment.
    pub peak: usize,
    /// Pages that fit into fast memory.
    pub limit: usize,
    /// Pages moved to fast memory so far.
    pub promoted: u64,
    /// Pages moved to slow memory so far.
    pub demoted: u64,
}

impl Paged {
    /// Puts a scheme to work on a table.
    pub fn new(scheme: Box<dyn PageScheme>, table: PageTable) -> Paged {
        table.await_first_accesses();
        Paged {
            waker: Waker::new(),
            state: Mutex::new(State { scheme, table }),
        }
    }

    /// Wakes the worker that is to call [`Paged::step`].
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// Takes pages into use in this order, as if they were touched for the first time now.
    pub fn place(&self, pages: impl IntoIterator<Item = usize>) {
        let State { scheme, table } = &mut *lock(&self.state);
        for page in pages {
            if !table.is_in_use(page) {
                scheme.place(table, page);
            }
        }
        // No thread touched them, so none pays.
        table.take_bill();
    }

    /// The scheme's next piece of work in the background.
    pub fn step(&self, at: Moment) -> Turn {
        let State { scheme, table } = &mut *lock(&self.state);
        table.move_in_batches(true);
        let next = scheme.step(table, at);
        table.move_in_batches(false);
        Turn {
            cost: Duration::from_nanos(table.take_bill()),
            next,
        }
    }

    /// How pages are spread, and what was moved.
    pub fn tally(&self) -> Tally {
        let table = &lock(&self.state).table;
        let (promoted, demoted) = table.moves();
        Tally {
            fast: table.fast(),
            peak: table.peak(),
            limit: table.limit(),
            promoted,
            demoted,
        }
    }

    /// The scheme's current estimates, if it keeps heat of pages, or watermarks.
    pub fn view(&self) -> Option<View> {
        lock(&self.state).scheme.view()
    }

    /// Lets `work` change the table, under its lock.
    pub(super) fn with_table<R>(&self, work: impl FnOnce(&mut PageTable) -> R) -> R {
        work(&mut lock(&self.state).table)
    }
}

impl PageWatch for Paged {
    fn on_event(&self, page: usize, event: PageEvent, now: Duration) -> u64 {
        let State { scheme, table } = &mut *lock(&self.state);
        match event {
            // Any page's first access faults, also without a scheme, so it costs nothing here.
            PageEvent::Fault if !table.is_in_use(page) => {
                scheme.place(table, page);
                table.take_bill();
            }
            PageEvent::Fault => {
                table.charge(table.costs().fault_ns);
                scheme.faulted(table, page, now);
            }
            PageEvent::Sample => {
                table.charge(table.costs().sample_ns);
                scheme.sampled(table, page);
            }
        }
        let bill = table.take_bill();
        if table.take_wake() {
            self.waker.wake();
        }
        bill
    }
}
