//! The report as a whole, and how it is written to files.
//!
//! `--json FILE` holds `{"meta": {...}, "results": [...]}`; a file with fewer fields, from an older
//! version, still reads. The page has the same JSON in it, drawn by its script.

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::result::{Meta, Outcome};
use crate::page::{Kind, document};

/// Everything `--json` writes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Where, when and how the figures came to be.
    pub meta: Meta,
    /// One entry for each placement on each workload, in the order they were first run.
    pub results: Vec<Outcome>,
}

impl Report {
    /// The report as indented JSON.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("plain figures and strings");
        text.push('\n');
        text
    }

    /// Writes the JSON to `path`. The error's text names the path.
    pub fn write_json(&self, path: &Path) -> io::Result<()> {
        write_file(path, &self.to_json())
    }

    /// Writes the self-contained page to `path`. The error's text names the path.
    pub fn write_html(&self, path: &Path) -> io::Result<()> {
        let text = super::table::render(self);
        write_file(path, &document(Kind::Bench, self.emulated(), self, &text))
    }

    /// Whether any figure in here comes from the emulator.
    pub fn emulated(&self) -> bool {
        self.meta.emulated || self.results.iter().any(|outcome| outcome.emulated)
    }
}

/// Writes a report to `path`. The error's text names the path.
pub fn write_file(path: &Path, text: &str) -> io::Result<()> {
    std::fs::write(path, text).map_err(|error| {
        io::Error::new(
            error.kind(),
            format!("cannot write the report to {}: {error}", path.display()),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::result::{LevelFill, Sample};
    use crate::report::samples;

    /// The names that DESIGN §6 promises to whoever reads the file.
    const STABLE: [&str; 22] = [
        "index",
        "placement",
        "workload",
        "records",
        "threads",
        "seconds",
        "fast_budget_ratio",
        "ops_per_s",
        "p50_ns",
        "p90_ns",
        "p99_ns",
        "p999_ns",
        "lines_fast_per_op",
        "lines_slow_per_op",
        "lines_cached_per_op",
        "promoted",
        "demoted",
        "worker_cpu_ratio",
        "fast_bytes",
        "slow_bytes",
        "bytes_per_record",
        "emulated",
    ];

    const FURTHER: [&str; 18] = [
        "ops_per_s_min",
        "ops_per_s_max",
        "rounds",
        "regained",
        "regained_min",
        "regained_max",
        "regained_to_oracle",
        "fast_share",
        "fast_share_bound",
        "fast_share_to_oracle",
        "fast_bytes_peak",
        "fast_budget_bytes",
        "over_budget_bytes",
        "ratio_to_interleave",
        "ratio_to_all_fast",
        "ratio_to_oracle",
        "series",
        "levels",
    ];

    #[test]
    fn every_stable_name_is_in_the_file() {
        let json: serde_json::Value = serde_json::from_str(&samples::report().to_json()).unwrap();
        for result in json["results"].as_array().unwrap() {
            for name in STABLE.iter().chain(&FURTHER) {
                assert!(result.get(name).is_some(), "no {name}");
            }
        }
        let sample = &json["results"][0]["series"][0];
        for name in [
            "at_s",
            "ops_per_s",
            "fast_share",
            "fast_bytes",
            "promoted",
            "demoted",
            "kernel",
        ] {
            assert!(sample.get(name).is_some(), "no {name} in a sample");
        }
        assert!(sample["kernel"].is_null());
        let level = &json["results"][0]["levels"][0];
        for name in [
            "level",
            "nodes_fast",
            "nodes_slow",
            "bytes_fast",
            "bytes_slow",
        ] {
            assert!(level.get(name).is_some(), "no {name} in a level");
        }
        for name in [
            "date",
            "command",
            "machine",
            "profile",
            "base_latency_ns",
            "emulated",
            "seed",
        ] {
            assert!(json["meta"].get(name).is_some(), "no {name} in meta");
        }
        for name in ["cpu", "cores", "memory_bytes", "kernel"] {
            assert!(
                json["meta"]["machine"].get(name).is_some(),
                "no {name} in machine"
            );
        }
    }

    #[test]
    fn what_the_kernel_counts_has_the_kernels_names() {
        let report = samples::left_to_kernel();
        let json: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
        let results = json["results"].as_array().unwrap();
        let moves = &results.last().unwrap()["series"][0]["kernel"];
        for name in [
            "pgpromote_success",
            "pgdemote_kswapd",
            "pgdemote_direct",
            "numa_hint_faults",
            "numa_pages_migrated",
        ] {
            assert!(moves[name].is_u64(), "no {name}");
        }
        for name in ["damon_hot_applied_bytes", "damon_cold_applied_bytes"] {
            assert!(moves.get(name).is_some_and(|it| it.is_null()), "{name}");
        }
    }

    #[test]
    fn what_is_written_reads_back() {
        // Figures that decimal digits hold exactly, so that reading may not round them.
        let mut outcome = Outcome {
            placement: "sidle".into(),
            records: 7,
            ..Outcome::default()
        };
        outcome.set_rounds(vec![0.5, 2.0]);
        outcome.set_lines(3, 1, 8, 4);
        outcome.series = vec![Sample {
            at_s: 0.25,
            ops_per_s: 8.0,
            ..Sample::default()
        }];
        outcome.levels = vec![LevelFill {
            level: 2,
            nodes_slow: 4,
            ..LevelFill::default()
        }];
        let report = Report {
            meta: samples::report().meta,
            results: vec![outcome],
        };
        let again: Report = serde_json::from_str(&report.to_json()).unwrap();
        assert!(report == again, "{}", again.to_json());
    }

    #[test]
    fn an_older_file_with_fewer_names_still_reads() {
        let text =
            r#"{"meta": {"seed": 7}, "results": [{"placement": "sidle", "ops_per_s": 2.0}]}"#;
        let report: Report = serde_json::from_str(text).unwrap();
        assert_eq!(report.meta.seed, 7);
        assert_eq!(report.results[0].regained, None);
    }

    #[test]
    fn an_unwritable_path_is_named() {
        let error = Report::default()
            .write_json(Path::new("/nonexistent/out.json"))
            .unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("cannot write the report to /nonexistent/out.json:")
        );
    }
}
