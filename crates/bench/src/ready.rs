//! Memory that the machine has ready.

use timberline_tier::{Arenas, ArenasConfig, MAX_SLOT, TierId};

/// Takes as much memory as this from the kernel, bytes, and gives it back; the kernel gives it out
/// again next. Where the kernel is a virtual machine's, memory that it has not used lately is the
/// host's, and its first touch takes many times the rest of a load. If there is not that much,
/// takes what there is.
pub fn have_ready(bytes: usize) {
    let Ok(arenas) = Arenas::new(&ArenasConfig::one_tier(bytes)) else {
        return;
    };
    while arenas.allocate(TierId::FAST, MAX_SLOT).is_ok() {}
}
