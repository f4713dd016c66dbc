//! Memory and I/O that overlap by chance: the expected time that a core waits for prefetches when
//! accesses and I/O of many operations follow one another at random.
//!
//! With P prefetches in flight, an access waits for the one P accesses before it. Every I/O between
//! the two gives that prefetch more time. So the expected wait is a sum over the numbers of I/O
//! that may fall in between, each with its probability.

use crate::{Core, Operation};

/// What limits a machine beside the latency of its slow memory.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Machine {
    /// Latency of the slow memory: L_mem.
    pub latency_s: f64,
    /// Latency of DRAM, where the rest of the index is.
    pub dram_latency_s: f64,
    /// Fraction of the accesses that go to slow memory, by frequency: ρ, 0 to 1.
    pub offloaded: f64,
    /// Bytes of an access to memory: A_mem.
    pub line_bytes: f64,
    /// Bandwidth of memory, for this core: B_mem.
    pub memory_bytes_per_s: f64,
    /// Fraction of the prefetched lines that the cache evicts before they are used: ε, 0 to 1.
    pub evicted: f64,
    /// Bytes of an I/O: A_IO.
    pub io_bytes: f64,
    /// Bandwidth of the SSD, for this core: B_IO.
    pub io_bytes_per_s: f64,
    /// I/O a second that the SSD does, for this core: R_IO.
    pub io_per_s: f64,
}

impl Machine {
    /// A machine that is short of nothing, with the whole index in memory of this latency.
    pub fn unlimited(latency_s: f64) -> Machine {
        Machine {
            latency_s,
            dram_latency_s: latency_s,
            offloaded: 1.0,
            line_bytes: 64.0,
            memory_bytes_per_s: f64::INFINITY,
            evicted: 0.0,
            io_bytes: 0.0,
            io_bytes_per_s: f64::INFINITY,
            io_per_s: f64::INFINITY,
        }
    }

    /// Latency of an access, on average over DRAM and slow memory.
    pub fn mean_latency_s(&self) -> f64 {
        self.offloaded * self.latency_s + (1.0 - self.offloaded) * self.dram_latency_s
    }

    /// How long `accesses` in flight together take (equation 15).
    fn accesses_s(&self, accesses: f64) -> f64 {
        let by_bandwidth = accesses * self.line_bytes / self.memory_bytes_per_s;
        self.mean_latency_s().max(by_bandwidth)
    }

    /// The least time of an operation that the SSD allows (second and third term of equation 14).
    fn ssd_s(&self) -> f64 {
        (self.io_bytes / self.io_bytes_per_s).max(1.0 / self.io_per_s)
    }
}

/// Time of an operation with the whole index in memory of this latency, on a machine that is short
/// of nothing (equation 13).
pub fn operation_s(core: &Core, operation: &Operation, latency_s: f64) -> f64 {
    limited_operation_s(core, operation, &Machine::unlimited(latency_s))
}

/// Time of an operation on a machine with limits (equation 14).
///
/// An access whose line was evicted takes the latency instead of its computation, as published.
pub fn limited_operation_s(core: &Core, operation: &Operation, machine: &Machine) -> f64 {
    let steps = Steps::new(core, operation, machine);
    let evicted = operation.accesses * machine.evicted;
    let missed_s = evicted * (machine.mean_latency_s() - operation.access_s);
    let waiting_s = (operation.accesses + 2.0) * steps.mean_wait_s();
    let core_s = operation.busy_s(core) + missed_s + waiting_s;
    core_s.max(machine.ssd_s())
}

/// The steps of all operations in flight, as they follow one another on a core. A step is an access
/// whose line is there, an access whose line was evicted, an I/O's submission, or its completion;
/// each is independent of the one before.
struct Steps<'a> {
    core: &'a Core,
    operation: &'a Operation,
    machine: &'a Machine,
    /// Probabilities of a step.
    access: f64,
    evicted: f64,
    /// That of a submission, and that of a completion.
    io: f64,
}

