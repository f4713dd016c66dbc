//! The tables at the end of a run.

use timberline_bench::report::grid::{Grid, Head};

use crate::result::Figures;
use crate::subjects::Side;

/// A table for each kind of keys and size of pages: subjects by workloads.
pub fn render(results: &[Figures]) -> String {
    if results.is_empty() {
        return "nothing was measured\n".into();
    }
    let mut text = String::from(
        "Medians of the rounds; bytes are resident memory after loading.\n\
         ours ÷ peers: the best of ours to the best peer, round by round.\n",
    );
    for (at, first) in results.iter().enumerate() {
        let is_new = !results[..at].iter().any(|before| before.same_map(first));
        if is_new {
            text += &format!("\n{} keys, {} pages\n", first.keys, first.pages);
            let map: Vec<_> = results.iter().filter(|it| it.same_map(first)).collect();
            text += &table(&map);
        }
    }
    text
}

/// Each once, in the order in which they come.
fn unique<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut all = Vec::new();
    for name in names {
        if !all.contains(&name) {
            all.push(name);
        }
    }
    all
}

fn table(map: &[&Figures]) -> String {
    let workloads = unique(map.iter().map(|it| it.outcome.workload.as_str()));
    let indexes = unique(map.iter().map(|it| it.outcome.index.as_str()));
    let mut columns: Vec<Head<'_>> = vec![(["", ""], true)];
    columns.extend(workloads.iter().map(|name| ([*name, "Mops/s"], false)));
    columns.push((["bytes", "/record"], false));
    let mut grid = Grid::new(columns);
    for index in indexes {
        let of = |workload: &str| {
            let is_it =
                |it: &&&Figures| it.outcome.index == index && it.outcome.workload == workload;
            map.iter().find(is_it)
        };
        let mut cells = vec![index.to_string()];
        cells.extend(workloads.iter().map(|name| match of(name) {
            Some(it) => format!("{:.2}", it.outcome.ops_per_s / 1e6),
            None => "–".into(),
        }));
        let any = workloads.iter().find_map(|name| of(name));
        cells.push(match any.filter(|it| it.side() != Side::Floor) {
            Some(it) => format!("{:.1}", it.outcome.bytes_per_record),
            None => "–".into(),
        });
        grid.row(cells);
    }
    let best = |name: &&str| {
        let row = map.iter().filter(|it| it.outcome.workload == *name);
        let compared = row.filter(|it| it.ratio_to_best_peer.is_some());
        compared.max_by(|a, b| {
            a.ratio_to_best_peer
                .partial_cmp(&b.ratio_to_best_peer)
                .unwrap()
        })
    };
    let best: Vec<_> = workloads.iter().map(best).collect();
    if best.iter().all(Option::is_none) {
        return grid.render();
    }
    let mut row = |label: &str, cell: &dyn Fn(&Figures) -> Option<String>| {
        let mut cells = vec![label.to_string()];
        let shown = |it: &Option<&&Figures>| it.and_then(|it| cell(it)).unwrap_or("–".into());
        cells.extend(best.iter().map(shown));
        cells.push(String::new());
        grid.row(cells);
    };
    let ratio = |value: Option<f64>| value.map(|value| format!("{value:.2}"));
    row("ours ÷ peers", &|it| ratio(it.ratio_to_best_peer));
    row("  lowest round", &|it| ratio(it.ratio_to_best_peer_min));
    row("  highest round", &|it| ratio(it.ratio_to_best_peer_max));
    grid.render()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::fill_ratios;

    fn figures(index: &str, workload: &str, rounds: &[f64]) -> Figures {
        let mut figures = Figures {
            keys: "random".into(),
            pages: "4k".into(),
            ..Figures::default()
        };
        figures.outcome.index = index.into();
        figures.outcome.workload = workload.into();
        figures.outcome.bytes_per_record = 22.5;
        figures.outcome.set_rounds(rounds.to_vec());
        figures
    }

    #[test]
    fn a_table_has_a_row_for_each_subject_and_the_ratio_of_the_best() {
        let mut results = vec![
            figures("empty", "zipf", &[900e6]),
            figures("btree", "zipf", &[3e6, 4e6]),
            figures("art", "zipf", &[1e6, 1e6]),
            figures("congee", "zipf", &[2e6, 2e6]),
            figures("congee", "scans", &[2e6]),
            figures("scc", "zipf", &[1e6, 1e6]),
        ];
        results[5].pages = "2m".into();
        fill_ratios(&mut results);
        let text = render(&results);
        let lines: Vec<String> = text
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        for line in [
            "random keys, 4k pages",
            "zipf scans bytes",
            "empty 900.00 – –",
            "btree 3.50 – 22.5",
            "congee 2.00 2.00 22.5",
            "ours ÷ peers 1.75 –",
            "lowest round 1.50 –",
            "highest round 2.00 –",
            "random keys, 2m pages",
            "scc 1.00 22.5",
        ] {
            assert!(lines.iter().any(|it| it == line), "`{line}` in\n{text}");
        }
    }

    #[test]
    fn nothing_measured_is_said() {
        assert_eq!(render(&[]), "nothing was measured\n");
    }
}
