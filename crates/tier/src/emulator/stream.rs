//! The machine's bandwidth: what all cores read together.

use std::hint::black_box;
use std::sync::OnceLock;
use std::thread;
use std::time::Instant;

use crate::hint::LINE;

/// Bytes that a core reads in a pass: more than its part of any cache.
const BYTES: usize = 32 << 20;

/// This many cores use up a socket's bandwidth; more would only need more memory.
const MOST_CORES: usize = 16;

/// The pass that was disturbed least counts.
const PASSES: usize = 5;

/// Nanoseconds a line, all cores together; measured once in a process, in some 100 ms. Where the
/// system refuses memory or threads, fewer cores read; 0 if
/// none can.
pub fn shared_line_ns() -> f64 {
    static MEASURED: OnceLock<f64> = OnceLock::new();
    *MEASURED.get_or_init(|| {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let buffers: Vec<_> = (0..cores.min(MOST_CORES)).map_while(|_| buffer()).collect();
        let passes = (0..PASSES).map(|_| pass(&buffers));
        let best = passes.fold(f64::INFINITY, f64::min);
        if best.is_finite() { best } else { 0.0 }
    })
}

/// Memory that is there: each of its pages is written.
fn buffer() -> Option<Vec<u64>> {
    let words = BYTES / size_of::<u64>();
    let mut buffer = Vec::new();
    buffer.try_reserve_exact(words).ok()?;
    buffer.resize(words, 1);
    Some(buffer)
}

/// Lets all cores read their buffers at once. Returns nanoseconds a line; infinite if none did.
fn pass(buffers: &[Vec<u64>]) -> f64 {
    let start = Instant::now();
    let lines: usize = thread::scope(|scope| {
        let read = |buffer: &[u64]| {
            let lines = buffer.iter().step_by(LINE / size_of::<u64>());
            let count = lines.len();
            black_box(lines.fold(0, |sum: u64, word| sum.wrapping_add(*word)));
            count
        };
        let spawn = |buffer| {
            let named = thread::Builder::new();
            named.spawn_scoped(scope, move || read(buffer)).ok()
        };
        let readers: Vec<_> = buffers.iter().map(Vec::as_slice).map_while(spawn).collect();
        let counts = readers.into_iter().map(|reader| reader.join().unwrap_or(0));
        counts.sum()
    });
    start.elapsed().as_nanos() as f64 / lines as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_cores_read_all_of_it() {
        let (one, all) = (pass(&[vec![1; 1 << 16]]), shared_line_ns());
        assert!(one > 0.0 && one.is_finite());
        assert!(all > 0.0 && all.is_finite());
        assert_eq!(pass(&[]), f64::INFINITY);
        assert_eq!(shared_line_ns(), all, "measured once");
    }
}
