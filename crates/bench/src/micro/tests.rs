//! Tests of short runs: that all is measured and predicted, not how fast it is.

use std::ops::Range;
use std::time::Instant;

use timberline_tier::emulator::{LineCounts, thread_counts};

use super::*;

fn setting(io: Io) -> Setting {
    Setting {
        memory_bytes: 4 << 20,
        slow_part: 1.0,
        memory_bytes_per_s: None,
        slow_node: None,
        io,
        slice: Duration::from_millis(2),
        rounds: 1,
        tasks: vec![8],
        grid: Grid {
            accesses: vec![1, 3],
            access_ns: vec![0.0],
            submit_us: vec![0.0, 2.0],
            complete_us: vec![0.0],
            latency_us: vec![0.1, 5.0],
        },
    }
}

fn check(outcome: &Outcome) {
    assert_eq!(outcome.points.len(), 8);
    for point in &outcome.points {
        let [most, median, least] = point.per_s;
        assert!(
            0.0 < least && least <= median && median <= most,
            "{point:?}"
        );
        let predicted = [point.predicted_per_s, point.masking_per_s];
        assert!(
            predicted.iter().all(|it| it.is_finite() && *it > 0.0),
            "{point:?}"
        );
    }
}

#[test]
fn all_points_of_a_grid_are_measured_and_predicted() {
    let timer = Io::Timer(Duration::from_micros(10));
    let outcome = measure(&setting(timer), &|| false).unwrap();
    assert_eq!(outcome.io, KIND_OF_TIMER);
    check(&outcome);
    let last = outcome.points.last().unwrap();
    assert_eq!((last.accesses, last.latency_s), (3, 5.0 * 1e-6));
    assert_eq!(last.added_s, [0.0, 2e-6, 0.0]);
}

#[test]
fn a_file_is_made_read_and_removed() {
    let folder = std::env::temp_dir().join(format!("timberline-micro-test-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = Io::File {
        folder: folder.clone(),
        bytes: 1 << 20,
        read_bytes: READ_BYTES,
    };
    let outcome = measure(&setting(file), &|| false).unwrap();
    assert!(outcome.io.starts_with("file ("), "{}", outcome.io);
    check(&outcome);
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
    std::fs::remove_dir(&folder).unwrap();
}

#[test]
fn a_folder_that_is_not_there_is_named() {
    let file = Io::File {
        folder: "/nonexistent".into(),
        bytes: 1 << 20,
        read_bytes: READ_BYTES,
    };
    let error = measure(&setting(file), &|| false).unwrap_err().to_string();
    assert!(error.contains("/nonexistent/timberline-micro-"), "{error}");
}

#[test]
fn the_memory_of_a_numa_node_is_measured_as_it_is() {
    let setting = Setting {
        slow_node: Some(0),
        ..setting(Io::Timer(Duration::from_micros(10)))
    };
    let outcome = match measure(&setting, &|| false) {
        Ok(outcome) => outcome,
        // A machine without that node, or a container that may not bind memory.
        Err(error) => return eprintln!("skipped: {error}"),
    };
    // The grid's two latencies are not there.
    assert_eq!((outcome.points.len(), outcome.latencies_s.len()), (4, 1));
    for point in &outcome.points {
        assert_eq!(point.latency_s, outcome.latencies_s[0]);
        assert!(point.latency_s > 0.0 && point.per_s[0] > 0.0, "{point:?}");
        assert!(point.predicted_per_s.is_finite(), "{point:?}");
    }
}

#[test]
fn a_numa_node_that_is_not_there_is_named() {
    let setting = Setting {
        slow_node: Some(1000),
        ..setting(Io::Timer(Duration::ZERO))
    };
    let error = measure(&setting, &|| false).unwrap_err().to_string();
    assert!(error.contains("NUMA nodes 1000"), "{error}");
}

#[test]
fn an_interrupted_run_gives_what_it_has() {
    let asked = std::cell::Cell::new(0);
    let is_over = || {
        asked.set(asked.get() + 1);
        asked.get() > 3
    };
    let timer = Io::Timer(Duration::from_micros(1));
    assert_eq!(measure(&setting(timer), &is_over).unwrap().points.len(), 3);
}

/// Walks only: no I/O, each task once.
fn walks() -> Setting {
    Setting {
        slice: Duration::ZERO,
        ..setting(Io::Timer(Duration::ZERO))
    }
}

/// Walks of so many accesses in memory of this latency, by so many tasks, once for each seed. What
/// the emulator counted, and the seconds that they took.
fn walk(
    setting: &Setting,
    latency_s: f64,
    accesses: u32,
    tasks: usize,
    seeds: Range<u64>,
) -> (LineCounts, f64) {
    let memory = Emulation::memory(setting, latency_s).unwrap();
    let chain = chain(&memory, setting).unwrap();
    let mut device = Device::open(&setting.io).unwrap();
    let work = Work {
        accesses,
        added: [0; 3],
        is_io: false,
    };
    let (before, start) = (thread_counts(), Instant::now());
    for seed in seeds {
        run(&chain, &mut device, work, tasks, setting.slice, seed).unwrap();
    }
    let elapsed_s = start.elapsed().as_secs_f64();
    (thread_counts() - before, elapsed_s)
}

/// That time passes is what the emulator promises: no load makes it pass faster.
#[test]
fn at_most_ten_prefetches_are_in_flight() {
    let latency_s = 1e-3;
    let (LineCounts { slow, .. }, elapsed_s) = walk(&walks(), latency_s, 10, 40, 1..2);
    assert!(slow > 40, "{slow}");
    let arrived = slow as f64 - PREFETCHES as f64;
    assert!(
        elapsed_s >= 0.95 * arrived / PREFETCHES as f64 * latency_s,
        "{slow} {elapsed_s}"
    );
}

/// Short runs with equal walks once found their lines in the modelled cache, and were faster than
/// ten prefetches in flight allow.
#[test]
fn no_round_walks_where_another_did() {
    let (counts, _) = walk(&walks(), 1e-6, 10, 4, 0..20);
    assert!(counts.slow > 2 * counts.cached, "{counts:?}");
}

#[test]
fn the_part_of_a_chain_that_is_slow_is_read_as_often() {
    let [all, most, none] = [1.0, 0.75, 0.0].map(|slow_part| {
        let setting = Setting {
            slow_part,
            ..walks()
        };
        walk(&setting, 1e-6, 100, 4, 1..2).0.slow
    });
    let part = most as f64 / all as f64;
    assert!((0.65..0.85).contains(&part), "{most} of {all}");
    assert_eq!(none, 0);
}

/// As with latency, only that no line comes faster than the emulator promises.
#[test]
fn a_bandwidth_of_memory_limits_what_is_read() {
    let bytes_per_s = 10e6;
    let setting = Setting {
        memory_bytes_per_s: Some(bytes_per_s),
        slice: Duration::from_millis(5),
        ..walks()
    };
    let (LineCounts { slow, .. }, elapsed_s) = walk(&setting, 1e-7, 100, 8, 1..2);
    // A page of lines is accounted for at once, and a channel saves one up.
    let bytes = slow.saturating_sub(128) as f64 * LINE as f64;
    assert!(
        bytes <= 1.05 * elapsed_s * bytes_per_s,
        "{slow} in {elapsed_s} s"
    );
}
