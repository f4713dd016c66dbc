//! Counts over many transactions, against values computed by hand from the specification.

use std::collections::{HashMap, HashSet};

use super::Tpcc;
use super::keys::Table;
use super::stream::{TpccStream, Transaction};
use crate::workload::tests::chi_square;
use crate::workload::{Op, Request, Rng};

const SEED: u64 = 2024;

fn tpcc(name: &str, records: u64) -> Tpcc {
    Tpcc::parse(name, records).unwrap().unwrap()
}

fn take(stream: &mut TpccStream, requests: usize) -> Vec<Request> {
    (0..requests).map(|_| stream.next()).collect()
}

fn table(key: u64) -> Table {
    let all = Table::ALL.into_iter();
    all.into_iter()
        .find(|&table| table as u64 == key >> 60)
        .unwrap()
}

fn warehouse(key: u64) -> u64 {
    key >> 44 & 0xffff
}

/// The warehouse and district of a key.
fn place(key: u64) -> u64 {
    key >> 40 & 0xf_ffff
}

fn number(key: u64) -> u64 {
    key & ((1 << 40) - 1)
}

#[test]
fn transactions_come_in_their_shares() {
    let mut rng = Rng::new(SEED, 0);
    let mut counts = [0; 5];
    (0..100_000).for_each(|_| counts[Transaction::draw(&mut rng) as usize] += 1);
    chi_square::assert_fits(&counts, &[0.45, 0.43, 0.04, 0.04, 0.04]);
}

/// On average, an order has ten lines, a delivery ten orders, and a stock level two hundred lines.
#[test]
fn each_table_has_its_share_of_the_accesses() {
    let expected = [
        (Table::Item, 0.45 * 10.0),
        (Table::Warehouse, 0.45 + 0.43),
        (Table::District, 0.45 + 0.43 + 0.04),
        (Table::Customer, 0.45 + 0.43 + 0.04 + 0.04 * 10.0),
        (Table::Name, 0.6 * (0.43 + 0.04)),
        (Table::History, 0.43),
        (Table::Order, 0.45 + 0.04 + 0.04 * 10.0),
        (Table::OrderOfCustomer, 0.45 + 0.04),
        (Table::NewOrder, 0.45 + 0.04 * 20.0),
        (Table::Line, 0.45 * 10.0 + 0.04 + 0.04 * 100.0 + 0.04),
        (Table::Stock, 0.45 * 10.0 + 0.04 * 200.0),
    ];
    let all: f64 = expected.iter().map(|(_, each)| each).sum();
    assert!((all - 32.042).abs() < 1e-9, "{all}");

    const REQUESTS: usize = 2_000_000;
    let requests = take(&mut tpcc("tpcc:2", 0).stream(SEED, 0, 1), REQUESTS);
    let mut counts: HashMap<Table, u64> = HashMap::new();
    for request in &requests {
        *counts.entry(table(request.key)).or_default() += 1;
    }
    for (table, each) in expected {
        let (share, expected) = (counts[&table] as f64 / REQUESTS as f64, each / all);
        // 62,000 transactions; 2,500 are of the kinds with the most requests.
        let off = (share / expected - 1.0).abs();
        assert!(off < 0.06, "{table:?}: {share:.4} instead of {expected:.4}");
    }
    let inserts = requests.iter().filter(|request| request.op == Op::Insert);
    let inserts = inserts.count() as f64 / REQUESTS as f64;
    assert!((inserts / Tpcc::INSERTS - 1.0).abs() < 0.03, "{inserts}");
}

#[test]
fn every_key_asked_for_is_loaded_or_was_inserted_by_the_same_stream() {
    for (name, records, threads) in [("tpcc", 3_000, 1), ("tpcc", 20_000, 5), ("tpcc:2", 0, 3)] {
        let tpcc = tpcc(name, records);
        let loaded: HashSet<u64> = (0..tpcc.records()).map(|id| tpcc.key(id)).collect();
        let mut inserted = HashSet::new();
        for thread in 0..threads {
            let mut own = HashSet::new();
            for Request { op, key } in take(&mut tpcc.stream(SEED, thread, threads), 100_000) {
                if op == Op::Insert {
                    assert!(
                        !loaded.contains(&key) && inserted.insert(key),
                        "{key:x} again"
                    );
                    own.insert(key);
                } else {
                    let there = loaded.contains(&key) || own.contains(&key);
                    assert!(
                        there,
                        "{op:?} of {:?} {key:x}, which is not there",
                        table(key)
                    );
                }
            }
        }
    }
}

