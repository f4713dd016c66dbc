//! `timberline plan`: how much fast memory is worth having, by the throughput model.

mod machine;
mod servers;

use std::path::PathBuf;

use machine::Machine;
use serde_json::{Value, json};
use timberline_bench::report::grid::Grid;
use timberline_model::plan::{Choice, Data, Estimate, GIB, Plan};
use timberline_model::skew::Zipf;

use crate::Failure;
use crate::parse::number;
use crate::say::{say, write_out};

#[derive(clap::Args)]
#[command(
    after_help = "Nothing is measured: the figures are those of the model of Bando et al. \
    (SIGMOD 2025) with the machine and the prices of the file. Its operations are gets: the \
    model has no equation for puts and the cleaning that they need."
)]
pub struct Args {
    /// Number of records, e.g. 1e9
    #[arg(long, default_value = "1e9", value_name = "N", value_parser = number(1.0..=1e15))]
    records: f64,
    /// Bytes of a record on SSD, its key included
    #[arg(long, default_value = "116", value_name = "BYTES",
        value_parser = number(1.0..=67_108_864.0))]
    record_bytes: f64,
    /// Exponent of the Zipf distribution of the gets; 0 is uniform
    #[arg(long, default_value = "0.99", value_name = "EXPONENT", value_parser = number(0.0..=3.0))]
    skew: f64,
    /// Cores that serve requests, instead of those of the file
    #[arg(long, value_name = "N", value_parser = number(1.0..=1e6))]
    cores: Option<f64>,
    /// Index of the file, by its name; by default the first one
    #[arg(long, value_name = "NAME")]
    index_map: Option<String>,
    /// The slow memory to show in detail; by default the one that gives most for its price
    #[arg(long, value_name = "NAME")]
    slow: Option<String>,
    /// Show the cheapest servers for these capacities in TiB instead, with and without CXL
    #[arg(long, value_name = "TIB", value_delimiter = ',', num_args = 0..,
        default_missing_value = "0.5,1,2,3,4,5,6,8,10,12", value_parser = number(0.001..=1e6))]
    capacity: Vec<f64>,
    /// Machine and prices
    #[arg(long, value_name = "FILE")]
    machine: Option<PathBuf>,
    /// Print the default machine and prices, as a file to edit
    #[arg(long)]
    print_machine: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Bytes that the store reads from SSD at once, at least.
const BLOCK: f64 = 4096.0;
/// Fractions of the index in DRAM that are shown.
const PARTS: [f64; 9] = [0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 0.7, 1.0];

pub fn run(args: &Args) -> Result<(), Failure> {
    if args.print_machine {
        return write_out(machine::DEFAULT.as_bytes());
    }
    let machine = Machine::read(args.machine.as_deref())?;
    let (index_map, index) = machine.index(args.index_map.as_deref())?;
    if let Some(name) = &args.slow
        && machine.slow().all(|(it, _)| it != name)
    {
        let names: Vec<&str> = machine.slow().map(|(name, _)| name).collect();
        return Err(Failure::Impossible(format!(
            "no slow memory is named {name:?}; possible: {}",
            names.join(", ")
        )));
    }
    if !args.capacity.is_empty() {
        return servers::run(&machine.parts(), &args.capacity, args.json);
    }
    let zipf = Zipf {
        records: args.records,
        exponent: args.skew,
    };
    let data = Data {
        zipf,
        record_bytes: args.record_bytes,
        io_bytes: (args.record_bytes / BLOCK).ceil() * BLOCK,
    };
    let plan = Plan::new(machine.host(args.cores), data, index);
    // What the others are compared with.
    let all_dram = plan.best(None);
    let mut best: Vec<(&str, Estimate)> = vec![("none", all_dram)];
    best.extend(
        machine
            .slow()
            .map(|(name, slow)| (name, plan.best(Some(slow)))),
    );
    best.sort_by(|a, b| {
        b.1.for_price(&all_dram)
            .total_cmp(&a.1.for_price(&all_dram))
    });
    let (shown, detailed) = to_detail(args.slow.as_deref(), &best);
    let along = PARTS.map(|index_in_dram| {
        plan.estimate(Choice {
            index_in_dram,
            ..detailed.choice
        })
    });

    if args.json {
        let object = |(name, it): &(&str, Estimate)| as_json(name, it, &all_dram);
        let all = json!({
            "modelled": true, "records": args.records, "skew": args.skew,
            "record_bytes": args.record_bytes,
            "index_map": index_map, "index_bytes": plan.index_bytes(),
            "best": best.iter().map(object).collect::<Vec<_>>(),
            "by_fast_memory": along.map(|it| as_json(shown, &it, &all_dram)),
        });
        return say(format_args!("{all:#}"));
    }
    say(format_args!(
        "{:e} records of {} bytes, gets by Zipf {} (modelled, not measured)\n\
         index ({index_map}) {} in memory, records {} on SSD\n",
        args.records,
        args.record_bytes,
        args.skew,
        bytes(plan.index_bytes()),
        bytes(plan.data_bytes()),
    ))?;
    say("The best use of each kind of slow memory, best first:\n")?;
    say(choices(&best, &all_dram))?;
    say(format_args!(
        "\n{}\n\nWith {shown}, and {} for records, more of the index in DRAM gives:\n",
        advice(&best, &all_dram),
        bytes(detailed.choice.cache_bytes),
    ))?;
    say(curve(&along, &all_dram))
}

