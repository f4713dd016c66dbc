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

/// Why a page is reported.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PageEvent {
    /// An armed page was accessed.
    Fault,
    /// One of its missing lines was sampled.
    Sample,
}

/// Receives the events of marked pages, as a kernel receives faults and its processor's samples.
pub trait PageWatch: Send + Sync {
    /// A line of `page` missed at `now` (as [`PageMap::now`]). Returns the delay of the thread that
    /// read it, in nanoseconds, which is charged to that thread. It makes this call after its
    /// access, so a page that moves now is in its new tier from the next access on.
    fn on_event(&self, page: usize, event: PageEvent, now: Duration) -> u64;
}

/// The time for which accesses were charged. It stops while charging is off.
#[derive(Clone)]
pub(super) struct ChargingClock {
    tsc: Tsc,
    times: Arc<Times>,
}

struct Times {
    /// Ticks in the periods of charging that are over.
    before: AtomicU64,
    /// The start of the current period; 0 while charging is off.
    since: AtomicU64,
}

impl ChargingClock {
    /// Starts a clock.
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

    /// Starts or stops the clock. One thread at a time may call this.
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

/// Spins for `time`, as if this thread's work had taken that long.
pub fn spend(time: Duration) {
    let tsc = Tsc::get();
    tsc.spin(tsc.now(), time.as_nanos() as u64 * 1000);
}

impl Emulated {
    /// A handle to the pages.
    pub fn pages(&self) -> PageMap {
        self.pages.clone()
    }

    /// Reports events of marked pages to `watch` from now on. Only the first call has an effect.
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
        if self.pages.set_accessed(page) {
            thread.events.push((page, PageEvent::Fault));
        }
        if is_counted {
            let interval = self.pages.sample_interval();
            thread.until_sample = thread.until_sample.min(interval).saturating_sub(1);
            if thread.until_sample == 0 {
                thread.until_sample = interval;
                thread.events.push((page, PageEvent::Sample));
            }
        }
    }

    /// Reports the noted events and charges the delays. It does not borrow the thread's state
    /// during a report, so the watch may read this memory.
    #[cold]
    #[inline(never)]
    pub(super) fn report(&self) {
        let now = self.pages.now();
        while let Some((page, event)) = thread::with(|thread| thread.events.pop()).flatten() {
            let held_up = self
                .watch
                .get()
                .map_or(0, |watch| watch.on_event(page, event, now));
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

    /// Records the events, and delays each thread by this many nanoseconds.
    struct Recorder(Mutex<Vec<(usize, PageEvent)>>, u64);

    impl PageWatch for Recorder {
        fn on_event(&self, page: usize, event: PageEvent, _: Duration) -> u64 {
            self.0.lock().unwrap().push((page, event));
            self.1
        }
    }

    impl Recorder {
        fn take(&self) -> Vec<(usize, PageEvent)> {
            std::mem::take(&mut self.0.lock().unwrap())
        }
    }

    fn memory() -> Emulated {
        let arenas = Arenas::new(&ArenasConfig::two_tiers(4 << 20, 4 << 20)).unwrap();
        Emulated::new(arenas, Profile::parse("cxl").unwrap(), Base::default())
    }

    fn watched(held_up_ns: u64) -> (Emulated, Arc<Recorder>, usize) {
        let memory = memory();
        let recorder = Arc::new(Recorder(Mutex::default(), held_up_ns));
        memory.watch_pages(recorder.clone());
        set_thread_cache(Default::default());
        let slow = memory.arenas().range_of(TierId::SLOW).start;
        (memory, recorder, slow)
    }

    fn counted(work: impl FnOnce()) -> LineCounts {
        let before = thread_counts();
        work();
        thread_counts() - before
    }

    #[test]
    fn an_armed_page_is_reported_once_and_its_reader_held_up() {
        let (memory, recorder, slow) = watched(1_000);
        let page = memory.page_of(slow);
        memory.pages().arm(page, true);
        let first = counted(|| memory.charge_access(slow, 2 * LINE));
        assert_eq!(recorder.take(), [(page, PageEvent::Fault)]);
        assert_eq!(first.charged_ps, 110_000 + 4_000 + 1_000_000);
        let second = counted(|| memory.charge_access(slow + 2 * LINE, LINE));
        assert_eq!((recorder.take(), second.charged_ps), (vec![], 110_000));
        memory.pages().arm(page, true);
        memory.charge_access(slow, LINE);
        assert_eq!(recorder.take(), [], "it was in the cache");
        memory.prefetch(slow + 8 * LINE, LINE);
        assert_eq!(recorder.take(), [(page, PageEvent::Fault)]);
    }

    #[test]
    fn marks_stay_where_the_page_goes() {
        let (memory, recorder, slow) = watched(0);
        let (pages, page) = (memory.pages(), memory.page_of(slow));
        pages.arm(page, true);
        pages.set_tier(page, TierId::FAST);
        let lines = counted(|| memory.charge_access(slow, LINE));
        assert_eq!((lines.fast, lines.slow, lines.charged_ps), (1, 0, 0));
        assert_eq!(recorder.take(), [(page, PageEvent::Fault)]);
        pages.arm(page, true);
        pages.arm(page, false);
        memory.charge_access(slow + LINE, LINE);
        assert_eq!(recorder.take(), []);
    }

    #[test]
    fn an_access_is_seen_once_the_bit_was_cleared() {
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
    fn one_missing_line_of_each_interval_is_a_sample() {
        let (memory, recorder, slow) = watched(0);
        let (pages, page) = (memory.pages(), memory.page_of(slow));
        pages.count(page, true);
        pages.sample_every(5);
        memory.charge_access(slow, 12 * LINE);
        assert_eq!(recorder.take(), [(page, PageEvent::Sample); 2]);
        memory.charge_access(slow + super::super::PAGE, 12 * LINE);
        assert_eq!(recorder.take(), [], "it is not counted");
        memory.charge_access(slow + 12 * LINE, 3 * LINE);
        assert_eq!(recorder.take(), [(page, PageEvent::Sample)]);
        pages.sample_every(2);
        memory.charge_access(slow + 15 * LINE, 4 * LINE);
        assert_eq!(recorder.take(), [(page, PageEvent::Sample); 2]);
    }

    #[test]
    fn a_watch_may_read() {
        // Weak, as the memory owns its watch.
        struct Reads(std::sync::OnceLock<(std::sync::Weak<Emulated>, usize)>);
        impl PageWatch for Reads {
            fn on_event(&self, page: usize, _: PageEvent, _: Duration) -> u64 {
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
