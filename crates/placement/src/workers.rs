//! The threads of a placement: each runs one worker, again and again, until stopped.
//!
//! This is the only file of the room that reads a clock: workers are handed the time, so a test
//! steps them by hand with a time of its own. Invariants:
//!
//! - a worker is inside at most one step at a time, and inside none between [`Workers::pause`] and
//!   [`Workers::resume`], nor after [`Workers::stop`];
//! - a wake-up is never lost: one that arrives during a step starts the next step at once;
//! - nothing sleeps blindly: stopping interrupts any wait;
//! - a panic ends all of them, each after its current step, as what is left of a placement without one of its workers is none;
//!   [`Workers::panicked`] tells. The tree stays as it is, and correct.

mod cpu;
mod gate;
mod waker;

use std::any::Any;
use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::Placed;
use cpu::CpuClock;
use gate::Gate;

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
    /// The name of its thread; the system shows the first 15 bytes.
    fn name(&self) -> &'static str;

    /// The handle that wakes it; asked for once, before the first step.
    fn waker(&self) -> Waker {
        Waker::new()
    }

    /// Does a bounded piece of work. `now` is the time since the workers started. A stop or a
    /// pause waits for the end of the step, so long work is better cut into several.
    fn step(&mut self, tree: &dyn Placed, now: Duration) -> Next;
}

struct Shared {
    start: Instant,
    gate: Gate,
    panics: Mutex<Vec<String>>,
}

struct Thread {
    name: &'static str,
    waker: Waker,
    cpu: Arc<CpuClock>,
    handle: Option<JoinHandle<()>>,
}

/// Running workers. Dropping it stops them.
pub struct Workers {
    shared: Arc<Shared>,
    threads: Vec<Thread>,
}

impl Workers {
    /// Starts a thread for each worker. An error means that the system refused a thread; those
    /// already started are stopped again.
    #[expect(
        clippy::disallowed_methods,
        reason = "the one clock, which workers are told"
    )]
    pub fn start(workers: Vec<Box<dyn Worker>>, tree: Arc<dyn Placed>) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            start: Instant::now(),
            gate: Gate::default(),
            panics: Mutex::default(),
        });
        let threads = Vec::with_capacity(workers.len());
        let mut started = Self { shared, threads };
        for worker in workers {
            let (name, waker) = (worker.name(), worker.waker());
            let cpu = Arc::new(CpuClock::default());
            let run = {
                let (shared, waker) = (started.shared.clone(), waker.clone());
                let (tree, cpu) = (tree.clone(), cpu.clone());
                move || {
                    cpu.open();
                    shared.run(worker, &waker, &*tree);
                    cpu.close();
                }
            };
            let handle = Some(thread::Builder::new().name(name.into()).spawn(run)?);
            started.threads.push(Thread {
                name,
                waker,
                cpu,
                handle,
            });
        }
        Ok(started)
    }

    /// Wakes the worker of this name; false where there is none.
    pub fn wake(&self, name: &str) -> bool {
        let found = self.threads.iter().find(|thread| thread.name == name);
        if let Some(thread) = found {
            thread.waker.wake();
        }
        found.is_some()
    }

    /// Returns once no worker is inside a step; none begins one before [`Self::resume`]. Must not
    /// be called by a worker.
    pub fn pause(&self) {
        self.shared.gate.pause();
    }

    /// Lets the workers go on; wake-ups of the meantime were kept.
    pub fn resume(&self) {
        self.shared.gate.set(|gate| gate.paused = false);
    }

    /// Ends all workers, each after its current step, and waits for them. They stay ended.
    pub fn stop(&mut self) {
        self.shared.gate.set(|gate| gate.stopped = true);
        for thread in &self.threads {
            thread.waker.stop();
        }
        for thread in &mut self.threads {
            if let Some(handle) = thread.handle.take() {
                // A panic in a step was caught and recorded; there is no other.
                let _ = handle.join();
            }
        }
    }

    /// What each worker has used of a CPU since its start; also after [`Self::stop`]. Zero where
    /// the system does not tell.
    pub fn cpu_time(&self) -> Vec<(&'static str, Duration)> {
        let time = |thread: &Thread| Duration::from_nanos(thread.cpu.nanoseconds());
        let threads = self.threads.iter();
        threads.map(|thread| (thread.name, time(thread))).collect()
    }

    /// The first worker that panicked, and its message. From then on no worker takes another step.
    pub fn panicked(&self) -> Option<String> {
        lock(&self.shared.panics).first().cloned()
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    fn run(&self, mut worker: Box<dyn Worker>, waker: &Waker, tree: &dyn Placed) {
        while self.gate.enter() {
            let now = self.start.elapsed();
            // Whatever a panicking worker broke is its own, or behind locks that survive it.
            let step = panic::catch_unwind(AssertUnwindSafe(|| worker.step(tree, now)));
            let next = step.map_err(|payload| {
                let panic = format!("{}: {}", worker.name(), message(&*payload));
                self.gate.set(|gate| gate.stopped = true);
                lock(&self.panics).push(panic);
            });
            self.gate.leave();
            match next {
                Ok(next) if waker.wait(next) => {}
                _ => return,
            }
        }
    }
}

fn message(payload: &(dyn Any + Send)) -> &str {
    let literal = payload.downcast_ref::<&str>().copied();
    let formatted = || payload.downcast_ref::<String>().map(String::as_str);
    literal
        .or_else(formatted)
        .unwrap_or("a panic without a message")
}

/// Takes a lock that a panicking worker may have left poisoned: what these locks guard is whole
/// at every moment.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc::{Receiver, Sender, channel};

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
        // The other one steps no more, and nobody waits for anyone.
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
        // Enough work for a kernel that counts by ticks; one that does not count at all leaves zero.
        let busy = |_: &()| workers.cpu_time()[0].1.is_zero();
        steps.iter().take(2000).take_while(busy).for_each(drop);
        let running = workers.cpu_time()[0].1;
        workers.stop();
        let (name, stopped) = workers.cpu_time()[0];
        assert_eq!(name, "probe");
        assert!(stopped >= running);
    }
}
