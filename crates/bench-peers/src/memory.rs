//! The memory of a subject's process: one allocator for all, the size of its pages, and what is
//! resident.
//!
//! The allocator is jemalloc, for Rust and C++ alike. Where pages are 4 KiB, transparent huge pages
//! are off for the whole process; where they are 2 MiB, jemalloc asks for them as our arenas do.
#![allow(unsafe_code)]

use std::ptr;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// The size of the pages that everybody's memory asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Pages {
    /// 4 KiB.
    #[value(name = "4k")]
    Small,
    /// 2 MiB.
    #[value(name = "2m")]
    Huge,
}

impl Pages {
    /// Its name in the report.
    pub fn name(self) -> String {
        self.to_possible_value()
            .expect("none is hidden")
            .get_name()
            .into()
    }

    /// The allocator's options, for the variable `MALLOC_CONF` of a child.
    pub fn malloc_options(self) -> &'static str {
        match self {
            Pages::Small => "thp:never",
            Pages::Huge => "thp:always",
        }
    }

    /// Makes this process keep to the size.
    ///
    /// # Errors
    /// The kernel refuses to.
    pub fn enforce(self) -> Result<(), String> {
        if self == Pages::Huge {
            return Ok(());
        }
        // SAFETY: the call takes numbers only, and changes what later page faults get.
        match unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0) } {
            0 => Ok(()),
            _ => Err("the kernel can't turn 2 MiB pages off for a process".into()),
        }
    }
}

/// What is resident of this process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Resident {
    /// All of it, bytes.
    pub bytes: u64,
    /// What lies in 2 MiB pages, bytes.
    pub in_huge_pages: u64,
}

impl Resident {
    /// What is resident now, once the allocator has returned what is free. Zero where the kernel
    /// does not report it.
    pub fn now() -> Resident {
        // All arenas have this number, in jemalloc's own interface.
        let purge = c"arena.4096.purge";
        let none = ptr::null_mut();
        // SAFETY: the name ends in a zero, and the command takes and gives nothing.
        unsafe { tikv_jemalloc_sys::mallctl(purge.as_ptr(), none, ptr::null_mut(), none, 0) };
        let text = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap_or_default();
        let bytes = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            let kib = line.and_then(|line| line.trim().strip_suffix("kB"));
            kib.and_then(|kib| kib.trim().parse::<u64>().ok())
                .unwrap_or(0)
                * 1024
        };
        Resident {
            bytes: bytes("Rss:"),
            in_huge_pages: bytes("AnonHugePages:"),
        }
    }

    /// What has come since `before`.
    pub fn since(self, before: Resident) -> Resident {
        Resident {
            bytes: self.bytes.saturating_sub(before.bytes),
            in_huge_pages: self.in_huge_pages.saturating_sub(before.in_huge_pages),
        }
    }
}

/// Free memory of the machine, bytes; unlimited where the kernel does not report it.
pub fn available_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kib.map_or(u64::MAX, |kib| kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_resident_until_it_is_freed() {
        const BYTES: usize = 64 << 20;
        // Other tests allocate at the same time, but far less than this.
        let slack = (BYTES / 4) as u64;
        let before = Resident::now();
        assert!(before.bytes > 0);
        let block = vec![1u8; BYTES];
        assert!(Resident::now().since(before).bytes >= BYTES as u64 - slack);
        drop(block);
        assert!(Resident::now().since(before).bytes <= slack);
    }
}
