//! Tables beside the arenas: of any length in fast memory, and with two bytes for every slot of a
//! tree's arenas, found by the slot's address. A placement may want to remember something of each
//! node without touching the node.
//!
//! A table is one reserved range, of which pages are committed by need. Each is charged to a
//! tier's budget before it is committed and given back when nothing needs it.
#![allow(unsafe_code)]

mod cover;
mod slots;
mod table;

pub(crate) use cover::Cover;
pub(crate) use slots::COARSEST;
pub use slots::SlotTable;
pub use table::{Table, TableEntry};
