//! Two reports side by side: ratios of throughput with intervals, and the differences that make
//! them not comparable.
//!
//! Rounds of different runs did not run next to each other, so they can't be paired: the interval
//! of a ratio is as wide as those of both throughputs together ([`Ratio::over`]). The difference
//! between two moments of a machine is in it only if each run had several processes.

use serde_json::Value;

use super::grid::{Grid, Head, wrapped};
use super::paired::Ratio;
use super::result::Outcome;
use super::written::Report;
use super::{csv, figures, markdown};

/// Base latencies that differ by more are two memories.
const SAME_LATENCY: f64 = 0.05;

/// Two reports that have a placement on a workload in common.
pub struct SideBySide {
    /// The names of the files.
    names: [String; 2],
    reports: [Report; 2],
    /// Indexes of what is the same in both.
    pairs: Vec<[usize; 2]>,
}

/// Both throughputs and what explains them, in the order of a table's cells.
const COLUMNS: [Head<'_>; 6] = [
    (["placement", ""], true),
    (["A", "Mops/s"], false),
    (["B", "Mops/s"], false),
    (["B ÷ A", "median [95 %]"], false),
    (["fast share", "A → B"], false),
    (["p99, µs", "A → B"], false),
];

const RATIO: &str = "B ÷ A: the ratio of medians, with a 95 % interval for six rounds or more: > B is ahead, \
    < behind, ~ undecided. A claim needs several processes (--processes).";

impl SideBySide {
    /// Of reports in files of these names.
    ///
    /// # Errors
    /// One line: they have no placement on a workload in common.
    pub fn of(names: [String; 2], reports: [Report; 2]) -> Result<Self, String> {
        let [a, b] = reports.each_ref().map(|report| &report.results);
        let places = a.iter().enumerate();
        let pairs =
            places.filter_map(|(at, own)| Some([at, b.iter().position(|it| same(own, it))?]));
        let pairs: Vec<_> = pairs.collect();
        if pairs.is_empty() {
            return Err(format!(
                "{} and {} have nothing in common: no placement on the same workload, map, records, threads and budget",
                names[0], names[1]
            ));
        }
        Ok(SideBySide {
            names,
            reports,
            pairs,
        })
    }

    /// What both have, in the order of the first.
    fn pairs(&self) -> impl Iterator<Item = [&Outcome; 2]> {
        let [a, b] = &self.reports;
        let of = |&[own, other]: &[usize; 2]| [&a.results[own], &b.results[other]];
        self.pairs.iter().map(of)
    }

    /// What only one of both has: the first (0) or the second (1).
    fn alone(&self) -> impl Iterator<Item = (usize, &Outcome)> {
        let [a, b] = self.reports.each_ref().map(|report| &report.results);
        let sides = [(0, a, b), (1, b, a)].into_iter();
        sides.flat_map(|(side, own, others)| {
            let alone = own
                .iter()
                .filter(|it| !others.iter().any(|other| same(it, other)));
            alone.map(move |it| (side, it))
        })
    }

    /// What both have, by setting.
    fn groups(&self) -> Vec<(String, Vec<[&Outcome; 2]>)> {
        let mut groups: Vec<(String, Vec<_>)> = Vec::new();
        for pair in self.pairs() {
            let setting = setting(pair[0]);
            match groups.last_mut() {
                Some((last, pairs)) if *last == setting => pairs.push(pair),
                _ => groups.push((setting, vec![pair])),
            }
        }
        groups
    }

    /// What may make the ratios meaningless, and what has none.
    fn notes(&self) -> impl Iterator<Item = String> {
        let [a, b] = &self.reports;
        let differences = differences([a, b]).into_iter();
        let alone = self.alone().map(|(side, it)| {
            let budget = figures::percent(it.fast_budget_ratio);
            let (name, setting) = (["A", "B"][side], setting(it));
            format!("only in {name}: {} at {budget}, {setting}", it.placement)
        });
        let not_alike = differences.map(|line| format!("NOT ALIKE: {line}"));
        not_alike.chain(alone)
    }

    /// As text for a terminal.
    pub fn table(&self) -> String {
        let [a, b] = &self.names;
        let mut grid = Grid::new(COLUMNS);
        for (setting, pairs) in self.groups() {
            grid.text(setting);
            for pair in pairs {
                grid.row(cells(pair).into());
            }
        }
        let mut text = format!("A: {a}\nB: {b}\n\n{}\n", grid.render());
        for line in [RATIO.to_owned()].into_iter().chain(self.notes()) {
            text += &wrapped(&line, 2);
        }
        text
    }

    /// As Markdown: a table for each setting, and the notes.
    pub fn markdown(&self) -> String {
        let [a, b] = self.names.each_ref().map(|name| markdown::escaped(name));
        let mut text = format!("A: {a}  \nB: {b}\n");
        for (setting, pairs) in self.groups() {
            text += &format!("\n### {}\n\n", markdown::escaped(&setting));
            text += &markdown::heads(&COLUMNS);
            for pair in pairs {
                text += &markdown::row(cells(pair).into_iter());
            }
        }
        text += "\n";
        for line in [RATIO.to_owned()].into_iter().chain(self.notes()) {
            text += &format!("- {}\n", markdown::escaped(&line));
        }
        text
    }

