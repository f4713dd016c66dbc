//! The example programs run, and find what they are to find.

#[path = "../examples/async_lookups.rs"]
mod async_lookups;
#[path = "../examples/autocomplete.rs"]
#[allow(
    dead_code,
    reason = "its program takes arguments, and here these are the tests'"
)]
mod autocomplete;
#[path = "../examples/changing_budget.rs"]
#[allow(dead_code, reason = "its program takes seconds")]
mod changing_budget;
#[path = "../examples/secondary_index.rs"]
mod secondary_index;
#[path = "../examples/time_series.rs"]
mod time_series;
#[path = "../examples/url_counters.rs"]
mod url_counters;

use std::time::Duration;

/// The doctests run the package's.
#[test]
fn both_readmes_have_one_example() {
    let example = |readme: &'static str| {
        let (_, code) = readme.split_once("```rust\n").unwrap();
        code.split_once("```").unwrap().0
    };
    let [whole, packaged] = [
        include_str!("../../../README.md"),
        include_str!("../README.md"),
    ];
    assert_eq!(example(whole), example(packaged));
    let relative = packaged.split("](").skip(1);
    assert_eq!(relative.count(), 0, "links that a registry can't follow");
}

/// Its example in the README, line by line, is in the one that the store's doctests run.
#[test]
fn the_readme_shows_the_store_as_it_documents_itself() {
    let readme = include_str!("../../../README.md");
    let documented: Vec<&str> = include_str!("../../store/src/lib.rs")
        .lines()
        .filter_map(|line| line.strip_prefix("//! "))
        .collect();
    let blocks = readme.split("```rust\n").skip(1);
    let mut of_store = blocks.filter(|block| block.starts_with("use timberline_store"));
    let (code, _) = of_store.next().unwrap().split_once("```").unwrap();
    for line in code.lines().filter(|line| !line.is_empty()) {
        assert!(documented.contains(&line), "{line}");
    }
}

#[test]
fn a_secondary_index_finds_users_by_city() {
    secondary_index::main().unwrap();
    let users = secondary_index::Users::default();
    users.add(2, "Blaise", "Paris").unwrap();
    users.add(1, "Sophie", "Paris").unwrap();
    users.add(3, "Paul", "Pari").unwrap();
    assert_eq!(users.of_city("Paris"), ["Sophie", "Blaise"]);
    users.move_to(2, "Paris", "Rouen").unwrap();
    assert_eq!(users.of_city("Paris"), ["Sophie"]);
    assert_eq!(users.of_city("Rouen"), ["Blaise"]);
}

#[test]
fn autocomplete_prefers_frequent_words() {
    let words = autocomplete::count("tree, trees! Tree? the trees; tree three").unwrap();
    assert_eq!(autocomplete::complete(&words, "tre", 5), ["tree", "trees"]);
    assert_eq!(autocomplete::complete(&words, "t", 1), ["tree"]);
    assert!(autocomplete::complete(&words, "x", 5).is_empty());
}

#[test]
fn no_visit_of_a_url_is_lost() {
    url_counters::main().unwrap();
    let counters = url_counters::count(3, 2_000).unwrap();
    assert_eq!(url_counters::sum(&counters, ""), 6_000);
    assert_eq!(counters.iter().map(|(_, count)| count).sum::<u64>(), 6_000);
}

#[test]
fn time_series_are_averaged_and_forgotten() {
    time_series::main().unwrap();
    let series = time_series::record(2, 120).unwrap();
    assert_eq!(
        time_series::mean(&series, 1, 0, 60),
        Some(21.0 + 59.0 / 120.0)
    );
    assert_eq!(time_series::mean(&series, 2, 0, 60), None);
    assert_eq!(time_series::forget(&series, 1, 100), 100);
    assert_eq!((series.len(), series.is_tiered()), (140, true));
}

#[test]
fn look_ups_are_spawned() {
    async_lookups::main().unwrap();
    let map = async_lookups::squares(1_000).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let sum = runtime.block_on(async_lookups::sum(&map, [3, 4, 2_000].into_iter()));
    assert_eq!(sum, 25);
}

#[test]
fn a_budget_that_changes_holds() {
    let index = changing_budget::index(100_000, 1 << 20).unwrap();
    for fast in [256 << 10, 4 << 20, 512 << 10] {
        changing_budget::set(&index, fast, Duration::ZERO).unwrap();
        assert!(index.committed().0 <= fast);
    }
    assert!(index.iter().map(|(key, _)| key).eq(0..100_000));
}
