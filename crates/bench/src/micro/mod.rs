//! The microbenchmark of Bando et al. (§4.1): operations that chase pointers through memory and
//! then do one I/O, many in flight on one core; measured beside what the throughput model predicts.
//!
//! Each task prefetches the next pointer and lets the other tasks run before it reads it. Slow
//! memory is emulated, its limit of prefetches in flight included, or that of a NUMA node. The I/O
//! is a read of a file, or a timer where the disk would limit all that is to be seen.

mod disk;
mod grid;
mod memory;
mod spin;
mod tasks;

use std::io;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use timberline_model::overlap::{Machine, limited_operation_s};
use timberline_model::{Core, Operation, masking};
use timberline_tier::Memory;
use timberline_tier::emulator::Chase;
use timberline_tier::hint::LINE;

use disk::Device;
pub use disk::{Io, KIND_OF_TIMER};
pub use grid::Grid;
use memory::{Emulation, OnNode, Place, chain, free};
use spin::Spinner;
use tasks::{Run, Work, run};

/// Prefetches in flight, of the emulated memory, and assumed of a processor: P.
const PREFETCHES: usize = 10;
/// Bytes of a read: those of a block of the disk.
pub const READ_BYTES: usize = 4096;
/// Latency of DRAM, of which predictions know no better.
const DRAM_S: f64 = 1e-7;
/// Part of an I/O's own work on the core that comes before the device has it. It can't be measured
/// apart; a half is assumed.
const SUBMIT_PART: f64 = 0.5;

/// What is to be run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Setting {
    /// Bytes of the chain of pointers.
    pub memory_bytes: usize,
    /// The part of these in slow memory; the others are in DRAM: ρ.
    pub slow_part: f64,
    /// Bytes a second that emulated slow memory gives; `None` for no limit: B_mem.
    pub memory_bytes_per_s: Option<f64>,
    /// The NUMA node whose memory is the slow memory; `None` for emulated memory. The grid's
    /// latencies do not count then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slow_node: Option<u32>,
    /// What an operation does after its walk.
    pub io: Io,
    /// How long each measurement takes.
    pub slice: Duration,
    /// Measurements of a point, spread over the time that all take. The fastest counts: a core that
    /// shares its host is slower for some seconds.
    pub rounds: usize,
    /// Numbers of operations in flight that are tried; the best counts, as in the source.
    pub tasks: Vec<usize>,
    /// The points.
    pub grid: Grid,
}

/// What this machine takes for the parts of an operation, measured.
#[derive(Clone, Copy, Debug)]
pub struct Costs {
    /// Time to switch to another task.
    pub switch_s: f64,
    /// Time of a step through memory, without waiting and without the switch.
    pub access_s: f64,
    /// Time of the core for one I/O, without switches.
    pub io_s: f64,
    /// I/O a second that the device does.
    pub io_per_s: f64,
}

impl Costs {
    /// Measures them alone.
    ///
    /// # Errors
    /// As [`measure`].
    pub fn measure(setting: &Setting) -> io::Result<Costs> {
        let mut device = Device::open(&setting.io)?;
        let memory = Emulation::free_memory(setting)?;
        let chain = chain(&memory, &free(setting))?;
        let mut parts = Parts::default();
        for _ in 0..setting.rounds.max(3) {
            parts.measure(setting, &chain, &mut device)?;
        }
        Ok(parts.costs())
    }

    /// The core, for the model.
    pub fn core(&self) -> Core {
        Core {
            switch_s: self.switch_s,
            prefetches: PREFETCHES as u32,
        }
    }
}

/// One point of the grid.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    /// Accesses to memory in an operation.
    pub accesses: u32,
    /// Time that is added to each access, to each submission and to each completion.
    pub added_s: [f64; 3],
    /// Latency of memory: as emulated, or as measured on a NUMA node.
    pub latency_s: f64,
    /// Operations in flight.
    pub tasks: usize,
    /// Operations a second, measured: most, median and least of the rounds.
    pub per_s: [f64; 3],
    /// Operations a second by the probabilistic model (equation 14).
    pub predicted_per_s: f64,
    /// Operations a second when I/O hides no memory latency (equation 5).
    pub masking_per_s: f64,
}

