//! The peers, one file each. `README.md` of this crate lists those left out, with reasons.

pub mod arctic;
pub mod bf_tree;
pub mod bplustree;
pub mod concurrent_map;
pub mod congee;
pub mod empty;
pub mod ferntree;
pub mod indexset;
pub mod locked;
pub mod masstree;
pub mod skiplist;
pub mod tree_index;
