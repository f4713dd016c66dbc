//! Faults that a user cannot bring about at will: memory that ends at any allocation, code that
//! panics at any place where a map calls it, workers that never run, clocks that jump. Whatever
//! happens, a map is what its model is, and goes on.
//!
//! | file | what goes wrong |
//! |---|---|
//! | `memory.rs` | the nth allocation, in either tier or both, in every operation |
//! | `starved.rs` | the same in each step of a worker; workers that hang or never run; clocks |
//! | `panics.rs` | closures, placements and workers panic |
//!
//! `map.rs` is what all maps offer, written once; `model.rs` asks it of a map and of the standard
//! library's.

#[path = "../suite/bytes.rs"]
#[allow(dead_code, unused_imports, unused_macros)]
mod bytes;
mod map;
#[path = "../suite/masstree_of_words.rs"]
#[allow(dead_code)]
mod masstree_of_words;
mod memory;
mod model;
mod panics;
#[cfg(feature = "seeded-bugs")]
mod seeded;
mod starved;
#[path = "../suite/mod.rs"]
#[allow(dead_code, unused_macros)]
mod suite;

use timberline_tier::Native;
use timberline_tree::BTree;
#[cfg(not(feature = "seeded-bugs"))]
use timberline_tree::{Art, Masstree, btree::NODE_256};

/// Body words of the smallest node, 128 bytes: six entries.
const NODE_128: usize = 12;

/// Declares all tests for one map.
macro_rules! faults_for {
    ($($name:ident: $map:ty;)*) => {$(
        mod $name {
            use super::*;
            faults_for! { @ $map:
                memory::an_operation_fails_as_a_whole_or_does_without,
                panics::a_placement_that_panics_takes_no_record_with_it,
                panics::a_closure_that_panics_changes_nothing,
                panics::a_worker_that_panics_leaves_a_map_in_which_nothing_moves,
                starved::workers_without_memory_go_on_later,
                starved::workers_that_never_run_are_not_missed,
                starved::a_worker_that_stands_still_holds_up_memory_only,
                starved::a_clock_that_jumps_misleads_no_worker,
            }
        }
    )*};
    (@ $map:ty: $($file:ident::$test:ident),* $(,)?) => {$(
        #[test]
        fn $test() {
            crate::$file::$test::<$map>();
        }
    )*};
}

faults_for! {
    btree: BTree<u64, u64, Native, NODE_128>;
}

// Mistakes are planted in the one above. All of them take a minute to compile.
#[cfg(not(feature = "seeded-bugs"))]
faults_for! {
    btree_of_strings: BTree<u64, Vec<u8>, Native, NODE_128>;
    art: Art<u64, u64>;
    art_of_bytes: Art<[u8], u64>;
    art_of_strings: Art<[u8], Vec<u8>>;
    masstree: Masstree<u64, u64, Native, NODE_128>;
    masstree_of_bytes: Masstree<[u8], u64, Native, NODE_256>;
    masstree_of_strings: Masstree<[u8], Vec<u8>, Native, NODE_128>;
}
