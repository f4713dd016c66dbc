//! The workers of placements, and the threads that run them.
//!
//! Workers are handed the time and read no clock, so a test steps them by hand with a time of its
//! own. Invariants:
//!
//! - a worker is in at most one step at a time, and in none between [`Workers::pause`] and
//!   [`Workers::resume`], nor after [`Workers::stop`];
//! - a wake-up is never lost: one that arrives during a step starts the next step at once;
//! - a stop interrupts any wait;
//! - a panic ends all workers of its map, each after its current step, and none of another map: a
//!   placement that lacks one of its workers does not work. [`Workers::panicked`] returns the
//!   message. The tree stays as it is, and correct.

mod pool;
mod waker;

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::Placed;
use pool::Pool;

pub use pool::thread_cpu_time;
pub use waker::Waker;

/// When a worker wants its next step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// This long after the end of the step, or when woken.
    After(Duration),
    /// Only when woken.
    WhenWoken,
}

/// One kind of background work. The first step comes at once, without a wake-up.
pub trait Worker: Send {
    /// Its name in messages.
    fn name(&self) -> &'static str;

    /// The handle that wakes it. Called once, before the first step.
    fn waker(&self) -> Waker {
        Waker::new()
    }

    /// Does a bounded piece of work. `now` is the time since the workers started, without pauses. A
    /// stop or a pause waits for the end of the step, and so may workers of other maps: cut long
    /// work into several.
    fn step(&mut self, tree: &dyn Placed, now: Duration) -> Next;
}

/// The running workers of one map. Dropping it stops them.
pub struct Workers {
    pool: Arc<Pool>,
    /// Their map in the pool.
    map: u64,
    /// Whether the pool serves this map only.
    owns: bool,
}

impl Workers {
    /// Starts workers with as many threads. An error means that the system refused a thread.
    pub fn start(workers: Vec<Box<dyn Worker>>, tree: Arc<dyn Placed>) -> io::Result<Self> {
        let name = workers.first().map_or("", |worker| worker.name());
        let pool = Pool::new(name, workers.len())?;
        Ok(Self::on(pool, workers, tree, true))
    }

    /// Starts workers on the one thread that all maps of the process share. The thread starts with
    /// the first map and ends with the last. An error means that the system refused it.
    pub fn shared(workers: Vec<Box<dyn Worker>>, tree: Arc<dyn Placed>) -> io::Result<Self> {
        Ok(Self::on(Pool::of_process()?, workers, tree, false))
    }

    fn on(
        pool: Arc<Pool>,
        workers: Vec<Box<dyn Worker>>,
        tree: Arc<dyn Placed>,
        owns: bool,
    ) -> Self {
        let map = pool.shared.add(workers, tree);
        Self { pool, map, owns }
    }

    /// Wakes the worker of this name; false where there is none.
    pub fn wake(&self, name: &str) -> bool {
        let workers = self.pool.shared.workers(self.map);
        let found = workers.iter().find(|worker| worker.0 == name);
        if let Some((_, waker, _)) = found {
            waker.wake();
        }
        found.is_some()
    }

    /// Returns once no worker is in a step; none begins one before [`Self::resume`]. The workers'
    /// clock and timers stand still meanwhile. A worker must not call it.
    pub fn pause(&self) {
        self.pool.shared.pause(self.map);
    }

    /// Ends a pause; wake-ups of the meantime were kept.
    pub fn resume(&self) {
        self.pool.shared.resume(self.map);
    }

    /// Ends all workers, each after its current step, and waits for them. A worker must not call
    /// it.
    pub fn stop(&mut self) {
        self.pool.shared.stop(self.map, !self.owns);
        if self.owns {
            self.pool.close();
        }
    }

    /// The CPU time of each worker's steps so far, also after [`Self::stop`].
    pub fn cpu_time(&self) -> Vec<(&'static str, Duration)> {
        let workers = self.pool.shared.workers(self.map).into_iter();
        workers.map(|(name, _, cpu)| (name, cpu)).collect()
    }

    /// The first worker that panicked, and its message. No worker of this map takes another step
    /// after that.
    pub fn panicked(&self) -> Option<String> {
        self.pool.shared.panicked(self.map)
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.stop();
        self.pool.shared.remove(self.map);
    }
}

