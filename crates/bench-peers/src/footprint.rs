//! The memory of this process, counted in two ways.

use crate::allocator::bytes_in_use;

/// The memory at one moment.
#[derive(Clone, Copy)]
pub struct Footprint {
    /// Bytes allocated.
    pub heap: u64,
    /// Resident bytes; 0 where the kernel does not report them.
    pub resident: u64,
}

impl Footprint {
    /// The memory now.
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
