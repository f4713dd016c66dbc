//! The complete report, and its files.
//!
//! `--json FILE` writes `{"meta": {...}, "results": [...]}`, as `docs/bench.schema.json` describes.
//! An older file with fewer fields can still be read. The page embeds the same JSON, and its script
//! draws it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::result::{Meta, Outcome};
use super::table;
use crate::page::{Kind, document};

/// The contents of the `--json` file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Where, when and how the run was made.
    pub meta: Meta,
    /// One entry for each placement on each workload, in the order of their first runs.
    pub results: Vec<Outcome>,
}

impl Report {
    /// Reads a file that `--json` wrote.
    ///
    /// # Errors
    /// One line that names the file: it can't be read, or is no report.
    pub fn read(path: &Path) -> Result<Report, String> {
        let text = fs::read_to_string(path);
        let text = text.map_err(|error| format!("can't read {}: {error}", path.display()))?;
        serde_json::from_str(&text).map_err(|error| {
            let path = path.display();
            format!("{path} is not a report of `timberline bench --json`: {error}")
        })
    }

    /// The report as indented JSON.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("plain figures and strings");
        text.push('\n');
        text
    }

    /// The report as a self-contained page.
    pub fn to_html(&self) -> String {
        document(Kind::Bench, self.emulated(), self, &table::render(self))
    }

    /// Whether any figure comes from emulated memory.
    pub fn emulated(&self) -> bool {
        self.meta.emulated || self.results.iter().any(|outcome| outcome.emulated)
    }
}

/// Checks whether `path` can be written, before a run of minutes instead of after it. Keeps an
/// existing file unchanged.
///
/// # Errors
/// One line: it cannot be written.
pub fn check_writable(path: &Path) -> Result<(), String> {
    let is_new = !path.exists();
    let opened = OpenOptions::new().append(true).create(true).open(path);
    opened.map_err(|error| {
        format!(
            "can't write to {}: {error}; give a file in a directory that exists and is yours",
            path.display()
        )
    })?;
    if is_new {
        // The check created an empty file.
        let _ = fs::remove_file(path);
    }
    Ok(())
}

/// Writes a file completely or not at all: a full disk leaves an existing file as it was. A device
/// or pipe, and a file in a folder that takes no other file, are written in place. The error's text
/// names the path.
pub fn write_file(path: &Path, text: &str) -> io::Result<()> {
    write_beside(path, text.as_bytes()).map_err(|error| {
        io::Error::new(
            error.kind(),
            format!("can't write {}: {error}", path.display()),
        )
    })
}

