//! The file with machines and prices.

use std::fs;
use std::path::Path;

use serde::Deserialize;
use timberline_model::dimms::{Dimm, Parts};
use timberline_model::plan::{Host, Index, Memory};
use timberline_model::{Core, Operation};

use crate::Failure;

/// The values that hold without a file, and an example of one.
pub const DEFAULT: &str = include_str!("machine.toml");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    server: Server,
    core: CoreTimes,
    dram: Kind,
    ssd: Ssd,
    index: Vec<IndexShape>,
    slow: Vec<Slow>,
    parts: PartList,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Server {
    price: f64,
    cores: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CoreTimes {
    switch_ns: f64,
    prefetches: f64,
    access_ns: f64,
    submit_us: f64,
    complete_us: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Kind {
    latency_ns: f64,
    gb_per_s: f64,
    price_per_gib: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Slow {
    name: String,
    latency_ns: f64,
    gb_per_s: f64,
    price_per_gib: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Ssd {
    reads_per_s: f64,
    gb_per_s: f64,
    price_per_gib: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct IndexShape {
    name: String,
    bytes_per_record: f64,
    inner_bytes_per_record: f64,
    leaf_records: f64,
    fanout: f64,
    inner_accesses: f64,
    inner_lines: f64,
    leaf_accesses: f64,
    leaf_lines: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PartList {
    processor: f64,
    processors: u32,
    slots: u32,
    dimms: Vec<DimmSize>,
    devices: u32,
    device_gib: f64,
    device: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DimmSize {
    gib: f64,
    price_per_gib: f64,
}

/// Largest value of anything in the file.
const MOST: f64 = 1e15;

impl IndexShape {
    /// As [`Machine::numbers`].
    fn numbers(&self) -> [(String, f64, f64); 8] {
        [
            ("bytes_per_record", self.bytes_per_record, f64::MIN_POSITIVE),
            (
                "inner_bytes_per_record",
                self.inner_bytes_per_record,
                f64::MIN_POSITIVE,
            ),
            ("leaf_records", self.leaf_records, 1.0),
            ("fanout", self.fanout, 2.0),
            ("inner_accesses", self.inner_accesses, 0.0),
            ("inner_lines", self.inner_lines, self.inner_accesses),
            ("leaf_accesses", self.leaf_accesses, 1.0),
            ("leaf_lines", self.leaf_lines, self.leaf_accesses),
        ]
        .map(|(what, it, least)| (format!("index.{what} of {:?}", self.name), it, least))
    }
}

impl Machine {
    /// The machine of a file, or the default one.
    pub fn read(file: Option<&Path>) -> Result<Machine, Failure> {
        let Some(path) = file else {
            return parse(DEFAULT, "the default machine");
        };
        let shown = path.display();
        let text = fs::read_to_string(path)
            .map_err(|error| Failure::Impossible(format!("can't read {shown}: {error}")))?;
        parse(&text, &shown.to_string())
    }

    /// The server; `cores` instead of its own, if they are given.
    pub fn host(&self, cores: Option<f64>) -> Host {
        let core = &self.core;
        Host {
            cores: cores.unwrap_or(self.server.cores),
            core: Core {
                switch_s: core.switch_ns * 1e-9,
                prefetches: core.prefetches as u32,
            },
            operation: Operation {
                accesses: 0.0,
                access_s: core.access_ns * 1e-9,
                submit_s: core.submit_us * 1e-6,
                complete_s: core.complete_us * 1e-6,
            },
            price: self.server.price,
            dram: memory(
                self.dram.latency_ns,
                self.dram.gb_per_s,
                self.dram.price_per_gib,
            ),
            io_per_s: self.ssd.reads_per_s,
            io_bytes_per_s: self.ssd.gb_per_s * 1e9,
            ssd_price_per_gib: self.ssd.price_per_gib,
        }
    }

    /// The index of this name, or the first one, and its name.
    pub fn index(&self, named: Option<&str>) -> Result<(&str, Index), Failure> {
        let found = self
            .index
            .iter()
            .find(|it| named.is_none_or(|named| named == it.name));
        let Some(index) = found else {
            let names: Vec<&str> = self.index.iter().map(|it| it.name.as_str()).collect();
            return Err(Failure::Impossible(format!(
                "no index is named {:?}; possible: {}",
                named.unwrap_or_default(),
                names.join(", ")
            )));
        };
        let shape = Index {
            bytes_per_record: index.bytes_per_record,
            inner_bytes_per_record: index.inner_bytes_per_record,
            leaf_records: index.leaf_records,
            fanout: index.fanout,
            inner_accesses: index.inner_accesses,
            inner_lines: index.inner_lines,
            leaf_accesses: index.leaf_accesses,
            leaf_lines: index.leaf_lines,
        };
        Ok((&index.name, shape))
    }

    /// Names of slow memory, and what each is.
    pub fn slow(&self) -> impl Iterator<Item = (&str, Memory)> {
        let slow = self.slow.iter();
        slow.map(|it| {
            (
                it.name.as_str(),
                memory(it.latency_ns, it.gb_per_s, it.price_per_gib),
            )
        })
    }

    /// What servers are made of.
    pub fn parts(&self) -> Parts {
        let parts = &self.parts;
        let dimms = parts.dimms.iter().map(|dimm| Dimm {
            gib: dimm.gib,
            price_per_gib: dimm.price_per_gib,
        });
        Parts {
            processor: parts.processor,
            processors: parts.processors,
            slots: parts.slots,
            dimms: dimms.collect(),
            devices: parts.devices,
            device_gib: parts.device_gib,
            device: parts.device,
        }
    }

    /// Each number with its name and the least that it may be.
    fn numbers(&self) -> Vec<(String, f64, f64)> {
        const ABOVE_ZERO: f64 = f64::MIN_POSITIVE;
        let Machine {
            server,
            core,
            dram,
            ssd,
            index,
            slow,
            parts,
        } = self;
        let fixed = [
            ("server.price", server.price, 0.0),
            ("server.cores", server.cores, 1.0),
            ("core.switch_ns", core.switch_ns, 0.0),
            ("core.prefetches", core.prefetches, 1.0),
            ("core.access_ns", core.access_ns, 0.0),
            ("core.submit_us", core.submit_us, 0.0),
            ("core.complete_us", core.complete_us, 0.0),
            ("dram.latency_ns", dram.latency_ns, 0.0),
            ("dram.gb_per_s", dram.gb_per_s, ABOVE_ZERO),
            ("dram.price_per_gib", dram.price_per_gib, ABOVE_ZERO),
            ("ssd.reads_per_s", ssd.reads_per_s, ABOVE_ZERO),
            ("ssd.gb_per_s", ssd.gb_per_s, ABOVE_ZERO),
            ("ssd.price_per_gib", ssd.price_per_gib, 0.0),
            ("parts.processor", parts.processor, 0.0),
            ("parts.processors", f64::from(parts.processors), 1.0),
            ("parts.slots", f64::from(parts.slots), 1.0),
            ("parts.devices", f64::from(parts.devices), 0.0),
            ("parts.device_gib", parts.device_gib, ABOVE_ZERO),
            ("parts.device", parts.device, 0.0),
        ];
        let mut numbers: Vec<_> = fixed
            .map(|(name, it, least)| (name.to_owned(), it, least))
            .into();
        for index in index {
            numbers.extend(index.numbers());
        }
        for slow in slow {
            let of = |what: &str| format!("slow.{what} of {:?}", slow.name);
            numbers.push((of("latency_ns"), slow.latency_ns, 0.0));
            numbers.push((of("gb_per_s"), slow.gb_per_s, ABOVE_ZERO));
            numbers.push((of("price_per_gib"), slow.price_per_gib, 0.0));
        }
        for dimm in &parts.dimms {
            numbers.push(("parts.dimms.gib".to_owned(), dimm.gib, ABOVE_ZERO));
            numbers.push((
                "parts.dimms.price_per_gib".to_owned(),
                dimm.price_per_gib,
                0.0,
            ));
        }
        numbers
    }
}

fn memory(latency_ns: f64, gb_per_s: f64, price_per_gib: f64) -> Memory {
    Memory {
        latency_s: latency_ns * 1e-9,
        bytes_per_s: gb_per_s * 1e9,
        price_per_gib,
    }
}

fn parse(text: &str, from: &str) -> Result<Machine, Failure> {
    let machine: Machine = toml::from_str(text).map_err(|error| {
        let line = error
            .span()
            .map_or(1, |at| 1 + text[..at.start].matches('\n').count());
        Failure::Impossible(format!("{from}, line {line}: {}", error.message()))
    })?;
    for (name, number, least) in machine.numbers() {
        if !(least..=MOST).contains(&number) {
            let range = match least == f64::MIN_POSITIVE {
                true => "above 0".to_owned(),
                false => format!("{least} or more"),
            };
            return Err(Failure::Impossible(format!(
                "{from}: {name} is {number}; it has to be {range}, and at most {MOST:e}"
            )));
        }
    }
    let missing = [
        (
            machine.slow.is_empty(),
            "there is no [[slow]] memory; name one",
        ),
        (machine.index.is_empty(), "there is no [[index]]; name one"),
        (
            machine.parts.dimms.is_empty(),
            "parts.dimms is empty; name one size",
        ),
    ];
    if let Some((_, what)) = missing.iter().find(|(is_missing, _)| *is_missing) {
        return Err(Failure::Impossible(format!("{from}: {what}")));
    }
    let mut all_inner = machine
        .index
        .iter()
        .filter(|it| it.inner_bytes_per_record >= it.bytes_per_record);
    match all_inner.next() {
        None => Ok(machine),
        Some(it) => Err(Failure::Impossible(format!(
            "{from}: index.inner_bytes_per_record of {:?} is {}; it has to be below its \
             bytes_per_record, {}",
            it.name, it.inner_bytes_per_record, it.bytes_per_record
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(from: &str, to: &str) -> String {
        let text = DEFAULT.replacen(from, to, 1);
        assert_ne!(text, DEFAULT, "{from}");
        match parse(&text, "it") {
            Err(Failure::Impossible(line)) => line,
            _ => panic!("{to} is accepted"),
        }
    }

    #[test]
    fn the_default_is_valid() {
        let machine = Machine::read(None).ok().unwrap();
        assert_eq!(machine.slow().count(), 3);
    }

    /// What the store measures; see the sources in the file.
    #[test]
    fn the_default_index_is_the_store_s() {
        let machine = Machine::read(None).ok().unwrap();
        let (name, index) = machine.index(None).ok().unwrap();
        assert_eq!((name, index.bytes_per_record), ("btree", 35.7));
        let (_, art) = machine.index(Some("art")).ok().unwrap();
        assert_eq!(art.bytes_per_record, 58.7);
    }

    #[test]
    fn mistakes_are_named() {
        for (from, to, named) in [
            (
                "cores = 16",
                "cores = 0",
                "server.cores is 0; it has to be 1 or more",
            ),
            ("cores = 16", "cores = nan", "server.cores is NaN"),
            ("cores = 16", "cores = 16\ncore = 1", "unknown field `core`"),
            (
                "gb_per_s = 7",
                "gb_per_s = 0",
                "ssd.gb_per_s is 0; it has to be above 0",
            ),
            (
                "latency_ns = 5000",
                "latency_ns = -1",
                "slow.latency_ns of \"cxl-flash\" is -1",
            ),
            ("price = 256", "price = \"high\"", "line 8: invalid type"),
            ("price = 256", "", "missing field `price`"),
            ("[server]", "[server", "line 5:"),
            ("leaf_lines = 6", "leaf_lines = 1", "it has to be 2 or more"),
            (
                "inner_bytes_per_record = 0.5",
                "inner_bytes_per_record = 40",
                "of \"btree\" is 40; it has to be below its bytes_per_record, 35.7",
            ),
            (
                "fanout = 70",
                "fanout = 1",
                "index.fanout of \"btree\" is 1",
            ),
        ] {
            let line = refusal(from, to);
            assert!(line.contains(named), "{to}: {line}");
        }
    }
}
