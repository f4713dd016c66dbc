//! The rows of the comparison: a kind of keys, a size of pages, and the workloads on one map.

use std::collections::BTreeMap;

use clap::ValueEnum;
use timberline_bench::workload::{Distribution, Workload};

use crate::keys::Kind;

/// The workload that measures loading. It always runs, and is reported if it was asked for.
pub const LOAD: &str = "load";
/// The workload that loads another map, in blocks of many records. It runs last.
pub const LOAD_MANY: &str = "load-many";

/// The workloads of a whole comparison by name, in execution order: those with inserts come last,
/// so that the others run on maps of the same size.
const NAMED: [(&str, &str); 5] = [
    ("uniform", "ycsb-c:uniform"),
    ("zipf", "ycsb-c"),
    ("updates", "ycsb-a"),
    ("scans", "ycsb-e"),
    ("latest", "ycsb-d"),
];

/// The workload of a name: one of [`NAMED`], or one of `timberline bench`, with `:uniform` behind
/// it for the same mix over uniform keys.
///
/// # Errors
/// One line: the name is unknown.
pub fn workload(name: &str) -> Result<Workload, String> {
    let named = NAMED.iter().find(|(known, _)| *known == name);
    let name = named.map_or(name, |(_, name)| name);
    let (name, uniform) = match name.strip_suffix(":uniform") {
        Some(name) => (name, true),
        None => (name, false),
    };
    let known = Workload::parse(name).map_err(|error| {
        let named: Vec<_> = NAMED.iter().map(|(name, _)| *name).collect();
        format!("{error}; also {LOAD}, {LOAD_MANY}, {}", named.join(", "))
    })?;
    Ok(match uniform {
        true => known.with_distribution(Distribution::Uniform),
        false => known,
    })
}

/// The workloads of each kind of keys.
pub type Rows = BTreeMap<Kind, Vec<String>>;

/// The rows of `--rows`: `KEYS` or `KEYS/WORKLOAD`, where `KEYS` is a kind of keys, `u64`,
/// `strings` or `all`.
///
/// # Errors
/// One line that says what is possible.
pub fn rows(asked: &[String]) -> Result<Rows, String> {
    let mut rows = Rows::new();
    for row in asked {
        let (keys, name) = match row.split_once('/') {
            Some((keys, name)) => (keys, Some(name)),
            None => (row.as_str(), None),
        };
        let is_asked = |kind: &&Kind| match keys {
            "all" => true,
            "u64" => kind.is_word(),
            "strings" => !kind.is_word(),
            keys => keys == kind.name(),
        };
        let kinds: Vec<_> = Kind::value_variants().iter().filter(is_asked).collect();
        if kinds.is_empty() {
            let possible = Kind::value_variants().iter().map(|kind| kind.name());
            let possible = possible.collect::<Vec<_>>().join(", ");
            return Err(format!(
                "--rows {row}: unknown keys `{keys}`; possible: {possible}, u64, strings, all"
            ));
        }
        if let Some(name) = name.filter(|name| ![LOAD, LOAD_MANY].contains(name)) {
            workload(name).map_err(|error| format!("--rows {row}: {error}"))?;
        }
        for kind in kinds {
            let names = rows.entry(*kind).or_default();
            match name {
                Some(name) => names.push(name.into()),
                None => {
                    names.push(LOAD.into());
                    names.extend(NAMED.iter().map(|(name, _)| name.to_string()));
                    names.push(LOAD_MANY.into());
                }
            }
        }
    }
    for names in rows.values_mut() {
        names.sort_by_key(|name| (inserts(name), place(name), name.clone()));
        names.dedup();
    }
    Ok(rows)
}

fn inserts(name: &str) -> u8 {
    match workload(name) {
        Ok(workload) => workload.mix().insert,
        Err(_) if name == LOAD_MANY => u8::MAX,
        Err(_) => 0,
    }
}

fn place(name: &str) -> usize {
    match NAMED.iter().position(|(known, _)| *known == name) {
        Some(at) => at + 1,
        None if name == LOAD => 0,
        None => NAMED.len() + 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(asked: &str) -> Result<String, String> {
        let asked: Vec<_> = asked.split(',').map(String::from).collect();
        let shown =
            |(kind, names): (&Kind, &Vec<String>)| format!("{}: {}", kind.name(), names.join(" "));
        Ok(rows(&asked)?
            .iter()
            .map(shown)
            .collect::<Vec<_>>()
            .join("; "))
    }

    #[test]
    fn rows_are_kinds_of_keys_with_all_workloads_or_some() {
        let all = "load uniform zipf updates scans latest load-many";
        assert_eq!(of("dense"), Ok(format!("dense: {all}")));
        assert_eq!(
            of("u64,urls/scans"),
            Ok(format!("random: {all}; dense: {all}; urls: scans"))
        );
        assert_eq!(
            of("words/latest,words/load-many,words/ycsb-b,words/load,words/ycsb-b:uniform,words/load").unwrap(),
            "words: load ycsb-b ycsb-b:uniform latest load-many",
            "what inserts comes last, and each once"
        );
        assert_eq!(rows(&["all".into()]).unwrap().len(), 6);
        assert_eq!(rows(&["strings".into()]).unwrap().len(), 4);
    }

    #[test]
    fn unknown_rows_are_answered_with_the_known() {
        let said = of("ints").unwrap_err();
        assert!(
            said.contains("`ints`; possible: random, dense, uuid4"),
            "{said}"
        );
        let said = of("dense/gets").unwrap_err();
        assert!(
            said.contains("`gets`; possible: hs-a") && said.contains("zipf"),
            "{said}"
        );
        assert!(!said.contains('\n'));
    }

    #[test]
    fn a_suffix_makes_a_workload_uniform() {
        assert_eq!(workload("zipf").unwrap().name(), "ycsb-c");
        assert_eq!(workload("uniform").unwrap().name(), "ycsb-c uniform");
        assert_eq!(workload("ycsb-f:uniform").unwrap().name(), "ycsb-f uniform");
    }
}
