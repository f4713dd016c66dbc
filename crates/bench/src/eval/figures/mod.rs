//! The figures, in the order of the report: our own questions, then those of each paper.
//!
//! `published.json` holds the published titles and claims with their ranges, and the reasons why
//! our results come in another order. The files here make the runs that we draw ours from.

mod breakdown;
mod characteristics;
mod cluster;
mod kernel;
mod micro;
mod ours;
mod overall;
mod real;
mod scalability;
mod scale;
mod sensitivity;
mod store;

use std::collections::BTreeMap;

use serde::Deserialize;

pub use scale::Scale;

use super::claim::Claim;
use super::figure::{Figure, Run};
use super::setting::Setting;

/// The systems that the paper compares; `oracle` stands for its SIDLE-Prophet, `inner-fast` for
/// Mass-L and PAC-L.
const COMPARED: [&str; 11] = [
    "all-fast",
    "interleave",
    "random",
    "inner-fast",
    "oracle",
    "sidle",
    OF_NODES,
    "timberline",
    "tpp",
    "memtis",
    "caption",
];
/// The placements that a parameter sweep compares.
const FEW: [&str; 5] = ["all-fast", "interleave", "sidle", OF_NODES, "timberline"];
/// `timberline` without copies of records, which placements of nodes are held against.
const OF_NODES: &str = "timberline-leaves";

#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'static"))]
struct Published {
    /// Explanations that several claims share, by name.
    why: BTreeMap<&'static str, &'static str>,
    figures: Vec<Figure>,
}

/// All figures, with the claims about runs of this scale.
pub fn all(scale: &Scale) -> Vec<Figure> {
    let Published { why, mut figures } = published();
    for figure in &mut figures {
        let runs = runs(figure.id, scale);
        figure.missing = figure.missing.filter(|_| runs.is_empty());
        let is_about = |claim: &Claim, run: &Run| claim.is_about(&run.panel, &run.category);
        let is_made = |claim: &Claim| runs.iter().any(|run| is_about(claim, run));
        figure.claims.retain(is_made);
        for claim in &mut figure.claims {
            if !claim.why.is_empty() {
                claim.why = why.get(claim.why).expect("it is among the reasons");
            }
        }
        figure.runs = runs;
    }
    figures
}

fn published() -> Published {
    serde_json::from_str(include_str!("published.json")).expect("a test reads it")
}

fn runs(figure: &str, scale: &Scale) -> Vec<Run> {
    match figure {
        "table" => ours::table(scale),
        "charge" => ours::charge(scale),
        "free" => ours::free(scale),
        "bounds" => ours::bounds(scale),
        "stalls" => ours::stalls(scale),
        "14a" | "20" => overall::micro(scale),
        "14b" => overall::micro(scale).into_iter().take(1).collect(),
        "15a" => overall::macros(scale, "art", &["ycsb-e"]),
        "15b" | "t3" => overall::macros(scale, "masstree", &[]),
        "16a" => sensitivity::dynamic(scale),
        "16b" => sensitivity::intervals(scale),
        "16c" => sensitivity::budgets(scale),
        "17a" => characteristics::skew(scale),
        "17b" => characteristics::sizes(scale),
        "17c" => characteristics::urls(scale),
        "18a" => scalability::threads(scale),
        "18b" => scalability::records(scale),
        "19" => breakdown::ablation(scale),
        "21" => breakdown::watermarks(scale),
        "22" => real::tpcc(scale),
        "23" => real::traces(scale, "art"),
        "24" => real::traces(scale, "masstree"),
        "pibench" => kernel::skews_and_ratios(scale),
        "dex-8" => cluster::steps(scale),
        "dex-9" => cluster::admission(scale),
        "dex-10" => cluster::scale_out(scale),
        "dex-12" => cluster::caches(scale),
        "dex-13" => cluster::finders(scale),
        "bando-11a" => micro::latencies(scale),
        "bando-12" => micro::limits(scale),
        "bando-11c" => store::index(scale),
        "bando-11d" => store::caches(scale),
        "bando-14" => store::cores(scale),
        "bando-15" => store::variations(scale),
        "bando-16" => store::in_flight(scale),
        "bando-17" => store::latencies(scale),
        // Those that are not rebuilt.
        "dex-9-list" | "bando-12d" => Vec::new(),
        _ => unreachable!("a test makes the runs of all figures"),
    }
}