impl Point {
    /// Relative error of the probabilistic model: positive where it is too optimistic.
    pub fn error(&self) -> f64 {
        self.predicted_per_s / self.per_s[0] - 1.0
    }

    /// Relative error of the masking-only model.
    pub fn masking_error(&self) -> f64 {
        self.masking_per_s / self.per_s[0] - 1.0
    }
}

/// Results of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What an I/O is.
    pub io: String,
    /// Costs that the predictions are made of.
    pub costs: Costs,
    /// Latencies of memory, in seconds: those of the grid, or that of a NUMA node.
    pub latencies_s: Vec<f64>,
    /// In the order of the grid.
    pub points: Vec<Point>,
}

/// Measures all points. `is_over` is asked between measurements; what is there then is returned.
///
/// # Errors
/// The file can't be made or read, there is not enough memory, or no such NUMA node.
pub fn measure(setting: &Setting, is_over: &dyn Fn() -> bool) -> io::Result<Outcome> {
    match setting.slow_node {
        None => measure_in::<Emulation>(setting, is_over),
        Some(_) => measure_in::<OnNode>(setting, is_over),
    }
}

fn measure_in<P: Place>(setting: &Setting, is_over: &dyn Fn() -> bool) -> io::Result<Outcome> {
    if setting.tasks.is_empty() {
        return Err(io::Error::other("no number of tasks is given"));
    }
    let mut device = Device::open(&setting.io)?;
    let spinner = Spinner::calibrate();
    let free_memory = P::free_memory(setting)?;
    let free_chain = chain(&free_memory, &free(setting))?;
    let mut parts = Parts::default();
    let latencies = P::latencies_s(setting)?;
    let operations = setting.grid.operations();
    // Of each point, and each number of tasks: operations a second in the rounds.
    let none = vec![Vec::new(); setting.tasks.len()];
    let mut per_s = vec![none; latencies.len() * operations.len()];
    let mut seeds = 1..;
    // What makes the core slow for some seconds is not to be in all rounds of a point.
    'rounds: for _ in 0..setting.rounds {
        for (&latency_s, per_s) in latencies
            .iter()
            .zip(per_s.chunks_mut(operations.len().max(1)))
        {
            parts.measure(setting, &free_chain, &mut device)?;
            let memory = P::memory(setting, latency_s)?;
            let chain = chain(&memory, setting)?;
            for (&(accesses, added_s), per_s) in operations.iter().zip(per_s) {
                if is_over() {
                    break 'rounds;
                }
                let work = Work {
                    accesses,
                    added: added_s.map(|seconds| spinner.turns(seconds)),
                    is_io: true,
                };
                for (&tasks, per_s) in setting.tasks.iter().zip(per_s) {
                    let seed = seeds.next().unwrap_or_default();
                    let done = run(&chain, &mut device, work, tasks, setting.slice, seed)?;
                    per_s.push(done.per_s());
                }
            }
        }
    }
    let costs = parts.costs();
    let all = latencies
        .iter()
        .flat_map(|&it| operations.iter().map(move |operation| (it, operation)));
    let points = all
        .zip(per_s)
        .filter_map(|((latency_s, &(accesses, added_s)), per_s)| {
            let (tasks, per_s) = best(setting.tasks.iter().copied().zip(per_s))?;
            let [predicted_s, masking_s] = predicted(setting, &costs, accesses, added_s, latency_s);
            Some(Point {
                accesses,
                added_s,
                latency_s,
                tasks,
                per_s,
                predicted_per_s: 1.0 / predicted_s,
                masking_per_s: 1.0 / masking_s,
            })
        });
    Ok(Outcome {
        io: device.kind(),
        points: points.collect(),
        costs,
        latencies_s: latencies,
    })
}

