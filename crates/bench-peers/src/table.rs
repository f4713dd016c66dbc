//! The tables at the end of a run.

use comfy_table::presets::ASCII_MARKDOWN;
use comfy_table::{CellAlignment, Table};

use crate::contenders::{ROWS, Side};
use crate::result::Figures;

/// Three tables: ours against the best peer, throughput of all, memory of all.
pub fn render(results: &[Figures]) -> String {
    if results.is_empty() {
        return "nothing was measured\n".into();
    }
    let cases = cases(results);
    format!(
        "Ours and the best peer, Mops/s: medians of the rounds; the ratio is that of the best of ours, taken round by \
         round [lowest, highest]\n{}\n\nAll contenders, Mops/s\n{}\n\nBytes per record after loading: allocated and committed / \
         resident in the process\n{}\n",
        against_best(results, &cases),
        everybody(results, &cases),
        memory(results, &cases)
    )
}

/// The first entry of each case, in execution order.
fn cases(results: &[Figures]) -> Vec<&Figures> {
    let mut cases: Vec<&Figures> = Vec::new();
    for figures in results {
        if !cases.iter().any(|case| case.same_case(figures)) {
            cases.push(figures);
        }
    }
    cases
}

/// The measured contenders, in the order of the table of contenders.
fn names(results: &[Figures], side: Option<Side>) -> Vec<&'static str> {
    let chosen = ROWS
        .iter()
        .filter(|row| side.is_none_or(|side| side == row.side));
    chosen
        .map(|row| row.name)
        .filter(|name| results.iter().any(|figures| figures.outcome.index == *name))
        .collect()
}

fn find<'a>(results: &'a [Figures], case: &Figures, name: &str) -> Option<&'a Figures> {
    results
        .iter()
        .find(|figures| figures.outcome.index == name && figures.same_case(case))
}

