//! Threads that run the workers of one map or of many.
//!
//! Invariants: a worker is in at most one step at a time. A wake-up is never lost: one that arrives
//! during a step makes the next step ready. A thread without work sleeps until the earliest timer,
//! or until it is woken. Nothing of a map (steps, workers, the tree) runs or is dropped under the
//! lock. The workers' clock stands still during a pause of their map, and so do their timers.
//!
//! A pool has threads and one lock; each map adds a few entries to it and no thread or descriptor.

use std::any::Any;
use std::cell::Cell;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::{Next, Waker, Worker, lock};
use crate::Placed;

thread_local! {
    /// Whether this is a thread of a pool.
    static SERVES: Cell<bool> = const { Cell::new(false) };
}

/// Threads, which end when the pool is dropped.
pub struct Pool {
    pub shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// What the threads of a pool, its maps and their wakers share.
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

#[derive(Default)]
struct State {
    maps: HashMap<u64, Map>,
    last: u64,
    ready: VecDeque<TaskId>,
    timers: BTreeSet<(Instant, TaskId)>,
    /// Trees of maps that were stopped, for a last [`reclaim`](crate::Relocate::reclaim).
    farewells: VecDeque<(u64, Arc<dyn Placed>)>,
    is_closed: bool,
}

/// The workers of one map.
struct Map {
    /// When the workers started; later by the length of each pause since.
    start: Instant,
    /// `None` once it is stopped.
    tree: Option<Arc<dyn Placed>>,
    workers: Vec<Task>,
    /// When the pause began, if the map is paused.
    paused: Option<Instant>,
    /// Workers that are in a step.
    inside: usize,
    panic: Option<String>,
}

struct Task {
    name: &'static str,
    waker: Waker,
    due: Due,
    /// `None` during a step, and once the map is stopped.
    worker: Option<Box<dyn Worker>>,
    cpu: Duration,
}

/// When a worker's next step is due.
#[derive(Clone, Copy)]
enum Due {
    /// When it is woken.
    Never,
    /// At this time, or when it is woken. While the map is paused, no timer is set for it.
    At(Instant),
    /// Now: it is in the queue, or the map is paused.
    Now,
    /// A step runs.
    Running,
}

/// A worker and a tree for a step, and when the workers started.
type Step = (Box<dyn Worker>, Arc<dyn Placed>, Instant);

/// Workers and a tree that are to be dropped without the lock.
type Garbage = (Vec<Box<dyn Worker>>, Option<Arc<dyn Placed>>);

impl Pool {
    /// As many threads. An error means that the system refused one.
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

impl State {
    /// A map; it is there from [`Shared::add`] to [`Shared::remove`].
    fn map(&mut self, map: u64) -> &mut Map {
        self.maps.get_mut(&map).expect("a map of this pool")
    }

    /// Queues the workers whose time has come.
    fn expire(&mut self, now: Instant) {
        while let Some(&(at, id)) = self.timers.first()
            && at <= now
        {
            self.timers.pop_first();
            self.make_ready(id);
        }
    }

    /// Queues a worker that waits. Returns whether it did wait.
    fn make_ready(&mut self, id: TaskId) -> bool {
        let Some(map) = self.maps.get_mut(&id.0) else {
            return false;
        };
        let due = &mut map.workers[id.1].due;
        match *due {
            Due::Never => {}
            Due::At(at) => drop(self.timers.remove(&(at, id))),
            Due::Now | Due::Running => return false,
        }
        *due = Due::Now;
        self.ready.push_back(id);
        true
    }

    /// Takes a worker into a step, unless its map is paused or stopped.
    fn begin(&mut self, id: TaskId) -> Option<Step> {
        let map = self.maps.get_mut(&id.0)?;
        if map.paused.is_some() {
            return None;
        }
        let tree = map.tree.clone()?;
        let task = &mut map.workers[id.1];
        if !matches!(task.due, Due::Now) {
            // A second entry of the queue, which a pause may leave.
            return None;
        }
        let worker = task.worker.take()?;
        task.due = Due::Running;
        task.waker.take();
        map.inside += 1;
        Some((worker, tree, map.start))
    }

    /// Stops the timers of a map.
    fn pause(&mut self, map: u64, now: Instant) {
        let State { maps, timers, .. } = self;
        let paused = maps.get_mut(&map).expect("a map of this pool");
        paused.paused = Some(now);
        for (number, task) in paused.workers.iter().enumerate() {
            if let Due::At(at) = task.due {
                timers.remove(&(at, (map, number)));
            }
        }
    }

