//! The maps of a pool and the schedule of their workers, all under one lock.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{TaskId, clock};
use crate::Placed;
use crate::workers::{Next, Waker, Worker};

#[derive(Default)]
pub struct State {
    pub maps: HashMap<u64, Map>,
    pub last: u64,
    pub ready: VecDeque<TaskId>,
    pub timers: BTreeSet<(Instant, TaskId)>,
    /// Trees of maps that were stopped, for a last [`reclaim`](crate::Relocate::reclaim).
    pub farewells: VecDeque<(u64, Arc<dyn Placed>)>,
    pub is_closed: bool,
}

/// The workers of one map.
pub struct Map {
    /// When the workers started; later by the length of each pause since.
    pub start: Instant,
    /// `None` once it is stopped.
    pub tree: Option<Arc<dyn Placed>>,
    pub workers: Vec<Task>,
    /// When the pause began, if the map is paused.
    pub paused: Option<Instant>,
    /// Workers that are in a step.
    pub inside: usize,
    pub panic: Option<String>,
}

pub struct Task {
    pub name: &'static str,
    pub waker: Waker,
    pub due: Due,
    /// `None` during a step, and once the map is stopped.
    pub worker: Option<Box<dyn Worker>>,
    pub cpu: Duration,
}

/// When a worker's next step is due.
#[derive(Clone, Copy)]
pub enum Due {
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
pub type Step = (Box<dyn Worker>, Arc<dyn Placed>, Instant);

/// Workers and a tree that are to be dropped without the lock.
pub type Garbage = (Vec<Box<dyn Worker>>, Option<Arc<dyn Placed>>);

impl State {
    /// A map; it is there from [`Shared::add`] to [`Shared::remove`].
    pub fn map(&mut self, map: u64) -> &mut Map {
        self.maps.get_mut(&map).expect("a map of this pool")
    }

    /// Queues the workers whose time has come.
    pub fn expire(&mut self, now: Instant) {
        while let Some(&(at, id)) = self.timers.first()
            && at <= now
        {
            self.timers.pop_first();
            self.make_ready(id);
        }
    }

    /// Queues a worker that waits. Returns whether it did wait.
    pub fn make_ready(&mut self, id: TaskId) -> bool {
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
    pub fn begin(&mut self, id: TaskId) -> Option<Step> {
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
    pub fn pause(&mut self, map: u64, now: Instant) {
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
    pub fn resume(&mut self, map: u64, now: Instant) {
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
    pub fn schedule(&mut self, id: TaskId, next: Next) {
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
    pub fn end(&mut self, map: u64) -> Garbage {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeTree;
    use crate::workers::lock;
    use crate::workers::pool::Pool;

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
        // Only this test takes steps.
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
        // A worker that is woken meanwhile does not begin either.
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
