//! What maps whose values are strings of bytes must do.
//!
//! A map joins by implementing [`ValueMap`] and a line in a test file: `value_suite_for!(name:
//! Type)`. It then runs through what the suite has for maps of words, too, each word written as a
//! string of a length of its own, and through the tests below. The file has this one as a module
//! beside the suite.

mod encoded;
mod failures;
mod map;
mod moves;
mod strings;
mod threads;

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};

use crate::suite::draw::seed;
use crate::suite::{TestMap, arenas, placing};

pub use encoded::Encoded;
pub use failures::*;
pub use map::ValueMap;
pub(crate) use map::value_map;
pub use moves::*;
pub use strings::*;
pub use threads::*;

/// Declares a module with all tests for one map with strings as values.
macro_rules! value_suite_for {
    ($name:ident: $map:ty) => {
        mod $name {
            use super::*;
            suite_for! { @ values::Encoded<$map>:
                model::agrees_with_a_sorted_map,
                own_keys::threads_with_their_own_keys_lose_nothing,
                contended::no_increment_is_lost,
                contended::every_value_comes_out_once,
                scans::standing_records_are_seen_once_in_order,
                linear::histories_are_linearizable_while_nodes_move,
                ends::pops_are_linearizable,
                moves::heat_goes_along_and_the_old_address_is_dead,
                faults::a_failed_allocation_fails_an_insert_or_nothing,
                faults::a_failed_allocation_ends_a_bulk_load_cleanly,
                full::a_full_fast_tier_sends_new_nodes_to_the_slow_one,
                full::threads_meet_a_full_tier_and_lose_nothing,
                full::any_budget_down_to_nothing_is_kept,
                reclaim::churn_gives_everything_back,
                reclaim::memory_stays_bounded_under_churn,
                bulk::a_bulk_load_is_a_run_of_inserts,
                bulk::an_unsorted_bulk_load_says_where,
                bulk::many_lookups_are_as_many_gets,
                workers::restless_workers_lose_nothing_and_keep_the_budget,
            }
            value_suite_for! { @ $map:
                strings_of_any_length_come_back,
                too_long_is_an_error_that_names_the_limit,
                long_strings_agree_with_a_sorted_map_while_they_move,
                no_reader_sees_half_a_string,
                a_closure_sees_what_it_replaces,
                a_failed_allocation_changes_nothing,
                strings_move_with_their_leaf_or_neither_does,
                scattered_strings_move_together_where_leaves_stay,
                a_string_is_not_taken_for_a_leaf,
            }
        }
    };
    (@ $map:ty: $($test:ident),* $(,)?) => {
        $(
            #[test]
            fn $test() {
                values::$test::<$map>();
            }
        )*
    };
}
pub(crate) use value_suite_for;

fn make<T: ValueMap>(fast: usize, slow: usize) -> (Encoded<T>, placing::Placing) {
    let placing = placing::shuffle(seed());
    let map = Encoded::make(arenas::two(fast, slow), placing.placement.clone());
    (map.unwrap(), placing)
}

/// A string in which each byte follows from the length.
fn string(len: usize) -> Vec<u8> {
    vec![len as u8 ^ (len >> 8) as u8 ^ 0x5a; len]
}

fn is_of_one_piece(bytes: &[u8]) -> bool {
    bytes == string(bytes.len())
}

fn same<T: ValueMap>(map: &T, model: &BTreeMap<u64, Vec<u8>>) {
    let all = (Bound::Unbounded, Bound::Unbounded);
    let expected = || model.iter().map(|(&key, value)| (key, value.clone()));
    assert!(map.range(all).eq(expected()), "forward");
    assert!(map.range(all).rev().eq(expected().rev()), "backward");
    let mut scanned = Vec::new();
    map.scan(0, usize::MAX, |key, value| {
        scanned.push((key, value.to_vec()));
        ControlFlow::Continue(())
    });
    assert!(scanned.into_iter().eq(expected()), "scanned");
    assert_eq!(map.len(), model.len());
    for (&key, value) in model {
        assert!(map.get(key).as_ref() == Some(value), "{key}");
    }
}
