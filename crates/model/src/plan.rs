//! How much fast memory is worth having: what a store is expected to do, and to cost, for a choice
//! of slow memory and of how much DRAM.
//!
//! The records are on SSD and their index is in memory: its inner nodes and its hottest leaves in
//! DRAM, the others in slow memory. The rest of the DRAM caches hot records.

use crate::overlap::{Machine, limited_operation_s};
use crate::skew::{Blocks, Zipf};
use crate::{Core, Operation};

/// Records and requests.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Data {
    /// How often each record is read.
    pub zipf: Zipf,
    /// Bytes of a record on SSD, its key included.
    pub record_bytes: f64,
    /// Bytes of a read from SSD.
    pub io_bytes: f64,
}

/// An ordered index in memory.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Index {
    /// Bytes of memory a record.
    pub bytes_per_record: f64,
    /// Those of them that are inner nodes, fewer than all.
    pub inner_bytes_per_record: f64,
    /// Records of a leaf, at least 1.
    pub leaf_records: f64,
    /// Children of an inner node, at least 2.
    pub fanout: f64,
    /// Dependent accesses to memory in an inner node.
    pub inner_accesses: f64,
    /// Lines that they read, at least as many: lines that are asked for together are one access,
    /// but each takes one of the core's prefetches.
    pub inner_lines: f64,
    /// Dependent accesses to memory in a leaf.
    pub leaf_accesses: f64,
    /// Lines that they read, at least as many.
    pub leaf_lines: f64,
}

/// A kind of memory.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Memory {
    /// Latency of a dependent access.
    pub latency_s: f64,
    /// Bandwidth, for all cores together.
    pub bytes_per_s: f64,
    /// Price of a GiB.
    pub price_per_gib: f64,
}

/// The server, its processors, its DRAM and its SSD.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Host {
    /// Cores that serve requests.
    pub cores: f64,
    /// Each of them.
    pub core: Core,
    /// Times of an access and of an I/O; the number of accesses follows from the index.
    pub operation: Operation,
    /// Price without memory and SSD.
    pub price: f64,
    /// Its DRAM.
    pub dram: Memory,
    /// Reads a second of the SSD.
    pub io_per_s: f64,
    /// Bandwidth of the SSD.
    pub io_bytes_per_s: f64,
    /// Price of a GiB of SSD.
    pub ssd_price_per_gib: f64,
}

/// A question: what is to be stored, and on what.
pub struct Plan {
    host: Host,
    data: Data,
    index: Index,
    leaves: Blocks,
}

/// A choice of memory.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Choice {
    /// The slow memory, if there is any.
    pub slow: Option<Memory>,
    /// Fraction of the index that is in DRAM, 0 to 1. Without slow memory it is 1.
    pub index_in_dram: f64,
    /// Bytes of DRAM that cache records.
    pub cache_bytes: f64,
}

/// What to expect of a choice.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Estimate {
    /// The choice.
    pub choice: Choice,
    /// Gets a second, of all cores.
    pub per_s: f64,
    /// Fraction of the accesses to the index that go to slow memory.
    pub slow_accesses: f64,
    /// Fraction of the gets that the cache of records answers.
    pub cached: f64,
    /// DRAM, in bytes.
    pub dram_bytes: f64,
    /// Slow memory, in bytes.
    pub slow_bytes: f64,
    /// Price of server, memory and SSD.
    pub price: f64,
}

impl Estimate {
    /// Throughput for the price ÷ that of `other`: equation 16 of Bando et al., with known prices.
    /// Above 1 this choice pays.
    pub fn for_price(&self, other: &Estimate) -> f64 {
        (self.per_s / self.price) / (other.per_s / other.price)
    }
}

/// Bytes of a GiB.
pub const GIB: f64 = (1u64 << 30) as f64;
/// Memory that a cached record takes beside its bytes.
const CACHE_ENTRY_BYTES: f64 = 48.0;
/// Even a get from the cache now and then waits for a read; the model divides by their number.
const LEAST_IO: f64 = 1e-3;

/// Fractions of the index in DRAM, and DRAM for records ÷ their bytes, that [`Plan::best`] tries.
const STEPS: [f64; 13] = [
    0.0, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1.0,
];

impl Plan {
    /// A plan for this data on this server.
    pub fn new(host: Host, data: Data, index: Index) -> Plan {
        Plan {
            host,
            data,
            index,
            leaves: Blocks::new(&data.zipf, index.leaf_records),
        }
    }

    /// Bytes of the index.
    pub fn index_bytes(&self) -> f64 {
        self.data.zipf.records * self.index.bytes_per_record
    }

    /// Bytes of the records on SSD.
    pub fn data_bytes(&self) -> f64 {
        self.data.zipf.records * self.data.record_bytes
    }

    /// Levels of inner nodes.
    pub fn inner_levels(&self) -> f64 {
        let leaves = (self.data.zipf.records / self.index.leaf_records).max(1.0);
        (leaves.ln() / self.index.fanout.ln()).ceil()
    }