fn table(header: Vec<String>, labels: usize) -> Table {
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN);
    let columns = header.len();
    table.set_header(header);
    for at in labels..columns {
        if let Some(column) = table.column_mut(at) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

fn label(case: &Figures) -> Vec<String> {
    vec![
        case.outcome.workload.clone(),
        case.keys.clone(),
        case.distribution.clone(),
        case.outcome.threads.to_string(),
    ]
}

const LABELS: [&str; 4] = ["workload", "keys", "dist", "threads"];

fn header(names: &[&str]) -> Vec<String> {
    LABELS
        .iter()
        .chain(names)
        .map(ToString::to_string)
        .collect()
}

fn mops(ops_per_s: f64) -> String {
    format!("{:.2}", ops_per_s / 1e6)
}

fn throughput(figures: Option<&Figures>) -> String {
    figures.map_or("–".into(), |figures| mops(figures.outcome.ops_per_s))
}

fn against_best(results: &[Figures], cases: &[&Figures]) -> Table {
    let own = names(results, Some(Side::Ours));
    let mut columns = vec!["empty"];
    columns.extend(&own);
    columns.extend(["best peer", "", "ratio"]);
    let mut table = table(header(&columns), LABELS.len());
    for case in cases {
        let mut row = label(case);
        row.push(throughput(find(results, case, "empty")));
        let entries = own.iter().map(|name| find(results, case, name));
        row.extend(entries.map(throughput));
        let with_ratio = results.iter().filter(|figures| figures.same_case(case));
        let best = with_ratio
            .filter_map(|figures| Some((figures, figures.ratio_to_best_peer?)))
            .max_by(|a, b| a.1.total_cmp(&b.1));
        row.extend(match best {
            Some((figures, ratio)) => {
                let name = figures.best_peer.clone().unwrap_or_default();
                let peer = throughput(find(results, case, &name));
                let least = figures.ratio_to_best_peer_min.unwrap_or(ratio);
                let most = figures.ratio_to_best_peer_max.unwrap_or(ratio);
                [name, peer, format!("{ratio:.2} [{least:.2}, {most:.2}]")]
            }
            None => {
                let peers = results
                    .iter()
                    .filter(|figures| figures.side() == Side::Peer && figures.same_case(case));
                let best = peers.max_by(|a, b| a.outcome.ops_per_s.total_cmp(&b.outcome.ops_per_s));
                let name = best.map_or("–".into(), |figures| figures.outcome.index.clone());
                [name, throughput(best), "–".into()]
            }
        });
        table.add_row(row);
    }
    table
}

fn everybody(results: &[Figures], cases: &[&Figures]) -> Table {
    let names = names(results, None);
    let mut table = table(header(&names), LABELS.len());
    for case in cases {
        let mut row = label(case);
        row.extend(
            names
                .iter()
                .map(|name| throughput(find(results, case, name))),
        );
        table.add_row(row);
    }
    table
}

fn memory(results: &[Figures], cases: &[&Figures]) -> Table {
    let names: Vec<_> = names(results, None)
        .into_iter()
        .filter(|name| *name != "empty")
        .collect();
    let columns = ["keys"].into_iter().chain(names.iter().copied());
    let mut table = table(columns.map(String::from).collect(), 1);
    let mut done: Vec<&str> = Vec::new();
    for case in cases {
        if done.contains(&case.keys.as_str()) {
            continue;
        }
        done.push(&case.keys);
        let mut row = vec![case.keys.clone()];
        row.extend(names.iter().map(|name| {
            let figures = find(results, case, name);
            figures.map_or("–".into(), |figures| {
                let resident = figures.resident_bytes as f64 / figures.outcome.records as f64;
                format!("{:.1} / {resident:.1}", figures.outcome.bytes_per_record)
            })
        }));
        table.add_row(row);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::fill_ratios;

    fn figures(index: &str, workload: &str, rounds: &[f64]) -> Figures {
        let mut figures = Figures {
            keys: "random".into(),
            distribution: "zipf".into(),
            resident_bytes: 3_000,
            ..Figures::default()
        };
        figures.outcome.index = index.into();
        figures.outcome.workload = workload.into();
        figures.outcome.threads = 2;
        figures.outcome.records = 100;
        figures.outcome.bytes_per_record = 22.5;
        figures.outcome.set_rounds(rounds.to_vec());
        figures
    }

    fn row_of<'a>(text: &'a str, first: &str, nth: usize) -> Vec<&'a str> {
        let words = |line: &'a str| {
            let words = line.split_whitespace();
            words.filter(|word| *word != "|").collect()
        };
        let rows = text.lines().map(words);
        rows.filter(|row: &Vec<&str>| row.first() == Some(&first))
            .nth(nth)
            .unwrap()
    }

    #[test]
    fn a_row_has_ours_the_best_peer_and_the_ratio() {
        let mut results = vec![
            figures("empty", "ycsb-c", &[900e6]),
            figures("btree", "ycsb-c", &[3e6, 4e6]),
            figures("congee", "ycsb-c", &[2e6, 2e6]),
            figures("scc", "ycsb-c", &[1e6, 1e6]),
            figures("congee", "ycsb-e", &[2e6]),
        ];
        fill_ratios(&mut results);
        let text = render(&results);
        let expected = [
            "ycsb-c", "random", "zipf", "2", "900.00", "3.50", "congee", "2.00", "1.75", "[1.50,",
            "2.00]",
        ];
        assert_eq!(row_of(&text, "ycsb-c", 0), expected, "{text}");
        let expected = [
            "ycsb-e", "random", "zipf", "2", "–", "–", "congee", "2.00", "–",
        ];
        assert_eq!(row_of(&text, "ycsb-e", 0), expected, "{text}");
        let expected = [
            "ycsb-c", "random", "zipf", "2", "900.00", "3.50", "2.00", "1.00",
        ];
        assert_eq!(row_of(&text, "ycsb-c", 1), expected, "{text}");
        assert_eq!(
            row_of(&text, "random", 0)[..4],
            ["random", "22.5", "/", "30.0"]
        );
    }

    #[test]
    fn nothing_measured_is_said() {
        assert_eq!(render(&[]), "nothing was measured\n");
    }
}
