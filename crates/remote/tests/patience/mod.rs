//! Waiting for what comes at last. Tests of the server and of the CLI include this file.

#![allow(dead_code, reason = "each test uses some of it")]

use std::thread;
use std::time::{Duration, Instant};

/// For what comes at last, on a machine that is busy.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Does something until it gives a result.
pub fn at_last<T>(mut attempt: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(result) = attempt() {
            return result;
        }
        assert!(begin.elapsed() < PATIENCE, "it never comes");
        thread::sleep(Duration::from_millis(20));
    }
}
