//! What `bench --remote --balance` prints.

use timberline_bench::remote::{Balanced, HOT, PLACES, Setting};
use timberline_bench::report::grid::Grid;

use super::{Operation, READS, WRITES};
use crate::Failure;
use crate::say::say;

/// Keys that stay, and keys that follow the load.
pub fn print(setting: &Setting, runs: &[Balanced; 2]) -> Result<(), Failure> {
    let [keys, requests] = HOT.map(|part| 100.0 * part);
    say(format_args!(
        "SIMULATED: {} compute servers with caches of {} KiB, {} memory servers; {} records of 16 \
         bytes\n{} requests at a time on each; network of {} ns and {} Gb/s; {} ns beside it\n\
         half of the requests are updates; {requests} % go to {keys} % of the keys, at {PLACES} \
         places one after the other\n",
        setting.compute_servers,
        setting.cache_bytes() >> 10,
        setting.memory_servers,
        setting.records,
        setting.threads,
        setting.latency_ns,
        setting.gigabits,
        setting.local_ns,
    ))?;
    let operations: [Operation; 2] = [READS, WRITES];
    let names = operations.map(|(name, _)| ([name, "a request"], false));
    let mut table = Grid::new(
        [
            (["keys", ""], true),
            (["modelled", "M/s"], false),
            (["busiest", "to mean"], false),
        ]
        .into_iter()
        .chain(names)
        .chain([(["moves", ""], false), (["refused", ""], false)]),
    );
    for run in runs {
        let name = if run.is_on { "follow" } else { "stay" };
        let busiest = run.busiest.iter().sum::<f64>() / run.busiest.len().max(1) as f64;
        let figures = [
            name.into(),
            format!("{:.2}", run.modelled_mops),
            format!("{busiest:.2}"),
        ];
        let each = operations.map(|(_, cell)| cell(&run.each));
        let counts = [run.moves.to_string(), run.refused.to_string()];
        table.row(figures.into_iter().chain(each).chain(counts).collect());
    }
    say(table.render().trim_end())?;
    for run in runs {
        let name = if run.is_on { "follow" } else { "stay" };
        let places = run
            .parts
            .chunks(run.parts.len().div_ceil(PLACES as usize).max(1));
        say(format_args!(
            "\nM/s of each fortieth, keys that {name}; a line for each place:"
        ))?;
        for parts in places {
            let parts: Vec<_> = parts.iter().map(|it| format!("{it:.1}")).collect();
            say(parts.join(" "))?;
        }
    }
    Ok(())
}