fn run(panel: &str, category: impl Into<String>, setting: impl Into<Setting>) -> Run {
    Run {
        panel: panel.into(),
        category: category.into(),
        setting: setting.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::quantity::Over;
    use super::*;
    use crate::eval::{CachedRun, Ground, Matrix, ResultCache, Summary};
    use crate::micro::Io;
    use crate::report::{Meta, Silent};
    use std::collections::HashSet;
    use std::path::PathBuf;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn every_figure_has_a_name_of_its_own_and_runs_that_are_possible() {
        for scale in [Scale::default(), Scale::quick()] {
            let figures = all(&Scale {
                records: 10_000,
                ..scale
            });
            let ids: HashSet<_> = figures.iter().map(|figure| figure.id).collect();
            assert_eq!(ids.len(), figures.len());
            for figure in &figures {
                assert_eq!(
                    figure.runs.is_empty(),
                    figure.missing.is_some(),
                    "{}",
                    figure.id
                );
                for run in &figure.runs {
                    run.setting
                        .check(1 << 40)
                        .unwrap_or_else(|bad| panic!("{}: {bad}", figure.id));
                }
            }
        }
    }

    /// A misspelt name would make a claim about nothing.
    #[test]
    fn claims_are_about_subjects_panels_and_categories_that_are_there() {
        let files = Scale {
            urls: Some(PathBuf::from("urls")),
            traces: vec![PathBuf::from("trace")],
            ..Scale::default()
        };
        for (figure, published) in all(&files).iter().zip(published().figures) {
            assert_eq!(figure.claims.len(), published.claims.len(), "{}", figure.id);
            for (claim, published) in figure.claims.iter().zip(published.claims) {
                assert_eq!(claim.why.is_empty(), published.why.is_empty());
                let is_about = |run: &&Run| claim.is_about(&run.panel, &run.category);
                let about: Vec<&Run> = figure.runs.iter().filter(is_about).collect();
                let has = |name: &str| {
                    let subjects = |run: &&Run| run.setting.subjects().iter().any(|it| it == name);
                    about.iter().any(subjects)
                };
                let is_there = has(claim.of)
                    && match claim.quantity.over {
                        Over::Subjects(others) => others.split(", ").all(has),
                        _ => true,
                    };
                assert!(is_there, "{}: {}", figure.id, claim.says);
                let (least, most) = claim.published;
                assert!(least <= most);
            }
        }
    }

    /// As little as can be measured: about what, not how fast.
    fn shrink(setting: &mut Setting) {
        let slice = std::time::Duration::from_millis(2);
        match setting {
            Setting::Maps(_) => {}
            Setting::Cluster(it) => {
                (it.records, it.cache) = (20_000, 0.5);
                (it.warmup, it.requests) = (1_000, 1_000);
            }
            Setting::ScaleOut(it) => {
                (it.records, it.cache) = (20_000, 0.5);
                (it.warmup, it.requests) = (1_000, 60_000);
            }
            Setting::Micro(it) => {
                (it.memory_bytes, it.slice, it.rounds) = (4 << 20, slice, 1);
                if let Io::File { bytes, .. } = &mut it.io {
                    *bytes = 1 << 20;
                }
            }
            Setting::Store(it) => {
                (it.store.records, it.store.slice, it.store.rounds) = (1_000, slice, 1);
            }
        }
    }

    #[test]
    fn figures_of_clusters_and_stores_end_with_verdicts() {
        let folder = format!("timberline-figures-{}", std::process::id());
        let folder = std::env::temp_dir().join(folder);
        let mut figures = all(&Scale::quick());
        let is_of_maps = |run: &Run| matches!(run.setting, Setting::Maps(_));
        figures.retain(|figure| !figure.runs.iter().any(is_of_maps));
        for run in figures.iter_mut().flat_map(|it| &mut it.runs) {
            shrink(&mut run.setting);
        }
        let matrix = Matrix::of(&figures);
        let mut summary = Summary::new(Meta::default(), figures);
        let ground = Ground {
            base: None,
            meta: Meta::default(),
            folder: folder.clone(),
        };
        let cache = ResultCache::open(&folder.join("runs")).unwrap();
        let keep = |run: CachedRun| {
            summary.add(run);
            Ok(())
        };
        let never = AtomicBool::new(false);
        matrix.run(&ground, &cache, &Silent, &never, keep).unwrap();
        let (mut again, runs) = (Matrix::of(&all(&Scale::quick())), matrix.runs());
        assert!(again.take_kept(&cache).is_empty(), "of another size");
        for measured in &summary.figures {
            let figure = &measured.figure;
            for verdict in measured.verdicts() {
                let is_there = verdict.measured.is_some() && verdict.size.is_some();
                assert!(is_there, "{}: {verdict:?}", figure.id);
            }
            for (run, results) in figure.runs.iter().zip(measured.results()) {
                let subjects = results.unwrap_or_default();
                let names: Vec<_> = subjects.iter().map(|it| it.name()).collect();
                assert_eq!(names, run.setting.subjects(), "{}", figure.id);
            }
        }
        let json: serde_json::Value = serde_json::from_str(&summary.to_json()).unwrap();
        let substitutes: HashSet<_> = { json["figures"].as_array().unwrap().iter() }
            .flat_map(|figure| figure["runs"].as_array().unwrap())
            .map(|run| run["table"]["substitute"].as_str().unwrap())
            .collect();
        assert_eq!(substitutes, HashSet::from(["simulated", "emulated"]));
        let files = std::fs::read_dir(folder.join("runs")).unwrap().count();
        assert_eq!(files, runs, "one for each, and nothing else is left");
        assert!(!folder.join("store").exists());
        std::fs::remove_dir_all(folder).unwrap();
    }

    /// Seven minutes on two cores for the runs; the rest is for drawing and for slower cores.
    #[test]
    fn the_quick_evaluation_is_meant_to_take_eight_minutes() {
        let matrix = Matrix::of(&all(&Scale::quick()));
        let seconds = matrix.estimate().as_secs_f64();
        assert!((200.0..420.0).contains(&seconds), "{seconds}");
    }
}
