//! What this process has used: processor, disk, memory. From `/proc`, so zeros elsewhere.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// What a process has used, since it began or between two times.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    /// Processor time, in user and kernel mode.
    pub cpu: Duration,
    /// Bytes read from disks.
    pub read_bytes: u64,
    /// Bytes written to disks.
    pub written_bytes: u64,
}

impl Usage {
    /// Of this process until now.
    pub fn now() -> Usage {
        let time = clock_gettime(ClockId::ProcessCPUTime);
        let io = fs::read_to_string("/proc/self/io").unwrap_or_default();
        Usage {
            cpu: Duration::new(time.tv_sec as u64, time.tv_nsec as u32),
            read_bytes: field(&io, "read_bytes:").unwrap_or(0),
            written_bytes: field(&io, "write_bytes:").unwrap_or(0),
        }
    }

    /// Between an earlier time and this one.
    pub fn since(self, before: &Usage) -> Usage {
        Usage {
            cpu: self.cpu - before.cpu,
            read_bytes: self.read_bytes - before.read_bytes,
            written_bytes: self.written_bytes - before.written_bytes,
        }
    }
}

/// The number behind a name at the start of a line.
fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    line.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// The most bytes that were ever resident at a time; `None` where the system does not say so.
pub fn peak_memory() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    Some(field(&status, "VmHWM:")? << 10)
}

/// The peak is that from now on.
pub fn reset_peak_memory() {
    // Where it is not allowed, the peak is that of the whole process: no smaller.
    let _ = fs::write("/proc/self/clear_refs", "5");
}

/// Bytes that the files of a folder take on the disk, and those of the folders in it.
pub fn folder_bytes(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let bytes = entries.filter_map(|entry| {
        let about = entry.metadata().ok()?;
        Some(match about.is_dir() {
            true => folder_bytes(&entry.path()),
            false => about.blocks() * 512,
        })
    });
    bytes.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let text = "rchar: 5\nread_bytes: 4096\ncancelled_write_bytes: 7\nwrite_bytes: 8192\n";
        assert_eq!(field(text, "read_bytes:"), Some(4096));
        assert_eq!(field(text, "write_bytes:"), Some(8192));
        assert_eq!(field(text, "none:"), None);
    }

    #[test]
    fn processor_time_grows() {
        let before = Usage::now();
        while Usage::now().since(&before).cpu.is_zero() {}
        assert!(Usage::now().since(&before).cpu > Duration::ZERO);
    }
}
