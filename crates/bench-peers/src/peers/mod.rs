//! The contenders, one file each: ours, and the peers. `README.md` of this crate lists those left
//! out, with reasons.

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
pub mod masstree_cpp;
pub mod ours;
pub mod skiplist;
pub mod tree_index;