/// Takes a lock that a panicking worker may have left poisoned: what these locks guard is whole at
/// every moment.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::panic;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::thread;

    use super::*;
    use crate::fake::FakeTree;

    const HOUR: Duration = Duration::from_secs(3600);

    /// Reports each step and does as told.
    struct Probe<F> {
        waker: Waker,
        act: F,
    }

    impl<F: FnMut() -> Next + Send> Worker for Probe<F> {
        fn name(&self) -> &'static str {
            "probe"
        }

        fn waker(&self) -> Waker {
            self.waker.clone()
        }

        fn step(&mut self, _: &dyn Placed, _: Duration) -> Next {
            (self.act)()
        }
    }

    fn probe(act: impl FnMut() -> Next + Send + 'static) -> Box<dyn Worker> {
        let waker = Waker::new();
        Box::new(Probe { waker, act })
    }

    fn reporting(next: Next) -> (Box<dyn Worker>, Receiver<()>) {
        let (report, steps): (Sender<()>, _) = channel();
        let act = move || {
            report.send(()).unwrap();
            next
        };
        (probe(act), steps)
    }

    fn start(workers: Vec<Box<dyn Worker>>) -> Workers {
        Workers::start(workers, Arc::new(FakeTree::uniform(2, 2, 9))).unwrap()
    }

    #[test]
    fn stops_in_the_middle_of_a_long_wait() {
        let (timed, timed_steps) = reporting(Next::After(HOUR));
        let (woken, woken_steps) = reporting(Next::WhenWoken);
        let mut workers = start(vec![timed, woken]);
        timed_steps.recv().unwrap();
        woken_steps.recv().unwrap();
        workers.stop();
        assert!(timed_steps.recv().is_err(), "the worker is gone");
        assert!(woken_steps.recv().is_err(), "the worker is gone");
        workers.stop();
    }

    #[test]
    fn stops_while_paused() {
        let (worker, steps) = reporting(Next::After(Duration::ZERO));
        let workers = start(vec![worker]);
        steps.recv().unwrap();
        workers.pause();
        drop(workers);
    }

    #[test]
    fn a_wake_up_cuts_the_wait_short() {
        let (worker, steps) = reporting(Next::After(HOUR));
        let waker = worker.waker();
        let workers = start(vec![worker]);
        steps.recv().unwrap();
        waker.wake();
        steps.recv().unwrap();
        assert!(workers.wake("probe"));
        steps.recv().unwrap();
        assert!(!workers.wake("nobody"));
    }

    #[test]
    fn a_wake_up_during_a_step_is_kept() {
        let (report, steps) = channel();
        let (go, gone) = channel();
        let act = move || {
            report.send(()).unwrap();
            gone.recv().unwrap();
            Next::WhenWoken
        };
        let workers = start(vec![probe(act)]);
        steps.recv().unwrap();
        workers.wake("probe");
        go.send(()).unwrap();
        steps.recv().unwrap();
        go.send(()).unwrap();
    }

    #[test]
    fn a_pause_excludes_steps() {
        let inside = Arc::new(AtomicBool::new(false));
        let (report, steps) = channel();
        let act = {
            let inside = inside.clone();
            move || {
                inside.store(true, Ordering::SeqCst);
                thread::yield_now();
                inside.store(false, Ordering::SeqCst);
                let _ = report.send(());
                Next::After(Duration::ZERO)
            }
        };
        let workers = start(vec![probe(act)]);
        for _ in 0..100 {
            steps.recv().unwrap();
            workers.pause();
            assert!(!inside.load(Ordering::SeqCst));
            while steps.try_recv().is_ok() {}
            thread::yield_now();
            assert!(steps.try_recv().is_err(), "no step while paused");
            workers.resume();
        }
    }

    #[test]
    fn a_panic_is_reported_and_ends_all() {
        let (worker, steps) = reporting(Next::WhenWoken);
        let waker = worker.waker();
        let (go, gone) = channel::<()>();
        let act = move || {
            gone.recv().unwrap();
            // Unwinds as a panic does, without printing one.
            panic::resume_unwind(Box::new("out of luck"))
        };
        let mut workers = start(vec![worker, probe(act)]);
        steps.recv().unwrap();
        assert_eq!(workers.panicked(), None);
        go.send(()).unwrap();
        while workers.panicked().is_none() {
            thread::yield_now();
        }
        assert_eq!(workers.panicked().unwrap(), "probe: out of luck");
        // The other worker takes no further step, and nothing waits for it.
        waker.wake();
        assert!(steps.recv().is_err(), "the worker is gone");
        workers.pause();
        workers.resume();
        workers.stop();
        assert_eq!(workers.panicked().unwrap(), "probe: out of luck");
    }

    #[test]
    fn cpu_time_is_counted_and_kept() {
        let mut rounds = 0_u64;
        let (report, steps) = channel();
        let act = move || {
            for _ in 0..100_000 {
                rounds = std::hint::black_box(rounds + 1);
            }
            let _ = report.send(());
            Next::After(Duration::ZERO)
        };
        let mut workers = start(vec![probe(act)]);
        // Enough work for a kernel that counts by ticks; one that does not count at all leaves
        // zero.
        let busy = |_: &()| workers.cpu_time()[0].1.is_zero();
        steps.iter().take(2000).take_while(busy).for_each(drop);
        let running = workers.cpu_time()[0].1;
        workers.stop();
        let (name, stopped) = workers.cpu_time()[0];
        assert_eq!(name, "probe");
        assert!(stopped >= running);
    }

    /// All maps of the process are here, also those of tests that run beside this one.
    #[test]
    fn many_maps_share_one_thread() {
        let (report, steps) = channel();
        let maps: Vec<_> = (0..2_000)
            .map(|map| {
                let report = report.clone();
                let act = move || {
                    let _ = report.send((map, thread::current().id()));
                    Next::WhenWoken
                };
                let tree = Arc::new(FakeTree::uniform(2, 2, 9));
                Workers::shared(vec![probe(act)], tree).unwrap()
            })
            .collect();
        let mut steps_of = vec![0; maps.len()];
        let mut threads = std::collections::HashSet::new();
        let mut wait = |steps_of: &mut Vec<usize>| {
            for (map, thread) in steps.iter().take(2_000) {
                steps_of[map] += 1;
                threads.insert(thread);
            }
        };
        wait(&mut steps_of);
        assert!(steps_of.iter().all(|&steps| steps == 1));
        for map in &maps {
            assert!(map.wake("probe"));
        }
        wait(&mut steps_of);
        assert!(steps_of.iter().all(|&steps| steps == 2));
        assert_eq!(threads.len(), 1);
        assert!(!threads.contains(&thread::current().id()));
    }

    #[test]
    fn maps_that_share_a_thread_pause_stop_and_panic_alone() {
        let shared =
            |worker| Workers::shared(vec![worker], Arc::new(FakeTree::uniform(2, 2, 9))).unwrap();
        let (worker, paused_steps) = reporting(Next::After(Duration::ZERO));
        let paused = shared(worker);
        let (worker, idle_steps) = reporting(Next::After(HOUR));
        let idle = shared(worker);
        let (worker, steps) = reporting(Next::WhenWoken);
        let lively = shared(worker);
        let clumsy = shared(probe(|| panic::resume_unwind(Box::new("out of luck"))));
        while clumsy.panicked().is_none() {
            thread::yield_now();
        }
        for steps in [&paused_steps, &idle_steps, &steps] {
            steps.recv().unwrap();
        }
        paused.pause();
        while paused_steps.try_recv().is_ok() {}
        drop(idle);
        assert!(idle_steps.recv().is_err(), "the worker is gone");
        for _ in 0..100 {
            lively.wake("probe");
            steps.recv().unwrap();
        }
        assert!(paused_steps.try_recv().is_err(), "no step while paused");
        assert_eq!(lively.panicked(), None);
        paused.resume();
        paused_steps.recv().unwrap();
        // Drops while paused do not wait, either.
        paused.pause();
        drop(paused);
        drop(clumsy);
    }

    #[test]
    fn a_wake_up_during_a_pause_is_kept() {
        let (worker, steps) = reporting(Next::WhenWoken);
        let workers = start(vec![worker]);
        steps.recv().unwrap();
        workers.pause();
        workers.wake("probe");
        workers.wake("probe");
        workers.resume();
        steps.recv().unwrap();
        workers.pause();
        assert!(steps.try_recv().is_err(), "two wake-ups, one step");
    }

    /// Found by `a_worker_that_panics_leaves_a_map_in_which_nothing_moves`: garbage that a step
    /// retires waits in its thread, and the shared thread outlives the map.
    #[test]
    fn the_shared_thread_reclaims_before_a_map_is_gone() {
        let (report, steps) = channel();
        let act = move || {
            report.send(thread::current().id()).unwrap();
            Next::WhenWoken
        };
        let tree = Arc::new(FakeTree::uniform(2, 2, 9));
        let mut workers = Workers::shared(vec![probe(act)], tree.clone()).unwrap();
        let thread = steps.recv().unwrap();
        workers.stop();
        assert_eq!(*lock(&tree.reclaimed_by), Some(thread));
        let tree = Arc::new(FakeTree::uniform(2, 2, 9));
        let clumsy = probe(|| panic::resume_unwind(Box::new("out of luck")));
        let clumsy = Workers::shared(vec![clumsy], tree.clone()).unwrap();
        while clumsy.panicked().is_none() {
            thread::yield_now();
        }
        assert!(lock(&tree.reclaimed_by).is_some());
    }
}
