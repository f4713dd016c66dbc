//! The microbenchmark (Bando et al., section 4.1) beside the model's predictions.

use std::time::Duration;

use super::{Run, Scale, run};
use crate::eval::setting::Setting as Any;
use crate::micro::{Grid, Io, READ_BYTES, Setting};

/// µs that are added to a submission and to a completion of an I/O that takes no time of the core:
/// the authors' shortest, and their longest.
const SHORT: [f64; 2] = [1.5, 0.2];
const LONG: [f64; 2] = [3.5, 2.2];

/// One point: accesses of an operation, the work of its I/O, and the latency of memory.
fn setting(scale: &Scale, accesses: u32, io_us: [f64; 2], latency_us: f64) -> Setting {
    let (megabytes, milliseconds, rounds) = match scale.is_quick {
        true => (16, 10, 3),
        false => (64, 50, 5),
    };
    Setting {
        memory_bytes: megabytes << 20,
        slow_part: 1.0,
        memory_bytes_per_s: None,
        slow_node: None,
        io: Io::Timer(Duration::from_micros(10)),
        slice: Duration::from_millis(milliseconds),
        rounds,
        tasks: vec![12, 16, 32, 128],
        grid: Grid {
            accesses: vec![accesses],
            access_ns: vec![0.0],
            submit_us: vec![io_us[0]],
            complete_us: vec![io_us[1]],
            latency_us: vec![latency_us],
        },
    }
}

fn latency(us: f64) -> String {
    format!("{us} µs")
}

pub fn latencies(scale: &Scale) -> Vec<Run> {
    let all = [0.1, 0.3, 0.5, 1.0, 2.0, 5.0, 10.0];
    let mut runs = Vec::new();
    for &accesses in scale.pick(&[1, 10, 15], &[10]) {
        for io_us in [SHORT, LONG] {
            let [submit, complete] = io_us;
            let panel = format!("M = {accesses}, I/O of {submit} and {complete} µs");
            for &us in scale.pick(&all, &[0.1, 1.0, 5.0, 10.0]) {
                let setting = setting(scale, accesses, io_us, us);
                runs.push(run(&panel, latency(us), Any::Micro(setting)));
            }
        }
    }
    runs
}

/// Each limit of a machine that can be had, in a panel of its own.
pub fn limits(scale: &Scale) -> Vec<Run> {
    let file = |read_bytes| Io::File {
        folder: "micro".into(),
        bytes: if scale.is_quick { 16 << 20 } else { 256 << 20 },
        read_bytes,
    };
    type Limit<'a> = (&'a str, &'a dyn Fn(&mut Setting));
    let all: [Limit<'_>; 5] = [
        ("bandwidth of the disk: reads of 256 KiB", &|it| {
            it.io = file(64 * READ_BYTES);
        }),
        ("reads a second of the disk", &|it| it.io = file(READ_BYTES)),
        ("bandwidth of memory: 100 MB/s", &|it| {
            it.memory_bytes_per_s = Some(100e6);
        }),
        ("tiers, 70 % of the accesses slow", &|it| it.slow_part = 0.7),
        ("tiers, 30 % of the accesses slow", &|it| it.slow_part = 0.3),
    ];
    let mut runs = Vec::new();
    for (panel, limit) in all {
        for &us in scale.pick(&[0.1, 1.0, 5.0, 10.0], &[0.1, 10.0]) {
            let mut setting = setting(scale, 10, SHORT, us);
            limit(&mut setting);
            if let Io::File { .. } = setting.io {
                // A read of a file has work of its own.
                setting.grid.submit_us = vec![0.0];
                setting.grid.complete_us = vec![0.0];
            }
            runs.push(run(panel, latency(us), Any::Micro(setting)));
        }
    }
    runs
}
