//! Operations on a map of byte strings, to time them or to count their instructions:
//! `strings <map> <keys> <records> <operation> <n>`, where keys are those of a file's lines
//! ([`Lines`]) or `uuid4`.

use std::hint::black_box;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use timberline_bench::workload::{Lines, Rng, load_order};
use timberline_tree::{Art, BTree, Masstree};

/// Records of a scan.
const SCANNED: usize = 50;
const USAGE: &str = "usage: strings <art|btree|masstree> <FILE|uuid4> <records> \
                     <get|insert|update|scan|values|load> <n>";

/// Pushes the key of an id.
type Push = Box<dyn Fn(u64, &mut Vec<u8>)>;

fn keys(name: &str) -> Result<Push, String> {
    if name == "uuid4" {
        return Ok(Box::new(|id, key| {
            let (mut high, mut low) = (Rng::new(id, 0), Rng::new(id, 1));
            let (high, low) = (high.below(u64::MAX), low.below(u64::MAX));
            let text = format!("{high:016x}{low:016x}");
            let parts = [
                &text[..8],
                &text[8..12],
                &text[12..16],
                &text[16..20],
                &text[20..],
            ];
            key.extend_from_slice(parts.join("-").as_bytes());
        }));
    }
    let lines = Lines::read(Path::new(name))?;
    Ok(Box::new(move |id, key| lines.push_key(id, key)))
}

/// Runs `n` operations of one kind on a loaded map.
macro_rules! run {
    ($map:ty, $push:expr, $records:expr, $operation:expr, $n:expr) => {{
        let (push, records, n): (Push, u64, u64) = ($push, $records, $n);
        let map = <$map>::new();
        let mut key = Vec::new();
        let insert = |id, key: &mut Vec<u8>| {
            key.clear();
            push(id, key);
            map.insert(&key[..], id).expect("memory for a record");
        };
        let began = Instant::now();
        load_order(records, 1, 0, 1).for_each(|id| insert(id, &mut key));
        let loaded = began.elapsed();
        let mut random = Rng::new(1, 0);
        let keys: Vec<Vec<u8>> = (0..n)
            .map(|_| {
                let mut key = Vec::new();
                push(random.below(records), &mut key);
                key
            })
            .collect();
        let began = Instant::now();
        match $operation {
            "load" => {}
            "get" => keys.iter().for_each(|key| {
                black_box(map.get(&key[..]));
            }),
            "insert" => (records..records + n).for_each(|id| insert(id, &mut key)),
            "update" => keys.iter().for_each(|key| {
                black_box(map.update(&key[..], 1));
            }),
            "scan" => keys.iter().for_each(|key| {
                map.scan_bytes(&key[..], SCANNED, |key, value| {
                    black_box((key, value));
                    ControlFlow::Continue(())
                });
            }),
            "values" => keys.iter().for_each(|key| {
                map.scan_values(&key[..], SCANNED, |value| {
                    black_box(value);
                    ControlFlow::Continue(())
                });
            }),
            _ => return Err(USAGE.into()),
        }
        let took = began.elapsed();
        println!(
            "{} ns an operation, {} ns a record loaded, {:.1} bytes a record",
            took.as_nanos() / u128::from(n.max(1)),
            loaded.as_nanos() / u128::from(records.max(1)),
            map.stats().bytes_in_nodes as f64 / records as f64
        );
    }};
}

fn run(args: &[String]) -> Result<(), String> {
    let [map, named, records, operation, n] = args else {
        return Err(USAGE.into());
    };
    let (Ok(records), Ok(n)) = (records.parse(), n.parse()) else {
        return Err(USAGE.into());
    };
    match &map[..] {
        "art" => run!(Art<[u8], u64>, keys(named)?, records, &operation[..], n),
        "btree" => run!(BTree<[u8], u64>, keys(named)?, records, &operation[..], n),
        "masstree" => run!(Masstree<[u8], u64>, keys(named)?, records, &operation[..], n),
        _ => return Err(USAGE.into()),
    }
    Ok(())
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::from(2)
        }
    }
}
