//! Compares many lookups a call with one: `cargo run --release -p timberline-bench --example
//! get_many -- [records] [rounds] [btree|art|masstree]...`.
//!
//! One thread on this machine's memory, maps made by `new`, random 64-bit keys. A round is 32,000
//! uniform lookups in each form in turn, in the thread's CPU time; the output shows the median of
//! the rounds with the least and the most, and the median of the rounds' ratios. Times are noisy.

mod args;

use std::hint::black_box;
use std::process::ExitCode;

use args::Args;
use timberline_bench::Rounds;
use timberline_bench::workload::{KeySpace, Rng, load_order};
use timberline_placement::workers::thread_cpu_time;
use timberline_tree::{Art, BTree, Masstree};

/// Lookups of a form in a round.
const LOOKUPS: usize = 32_000;
/// Keys a call.
const FORMS: [usize; 4] = [1, 16, 64, 1_000];
const USAGE: &str = "usage: get_many [records] [rounds] [btree|art|masstree]...";

/// Nanoseconds that this thread has run.
fn now() -> f64 {
    thread_cpu_time().as_secs_f64() * 1e9
}

/// Measures a map, and prints a line for each form.
macro_rules! measure {
    ($map:ty, $name:expr, $records:expr, $rounds:expr) => {{
        let space = KeySpace::new($records).expect("a valid size");
        let map = <$map>::new();
        for id in load_order($records, 1, 0, 1) {
            map.insert(&space.key(id), id).expect("memory");
        }
        let mut random = Rng::new(1, 0);
        let mut times = [const { Vec::new() }; FORMS.len()];
        let mut values = [None; FORMS[FORMS.len() - 1]];
        for _ in 0..$rounds {
            for (keys_a_call, times) in FORMS.iter().zip(&mut times) {
                let draw = || space.key(random.below($records));
                let keys: Vec<u64> = std::iter::repeat_with(draw).take(LOOKUPS).collect();
                let start = now();
                if *keys_a_call == 1 {
                    for key in &keys {
                        black_box(map.get(key));
                    }
                } else {
                    for keys in keys.chunks(*keys_a_call) {
                        map.get_many(keys, &mut values[..keys.len()]);
                        black_box(&values);
                    }
                }
                times.push((now() - start) / LOOKUPS as f64);
            }
        }
        for (keys_a_call, form) in FORMS.iter().zip(&times) {
            let ratios = times[0].iter().zip(form).map(|(get, many)| get / many);
            let ratio = Rounds::new(&ratios.collect::<Vec<_>>()).median;
            let Rounds {
                median,
                least,
                most,
            } = Rounds::new(form);
            println!(
                "{} {keys_a_call:4} a call: {median:5.0} ns a key ({least:.0} to {most:.0}), \
                 get ÷ this {ratio:.2}",
                $name
            );
        }
    }};
}

fn main() -> ExitCode {
    let Some(args) = Args::parse(10_000_000, 21) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    for map in args.maps {
        match map {
            "btree" => measure!(BTree<u64, u64>, map, args.records, args.rounds),
            "art" => measure!(Art<u64, u64>, map, args.records, args.rounds),
            _ => measure!(Masstree<u64, u64>, map, args.records, args.rounds),
        }
    }
    ExitCode::SUCCESS
}
