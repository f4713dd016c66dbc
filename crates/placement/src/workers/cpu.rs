//! How much of a CPU a thread has used.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Time a thread was on a CPU. The kernel keeps it for each thread in `schedstat`; the thread opens
/// its own and anyone may read it, so counting costs the worker nothing.
#[derive(Default)]
pub struct CpuClock {
    live: OnceLock<File>,
    /// Nanoseconds at the thread's end, when the file has nothing more to say.
    last: AtomicU64,
}

impl CpuClock {
    /// To be called by the thread, first.
    pub fn open(&self) {
        if let Ok(file) = File::open("/proc/thread-self/schedstat") {
            let _ = self.live.set(file);
        }
    }

    /// To be called by the thread, last.
    pub fn close(&self) {
        self.last.store(self.nanoseconds(), Ordering::Release);
    }

    /// On a CPU so far; 0 where the system does not tell.
    pub fn nanoseconds(&self) -> u64 {
        let read = || {
            let mut text = [0; 64];
            let length = self.live.get()?.read_at(&mut text, 0).ok()?;
            let text = std::str::from_utf8(&text[..length]).ok()?;
            text.split_whitespace().next()?.parse().ok()
        };
        read().unwrap_or_else(|| self.last.load(Ordering::Acquire))
    }
}
