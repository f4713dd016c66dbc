//! Marks in the stream of instructions, for an instrument that emulates the processor and counts
//! accesses.
//!
//! A mark is an instruction that does nothing (`xchg` of a register with itself, as simulators and
//! emulators use them), so a program outside such an instrument runs as if it were not there. The
//! instrument finds the range of addresses to count in the registers of the first two arguments of
//! a call.
#![allow(unsafe_code)]

use std::ops::Range;

/// Accesses to `range` count from here on.
pub fn begin(range: Range<usize>) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: exchanges a register with itself; reads and writes nothing else.
    unsafe {
        std::arch::asm!(
            "xchg bx, bx",
            in("rdi") range.start,
            in("rsi") range.end,
            options(nostack, preserves_flags)
        );
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = range;
}

/// Accesses count no more.
pub fn end() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: exchanges a register with itself; reads and writes nothing else.
    unsafe {
        std::arch::asm!("xchg dx, dx", options(nostack, preserves_flags));
    }
}
