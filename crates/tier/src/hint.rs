//! Software prefetch, which can be given any address.
#![allow(unsafe_code)]

/// Bytes in a cache line.
pub const LINE: usize = 64;

/// Asks the CPU for `lines` lines from the one at `address` on. Never faults.
#[inline(always)]
pub fn prefetch_lines(address: usize, lines: usize) {
    for line in 0..lines {
        prefetch_line(address.wrapping_add(line * LINE));
    }
}

/// Asks the CPU for the lines that hold `bytes` bytes from `address` on. Never faults.
#[inline(always)]
pub fn prefetch(address: usize, bytes: usize) {
    // The same one twice costs less than to find out whether it is one.
    if bytes <= LINE {
        prefetch_line(address);
        return prefetch_line(address.wrapping_add(bytes.saturating_sub(1)));
    }
    let first = address & !(LINE - 1);
    prefetch_lines(first, (address - first + bytes).div_ceil(LINE));
}

#[inline(always)]
fn prefetch_line(address: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch of any address, mapped or not, has no architectural effect.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address as *const i8) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
