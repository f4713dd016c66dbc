//! Mistakes planted in the maps, which the checks of this folder have to find:
//! `cargo test -p timberline-tree --features seeded-bugs --test faults seeded::`.

use std::thread;

use timberline_tree::BTree;
use timberline_tree::seeded::{Bug, plant};

use timberline_tier::Native;

use crate::{NODE_128, memory, panics};

type Map = BTree<u64, u64, Native, NODE_128>;

/// Runs a check in a thread that has a bug, and returns how it failed.
fn found(bug: Bug, check: fn()) -> String {
    let checked = thread::spawn(move || {
        plant(bug);
        check();
    });
    let why = checked.join().expect_err("the mistake is found");
    let why = why.downcast_ref::<String>().expect("a message").clone();
    println!("{why}");
    why
}

#[test]
fn memory_lost_where_memory_ends_is_found() {
    let check = memory::an_operation_fails_as_a_whole_or_does_without::<Map>;
    let why = found(Bug::LeakedWhereMemoryEnds, check);
    assert!(why.contains("leaked"), "{why}");
}

#[test]
fn a_placement_told_in_the_middle_of_a_move_is_found() {
    let check = panics::a_placement_that_panics_takes_no_record_with_it::<Map>;
    let why = found(Bug::ToldInBetween, check);
    assert!(why.contains("leaked"), "{why}");
}
