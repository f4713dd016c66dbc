//! Reports of marked pages, and the clock of their schemes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use super::Emulated;
use super::charging::Bill;
use super::page_map::PageMap;
use super::thread::{self, Thread};
use super::tsc::Tsc;
use crate::TierId;
use crate::hint::LINE;

/// Why a touched page is reported.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Touch {
    /// It was armed.
    Armed,
    /// Its line was sampled.
    Sampled,
}

/// Hears of touched pages, as a kernel does of faults and of samples that its processor takes.
pub trait PageWatch: Send + Sync {
    /// A line of `page` had to come from memory, at `now` (as [`PageMap::now`]). Returns for how
    /// long this holds up the thread that read it, in nanoseconds; it is charged for that. Called
    /// by that thread, after the visit: what moves now is in its new tier for the next visit.
    fn touched(&self, page: usize, why: Touch, now: Duration) -> u64;
}

/// The time for which visits were charged.
#[derive(Clone)]
pub(super) struct ChargingClock {
    tsc: Tsc,
    times: Arc<Times>,
}

struct Times {
    /// Ticks in turns that are over.
    before: AtomicU64,
    /// When this turn began; 0 between turns.
    since: AtomicU64,
}

impl ChargingClock {
    /// A clock that runs.
    pub fn new(tsc: Tsc) -> ChargingClock {
        let times = Times {
            before: AtomicU64::new(0),
            since: AtomicU64::new(tsc.now()),
        };
        ChargingClock {
            tsc,
            times: Arc::new(times),
        }
    }

    /// Lets it run, or stops it. One thread at a time may.
    pub fn run(&self, on: bool) {
        let Times { before, since } = &*self.times;
        let start = since.swap(if on { self.tsc.now() } else { 0 }, Relaxed);
        if start != 0 {
            before.fetch_add(self.tsc.now().saturating_sub(start), Relaxed);
        }
    }

    pub fn now(&self) -> Duration {
        let Times { before, since } = &*self.times;
        let running = match since.load(Relaxed) {
            0 => 0,
            start => self.tsc.now().saturating_sub(start),
        };
        self.tsc.duration(before.load(Relaxed) + running)
    }
}

/// Uses up this thread's time on its CPU: what it does has taken so long.
pub fn spend(time: Duration) {
    let tsc = Tsc::get();
    tsc.spin(tsc.now(), time.as_nanos() as u64 * 1000);
}

impl Emulated {
    /// A handle to the pages.
    pub fn pages(&self) -> PageMap {
        self.pages.clone()
    }

    /// From now on tells `watch` of marked pages that are touched. Only the first one is heard.
    pub fn watch_pages(&self, watch: Arc<dyn PageWatch>) {
        let _ = self.watch.set(watch);
    }

    /// The tier that the 4 KiB page with this address is charged as.
    ///
    /// # Panics
    /// If the address is not in the arenas.
    pub fn page_tier(&self, address: usize) -> TierId {
        self.pages.tier(self.page_of(address))
    }

    /// From now on charges the 4 KiB page with this address as memory of `tier`, whichever arena
    /// it is in. For schemes that move pages.
    ///
    /// # Panics
    /// If the address is not in the arenas, or they have no such tier.
    pub fn set_page_tier(&self, address: usize, tier: TierId) {
        self.pages.set_tier(self.page_of(address), tier);
    }

    /// The number of the page with this address.
    ///
    /// # Panics
    /// If the address is not in the arenas.
    pub fn page_of(&self, address: usize) -> usize {
        assert!(
            self.arenas.range().contains(&address),
            "{address:#x} is in no arena"
        );
        PageMap::page_of_line(((address - self.start) / LINE) as u64)
    }

    /// A line of a marked page was missing. It is reported after the access
    /// ([`report`](Self::report)).
    #[cold]
    #[inline(never)]
    pub(super) fn note(&self, thread: &mut Thread, page: usize) {
        let is_counted = self.pages.state(page).is_counted();
        if self.pages.touch(page) {
            thread.touches.push((page, Touch::Armed));
        }
        if is_counted {
            let interval = self.pages.sample_interval();
            thread.until_sample = thread.until_sample.min(interval).saturating_sub(1);
            if thread.until_sample == 0 {
                thread.until_sample = interval;
                thread.touches.push((page, Touch::Sampled));
            }
        }
    }