    /// Sets the timers of a map again, later by the length of the pause.
    fn resume(&mut self, map: u64, now: Instant) {
        let State {
            maps,
            timers,
            ready,
            ..
        } = self;
        let resumed = maps.get_mut(&map).expect("a map of this pool");
        let Some(since) = resumed.paused.take() else {
            return;
        };
        let pause = now.saturating_duration_since(since);
        resumed.start += pause;
        for (number, task) in resumed.workers.iter_mut().enumerate() {
            let id = (map, number);
            match &mut task.due {
                Due::At(at) => {
                    *at += pause;
                    timers.insert((*at, id));
                }
                Due::Now => ready.push_back(id),
                Due::Never | Due::Running => {}
            }
        }
    }

    /// Decides when a worker whose step has ended takes the next one.
    fn schedule(&mut self, id: TaskId, next: Next) {
        let map = self.map(id.0);
        // A step that ends during a pause ends when the pause began.
        let (now, is_paused) = (map.paused.unwrap_or_else(clock), map.paused.is_some());
        let task = &mut map.workers[id.1];
        task.due = match next {
            Next::After(time) => now.checked_add(time).map_or(Due::Never, Due::At),
            Next::WhenWoken => Due::Never,
        };
        if task.waker.is_woken() {
            self.make_ready(id);
        } else if let Due::At(at) = task.due
            && !is_paused
        {
            self.timers.insert((at, id));
        }
    }

    /// Lets no worker of a map begin another step.
    fn end(&mut self, map: u64) -> Garbage {
        let State { maps, timers, .. } = self;
        let ended = maps.get_mut(&map).expect("a map of this pool");
        let take = |(number, task): (usize, &mut Task)| {
            if let Due::At(at) = task.due {
                timers.remove(&(at, (map, number)));
                task.due = Due::Never;
            }
            task.worker.take()
        };
        let workers = ended.workers.iter_mut().enumerate().filter_map(take);
        (workers.collect(), ended.tree.take())
    }
}

/// Reclaims what this thread's steps have retired. Nobody else can: it waits in the thread.
fn reclaim(tree: Arc<dyn Placed>) {
    // A placement may panic at what is freed; this thread serves others, too.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeTree;

    struct Idle(Waker);

    impl Worker for Idle {
        fn name(&self) -> &'static str {
            "idle"
        }

        fn waker(&self) -> Waker {
            self.0.clone()
        }

        fn step(&mut self, _: &dyn Placed, _: Duration) -> Next {
            Next::WhenWoken
        }
    }

    /// Found by slices of 0.6 s: each began with an overdue scan and an overdue cooling, since
    /// timers ran on while other maps had their turns.
    #[test]
    fn the_workers_clock_stands_still_during_a_pause() {
        const MINUTE: Duration = Duration::from_secs(60);
        // Nobody takes steps but this test.
        let pool = Pool::new("", 0).unwrap();
        let idle = || -> Box<dyn Worker> { Box::new(Idle(Waker::new())) };
        let tree = Arc::new(FakeTree::uniform(2, 2, 9));
        let map = pool.shared.add(vec![idle(), idle()], tree);
        let mut state = lock(&pool.shared.state);
        for number in 0..2 {
            let (worker, _, start) = state.begin((map, number)).unwrap();
            let task = &mut state.map(map).workers[number];
            task.worker = Some(worker);
            task.due = Due::At(start + MINUTE);
            state.map(map).inside -= 1;
            state.timers.insert((start + MINUTE, (map, number)));
        }
        state.ready.clear();
        let start = state.map(map).start;

        state.pause(map, start + MINUTE / 2);
        state.expire(start + 10 * MINUTE);
        assert!(state.ready.is_empty() && state.timers.is_empty());
        // Nor does one begin that is woken meanwhile.
        assert!(state.make_ready((map, 1)));
        let woken = state.ready.pop_front().unwrap();
        assert!(state.begin(woken).is_none());

        // The pause took ten minutes: half a minute is left of the first timer.
        state.resume(map, start + MINUTE / 2 + 10 * MINUTE);
        assert_eq!(state.map(map).start, start + 10 * MINUTE);
        assert_eq!(state.ready, [(map, 1)]);
        state.ready.clear();
        state.expire(start + 11 * MINUTE - Duration::from_nanos(1));
        assert!(state.ready.is_empty());
        state.expire(start + 11 * MINUTE);
        assert_eq!(state.ready, [(map, 0)]);

        // A step that ends during a pause: its wait begins with the resumption.
        state.ready.clear();
        state.map(map).workers[1].due = Due::Running;
        state.pause(map, start + 11 * MINUTE);
        state.schedule((map, 1), Next::After(MINUTE));
        assert!(state.timers.is_empty());
        state.resume(map, start + 20 * MINUTE);
        let timers: Vec<_> = state.timers.iter().copied().collect();
        assert_eq!(timers, [(start + 21 * MINUTE, (map, 1))]);
    }
}
