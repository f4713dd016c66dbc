//! What a setting can be, and the memory that it takes.

use std::ops::RangeInclusive;

use timberline_remote::Options;

use super::{POOL_BYTES_A_RECORD, SPARE, Setting, Workload, balance, repartition};
use crate::bad_input::BadInput;

/// Bytes that the best cache's reads take a request, to be computed.
const OPTIMAL_BYTES_A_REQUEST: u64 = 160;
/// Words that an operation has under way at most: a scan reads 16 nodes at a time.
const WORDS_UNDER_WAY: u64 = 16 * 128;

const RECORDS: RangeInclusive<u64> = 1_000..=1 << 48;
const REQUESTS: RangeInclusive<u64> = 1..=10_000_000_000;
const LATENCY_NS: RangeInclusive<u64> = 0..=1_000_000_000;
/// At 0 a request that needs no network would take no time.
const LOCAL_NS: RangeInclusive<u64> = 1..=1_000_000_000;
const GIGABITS: RangeInclusive<f64> = 0.001..=1e6;

/// Whether a value is possible.
fn within<T: PartialOrd + std::fmt::Display>(
    option: &str,
    value: T,
    possible: RangeInclusive<T>,
) -> Result<(), BadInput> {
    let (least, most) = (possible.start(), possible.end());
    match possible.contains(&value) {
        true => Ok(()),
        false => Err(BadInput(format!(
            "--{option} {value}: at least {least}, at most {most}"
        ))),
    }
}

impl Setting {
    /// Whether the setting is possible on a simulated cluster, with so many bytes of memory.
    ///
    /// # Errors
    /// It is not.
    pub fn check_simulated(&self, memory_bytes: u64) -> Result<(), BadInput> {
        let designs = self.designs.iter().map(|it| (it.name(), self.options(*it)));
        self.check(designs, self.memory_servers)?;
        let pool = self.pool_bytes_each() - SPARE;
        let pool = pool.saturating_mul(self.memory_servers.into());
        let needed = [
            pool,
            self.caches_bytes(self.compute_servers),
            self.optimal_bytes(),
        ];
        fits(needed, memory_bytes)
    }

    /// Whether the setting is possible with so many memory servers that are processes, in a process
    /// with so many bytes of memory.
    ///
    /// # Errors
    /// It is not.
    pub fn check_over(&self, servers: u16, memory_bytes: u64) -> Result<(), BadInput> {
        if let Some(design) = self.designs.iter().find(|it| !it.is_partitioned()) {
            return Err(BadInput(format!(
                "--designs {} with --servers: it is for several compute servers, and only one \
                 would be measured",
                design.name()
            )));
        }
        let designs = self.designs.iter().map(|it| (it.name(), self.options(*it)));
        self.check(designs, servers)?;
        fits([self.caches_bytes(1)], memory_bytes)
    }

    /// The same where keys change hands, by command or because of the load.
    ///
    /// # Errors
    /// It is not.
    pub fn check_handover(
        &self,
        servers: u16,
        memory_bytes: u64,
        is_balanced: bool,
    ) -> Result<(), BadInput> {
        let options = repartition::options(self, is_balanced);
        self.check([(repartition::DESIGN.name(), options)], servers)?;
        fits([self.caches_bytes(2)], memory_bytes)
    }

    /// The same where one of the compute servers gets keys later.
    ///
    /// # Errors
    /// It is not.
    pub fn check_scale_out(&self, memory_bytes: u64) -> Result<(), BadInput> {
        match self.compute_servers {
            0 | 1 => Err(BadInput("a server more is for 2 or more, in all".into())),
            _ => self.check_simulated(memory_bytes),
        }
    }

    /// Whether keys that follow the load can be simulated.
    ///
    /// # Errors
    /// They cannot.
    pub fn check_balanced(&self, memory_bytes: u64) -> Result<(), BadInput> {
        let options = balance::options(self, true);
        self.check([(balance::DESIGN.name(), options)], self.memory_servers)?;
        let pool = self.records.saturating_mul(POOL_BYTES_A_RECORD);
        fits(
            [pool, self.caches_bytes(self.compute_servers)],
            memory_bytes,
        )
    }