impl Steps<'_> {
    fn new<'a>(core: &'a Core, operation: &'a Operation, machine: &'a Machine) -> Steps<'a> {
        let steps = operation.accesses + 2.0;
        let accesses = operation.accesses / steps;
        Steps {
            core,
            operation,
            machine,
            access: (1.0 - machine.evicted) * accesses,
            evicted: machine.evicted * accesses,
            io: 1.0 / steps,
        }
    }

    /// How long the access waits whose prefetch was issued P prefetches ago, when `submitted` of
    /// those P steps were submissions, and `completed` completions and `evicted` accesses came in
    /// addition (equation 9).
    fn wait_s(&self, submitted: u32, completed: u32, evicted: u32) -> f64 {
        let Core {
            switch_s,
            prefetches,
        } = *self.core;
        let Operation {
            access_s,
            submit_s,
            complete_s,
            ..
        } = *self.operation;
        let latency_s = self.machine.accesses_s(f64::from(prefetches - submitted));
        let work_s = f64::from(prefetches) * (access_s + switch_s)
            + f64::from(submitted) * (submit_s - access_s)
            + f64::from(completed) * (complete_s + switch_s)
            + f64::from(evicted) * (self.machine.mean_latency_s() + switch_s);
        (latency_s - work_s).max(0.0)
    }

    /// Expected wait of a step: that of a sequence of P steps and those in addition, over the
    /// expected length of a sequence (equations 10–12).
    ///
    /// The steps in addition are completions and evicted accesses. Their number n has a negative
    /// binomial distribution, so that its expectation has a closed form; and the waits end where
    /// n steps take as long as the latency.
    fn mean_wait_s(&self) -> f64 {
        let depth = self.core.prefetches;
        let added = self.io + self.evicted;
        let kept = 1.0 - added;
        let length = f64::from(depth) + f64::from(depth + 1) * added / kept;

        let mut wait_s = 0.0;
        // The probability of n steps in addition, and of all up to n.
        let mut probability = kept.powi(depth as i32 + 1);
        let mut seen = 0.0;
        for n in 0.. {
            wait_s += probability * self.wait_of_added_s(n);
            seen += probability;
            probability *= added * f64::from(depth + n + 1) / f64::from(n + 1);
            if self.ends_at(n) || seen > 1.0 - 1e-9 {
                break;
            }
        }
        wait_s / length
    }

    /// Expected wait when n steps came in addition.
    fn wait_of_added_s(&self, n: u32) -> f64 {
        let depth = self.core.prefetches;
        let submission = self.io / (self.io + self.access);
        let completion = self.io / (self.io + self.evicted);
        let mut expected_s = 0.0;
        for submitted in 0..=depth {
            for completed in 0..=n {
                let wait_s = self.wait_s(submitted, completed, n - completed);
                if wait_s > 0.0 {
                    expected_s += wait_s
                        * binomial(depth, submitted, submission)
                        * binomial(n, completed, completion);
                }
            }
        }
        expected_s
    }

    /// Whether no sequence with n or more steps in addition waits. The wait is convex in the number
    /// of submissions and linear in the others, so that the extremes decide.
    fn ends_at(&self, n: u32) -> bool {
        [0, self.core.prefetches]
            .iter()
            .all(|&submitted| self.wait_s(submitted, n, 0) + self.wait_s(submitted, 0, n) == 0.0)
    }
}