    /// What to expect of a choice.
    pub fn estimate(&self, choice: Choice) -> Estimate {
        let Plan {
            host, data, index, ..
        } = self;
        let in_dram = match choice.slow {
            Some(_) => choice.index_in_dram.clamp(0.0, 1.0),
            None => 1.0,
        };
        let slow = choice.slow.unwrap_or(host.dram);
        let levels = self.inner_levels();
        let accesses = levels * index.inner_accesses + index.leaf_accesses;
        let lines = levels * index.inner_lines + index.leaf_lines;
        let slow_accesses = match choice.slow {
            Some(_) => self.slow_lines(in_dram) / lines,
            None => 0.0,
        };

        let cached_records = choice.cache_bytes / (data.record_bytes + CACHE_ENTRY_BYTES);
        let cached = data
            .zipf
            .served((cached_records / data.zipf.records).min(1.0));
        // An operation with several I/O is several operations with fewer accesses each (Bando et
        // al., §3.2.3); with one I/O in some gets, it is a part of one with more accesses.
        let io = (1.0 - cached).max(LEAST_IO);
        // Lines that are asked for together share the time of one access and its switch, so that
        // each is an access of the model, whose prefetches are lines. The I/O has whole switches.
        let part = accesses / lines;
        let core = Core {
            switch_s: host.core.switch_s * part,
            ..host.core
        };
        let operation = Operation {
            accesses: lines / io,
            access_s: host.operation.access_s * part,
            submit_s: host.operation.submit_s + 2.0 * (host.core.switch_s - core.switch_s),
            ..host.operation
        };
        let machine = Machine {
            latency_s: slow.latency_s,
            dram_latency_s: host.dram.latency_s,
            offloaded: slow_accesses,
            line_bytes: 64.0 * slow_accesses,
            memory_bytes_per_s: slow.bytes_per_s / host.cores,
            evicted: 0.0,
            io_bytes: data.io_bytes,
            io_bytes_per_s: host.io_bytes_per_s / host.cores,
            io_per_s: host.io_per_s / host.cores,
        };
        let get_s = io * limited_operation_s(&core, &operation, &machine);

        let dram_bytes = in_dram * self.index_bytes() + choice.cache_bytes;
        let slow_bytes = (1.0 - in_dram) * self.index_bytes();
        let price = host.price
            + dram_bytes / GIB * host.dram.price_per_gib
            + slow_bytes / GIB * slow.price_per_gib
            + self.data_bytes() / GIB * host.ssd_price_per_gib;
        Estimate {
            choice,
            per_s: host.cores / get_s,
            slow_accesses,
            cached,
            dram_bytes,
            slow_bytes,
            price,
        }
    }

    /// The choice with this slow memory that gives most throughput for its price.
    pub fn best(&self, slow: Option<Memory>) -> Estimate {
        let parts: &[f64] = if slow.is_some() { &STEPS } else { &[1.0] };
        let choices = parts.iter().flat_map(|&index_in_dram| {
            STEPS.iter().map(move |&cached| Choice {
                slow,
                index_in_dram,
                cache_bytes: cached * self.data_bytes(),
            })
        });
        let estimates = choices.map(|choice| self.estimate(choice));
        let per_price = |it: &Estimate| it.per_s / it.price;
        let best = estimates.max_by(|a, b| per_price(a).total_cmp(&per_price(b)));
        best.expect("there is a choice")
    }

