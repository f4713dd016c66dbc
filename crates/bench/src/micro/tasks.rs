//! Operations in flight on one core, as tasks that take turns.

use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use timberline_tier::Memory;
use timberline_tier::emulator::{Chase, Walker};

use super::disk::Device;
use super::spin::spin;
use crate::workload::Rng;

/// What an operation consists of.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// Accesses to memory.
    pub accesses: u32,
    /// Turns of spinning at each access, at each submission, and at each completion.
    pub added: [u32; 3],
    /// Whether an I/O follows the accesses.
    pub is_io: bool,
}

/// What was done.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    operations: u64,
    elapsed_s: f64,
    cpu_s: f64,
    /// Whether the thread sleeps while it waits for the device.
    sleeps: bool,
}

impl Run {
    /// Operations a second of a core that has nothing else to do. Where the thread never sleeps,
    /// this is by its CPU time, so that other processes count little.
    pub fn per_s(&self) -> f64 {
        let seconds = if self.sleeps {
            self.elapsed_s
        } else {
            self.cpu_s
        };
        self.operations as f64 / seconds
    }

    /// Time of the core for an operation, without what it slept.
    pub fn core_s(&self) -> f64 {
        self.cpu_s / self.operations as f64
    }
}

#[derive(Clone, Copy)]
struct Task {
    walker: Walker,
    /// Accesses that are left before the I/O.
    left: u32,
}

/// Operations of a run, at least: another process may have the core for the whole slice.
const LEAST: u64 = 32;

/// Runs operations for so long, `tasks` of them in flight. Runs of one seed walk through the same
/// lines: after a short one, the modelled cache still has them.
pub fn run<M: Memory>(
    chain: &Chase<'_, M>,
    device: &mut Device,
    work: Work,
    tasks: usize,
    slice: Duration,
    seed: u64,
) -> io::Result<Run> {
    let (mut random, mut places) = (Rng::new(seed, 0), Rng::new(seed, 1));
    let mut next = || Task {
        walker: chain.walker(random.below(chain.cycle() as u64) as usize),
        left: work.accesses,
    };
    let mut all: Vec<Task> = (0..tasks).map(|_| next()).collect();
    let mut ready: VecDeque<Turn> = (0..tasks as u32).map(Turn::Walk).collect();
    let mut done: Vec<u32> = Vec::new();
    let (mut operations, mut in_flight) = (0u64, 0);
    let start = Instant::now();
    let started_cpu = cpu();
    let mut elapsed = Duration::ZERO;
    while elapsed < slice || operations < LEAST {
        for _ in 0..device.turns_between_looks() {
            let Some(turn) = ready.pop_front() else {
                break;
            };
            let id = turn.task();
            let task = &mut all[id as usize];
            let is_over = match turn {
                Turn::Complete(_) => {
                    spin(work.added[2]);
                    true
                }
                Turn::Walk(_) => {
                    if task.left > 0 {
                        chain.step(&mut task.walker);
                        spin(work.added[0]);
                        task.left -= 1;
                    }
                    task.left == 0 && !work.is_io
                }
                Turn::Submit(_) => {
                    spin(work.added[1]);
                    in_flight += 1;
                    device.begin(id, places.bits(), &mut done)?;
                    continue;
                }
            };
            if is_over {
                operations += 1;
                *task = next();
            }
            if task.left > 0 {
                chain.prefetch(&task.walker);
            }
            let is_walked = task.left == 0 && work.is_io;
            ready.push_back(if is_walked {
                Turn::Submit(id)
            } else {
                Turn::Walk(id)
            });
        }
        if in_flight > 0 {
            device.collect(ready.is_empty(), &mut done)?;
            in_flight -= done.len();
            ready.extend(done.drain(..).map(Turn::Complete));
        }
        elapsed = start.elapsed();
    }
    let cpu_s = cpu() - started_cpu;
    while in_flight > 0 {
        device.collect(true, &mut done)?;
        in_flight -= done.len();
        done.clear();
    }
    Ok(Run {
        operations,
        elapsed_s: elapsed.as_secs_f64(),
        cpu_s,
        sleeps: device.sleeps(),
    })
}

/// What a task does when it is its turn: a step of the model, after which others have theirs.
#[derive(Clone, Copy)]
enum Turn {
    Walk(u32),
    Submit(u32),
    Complete(u32),
}

impl Turn {
    fn task(self) -> u32 {
        match self {
            Turn::Walk(id) | Turn::Submit(id) | Turn::Complete(id) => id,
        }
    }
}

/// Seconds of CPU that this thread has taken.
fn cpu() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}