/// The probability of `hits` among `trials`, each with probability `p`.
fn binomial(trials: u32, hits: u32, p: f64) -> f64 {
    let ways = (0..hits).fold(1.0, |ways, hit| {
        ways * f64::from(trials - hit) / f64::from(hit + 1)
    });
    ways * p.powi(hits as i32) * (1.0 - p).powi((trials - hits) as i32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{CORE, DRAM_S, OPERATION, near};
    use crate::{degradation, masking};

    fn loses(machine: &Machine) -> f64 {
        let fast_s = operation_s(&CORE, &OPERATION, DRAM_S);
        degradation(fast_s, limited_operation_s(&CORE, &OPERATION, machine))
    }

    #[test]
    fn the_published_example_loses_7_percent_at_5_us() {
        assert!(near(loses(&Machine::unlimited(5e-6)), 0.07, 0.005));
        assert_eq!(loses(&Machine::unlimited(1e-6)), 0.0);
    }

    /// Equation 12 as it is printed: an infinite double sum of factorials.
    #[test]
    fn it_is_the_published_sum() {
        let m = OPERATION.accesses;
        for latency_s in [0.5e-6, 2e-6, 5e-6, 10e-6, 50e-6] {
            let machine = Machine::unlimited(latency_s);
            let steps = Steps::new(&CORE, &OPERATION, &machine);
            let (mut waits, mut lengths) = (0.0, 0.0);
            for j in 0..=10u32 {
                for k in 0..100u32 {
                    let factorial = |n: u32| (1..=n).map(|i| f64::from(i).ln()).sum::<f64>();
                    let ways = factorial(10 + k) - factorial(10 - j) - factorial(j) - factorial(k);
                    let p = (ways
                        + f64::from(10 - j) * (m / (m + 2.0)).ln()
                        + f64::from(j + k) * (1.0 / (m + 2.0)).ln())
                    .exp();
                    waits += p * steps.wait_s(j, k, 0);
                    lengths += p * f64::from(10 + k);
                }
            }
            let (ours, published) = (steps.mean_wait_s(), waits / lengths);
            assert!(
                near(ours, published, 1e-6 * published + 1e-18),
                "{ours} {published}"
            );
        }
    }

    /// The steps themselves, drawn at random, with a queue of prefetches.
    #[test]
    fn it_is_what_a_simulation_shows() {
        // An access waits for the prefetch that was issued P prefetches before: no more are in
        // flight. A splitmix64 generator draws the steps.
        let mut state = 7u64;
        let mut draw = || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1u64 << 53) as f64
        };
        for latency_s in [3e-6, 5e-6, 8e-6, 12e-6] {
            let steps = 400_000;
            let (mut now_s, mut in_flight) = (0.0, std::collections::VecDeque::new());
            for _ in 0..steps {
                let kind = draw() * (OPERATION.accesses + 2.0);
                if kind < OPERATION.accesses {
                    if in_flight.len() == CORE.prefetches as usize {
                        let ready_s: f64 = in_flight.pop_front().expect("it is full");
                        now_s = ready_s.max(now_s);
                    }
                    now_s += OPERATION.access_s;
                    in_flight.push_back(now_s + latency_s);
                } else if kind < OPERATION.accesses + 1.0 {
                    now_s += OPERATION.submit_s;
                } else {
                    now_s += OPERATION.complete_s;
                }
                now_s += CORE.switch_s;
            }
            let simulated_s = now_s / f64::from(steps) * (OPERATION.accesses + 2.0);
            let modelled_s = operation_s(&CORE, &OPERATION, latency_s);
            let error = modelled_s / simulated_s - 1.0;
            // The model starts each sequence without a backlog of waits, so it is optimistic.
            assert!((-0.1..0.0).contains(&error), "{latency_s}: {error:+.3}");
        }
    }

    #[test]
    fn it_lies_between_the_two_ends() {
        for accesses in [1.0, 5.0, 10.0, 15.0] {
            let operation = Operation {
                accesses,
                ..OPERATION
            };
            for tenths in 1..=200 {
                let latency_s = f64::from(tenths) * 1e-7;
                let time_s = operation_s(&CORE, &operation, latency_s);
                assert!(time_s >= masking::spread_s(&CORE, &operation, latency_s) * (1.0 - 1e-9));
                assert!(time_s <= masking::aligned_s(&CORE, &operation, latency_s) * (1.0 + 1e-9));
            }
        }
    }

    #[test]
    fn each_limit_of_a_machine_shows() {
        let free = Machine::unlimited(5e-6);
        let free_s = limited_operation_s(&CORE, &OPERATION, &free);
        let time_s = |machine: Machine| limited_operation_s(&CORE, &OPERATION, &machine);

        assert_eq!(
            time_s(Machine {
                io_per_s: 50e3,
                ..free
            }),
            20e-6
        );
        let large = Machine {
            io_bytes: 64e3,
            io_bytes_per_s: 1e9,
            ..free
        };
        assert_eq!(time_s(large), 64e-6);
        // Ten lines in 640 ns each: the queue takes 6.4 us.
        let narrow = Machine {
            memory_bytes_per_s: 100e6,
            ..free
        };
        let slower = operation_s(&CORE, &OPERATION, 6.4e-6);
        assert!(time_s(narrow) > free_s && time_s(narrow) <= slower);
        assert!(
            time_s(Machine {
                evicted: 0.05,
                ..free
            }) > free_s * 1.2
        );
        let tiered = Machine {
            offloaded: 0.5,
            dram_latency_s: DRAM_S,
            ..free
        };
        assert!(time_s(tiered) < free_s);
        let none = Machine {
            offloaded: 0.0,
            ..tiered
        };
        assert_eq!(loses(&none), 0.0);
    }

    #[test]
    fn extreme_arguments_end() {
        let idle = Operation {
            accesses: 1e4,
            access_s: 0.0,
            submit_s: 0.0,
            complete_s: 0.0,
        };
        let core = Core {
            switch_s: 0.0,
            prefetches: 64,
        };
        for evicted in [0.0, 0.01] {
            let machine = Machine {
                evicted,
                ..Machine::unlimited(1e-5)
            };
            let time_s = limited_operation_s(&core, &idle, &machine);
            assert!(time_s.is_finite() && time_s > 0.0);
        }
    }
}