    /// Tells of the pages that were noted, and charges what comes of it. The thread's part is not
    /// held meanwhile, so the thread that watches may read this memory.
    #[cold]
    #[inline(never)]
    pub(super) fn report(&self) {
        let now = self.pages.now();
        while let Some((page, why)) = thread::with(|thread| thread.touches.pop()).flatten() {
            let held_up = self
                .watch
                .get()
                .map_or(0, |watch| watch.touched(page, why, now));
            if held_up > 0 {
                let bill = Bill {
                    extra_ps: held_up * 1000,
                    ..Bill::default()
                };
                thread::with(|thread| self.charge(thread, bill));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::super::{Base, LineCounts, Profile, set_thread_cache, thread_counts};
    use super::*;
    use crate::{Arenas, ArenasConfig, Memory};

    /// Remembers the reports, and holds up each thread for this many nanoseconds.
    struct Told(Mutex<Vec<(usize, Touch)>>, u64);

    impl PageWatch for Told {
        fn touched(&self, page: usize, why: Touch, _: Duration) -> u64 {
            self.0.lock().unwrap().push((page, why));
            self.1
        }
    }

    impl Told {
        fn take(&self) -> Vec<(usize, Touch)> {
            std::mem::take(&mut self.0.lock().unwrap())
        }
    }

    fn memory() -> Emulated {
        let arenas = Arenas::new(&ArenasConfig::two_tiers(4 << 20, 4 << 20)).unwrap();
        Emulated::new(arenas, Profile::parse("cxl").unwrap(), Base::default())
    }

    fn watched(held_up_ns: u64) -> (Emulated, Arc<Told>, usize) {
        let memory = memory();
        let told = Arc::new(Told(Mutex::default(), held_up_ns));
        memory.watch_pages(told.clone());
        set_thread_cache(Default::default());
        let slow = memory.arenas().range_of(TierId::SLOW).start;
        (memory, told, slow)
    }

    fn counted(work: impl FnOnce()) -> LineCounts {
        let before = thread_counts();
        work();
        thread_counts() - before
    }

    #[test]
    fn an_armed_page_is_reported_once_and_its_reader_held_up() {
        let (memory, told, slow) = watched(1_000);
        let page = memory.page_of(slow);
        memory.pages().arm(page, true);
        let first = counted(|| memory.charge_access(slow, 2 * LINE));
        assert_eq!(told.take(), [(page, Touch::Armed)]);
        assert_eq!(first.charged_ps, 110_000 + 4_000 + 1_000_000);
        let second = counted(|| memory.charge_access(slow + 2 * LINE, LINE));
        assert_eq!((told.take(), second.charged_ps), (vec![], 110_000));
        memory.pages().arm(page, true);
        memory.charge_access(slow, LINE);
        assert_eq!(told.take(), [], "it was in the cache");
        memory.prefetch(slow + 8 * LINE, LINE);
        assert_eq!(told.take(), [(page, Touch::Armed)]);
    }

    #[test]
    fn marks_stay_where_the_page_goes() {
        let (memory, told, slow) = watched(0);
        let (pages, page) = (memory.pages(), memory.page_of(slow));
        pages.arm(page, true);
        pages.set_tier(page, TierId::FAST);
        let lines = counted(|| memory.charge_access(slow, LINE));
        assert_eq!((lines.fast, lines.slow, lines.charged_ps), (1, 0, 0));
        assert_eq!(told.take(), [(page, Touch::Armed)]);
        pages.arm(page, true);
        pages.arm(page, false);
        memory.charge_access(slow + LINE, LINE);
        assert_eq!(told.take(), []);
    }

    #[test]
    fn an_access_is_seen_once_it_was_asked_for() {
        let (memory, _, slow) = watched(0);
        let (pages, page) = (memory.pages(), memory.page_of(slow) + 1);
        assert!(pages.take_accessed(page), "not accessed yet");
        assert!(!pages.take_accessed(page));
        memory.charge_access(slow, LINE);
        assert!(!pages.take_accessed(page), "that was another page");
        memory.charge_access(slow + super::super::PAGE, LINE);
        assert!(pages.take_accessed(page));
        assert!(!pages.take_accessed(page));
        assert_eq!(pages.tier(page), TierId::SLOW);
    }

    #[test]
    fn one_missing_line_in_so_many_is_a_sample() {
        let (memory, told, slow) = watched(0);
        let (pages, page) = (memory.pages(), memory.page_of(slow));
        pages.count(page, true);
        pages.sample_every(5);
        memory.charge_access(slow, 12 * LINE);
        assert_eq!(told.take(), [(page, Touch::Sampled); 2]);
        memory.charge_access(slow + super::super::PAGE, 12 * LINE);
        assert_eq!(told.take(), [], "it is not counted");
        memory.charge_access(slow + 12 * LINE, 3 * LINE);
        assert_eq!(told.take(), [(page, Touch::Sampled)]);
        pages.sample_every(2);
        memory.charge_access(slow + 15 * LINE, 4 * LINE);
        assert_eq!(told.take(), [(page, Touch::Sampled); 2]);
    }

    /// A thread that watches may read the memory that it watches.
    #[test]
    fn a_watch_may_read() {
        // Weak, as the memory holds the thread that watches it.
        struct Reads(std::sync::OnceLock<(std::sync::Weak<Emulated>, usize)>);
        impl PageWatch for Reads {
            fn touched(&self, page: usize, _: Touch, _: Duration) -> u64 {
                let (memory, address) = self.0.get().unwrap();
                let memory = memory.upgrade().unwrap();
                assert_eq!(memory.page_of(*address), page);
                memory.charge_access(*address + LINE, LINE);
                0
            }
        }
        let memory = Arc::new(memory());
        let reads = Arc::new(Reads(Default::default()));
        memory.watch_pages(reads.clone());
        let address = memory.arenas().range_of(TierId::SLOW).start;
        assert!(reads.0.set((Arc::downgrade(&memory), address)).is_ok());
        memory.pages().arm(memory.page_of(address), true);
        assert_eq!(counted(|| memory.charge_access(address, LINE)).slow, 2);
    }

    #[test]
    fn time_stands_still_while_nothing_is_charged() {
        let (memory, _, _) = watched(0);
        let pages = memory.pages();
        let early = pages.now();
        spend(Duration::from_micros(50));
        assert!(pages.now() >= early + Duration::from_micros(49));
        memory.set_charging(false);
        let stopped = pages.now();
        spend(Duration::from_micros(50));
        assert_eq!(pages.now(), stopped);
        memory.set_charging(true);
        spend(Duration::from_micros(50));
        assert!(pages.now() > stopped);
    }
}