/// The best number of tasks, of those that were measured, and its figures: most, median, least.
fn best(of_tasks: impl Iterator<Item = (usize, Vec<f64>)>) -> Option<(usize, [f64; 3])> {
    let figures = of_tasks.filter_map(|(tasks, mut rounds)| {
        rounds.sort_by(f64::total_cmp);
        let (least, most) = (*rounds.first()?, *rounds.last()?);
        Some((tasks, [most, rounds[rounds.len() / 2], least]))
    });
    figures.max_by(|a, b| a.1[0].total_cmp(&b.1[0]))
}

/// The parts of an operation, each measured by operations that have only that part. The fastest
/// run counts.
#[derive(Default)]
struct Parts {
    /// How often each was measured.
    rounds: u64,
    switch: Option<Run>,
    accesses: Option<Run>,
    io: Option<Run>,
    /// The most I/O a second, where the thread sleeps while it waits for the device.
    io_per_s: f64,
}

impl Parts {
    /// Accesses of an operation that has nothing else.
    const ACCESSES: u32 = 100;

    /// Measures each once more. `chain` is in [`free`] memory.
    fn measure<M: Memory>(
        &mut self,
        setting: &Setting,
        chain: &Chase<'_, M>,
        device: &mut Device,
    ) -> io::Result<()> {
        // So many that the core never waits for a timer.
        let io_tasks = match setting.io {
            Io::Timer(_) => 1024,
            Io::File { .. } => setting.tasks.iter().copied().max().unwrap_or(1),
        };
        self.rounds += 1;
        let parts = [
            (&mut self.switch, 0, false),
            (&mut self.accesses, Self::ACCESSES, false),
            (&mut self.io, 0, true),
        ];
        for (fastest, accesses, is_io) in parts {
            let work = Work {
                accesses,
                added: [0; 3],
                is_io,
            };
            let tasks = if is_io { io_tasks } else { 4 * PREFETCHES };
            let done = run(chain, device, work, tasks, setting.slice, self.rounds)?;
            if fastest.is_none_or(|it| done.core_s() < it.core_s()) {
                *fastest = Some(done);
            }
            if is_io && device.sleeps() {
                self.io_per_s = self.io_per_s.max(done.per_s());
            }
        }
        Ok(())
    }

    fn costs(&self) -> Costs {
        let core_s = |part: Option<Run>| part.map_or(0.0, |it| it.core_s());
        let (switch_s, io_s) = (core_s(self.switch), core_s(self.io));
        let access_s = core_s(self.accesses) / f64::from(Self::ACCESSES);
        Costs {
            switch_s,
            // Differences of measurements, which noise could turn around.
            access_s: (access_s - switch_s).max(0.0),
            io_s: (io_s - 2.0 * switch_s).max(0.0),
            // A device that keeps the core busy is not what limits it.
            io_per_s: match self.io_per_s > 0.0 && io_s * self.io_per_s < 0.95 {
                true => self.io_per_s,
                false => f64::INFINITY,
            },
        }
    }
}

/// The time of an operation, by the probabilistic model and by that of masking only.
fn predicted(
    setting: &Setting,
    costs: &Costs,
    accesses: u32,
    added_s: [f64; 3],
    latency_s: f64,
) -> [f64; 2] {
    let core = costs.core();
    let operation = Operation {
        accesses: f64::from(accesses),
        access_s: costs.access_s + added_s[0],
        submit_s: costs.io_s * SUBMIT_PART + added_s[1],
        complete_s: costs.io_s * (1.0 - SUBMIT_PART) + added_s[2],
    };
    let machine = Machine {
        dram_latency_s: DRAM_S.min(latency_s),
        offloaded: setting.slow_part,
        line_bytes: LINE as f64 * setting.slow_part,
        memory_bytes_per_s: setting.memory_bytes_per_s.unwrap_or(f64::INFINITY),
        io_per_s: costs.io_per_s,
        ..Machine::unlimited(latency_s)
    };
    let masking_s = masking::aligned_s(&core, &operation, machine.mean_latency_s());
    [
        limited_operation_s(&core, &operation, &machine),
        masking_s.max(1.0 / costs.io_per_s),
    ]
}

#[cfg(test)]
mod tests;
