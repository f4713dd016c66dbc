//! The memory that this process has, in two ways of counting.

use crate::allocator::bytes_in_use;

/// How much there is at a moment.
#[derive(Clone, Copy)]
pub struct Footprint {
    /// Bytes allocated.
    pub heap: u64,
    /// Bytes resident; 0 where the kernel does not tell.
    pub resident: u64,
}

impl Footprint {
    /// At this one.
    pub fn now() -> Footprint {
        Footprint {
            heap: bytes_in_use(),
            resident: resident_bytes(),
        }
    }
}

fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}
