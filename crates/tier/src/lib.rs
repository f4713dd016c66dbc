//! Which memory this machine has, arenas in it, budgets over it, and an emulator of slower memory.
//! Knows no nodes and no trees. The only crate that maps memory.

#[cfg(not(all(unix, target_pointer_width = "64")))]
compile_error!("timberline needs a 64-bit Unix: it reserves terabytes of addresses with `mmap`");

mod arenas;
mod budget;
pub mod emulator;
pub mod hint;
mod id;
pub mod mark;
mod memory;
mod os;
#[cfg(target_os = "linux")]
mod seeded;
mod side;
mod striped;
pub mod tiering;
pub mod topology;

pub use arenas::{
    Arenas, ArenasConfig, ArenasError, CompactionCandidates, Limit, Look, MAX_SLOT, NO_LIMIT,
    OutOfMemory, PageCensus, Slot, TierConfig, slot_size,
};
pub use budget::Budget;
pub use id::TierId;
pub use memory::{Memory, Native};
pub use os::{give_back_free_pages, keep_large_blocks_apart, share_one_heap};
pub use side::{SlotTable, Table, TableEntry};
pub use striped::Striped;
