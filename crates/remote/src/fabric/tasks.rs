//! The executor of a simulation.

use std::collections::{HashSet, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

type Task<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

/// Tasks of a simulation.
#[derive(Default)]
pub struct Tasks<'a> {
    tasks: Vec<Option<Task<'a>>>,
    stopped: HashSet<usize>,
    ready: Arc<Mutex<VecDeque<usize>>>,
}

struct TaskWaker {
    number: usize,
    ready: Arc<Mutex<VecDeque<usize>>>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        let mut ready = self.ready.lock().unwrap_or_else(|it| it.into_inner());
        if !ready.contains(&self.number) {
            ready.push_back(self.number);
        }
    }
}

impl<'a> Tasks<'a> {
    /// Adds a task and returns its number.
    pub fn add(&mut self, task: impl Future<Output = ()> + 'a) -> usize {
        let number = self.tasks.len();
        self.tasks.push(Some(Box::pin(task)));
        Arc::new(self.waker(number)).wake();
        number
    }

    /// Drops a task where it is, as a death would.
    pub fn kill(&mut self, number: usize) {
        self.tasks[number] = None;
    }

    /// Lets a task do nothing until it is resumed, as a stopped process does.
    pub fn stop(&mut self, number: usize) {
        self.stopped.insert(number);
    }

    /// Lets a stopped task go on.
    pub fn resume(&mut self, number: usize) {
        self.stopped.remove(&number);
    }

    /// How many tasks are neither complete nor killed.
    pub fn left(&self) -> usize {
        self.tasks.iter().flatten().count()
    }

    fn waker(&self, number: usize) -> TaskWaker {
        TaskWaker {
            number,
            ready: Arc::clone(&self.ready),
        }
    }

    /// The number of one that can go on, drawn by chance.
    pub(super) fn take_ready(&mut self, draws: &mut fastrand::Rng) -> Option<usize> {
        let mut ready = self.ready.lock().unwrap_or_else(|it| it.into_inner());
        let all = 0..ready.len();
        let able: Vec<usize> = all
            .filter(|&at| !self.stopped.contains(&ready[at]))
            .collect();
        let at = draws.usize(0..able.len().max(1));
        ready.remove(*able.get(at)?)
    }

    /// Lets a task go on.
    pub(super) fn poll(&mut self, number: usize) -> Poll<()> {
        let waker = Waker::from(Arc::new(self.waker(number)));
        let Some(task) = &mut self.tasks[number] else {
            return Poll::Pending;
        };
        let result = task.as_mut().poll(&mut Context::from_waker(&waker));
        if result.is_ready() {
            self.tasks[number] = None;
        }
        result
    }
}