    fn check(
        &self,
        designs: impl IntoIterator<Item = (&'static str, Options)>,
        memory_servers: u16,
    ) -> Result<(), BadInput> {
        within("records", self.records, RECORDS)?;
        within("requests", self.requests, REQUESTS)?;
        within("network-ns", self.latency_ns, LATENCY_NS)?;
        within("local-ns", self.local_ns, LOCAL_NS)?;
        within("gigabits", self.gigabits, GIGABITS)?;
        if !(0.0..2.0).contains(&self.skew) {
            let line = format!("--skew {}: at least 0, less than 2", self.skew);
            return Err(BadInput(line));
        }
        if !(self.cache > 0.0 && self.cache <= 100.0) {
            let line = format!("--cache {}: more than 0, at most 100", self.cache);
            return Err(BadInput(line));
        }
        for (name, options) in designs {
            let checked = options.check(memory_servers);
            checked.map_err(|error| {
                let (cache, records) = (self.cache, self.records);
                BadInput(format!(
                    "--cache {cache} of --records {records}, for the design {name}: {error}"
                ))
            })?;
        }
        Ok(())
    }

    /// Bytes of each simulated memory server.
    pub(super) fn pool_bytes_each(&self) -> u64 {
        let is_growing =
            |it: &Workload| matches!(it, Workload::InsertIntensive | Workload::ScanIntensive);
        let inserts = match self.workloads.iter().any(is_growing) {
            true => self.warmup.saturating_add(self.requests),
            false => 0,
        };
        let records = self.records.saturating_add(inserts);
        let bytes = records.saturating_mul(POOL_BYTES_A_RECORD);
        (bytes / u64::from(self.memory_servers)).saturating_add(SPARE)
    }

    fn caches_bytes(&self, compute_servers: u16) -> u64 {
        (self.cache_bytes() as u64).saturating_mul(compute_servers.into())
    }

    fn optimal_bytes(&self) -> u64 {
        match self.workloads.contains(&Workload::ReadOnly) {
            true => {
                let requests = self.warmup.saturating_add(self.requests);
                let bytes = requests.saturating_mul(OPTIMAL_BYTES_A_REQUEST);
                bytes / u64::from(self.compute_servers)
            }
            false => 0,
        }
    }

    /// After which a simulated operation without an answer is given up. No answer is ever lost, so
    /// none is given up that only waits for the network.
    pub(super) fn deadline_ns(&self) -> u64 {
        let under_way = u64::from(self.compute_servers) * self.threads as u64;
        let bits = under_way * WORDS_UNDER_WAY * 64;
        let queue_ns = 2.0 * bits as f64 / self.gigabits;
        1_000_000 + 4 * self.latency_ns + queue_ns as u64
    }
}

fn fits<const PARTS: usize>(needed: [u64; PARTS], memory_bytes: u64) -> Result<(), BadInput> {
    let needed = needed.into_iter().fold(0, u64::saturating_add);
    match needed <= memory_bytes {
        true => Ok(()),
        false => Err(BadInput(format!(
            "--records, --requests and --cache take {} MB; there are {} MB for this process",
            needed >> 20,
            memory_bytes >> 20
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remote::tests::small;
    use crate::remote::{Design, measure};

    #[test]
    fn what_is_impossible_is_named() {
        let refused = |change: fn(&mut Setting)| {
            let mut setting = small();
            change(&mut setting);
            setting.check_simulated(1 << 40).unwrap_err().0
        };
        for (option, line) in [
            ("--records 999", refused(|it| it.records = 999)),
            ("--records", refused(|it| it.records = u64::MAX)),
            ("--records", refused(|it| it.records = 1 << 48)),
            ("--requests 0", refused(|it| it.requests = 0)),
            ("--requests", refused(|it| it.requests = u64::MAX)),
            ("--network-ns", refused(|it| it.latency_ns = u64::MAX)),
            ("--local-ns 0", refused(|it| it.local_ns = 0)),
            ("--gigabits 0", refused(|it| it.gigabits = 0.0)),
            ("--gigabits inf", refused(|it| it.gigabits = f64::INFINITY)),
            ("--gigabits NaN", refused(|it| it.gigabits = f64::NAN)),
            ("--skew 2", refused(|it| it.skew = 2.0)),
            ("--skew NaN", refused(|it| it.skew = f64::NAN)),
            ("--cache NaN", refused(|it| it.cache = f64::NAN)),
            ("--cache 0.01", refused(|it| it.cache = 0.01)),
        ] {
            assert!(line.contains(option), "{option}: {line}");
        }
        assert!(small().check_simulated(1 << 20).is_err());
        assert_eq!(small().check_simulated(1 << 30), Ok(()));
    }

    /// Whatever is not refused runs: the slowest network, and many requests under way in the
    /// smallest cache.
    #[test]
    fn what_is_possible_runs() {
        let most = Setting {
            records: 10_000,
            threads: 256,
            cache: 1.0,
            warmup: 2_000,
            requests: 2_000,
            designs: Design::ALL.to_vec(),
            seed: u64::MAX,
            ..small()
        };
        for setting in [
            Setting {
                gigabits: *GIGABITS.start(),
                latency_ns: *LATENCY_NS.end(),
                ..most.clone()
            },
            Setting {
                latency_ns: 0,
                local_ns: 1,
                ..most
            },
        ] {
            setting.check_simulated(1 << 30).unwrap();
            let rows = measure(&setting, &|| false).unwrap();
            assert!(rows.iter().all(|row| row.modelled_mops.is_finite()));
        }
    }
}