    /// As comma-separated values (RFC 4180): a row for each placement in each setting. Cells of a
    /// report that lacks it are empty.
    pub fn csv(&self) -> String {
        let [a, b] = &self.reports;
        let not_alike = differences([a, b]).join("; ");
        let pairs = self.pairs().map(|[a, b]| [Some(a), Some(b)]);
        let alone = self.alone().map(|(side, it)| match side {
            0 => [Some(it), None],
            _ => [None, Some(it)],
        });
        let mut text = String::new();
        for pair in pairs.chain(alone) {
            let fields = self.fields(pair, &not_alike);
            if text.is_empty() {
                text = fields.each_ref().map(|(name, _)| *name).join(",") + "\r\n";
            }
            text += &csv::row(fields.iter().map(|(_, value)| value));
        }
        text
    }

    /// What a row of comma-separated values tells, with the names and units of a report's.
    fn fields(
        &self,
        [a, b]: [Option<&Outcome>; 2],
        not_alike: &str,
    ) -> [(&'static str, Value); 18] {
        let it = a.or(b).expect("one report has it");
        let (median, interval) = a.zip(b).map(|(a, b)| ratio(a, b)).unwrap_or_default();
        let [name_a, name_b] = self.names.each_ref().map(String::as_str);
        [
            ("index", it.index.as_str().into()),
            ("placement", it.placement.as_str().into()),
            ("workload", it.workload.as_str().into()),
            ("records", it.records.into()),
            ("threads", it.threads.into()),
            ("fast_budget_ratio", it.fast_budget_ratio.into()),
            ("ops_per_s_a", a.map(|it| it.ops_per_s).into()),
            ("ops_per_s_b", b.map(|it| it.ops_per_s).into()),
            ("ratio", median.into()),
            ("ratio_low", interval.map(|it| it.low).into()),
            ("ratio_high", interval.map(|it| it.high).into()),
            ("fast_share_a", a.and_then(|it| it.fast_share).into()),
            ("fast_share_b", b.and_then(|it| it.fast_share).into()),
            ("p99_ns_a", a.map(|it| it.p99_ns).into()),
            ("p99_ns_b", b.map(|it| it.p99_ns).into()),
            ("report_a", name_a.into()),
            ("report_b", name_b.into()),
            ("not_alike", not_alike.into()),
        ]
    }
}

/// The cells of a table's row.
fn cells([a, b]: [&Outcome; 2]) -> [String; COLUMNS.len()] {
    let mops = |it: &Outcome| figures::mops_alone(it.ops_per_s);
    let to = |a: String, b: String| format!("{a} → {b}");
    let (median, interval) = ratio(a, b);
    [
        a.placement.clone(),
        mops(a),
        mops(b),
        figures::ratio(median, interval),
        to(figures::share(a.fast_share), figures::share(b.fast_share)),
        to(figures::micros([a.p99_ns]), figures::micros([b.p99_ns])),
    ]
}

/// The ratio of throughputs, if there is one, with its interval.
fn ratio(a: &Outcome, b: &Outcome) -> (Option<f64>, Option<Ratio>) {
    let median = (a.ops_per_s > 0.0).then(|| b.ops_per_s / a.ops_per_s);
    let [of_a, of_b] = [a, b].map(|it| Ratio::of(&it.processes()));
    let interval = of_b.zip(of_a).and_then(|(b, a)| b.over(a));
    (median, interval)
}

/// Whether both are one placement in one setting.
pub(super) fn same(a: &Outcome, b: &Outcome) -> bool {
    (&a.placement, setting(a)) == (&b.placement, setting(b))
        && (a.fast_budget_ratio - b.fast_budget_ratio).abs() < 0.005
}

fn setting(it: &Outcome) -> String {
    let records = figures::count(it.records);
    let plural = if it.threads == 1 { "" } else { "s" };
    let (workload, index, threads) = (&it.workload, &it.index, it.threads);
    format!("{workload} · {index} · {records} records · {threads} thread{plural}")
}

/// Differences between the reports that may make their ratios meaningless.
pub(super) fn differences([a, b]: [&Report; 2]) -> Vec<String> {
    let mut found = Vec::new();
    let mut differ = |what: &str, a: String, b: String| {
        if a != b {
            found.push(format!("{what}: A {a}, B {b}"));
        }
    };
    let memory = |it: &Report| match it.emulated() {
        true => format!("emulated, {}", it.meta.profile),
        false => "real".into(),
    };
    differ("memory", memory(a), memory(b));
    differ("machine", a.meta.machine.line(), b.meta.machine.line());
    let whole = |it: u64| it.to_string();
    differ("seed", whole(a.meta.seed), whole(b.meta.seed));
    let speed = |it: Option<f64>| it.map_or("closed loop".into(), |it| it.to_string());
    differ("speed of a trace", speed(a.meta.speed), speed(b.meta.speed));
    let [one, other] = [a, b].map(|it| whole(it.meta.schema_version.into()));
    differ("schema", one, other);
    for (name, version) in &a.meta.versions {
        if let Some(other) = b.meta.versions.get(name) {
            differ(name, version.clone(), other.clone());
        }
    }
    if let (Some(a), Some(b)) = (&a.meta.setting, &b.meta.setting) {
        let [a, b] = [a, b].map(|it| serde_json::to_value(it).expect("plain figures"));
        for (name, value) in a.as_object().into_iter().flatten() {
            // Matched one by one, or told above.
            if !["placements", "indexes", "seed", "profile"].contains(&name.as_str()) {
                differ(
                    name,
                    value.to_string(),
                    b.get(name).unwrap_or(&Value::Null).to_string(),
                );
            }
        }
    }
    let (one, other) = (a.meta.base_latency_ns, b.meta.base_latency_ns);
    if (one - other).abs() > SAME_LATENCY * one.min(other) {
        found.push(format!(
            "latency of fast memory: A {one:.0} ns, B {other:.0} ns"
        ));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::samples;

    fn of(names: [&str; 2], reports: [&Report; 2]) -> Result<SideBySide, String> {
        SideBySide::of(names.map(String::from), reports.map(Report::clone))
    }

    #[test]
    fn exports_have_what_the_table_has() {
        let (a, mut b) = (samples::report(), samples::run(&["hs-c"]));
        for outcome in &mut b.results {
            let rounds = outcome.rounds.iter().map(|it| it * 2.0).collect();
            outcome.set_rounds(rounds);
        }
        b.meta.seed = 43;
        let both = of(["a.json", "b, <2>.json"], [&a, &b]).unwrap();

        let markdown = both.markdown();
        assert!(markdown.starts_with("A: a.json  \nB: b, &lt;2>.json\n"));
        assert_eq!(markdown.matches("\n### ").count(), 1, "{markdown}");
        let rows = markdown.lines().filter(|line| line.starts_with("| "));
        assert_eq!(rows.count(), 2 + b.results.len(), "{markdown}");
        assert!(
            markdown.contains(" | 4.70 | 9.40 | 2.00 [1.89, 2.11] > | "),
            "{markdown}"
        );
        assert!(
            markdown.contains("\n- NOT ALIKE: seed: A 42, B 43\n"),
            "{markdown}"
        );
        assert!(markdown.contains("\n- only in A: "), "{markdown}");

        let text = both.csv();
        let rows: Vec<Vec<&str>> = text
            .split_terminator("\r\n")
            .map(|row| row.split(',').collect())
            .collect();
        assert_eq!(rows.len(), 1 + a.results.len());
        let cell = |row: usize, name: &str| {
            let at = rows[0].iter().position(|it| *it == name).unwrap();
            rows[row][at]
        };
        assert_eq!((cell(1, "workload"), cell(1, "ratio")), ("hs-c", "2.0"));
        assert!(
            rows[1].contains(&"\"b") && text.contains("\"seed: A 42, B 43\""),
            "{text}"
        );
        let alone = 1 + b.results.len();
        assert_eq!(
            (cell(alone, "workload"), cell(alone, "ratio")),
            ("ycsb-a", "")
        );
        assert!(!cell(alone, "ops_per_s_a").is_empty() && cell(alone, "ops_per_s_b").is_empty());
    }

    #[test]
    fn ratios_have_intervals_and_differences_have_names() {
        let (a, mut b) = (samples::report(), samples::run(&["hs-c"]));
        for outcome in &mut b.results {
            let rounds = outcome.rounds.iter().map(|it| it * 2.0).collect();
            outcome.set_rounds(rounds);
        }
        b.results.remove(6);
        b.meta.seed = 43;
        b.meta.base_latency_ns = 140.0;
        b.meta.machine.cores = 64;
        let text = of(["a.json", "b.json"], [&a, &b]).unwrap().table();
        assert!(text.contains("4.70    9.40  2.00 [1.89, 2.11] >"), "{text}");
        for part in [
            "seed: A 42, B 43",
            "machine: A",
            "latency of fast memory: A 92 ns, B 140",
        ] {
            assert!(
                text.contains(&format!("NOT ALIKE: {part}")),
                "{part}: {text}"
            );
        }
        assert!(
            text.contains("only in A: timberline at 20 %, hs-c"),
            "{text}"
        );
        assert!(
            text.contains("only in A: timberline at 20 %, ycsb-a"),
            "{text}"
        );
        assert!(
            text.lines().all(|line| line.chars().count() <= 80),
            "{text}"
        );
        assert_eq!(text.matches("NOT ALIKE").count(), 3, "{text}");
    }

    #[test]
    fn reports_with_nothing_in_common_are_refused() {
        let [a, b] = [&["hs-c"][..], &["hs-a"]].map(samples::run);
        let line = of(["a", "b"], [&a, &b]).err().unwrap();
        assert!(line.contains("nothing in common") && !line.contains('\n'));
        let same = of(["a", "a"], [&a, &a]).unwrap();
        assert!(!same.table().contains("NOT ALIKE"));
    }
}