fn write_beside(path: &Path, content: &[u8]) -> io::Result<()> {
    // Also follows a link: the file that it names is replaced, not the link.
    let old = fs::canonicalize(path).ok();
    let place = old.as_deref().unwrap_or(path);
    if old.is_some() && !place.is_file() {
        return fs::write(place, content);
    }
    let mut name = place.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.unfinished", std::process::id()));
    let unfinished = place.with_file_name(name);
    let Ok(mut file) = File::create(&unfinished) else {
        return fs::write(place, content);
    };
    let written = file.write_all(content).and_then(|()| {
        if let Some(old) = &old {
            file.set_permissions(fs::metadata(old)?.permissions())?;
        }
        // A disk may report that it is full only now.
        file.sync_all()?;
        fs::rename(&unfinished, place)
    });
    if written.is_err() {
        let _ = fs::remove_file(&unfinished);
    }
    written
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use timberline_tier::emulator::LineCounts;

    use super::*;
    use crate::report::result::{Bounds, Calibration, LevelFill, Sample};
    use crate::report::tests::samples;
    use crate::run::tests::tiny;
    use crate::run::{Budget, RequestSetting, Setting};

    /// The names that never change: other programs read them.
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

    fn schema() -> Value {
        serde_json::from_str(include_str!("../../../../docs/bench.schema.json")).unwrap()
    }

    /// The violations of a part of the schema in `value`, with their paths. Supports the parts of
    /// JSON Schema that ours uses.
    fn wrong(value: &Value, part: &Value, schema: &Value, path: &str) -> Vec<String> {
        if let Some(name) = part["$ref"].as_str() {
            let part = schema.pointer(&name[1..]).expect("a definition");
            return wrong(value, part, schema, path);
        }
        if let Some(parts) = part["anyOf"].as_array() {
            let all = parts.iter().map(|part| wrong(value, part, schema, path));
            return all.min_by_key(Vec::len).unwrap_or_default();
        }
        let types = part["type"].as_array().cloned();
        let types = types.unwrap_or_else(|| vec![part["type"].clone()]);
        let is = |name: &str| types.iter().any(|it| it == name);
        match value {
            Value::Null if is("null") => Vec::new(),
            Value::Bool(_) if is("boolean") => Vec::new(),
            Value::String(_) if is("string") => Vec::new(),
            Value::Number(number) if is("number") || (is("integer") && number.is_u64()) => {
                Vec::new()
            }
            Value::Array(items) if is("array") => {
                let items = items.iter().enumerate();
                let of = |(nth, it)| wrong(it, &part["items"], schema, &format!("{path}[{nth}]"));
                items.flat_map(of).collect()
            }
            Value::Object(fields) if is("object") => {
                let of = |(name, field): (&String, &Value)| {
                    let path = format!("{path}.{name}");
                    match (&part["properties"][name], &part["additionalProperties"]) {
                        (Value::Null, Value::Bool(false)) => vec![format!("{path} is not in it")],
                        (Value::Null, other) => wrong(field, other, schema, &path),
                        (known, _) => wrong(field, known, schema, &path),
                    }
                };
                let required = part["required"].as_array().into_iter().flatten();
                let missing = required.filter(|it| !fields.contains_key(it.as_str().unwrap()));
                let missing = missing.map(|it| format!("{path} has no {it}"));
                missing.chain(fields.iter().flat_map(of)).collect()
            }
            other => vec![format!("{path} is {other}")],
        }
    }

    fn findings(report: &Report) -> Vec<String> {
        let schema = schema();
        wrong(&serde_json::to_value(report).unwrap(), &schema, &schema, "")
    }

    #[test]
    fn what_is_written_matches_the_published_schema() {
        let mut report = samples::left_to_kernel();
        assert_eq!(findings(&report), Vec::<String>::new());
        report.meta.bounds.push(Bounds::default());
        report.meta.calibrations.push(Calibration::default());
        let trace = RequestSetting::closed_loop(Path::new("a.csv"), None);
        for requests in [RequestSetting::workload("hs-c", None), trace] {
            for budget in [Budget::Ratio(0.2), Budget::Bytes(4096)] {
                report.meta.setting = Some(Setting {
                    requests: requests.clone(),
                    budget,
                    watermarks: Some((0.8, 0.9)),
                    ..tiny()
                });
                assert_eq!(findings(&report), Vec::<String>::new());
            }
        }
    }

    #[test]
    fn what_is_not_in_the_schema_is_found() {
        let schema = schema();
        let mut json = serde_json::to_value(samples::report()).unwrap();
        json["results"][1]["rounds"][0] = "fast".into();
        json["meta"]["surprise"] = 1.into();
        json["meta"].as_object_mut().unwrap().remove("seed");
        let found = wrong(&json, &schema, &schema, "");
        let expected = [
            ".meta has no \"seed\"",
            ".meta.surprise is not in it",
            ".results[1].rounds[0] is \"fast\"",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn every_stable_name_is_required() {
        let schema = schema();
        let required = schema["$defs"]["Outcome"]["required"].as_array().unwrap();
        for name in STABLE {
            assert!(required.iter().any(|it| it == name), "no {name}");
        }
    }

    #[test]
    fn what_is_written_reads_back() {
        // Binary fractions with an exact decimal form, so that reading rounds nothing.
        let mut outcome = Outcome {
            placement: "sidle".into(),
            records: 7,
            ..Outcome::default()
        };
        outcome.set_rounds(vec![0.5, 2.0]);
        let lines = LineCounts {
            fast: 3,
            slow: 1,
            cached: 8,
            ..LineCounts::default()
        };
        outcome.set_lines(&lines, 4);
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
        let error = write_file(Path::new("/nonexistent/out.json"), "{}").unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("can't write /nonexistent/out.json:")
        );
    }
}
