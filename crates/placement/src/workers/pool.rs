//! Threads that run the workers of one map or of many.
//!
//! Invariants: a worker is in at most one step at a time. A wake-up is never lost: one that arrives
//! during a step makes the next step ready. A thread without work sleeps until the earliest timer,
//! or until it is woken. Nothing of a map (steps, workers, the tree) runs or is dropped under the
//! lock. The workers' clock stands still during a pause of their map, and so do their timers.
//!
//! A pool has threads and one lock; each map adds a few entries to it and no thread or descriptor.

mod state;

use std::any::Any;
use std::cell::Cell;
use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::{Waker, Worker, lock};
use crate::Placed;
use state::{Due, Garbage, Map, State, Task};

thread_local! {
    /// Whether this is a thread of a pool.
    static SERVES: Cell<bool> = const { Cell::new(false) };
}

/// Threads, which end when the pool is dropped.
pub struct Pool {
    pub shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// The shared state of a pool's threads, its maps and their wakers.
#[derive(Default)]
pub struct Shared {
    state: Mutex<State>,
    /// A worker is ready, a timer is new, or the pool was closed.
    work: Condvar,
    /// A step ended.
    idle: Condvar,
}

/// Names a worker: its map, and its number among the map's workers.
pub type TaskId = (u64, usize);

impl Pool {
    /// A pool of this many threads. An error means that the system refused one.
    pub fn new(name: &str, threads: usize) -> io::Result<Arc<Pool>> {
        let pool = Pool {
            shared: Arc::default(),
            threads: Mutex::default(),
        };
        for _ in 0..threads {
            let shared = pool.shared.clone();
            let thread = thread::Builder::new().name(name.into());
            let thread = thread.spawn(move || shared.run())?;
            lock(&pool.threads).push(thread);
        }
        Ok(Arc::new(pool))
    }

    /// The pool of one thread that all maps of the process may share. It ends with the last of
    /// them.
    pub fn of_process() -> io::Result<Arc<Pool>> {
        static POOL: Mutex<Weak<Pool>> = Mutex::new(Weak::new());
        let mut current = lock(&POOL);
        if let Some(pool) = current.upgrade() {
            return Ok(pool);
        }
        let pool = Pool::new("timberline", 1)?;
        *current = Arc::downgrade(&pool);
        Ok(pool)
    }

    /// Ends the threads, and waits for them. A thread that ends leaves no garbage behind.
    pub fn close(&self) {
        lock(&self.shared.state).is_closed = true;
        self.shared.work.notify_all();
        for thread in lock(&self.threads).drain(..) {
            // Panics of steps are caught; there are no others.
            let _ = thread.join();
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    /// Adds a map, whose workers all take a first step at once.
    pub fn add(self: &Arc<Self>, workers: Vec<Box<dyn Worker>>, tree: Arc<dyn Placed>) -> u64 {
        let task = |worker: Box<dyn Worker>| Task {
            name: worker.name(),
            waker: worker.waker(),
            due: Due::Now,
            worker: Some(worker),
            cpu: Duration::ZERO,
        };
        let workers: Vec<_> = workers.into_iter().map(task).collect();
        let wakers: Vec<_> = workers.iter().map(|task| task.waker.clone()).collect();
        let mut state = lock(&self.state);
        state.last += 1;
        let map = state.last;
        let added = Map {
            start: clock(),
            tree: Some(tree),
            workers,
            paused: None,
            inside: 0,
            panic: None,
        };
        state.maps.insert(map, added);
        drop(state);
        for (number, waker) in wakers.iter().enumerate() {
            waker.attach(self, (map, number));
        }
        lock(&self.state)
            .ready
            .extend((0..wakers.len()).map(|number| (map, number)));
        self.work.notify_all();
        map
    }

    /// Makes a worker ready, unless it is in a step: the end of the step looks at its waker.
    pub fn wake(&self, id: TaskId) {
        if lock(&self.state).make_ready(id) {
            self.work.notify_one();
        }
    }

    /// Returns once no worker of a map is in a step; none begins one before [`Self::resume`].
    pub fn pause(&self, map: u64) {
        let mut state = lock(&self.state);
        if state.map(map).paused.is_none() {
            state.pause(map, clock());
        }
        drop(self.wait_until_outside(state, map));
    }

    /// Ends a pause.
    pub fn resume(&self, map: u64) {
        lock(&self.state).resume(map, clock());
        self.work.notify_all();
    }

    /// Ends the workers of a map, and waits for steps that run. If the threads live on
    /// (`reclaims`), one of them reclaims what its steps have retired.
    pub fn stop(self: &Arc<Self>, map: u64, reclaims: bool) {
        let mut state = lock(&self.state);
        let (workers, tree) = state.end(map);
        let mut state = self.wait_until_outside(state, map);
        match tree.filter(|_| reclaims) {
            // A step of another map drops this one: its thread would wait for itself.
            Some(tree) if SERVES.get() => {
                drop(state);
                reclaim(tree);
                state = lock(&self.state);
            }
            Some(tree) => {
                state.map(map).inside += 1;
                state.farewells.push_back((map, tree));
                self.work.notify_one();
                state = self.wait_until_outside(state, map);
            }
            None => {}
        }
        let tasks = state.map(map).workers.iter();
        let wakers: Vec<_> = tasks.map(|task| task.waker.clone()).collect();
        drop(state);
        drop(workers);
        for (number, waker) in wakers.iter().enumerate() {
            waker.detach(self, (map, number));
        }
    }

    /// Forgets a map that was stopped.
    pub fn remove(&self, map: u64) {
        lock(&self.state).maps.remove(&map);
    }

    /// Names, wakers and CPU time of a map's workers.
    pub fn workers(&self, map: u64) -> Vec<(&'static str, Waker, Duration)> {
        let mut state = lock(&self.state);
        let workers = state.map(map).workers.iter();
        workers
            .map(|it| (it.name, it.waker.clone(), it.cpu))
            .collect()
    }

    /// The message of the worker of a map that panicked, if one did.
    pub fn panicked(&self, map: u64) -> Option<String> {
        lock(&self.state).map(map).panic.clone()
    }

    fn wait_until_outside<'s>(
        &'s self,
        state: MutexGuard<'s, State>,
        map: u64,
    ) -> MutexGuard<'s, State> {
        let waited = self
            .idle
            .wait_while(state, |state| state.map(map).inside > 0);
        waited.unwrap_or_else(PoisonError::into_inner)
    }

