//! One suite for any ordered map: what every map must do, whatever its nodes look like.
//!
//! A map joins by implementing [`TestMap`] and one line in a test file: `suite_for!(name: Type)`.
//! Nodes and chunks should be as small as the map allows, so that splits, merges, epochs and
//! migrations happen on few keys. A placement joins by a line in [`placing::ALL`], and one with
//! workers by another in [`moving::ALL`].
//!
//! Every test draws from one seed, which it prints; `TIMBERLINE_SEED=n` repeats a run.

pub mod any_bits;
pub mod arenas;
pub mod asks;
pub mod bulk;
pub mod check;
pub mod clockwork;
pub mod contended;
pub mod draw;
pub mod effort;
pub mod ends;
pub mod faults;
pub mod full;
pub mod linear;
pub mod map;
pub mod migrator;
pub mod model;
pub mod moves;
pub mod moving;
pub mod names;
pub mod ops;
pub mod own_keys;
pub mod placing;
pub mod reclaim;
pub mod scans;
pub mod threads;
pub mod tiers;
pub mod workers;

pub use map::TestMap;

/// Declares a module with all tests of the suite for one map.
macro_rules! suite_for {
    ($name:ident: $map:ty) => {
        mod $name {
            use super::*;
            suite_for! { @ $map:
                model::agrees_with_a_sorted_map,
                model::agrees_over_a_long_run,
                own_keys::threads_with_their_own_keys_lose_nothing,
                contended::no_increment_is_lost,
                contended::every_value_comes_out_once,
                scans::standing_records_are_seen_once_in_order,
                scans::each_leaf_that_only_moves_is_seen,
                linear::histories_are_linearizable_at_rest,
                linear::histories_are_linearizable_while_nodes_move,
                ends::pops_are_linearizable,
                ends::a_map_is_cleared_beside_inserters,
                moves::heat_goes_along_and_the_old_address_is_dead,
                moves::scattered_nodes_move_together,
                moves::what_is_scattered_moves_together_beside_threads,
                tiers::nodes_move_between_any_two_tiers,
                tiers::threads_lose_nothing_while_nodes_move_among_three_tiers,
                tiers::a_victim_goes_to_the_third_tier_when_the_second_is_full,
                faults::a_failed_allocation_fails_an_insert_or_nothing,
                faults::a_failed_allocation_ends_a_bulk_load_cleanly,
                faults::a_failed_allocation_moves_no_node,
                full::a_full_fast_tier_sends_new_nodes_to_the_slow_one,
                full::a_full_tier_has_room_when_nodes_left_it_and_not_before,
                full::a_full_slow_tier_refuses_inserts_only,
                full::room_of_removed_records_comes_back,
                full::the_same_keys_fit_again,
                full::an_emptied_map_gives_its_chunks_back,
                full::threads_meet_a_full_tier_and_lose_nothing,
                full::any_budget_down_to_nothing_is_kept,
                reclaim::churn_gives_everything_back,
                reclaim::memory_stays_bounded_under_churn,
                reclaim::calls_may_use_the_map_when_memory_is_short,
                bulk::a_bulk_load_is_a_run_of_inserts,
                bulk::an_unsorted_bulk_load_says_where,
                bulk::a_bulk_load_may_read_its_own_map,
                bulk::many_lookups_are_as_many_gets,
                workers::hot_leaves_become_fast_wherever_they_are,
                workers::growth_beyond_the_budget_keeps_it,
                workers::restless_workers_lose_nothing_and_keep_the_budget,
                workers::a_worker_that_panics_takes_nothing_with_it,
                workers::workers_stop_at_any_moment,
            }
        }
    };
    (@ $map:ty: $($file:ident::$test:ident),* $(,)?) => {
        $(
            #[test]
            fn $test() {
                suite::$file::$test::<suite::any_bits::AnyBits<$map>>();
            }
        )*
    };
}
