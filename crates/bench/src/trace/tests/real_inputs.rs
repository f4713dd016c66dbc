//! Real traces, if they are beside the project; skipped with a message otherwise.

use std::path::PathBuf;

use crate::trace::{Split, Trace, TraceFormat};

fn open(name: &str) -> Option<Trace> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../../shared/data")
        .join(name);
    if !path.exists() {
        eprintln!("skipped: {} is not there", path.display());
        return None;
    }
    let trace = Trace::open(&path, &TraceFormat::guess(&path).unwrap()).unwrap();
    assert!(trace.keys().is_sorted_by(|a, b| a < b));
    Some(trace)
}

#[test]
fn a_block_trace_of_virtual_machines() {
    let Some(trace) = open("cloudPhysicsIO.csv") else {
        return;
    };
    assert_eq!((trace.len(), trace.writes()), (113_872, 66_898));
    let first: Vec<u64> = trace
        .replay(0, 1, Split::Contiguous)
        .take(3)
        .map(|request| request.key)
        .collect();
    assert_eq!(first, [42_932_745, 42_932_746, 42_932_747]);
}

#[test]
fn a_compressed_block_trace() {
    let Some(trace) = open("w106.trace.xz") else {
        return;
    };
    assert_eq!(
        (trace.len(), trace.keys().len(), trace.writes()),
        (5_292_456, 275_171, 0)
    );
    assert_eq!(
        trace.replay(0, 2, Split::RoundRobin).next().unwrap().key,
        0x000d_ceca
    );
}

#[test]
fn urls_and_words() {
    for (name, lines) in [("urls.txt", 32_119), ("words.txt", 235_886)] {
        let Some(trace) = open(name) else { continue };
        assert_eq!((trace.len(), trace.keys().len()), (lines, lines));
        assert_eq!(trace.keys().last(), Some(&(lines as u64 - 1)));
    }
}
