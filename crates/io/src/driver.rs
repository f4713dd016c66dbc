//! The driver of a disk, which executes its requests.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::Simulation;
use crate::pool::Pool;
use crate::queue::Queue;
use crate::simulated::Simulated;

/// Carries a disk's requests out. When it is dropped, requests that were not begun fail, and it
/// waits for the others.
///
/// A disk comes with one; other threads may have [more](crate::Disk::another_driver). While a
/// driver [runs a future](Self::block_on), or is a [task](crate::Disk::task_driver), requests that
/// are made on its thread are its own. All others are the first one's.
///
/// An executor of futures calls [`turn`](Self::turn) when it has nothing else to do. A program
/// without one calls [`spawn`](Self::spawn) once, or [`block_on`](Self::block_on).
pub struct Driver {
    engine: Engine,
    queue: Arc<Queue>,
}

enum Engine {
    #[cfg(target_os = "linux")]
    Ring(Box<crate::uring::Ring>),
    /// Its threads need no driving.
    Pool(Pool),
    Simulated(Simulated),
}

impl Driver {
    #[cfg(target_os = "linux")]
    pub(crate) fn uring(queue: &Arc<Queue>, depth: usize, is_first: bool) -> io::Result<Driver> {
        let ring = crate::uring::Ring::new(queue, depth, is_first)?;
        Ok(Driver {
            engine: Engine::Ring(Box::new(ring)),
            queue: Arc::clone(queue),
        })
    }

    #[cfg(not(target_os = "linux"))]
    pub(crate) fn uring(_: &Arc<Queue>, _: usize, _: bool) -> io::Result<Driver> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn threads(queue: &Arc<Queue>, threads: usize) -> Driver {
        let pool = Pool::new(queue, threads);
        Driver {
            engine: Engine::Pool(pool),
            queue: Arc::clone(queue),
        }
    }

    pub(crate) fn simulated(queue: &Arc<Queue>, simulation: Simulation) -> Driver {
        Driver {
            engine: Engine::Simulated(Simulated::new(simulation)),
            queue: Arc::clone(queue),
        }
    }

    /// Begins the requests that wait, and ends those that are complete: wakes their futures. With
    /// `wait`, sleeps until there is something to do, or until [`Unparker::unpark`].
    pub fn turn(&mut self, wait: bool) {
        self.turn_for(if wait { Duration::MAX } else { Duration::ZERO });
    }

    fn turn_for(&mut self, wait: Duration) {
        match &mut self.engine {
            #[cfg(target_os = "linux")]
            Engine::Ring(ring) => ring.turn(wait),
            Engine::Pool(pool) => pool.turn(wait),
            Engine::Simulated(simulated) => {
                if !simulated.turn(&self.queue) && !wait.is_zero() {
                    self.queue.sleep_in_bed(true, wait);
                }
            }
        }
    }

    /// Ends the sleep of a [`turn`](Self::turn), from any thread.
    pub fn unparker(&self) -> Unparker {
        Unparker(Arc::clone(&self.queue))
    }

    /// Runs a future to its end on this thread, and the disk with it.
    pub fn block_on<F: Future>(&mut self, future: F) -> F::Output {
        self.run(future, |driver| driver.turn(true))
    }

    /// The same, and calls `each` whenever this much time has passed.
    pub fn block_on_beside<F: Future>(
        &mut self,
        future: F,
        every: Duration,
        mut each: impl FnMut(),
    ) -> F::Output {
        let mut next = Instant::now() + every;
        self.run(future, |driver| {
            let now = Instant::now();
            if now >= next {
                each();
                next = now + every;
            }
            driver.turn_for(next - now);
        })
    }

    fn run<F: Future>(&mut self, future: F, mut turn: impl FnMut(&mut Driver)) -> F::Output {
        let _entered = self.queue.enter();
        let waker = Waker::from(Arc::new(self.unparker()));
        let mut context = Context::from_waker(&waker);
        let mut future = pin!(future);
        loop {
            if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
                return output;
            }
            turn(self);
        }
    }

    /// Drives the disk on a thread of its own, until the handle is dropped.
    pub fn spawn(mut self) -> io::Result<Spawned> {
        let queue = Arc::clone(&self.queue);
        let run = move || {
            while !self.queue.is_closed() {
                self.turn(true);
            }
        };
        let thread = std::thread::Builder::new()
            .name("timberline-disk".into())
            .spawn(run)?;
        Ok(Spawned {
            queue,
            thread: Some(thread),
        })
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.queue.close();
        if let Engine::Simulated(simulated) = &mut self.engine {
            simulated.give_up(&self.queue);
        }
    }
}

/// A thread that drives a disk; it ends with this.
pub struct Spawned {
    queue: Arc<Queue>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Spawned {
    fn drop(&mut self) {
        self.queue.close();
        self.queue.bell().ring();
        if let Some(thread) = self.thread.take() {
            // A panic there was printed; the requests have failed.
            let _ = thread.join();
        }
    }
}

/// Wakes a [`Driver`] that sleeps.
#[derive(Clone)]
pub struct Unparker(Arc<Queue>);

impl Unparker {
    /// Ends the driver's sleep, or its next one.
    pub fn unpark(&self) {
        self.0.bell().ring();
    }
}

impl Wake for Unparker {
    fn wake(self: Arc<Self>) {
        self.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.unpark();
    }
}
