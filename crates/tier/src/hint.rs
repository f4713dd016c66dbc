//! Software prefetch, which can be given any address.
#![allow(unsafe_code)]

/// Bytes in a cache line.
pub const LINE: usize = 64;

/// Asks the CPU for the lines that hold `bytes` bytes from `address` on. Never faults.
#[inline(always)]
pub fn prefetch(address: usize, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        let mut line = address & !(LINE - 1);
        while line < address + bytes {
            // SAFETY: a prefetch of any address, mapped or not, has no architectural effect.
            unsafe {
                core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(
                    line as *const i8,
                );
            }
            line += LINE;
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (address, bytes);
}
