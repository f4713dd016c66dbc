//! Tests of other suites in which the index matters, once more with the map that is not the default
//! one. Tests that draw from a seed draw the map, too.

use timberline_store::IndexMap;

/// Runs a test whose stores have the other map as their index.
fn again(test: fn()) {
    /// Tests may share a thread, one after the other.
    struct Reset;
    impl Drop for Reset {
        fn drop(&mut self) {
            crate::MAP.set(IndexMap::default());
        }
    }
    let _reset = Reset;
    let other = IndexMap::ALL
        .into_iter()
        .find(|it| *it != IndexMap::default());
    crate::MAP.set(other.expect("there are two"));
    test();
}

macro_rules! again {
    ($($suite:ident::$test:ident,)*) => {
        $(#[test]
        fn $test() {
            again(crate::$suite::$test);
        })*
    };
}

again! {
    checkpoints::after_a_clean_stop_no_record_is_read,
    checkpoints::segments_are_as_live_as_if_all_records_were_read,
    checkpoints::after_a_kill_only_the_end_is_read,
    checkpoints::writers_and_the_cleaner_go_on_while_a_checkpoint_is_written,
    checkpoints::the_longest_keys_fit_into_a_checkpoint,
    eviction::where_the_index_has_no_more_memory_the_oldest_keys_go,
    eviction::threads_wait_until_keys_are_gone,
    eviction::where_no_key_can_go_a_put_is_refused,
    expiry::a_record_is_gone_from_its_instant_on,
    expiry::space_and_memory_come_back,
    expiry::without_memory_for_its_time_a_put_is_refused,
    hiding::a_value_that_was_replaced_does_not_come_back,
    hiding::a_value_that_was_deleted_does_not_come_back,
    hiding::fresh_records_leave_nothing,
    histories::histories_of_futures_are_linearizable,
    histories::histories_of_threads_are_linearizable,
    limits::an_index_that_takes_too_much_takes_new_keys_again_when_there_is_more,
    operations::records_are_put_read_and_deleted,
    operations::a_batch_may_name_a_key_twice,
    operations::keys_are_counted_by_their_first_byte,
    scans::records_come_in_key_order_from_both_ends,
    scans::a_scan_returns_what_is_there_all_the_time,
    snapshots::batches_are_whole_beside_threads,
    snapshots::what_changed_is_noted_up_to_a_bound_and_then_the_oldest_snapshot_goes,
    space::overwriting_for_ever_needs_no_more_space,
}