    /// A thread of the pool.
    fn run(&self) {
        SERVES.set(true);
        let mut state = lock(&self.state);
        while !state.is_closed {
            if let Some((map, tree)) = state.farewells.pop_front() {
                drop(state);
                reclaim(tree);
                state = lock(&self.state);
                state.map(map).inside -= 1;
                self.idle.notify_all();
                continue;
            }
            let now = clock();
            state.expire(now);
            if let Some(id) = state.ready.pop_front() {
                if let Some((worker, tree, start)) = state.begin(id) {
                    drop(state);
                    self.step(id, worker, tree, now.saturating_duration_since(start));
                    state = lock(&self.state);
                }
                continue;
            }
            state = match state.timers.first() {
                Some((at, _)) => {
                    let time = at.saturating_duration_since(now);
                    let waited = self.work.wait_timeout(state, time);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                None => {
                    let waited = self.work.wait(state);
                    waited.unwrap_or_else(PoisonError::into_inner)
                }
            };
        }
    }

    fn step(&self, id: TaskId, mut worker: Box<dyn Worker>, tree: Arc<dyn Placed>, now: Duration) {
        let before = thread_cpu_time();
        // State that a panicking worker broke is its own, or behind locks that survive the panic.
        let step = panic::catch_unwind(AssertUnwindSafe(|| worker.step(&*tree, now)));
        let cpu = thread_cpu_time().saturating_sub(before);
        let step = step.map_err(|payload| format!("{}: {}", worker.name(), message(&*payload)));
        match step {
            Ok(_) => drop(tree),
            Err(_) => reclaim(tree),
        }
        let mut state = lock(&self.state);
        let map = state.map(id.0);
        map.workers[id.1].cpu += cpu;
        let garbage = match step {
            Ok(next) if map.tree.is_some() => {
                map.workers[id.1].worker = Some(worker);
                state.schedule(id, next);
                // This thread may be busy when the timer expires.
                self.work.notify_one();
                None
            }
            Ok(_) => Some((vec![worker], None)),
            Err(panic) => {
                map.panic.get_or_insert(panic);
                let (mut workers, tree) = state.end(id.0);
                workers.push(worker);
                Some((workers, tree))
            }
        };
        if let Some(garbage) = garbage {
            drop(state);
            drop::<Garbage>(garbage);
            state = lock(&self.state);
        }
        state.map(id.0).inside -= 1;
        drop(state);
        self.idle.notify_all();
    }
}

/// Reclaims what this thread's steps have retired. No other thread can: it is in this thread's bag.
fn reclaim(tree: Arc<dyn Placed>) {
    // A placement may panic when a leaf is freed; this thread also serves other maps.
    let _ = panic::catch_unwind(AssertUnwindSafe(|| tree.reclaim()));
}

#[expect(
    clippy::disallowed_methods,
    reason = "the one place that hands out the time"
)]
fn clock() -> Instant {
    Instant::now()
}

/// The time that this thread has been on a CPU.
#[cfg(unix)]
pub fn thread_cpu_time() -> Duration {
    use rustix::time::{ClockId, clock_gettime};
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Elsewhere no memory can be reserved, so that there is no worker.
#[cfg(not(unix))]
pub fn thread_cpu_time() -> Duration {
    Duration::ZERO
}

fn message(payload: &(dyn Any + Send)) -> &str {
    let literal = payload.downcast_ref::<&str>().copied();
    let formatted = || payload.downcast_ref::<String>().map(String::as_str);
    literal
        .or_else(formatted)
        .unwrap_or("a panic without a message")
}