    /// Lines of a lookup that are in slow memory, when DRAM has the levels of the index from the
    /// root on, and of the leaves the hottest.
    fn slow_lines(&self, in_dram: f64) -> f64 {
        let Index {
            fanout,
            inner_lines,
            leaf_lines,
            ..
        } = self.index;
        let levels = self.inner_levels() as i32;
        let inner = match levels {
            0 => 0.0,
            _ => self.index.inner_bytes_per_record / self.index.bytes_per_record,
        };
        // Nodes of the levels, root first, each for one of the lowest.
        let nodes = (1 - levels..=0).map(|level| fanout.powi(level));
        let all_nodes: f64 = nodes.clone().sum();
        let (mut left, mut lines) = (in_dram, 0.0);
        for size in nodes.map(|nodes| inner * nodes / all_nodes) {
            lines += inner_lines * (1.0 - left / size).clamp(0.0, 1.0);
            left = (left - size).max(0.0);
        }
        lines + leaf_lines * (1.0 - self.leaves.served(left / (1.0 - inner)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{CORE, OPERATION};

    const DRAM: Memory = Memory {
        latency_s: 100e-9,
        bytes_per_s: 200e9,
        price_per_gib: 1.0,
    };
    const FLASH: Memory = Memory {
        latency_s: 5e-6,
        bytes_per_s: 8e9,
        price_per_gib: 0.175,
    };

    const INDEX: Index = Index {
        bytes_per_record: 40.0,
        inner_bytes_per_record: 1.0,
        leaf_records: 20.0,
        fanout: 30.0,
        inner_accesses: 2.0,
        inner_lines: 2.0,
        leaf_accesses: 2.0,
        leaf_lines: 2.0,
    };

    fn plan(exponent: f64) -> Plan {
        let host = Host {
            cores: 16.0,
            core: CORE,
            operation: OPERATION,
            price: 64.0,
            dram: DRAM,
            io_per_s: 2e6,
            io_bytes_per_s: 12e9,
            ssd_price_per_gib: 0.02,
        };
        let data = Data {
            zipf: Zipf {
                records: 1e9,
                exponent,
            },
            record_bytes: 116.0,
            io_bytes: 4096.0,
        };
        Plan::new(host, data, INDEX)
    }

    fn all_dram(plan: &Plan) -> Estimate {
        plan.estimate(Choice {
            slow: None,
            index_in_dram: 1.0,
            cache_bytes: 0.0,
        })
    }

    fn with_flash(index_in_dram: f64, cache_bytes: f64) -> Choice {
        Choice {
            slow: Some(FLASH),
            index_in_dram,
            cache_bytes,
        }
    }

    #[test]
    fn more_dram_is_never_slower_and_never_cheaper() {
        for exponent in [0.0, 0.7, 0.99, 1.2] {
            let plan = plan(exponent);
            let along = |choices: [Choice; 13]| {
                let estimates = choices.map(|choice| plan.estimate(choice));
                for pair in estimates.windows(2) {
                    assert!(pair[1].per_s >= pair[0].per_s * (1.0 - 1e-9), "{pair:?}");
                    assert!(pair[1].price >= pair[0].price, "{pair:?}");
                }
            };
            along(STEPS.map(|part| with_flash(part, 0.0)));
            along(STEPS.map(|part| with_flash(0.1, part * plan.data_bytes())));
        }
    }

    #[test]
    fn an_index_without_dram_is_all_in_slow_memory() {
        let none = plan(0.99).estimate(with_flash(0.0, 0.0));
        assert!((none.slow_accesses - 1.0).abs() < 1e-9, "{none:?}");
    }

    #[test]
    fn an_index_that_is_all_in_dram_is_as_fast_as_without_slow_memory() {
        let plan = plan(0.99);
        let tiered = plan.estimate(with_flash(1.0, 0.0));
        assert!(tiered.slow_accesses.abs() < 1e-9, "{tiered:?}");
        assert!((tiered.per_s / all_dram(&plan).per_s - 1.0).abs() < 1e-9);
        assert_eq!(tiered.price, all_dram(&plan).price);
    }

    #[test]
    fn dram_for_the_inner_nodes_leaves_only_leaves_in_slow_memory() {
        for (inner_bytes_per_record, leaf_records) in [(1.0, 20.0), (25.0, 1.0)] {
            let index = Index {
                inner_bytes_per_record,
                leaf_records,
                ..INDEX
            };
            let plan = Plan {
                leaves: Blocks::new(&plan(0.0).data.zipf, leaf_records),
                index,
                ..plan(0.0)
            };
            let all = plan.inner_levels() * index.inner_lines + index.leaf_lines;
            let slow = |part| plan.slow_lines(part);
            let inner = inner_bytes_per_record / index.bytes_per_record;
            assert!((slow(inner) - index.leaf_lines).abs() < 1e-9, "{index:?}");
            assert!((slow(0.0) - all).abs() < 1e-9, "{index:?}");
            // Half of them are half of the lowest level.
            let half = slow(inner / 2.0) - index.leaf_lines;
            assert!((0.5..0.55).contains(&(half / index.inner_lines)), "{half}");
        }
    }

    #[test]
    fn lines_that_are_asked_for_together_cost_prefetches_and_no_time() {
        let with_lines = |lines: f64| {
            let index = Index {
                inner_lines: lines * INDEX.inner_accesses,
                leaf_lines: lines * INDEX.leaf_accesses,
                ..INDEX
            };
            Plan { index, ..plan(0.0) }
        };
        let per_s = |lines, index_in_dram| {
            let choice = with_flash(index_in_dram, 0.0);
            with_lines(lines).estimate(choice).per_s
        };
        assert!((per_s(1.0, 1.0) / per_s(3.0, 1.0) - 1.0).abs() < 1e-9);
        assert!(per_s(3.0, 0.0) < 0.5 * per_s(1.0, 0.0));
    }

    /// Bando et al., §5.1: where DRAM is a large part of the price, flash-backed memory pays.
    #[test]
    fn cheap_memory_pays_for_skewed_requests() {
        let plan = plan(0.99);
        let best = plan.best(Some(FLASH));
        assert!(best.for_price(&plan.best(None)) > 1.0, "{best:?}");
        assert!(best.choice.index_in_dram < 0.5, "{best:?}");
    }

    #[test]
    fn no_choice_exceeds_the_ssd() {
        let plan = plan(0.0);
        assert!(all_dram(&plan).per_s <= 2e6 * (1.0 + 1e-9));
        // A cache that answers every get needs no SSD.
        let cached = plan.estimate(with_flash(1.0, 2.0 * plan.data_bytes()));
        assert_eq!(cached.cached, 1.0);
        assert!(cached.per_s > 2e6);
    }
}