/// The slow memory that the user named, or the best.
fn to_detail<'a>(named: Option<&str>, best: &[(&'a str, Estimate)]) -> (&'a str, Estimate) {
    let mut with_slow = best.iter().filter(|(_, it)| it.choice.slow.is_some());
    let found = with_slow.find(|(name, _)| named.is_none_or(|named| named == *name));
    *found.expect("a machine has slow memory, and the name was checked")
}

/// A sentence for the best choice and for the next one.
fn advice(best: &[(&str, Estimate)], all_dram: &Estimate) -> String {
    let said = |(name, it): &(&str, Estimate)| {
        let memory = match it.choice.slow {
            None => format!("{} of DRAM", bytes(it.dram_bytes)),
            Some(_) => format!(
                "{} of DRAM and {} of {name}",
                bytes(it.dram_bytes),
                bytes(it.slow_bytes)
            ),
        };
        format!(
            "{memory}; {} gets a second; {:.2}",
            count(it.per_s),
            it.for_price(all_dram)
        )
    };
    format!(
        "Best: {}.\nNext: {}.\nThe last figure is throughput for the price; the best without slow \
         memory is 1.",
        said(&best[0]),
        said(&best[1])
    )
}

fn choices(best: &[(&str, Estimate)], all_dram: &Estimate) -> String {
    let mut grid = Grid::new([
        (["slow", "memory"], true),
        (["index in", "DRAM"], false),
        (["cache of", "records"], false),
        (["gets", "cached"], false),
        (["slow", "accesses"], false),
        (["gets", "a second"], false),
        (["", "price"], false),
        (["for its", "price"], false),
    ]);
    for (name, it) in best {
        grid.row(vec![
            (*name).to_owned(),
            percent(it.choice.index_in_dram),
            bytes(it.choice.cache_bytes),
            percent(it.cached),
            percent(it.slow_accesses),
            count(it.per_s),
            format!("{:.0}", it.price),
            format!("{:.2}", it.for_price(all_dram)),
        ]);
    }
    grid.render().trim_end().to_owned()
}

fn curve(along: &[Estimate], all_dram: &Estimate) -> String {
    let mut grid = Grid::new([
        (["index in", "DRAM"], false),
        (["", "bytes"], false),
        (["slow", "accesses"], false),
        (["gets", "a second"], false),
        (["of all", "in DRAM"], false),
        (["", "price"], false),
        (["for its", "price"], false),
    ]);
    for it in along {
        grid.row(vec![
            percent(it.choice.index_in_dram),
            bytes(it.dram_bytes),
            percent(it.slow_accesses),
            count(it.per_s),
            format!("{:.2}", it.per_s / all_dram.per_s),
            format!("{:.0}", it.price),
            format!("{:.2}", it.for_price(all_dram)),
        ]);
    }
    grid.render().trim_end().to_owned()
}

fn as_json(name: &str, it: &Estimate, all_dram: &Estimate) -> Value {
    json!({
        "slow_memory": name, "index_in_dram": it.choice.index_in_dram,
        "cache_bytes": it.choice.cache_bytes, "dram_bytes": it.dram_bytes,
        "slow_bytes": it.slow_bytes, "slow_accesses": it.slow_accesses, "cached": it.cached,
        "gets_per_s": it.per_s, "price": it.price, "for_price": it.for_price(all_dram),
    })
}

fn percent(fraction: f64) -> String {
    let digits = usize::from(fraction > 0.0 && fraction < 0.0995);
    format!("{:.digits$} %", 100.0 * fraction)
}

fn bytes(bytes: f64) -> String {
    let gib = bytes / GIB;
    match gib {
        0.0 => "–".to_owned(),
        _ if gib < 1.0 => format!("{:.1} MiB", 1024.0 * gib),
        _ if gib < 10_000.0 => format!("{gib:.1} GiB"),
        _ => format!("{:.1} TiB", gib / 1024.0),
    }
}

fn count(count: f64) -> String {
    match count {
        _ if count >= 1e6 => format!("{:.2} M", count / 1e6),
        _ => format!("{:.0} k", count / 1e3),
    }
}
