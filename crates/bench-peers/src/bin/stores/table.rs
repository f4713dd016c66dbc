//! All outcomes, side by side.

use std::fmt::Write;

use timberline_bench::report::grid::Grid;
use timberline_bench::store::{Outcome, Rounds, Row};

use crate::engines::OURS;

/// A line for each kind of request and store.
pub fn shown(outcomes: &[(String, Outcome)]) -> String {
    let mut table = Grid::new([
        (["", ""], true),
        (["a second", "median (range)"], false),
        (["core", "us"], false),
        (["p99", "us"], false),
        (["read", "bytes"], false),
        (["written", "bytes"], false),
    ]);
    let mut text = String::new();
    let rows = |it: &Outcome| it.rows.iter().map(|row| row.name.clone()).collect();
    for name in names(outcomes, rows) {
        let mut heading = vec![name.clone()];
        heading.resize(6, String::new());
        if let Some(ratio) = to_best_peer(of(outcomes, &name)) {
            heading[1] = format!("ours ÷ best peer {ratio:.2}");
        }
        table.row(heading);
        for (store, row) in of(outcomes, &name) {
            let rest = [
                &row.core_us,
                &row.p99_us,
                &row.read_bytes,
                &row.written_bytes,
            ];
            let rest = rest.map(|it| number(it.median));
            let cells = [format!("  {store}"), ranged(&row.per_s)];
            table.row(cells.into_iter().chain(rest).collect());
        }
    }
    text.push_str(&table.render());
    text.push('\n');
    let figures = |it: &Outcome| it.figures.iter().map(|one| one.name.clone()).collect();
    for name in names(outcomes, figures) {
        let _ = writeln!(text, "{name}:");
        for (store, outcome) in outcomes {
            for figure in outcome.figures.iter().filter(|it| it.name == name) {
                let _ = writeln!(text, "  {store} {}", ranged(&figure.values));
            }
        }
    }
    text
}

/// All names, in the order in which they come first.
fn names(outcomes: &[(String, Outcome)], of: impl Fn(&Outcome) -> Vec<String>) -> Vec<String> {
    let mut names = Vec::new();
    for name in outcomes.iter().flat_map(|it| of(&it.1)) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

fn of<'a>(
    outcomes: &'a [(String, Outcome)],
    name: &'a str,
) -> impl Iterator<Item = (&'a str, &'a Row)> {
    let rows = outcomes.iter().map(move |(store, outcome)| {
        let row = outcome.rows.iter().find(|it| it.name == name);
        row.map(|row| (&**store, row))
    });
    rows.flatten()
}

/// Requests a second of ours by those of the best other store.
fn to_best_peer<'a>(rows: impl Iterator<Item = (&'a str, &'a Row)>) -> Option<f64> {
    let (mut ours, mut best) = (None, None);
    for (store, row) in rows {
        let per_s = row.per_s.median;
        match store {
            OURS => ours = Some(per_s),
            _ if store.starts_with(OURS) => {}
            _ => best = Some(best.map_or(per_s, |it: f64| it.max(per_s))),
        }
    }
    Some(ours? / best?)
}

fn ranged(rounds: &Rounds) -> String {
    let median = number(rounds.median);
    match rounds.least == rounds.most {
        true => median,
        false => format!(
            "{median} ({}–{})",
            number(rounds.least),
            number(rounds.most)
        ),
    }
}

fn number(value: f64) -> String {
    match value {
        _ if value.is_nan() => "–".into(),
        _ if value >= 100.0 => format!("{value:.0}"),
        _ => format!("{value:.2}"),
    }
}