#[test]
fn a_stream_repeats_from_its_seed_and_threads_differ() {
    let requests = |seed, thread| take(&mut tpcc("tpcc:2", 0).stream(seed, thread, 2), 5000);
    assert_eq!(requests(SEED, 1), requests(SEED, 1));
    assert_ne!(requests(SEED, 0), requests(SEED, 1));
    assert_ne!(requests(SEED + 1, 1), requests(SEED, 1));
}

#[test]
fn deliveries_take_the_oldest_order_of_each_district() {
    let tpcc = tpcc("tpcc:2", 0);
    // Three in ten of the loaded orders are undelivered: from 2,101 on.
    let mut oldest = HashMap::new();
    let mut delivered = 0;
    for Request { op, key } in take(&mut tpcc.stream(SEED, 0, 1), 3_000_000) {
        if table(key) == Table::NewOrder && op == Op::Update {
            let next = oldest.entry(place(key)).or_insert(2101);
            assert_eq!(number(key), *next);
            *next += 1;
            delivered += 1;
        }
    }
    assert_eq!(oldest.len(), 20);
    assert!(
        delivered > 20 * 900,
        "also of those that were inserted: {delivered}"
    );
}

#[test]
fn a_line_in_a_hundred_and_fifteen_payments_are_of_another_warehouse() {
    let tpcc = tpcc("tpcc:3", 0);
    // Thread 0 of three, whose only warehouse is the first.
    let requests = take(&mut tpcc.stream(SEED, 0, 3), 2_000_000);
    let written = |wanted: Table| {
        let of = requests.iter().filter(move |request| {
            request.op == Op::ReadModifyWrite && table(request.key) == wanted
        });
        let (all, away) = of.fold((0, 0), |(all, away), request| {
            (all + 1, away + u64::from(warehouse(request.key) != 1))
        });
        away as f64 / f64::from(all)
    };
    let stock = written(Table::Stock);
    assert!((0.009..0.011).contains(&stock), "{stock}");
    // Payments and deliveries write customers: 0.43 and 0.4 per transaction.
    let customers = written(Table::Customer) / (0.43 / 0.83);
    assert!((0.14..0.16).contains(&customers), "{customers}");
}

#[test]
fn customers_and_items_are_asked_for_by_preference() {
    let tpcc = tpcc("tpcc:1", 0);
    let mut counts: HashMap<u64, u32> = HashMap::new();
    for Request { key, .. } in take(&mut tpcc.stream(SEED, 0, 1), 2_000_000) {
        if table(key) == Table::Item {
            *counts.entry(number(key)).or_default() += 1;
        }
    }
    let mut counts: Vec<u32> = counts.into_values().collect();
    counts.sort_unstable_by(|one, two| two.cmp(one));
    let sum = |counts: &[u32]| counts.iter().map(|&count| f64::from(count)).sum::<f64>();
    // Of 100,000 items; a uniform choice would give a tenth.
    let hot = sum(&counts[..10_000]) / sum(&counts);
    assert!((0.5..0.8).contains(&hot), "{hot}");
}

#[test]
fn threads_share_warehouses_or_have_their_own() {
    let homes = |name: &str, threads: u64| {
        let tpcc = tpcc(name, 0);
        let of = |thread| -> HashSet<u64> {
            let requests = take(&mut tpcc.stream(SEED, thread, threads), 20_000);
            let of = requests
                .iter()
                .filter(|it| table(it.key) == Table::District);
            of.map(|it| warehouse(it.key)).collect()
        };
        (0..threads).map(of).collect::<Vec<_>>()
    };
    assert_eq!(
        homes("tpcc:3", 2),
        [HashSet::from([1, 3]), HashSet::from([2])]
    );
    assert_eq!(
        homes("tpcc:2", 3),
        [1, 2, 1].map(|home| HashSet::from([home]))
    );
}

#[test]
fn other_names_are_not_its() {
    for name in ["hs-a", "tpcc2", "tpch", ""] {
        assert!(Tpcc::parse(name, 1_000_000).is_none(), "{name}");
    }
    assert!(Tpcc::parse("tpcc:", 1).unwrap().is_err());
    assert_eq!(tpcc("tpcc:2", 0).name(), "tpcc:2");
}
