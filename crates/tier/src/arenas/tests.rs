//! Arenas: slots, budgets to the page, what the kernel really commits.

mod draining;
mod failures;
mod pages;
mod slots;
mod threads;

use std::os::unix::fs::FileExt;

use super::*;

fn small(fast: usize, slow: usize) -> Arenas {
    let mut config = ArenasConfig::two_tiers(fast, slow);
    config.chunk_bytes = 64 << 10;
    Arenas::new(&config).unwrap()
}

fn fill(arenas: &Arenas, tier: TierId, size: usize) -> Vec<NonNull<u8>> {
    std::iter::from_fn(|| arenas.allocate(tier, size).ok()).collect()
}

/// Bytes of a range that have memory behind them, page by page. (`smaps` would count neighbours
/// too: the kernel joins mappings that lie side by side.)
fn resident(range: Range<usize>) -> usize {
    const PRESENT: u64 = 1 << 63;
    let mut entries = vec![0; range.len() / PAGE * size_of::<u64>()];
    let pagemap = std::fs::File::open("/proc/self/pagemap").unwrap();
    let offset = range.start / PAGE * size_of::<u64>();
    pagemap.read_exact_at(&mut entries, offset as u64).unwrap();
    let (entries, _) = entries.as_chunks();
    let present = |&&entry: &&[u8; 8]| u64::from_ne_bytes(entry) & PRESENT != 0;
    entries.iter().filter(present).count() * PAGE
}

#[allow(unsafe_code)]
fn free(arenas: &Arenas, slot: NonNull<u8>, size: usize) {
    // SAFETY: the tests free each slot once, with the size it was allocated with.
    unsafe { arenas.free(slot, size) };
}

#[allow(unsafe_code)]
fn write(slot: NonNull<u8>, size: usize, byte: u8) {
    // SAFETY: the slot has `size` bytes and is this thread's until it is freed.
    unsafe { slot.as_ptr().write_bytes(byte, size) };
}

/// The first and the last byte of a slot.
#[allow(unsafe_code)]
fn read(slot: NonNull<u8>, size: usize) -> [u8; 2] {
    // SAFETY: as for `write`.
    [0, size - 1].map(|at| unsafe { slot.as_ptr().add(at).read() })
}
