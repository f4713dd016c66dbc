//! The table of all placements that can be compared. Each row is a constant beside its placement:
//! a new placement is a file with its row, and a line in [`TABLE`].

use std::sync::Arc;
use std::time::Duration;

use timberline_placement::workers::Worker;
use timberline_placement::{AllSlow, HeatIn, Placement};
use timberline_tier::Arenas;

use crate::pages::{PageScheme, PageTable};
use crate::{Oracle, copies, fixed, kernel, oracle, pages, random, sidle, timberline};

/// All placements, in the order of reports.
pub const TABLE: [Row; 27] = [
    fixed::ALL_FAST,
    copies::ALL_FAST,
    fixed::ALL_SLOW,
    fixed::INTERLEAVE,
    copies::INTERLEAVE,
    random::ROW,
    fixed::INNER_FAST,
    oracle::ROW,
    sidle::LAYERING,
    sidle::TRACKING,
    sidle::MIGRATION,
    sidle::HISTOGRAM,
    sidle::WATERMARK,
    sidle::ROW,
    sidle::RELEASED,
    copies::SIDLE,
    timberline::ROW,
    timberline::LEAVES,
    timberline::PAUSED,
    pages::TPP,
    pages::AUTONUMA,
    pages::DAMON,
    pages::DAMON_COLDEST,
    pages::MEMTIS,
    pages::CAPTION,
    pages::ORACLE,
    kernel::ROW,
];

/// The row of a placement; `None` for an unknown name.
pub fn row(name: &str) -> Option<&'static Row> {
    const ROWS: &[Row] = &TABLE;
    ROWS.iter().find(|row| row.name == name)
}

/// One placement.
#[derive(Clone, Copy)]
pub struct Row {
    /// Its name in options and reports.
    pub name: &'static str,
    /// A one-line description.
    pub about: &'static str,
    /// Where it was published: a short name of `docs/papers.md`, and the section.
    pub paper: Option<&'static str>,
    /// The tiers that it uses.
    pub tiers: Tiers,
    /// Whether it places nodes in more than two tiers, if there are more.
    pub more_tiers: bool,
    /// Whether it adapts.
    pub kind: Kind,
    /// The parameters that it heeds.
    pub heeds: &'static [Parameter],
    /// Bytes that it moves as a whole at first, if these are more than a page; otherwise 0.
    pub unit_bytes: usize,
    /// Its style in charts.
    pub style: Style,
    /// How it is made.
    pub make: Make,
}

impl Row {
    /// Most rows: a static placement in both tiers that heeds no setting.
    pub(crate) const fn new(name: &'static str, about: &'static str, make: Make) -> Row {
        Row {
            name,
            about,
            paper: None,
            tiers: Tiers::Both,
            more_tiers: false,
            kind: Kind::Static,
            heeds: &[],
            unit_bytes: 0,
            style: Style::of("#4b5f8c", "#9fb2e0"),
            make,
        }
    }

    /// The grain of its moves.
    pub fn grain(&self) -> Grain {
        match self.make {
            Make::Nodes(_) => Grain::Node,
            Make::Pages(_) => Grain::Page,
            Make::Kernel => Grain::Kernel,
        }
    }
}

/// The grain of a placement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Grain {
    /// Nodes of the map.
    Node,
    /// Pages of emulated memory.
    Page,
    /// Pages of real memory, and the kernel moves them.
    Kernel,
}

/// The tiers in which a map's nodes are made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tiers {
    /// All of it fast, whatever the budget.
    Fast,
    /// All of it slow; where pages move, they move afterwards.
    Slow,
    /// Fast memory up to the budget, and slow memory.
    Both,
    /// Two tiers, and both are as fast as fast memory.
    BothFast,
}

/// The behaviour of a placement once the map is loaded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Nothing.
    Static,
    /// It is told the exact frequencies, and places everything once.
    Oracle,
    /// It moves nodes or pages as it observes accesses.
    Adaptive,
    /// It adapts in the warm-up, and its workers are paused while it is measured.
    Paused,
}

impl Kind {
    /// Whether it moves nodes or pages as it observes accesses.
    pub fn adapts(self) -> bool {
        matches!(self, Kind::Adaptive | Kind::Paused)
    }
}

/// A parameter that not all placements heed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Parameter {
    /// [`Setup::interval`].
    Interval,
    /// [`Setup::watermarks`].
    Watermarks,
}

/// How charts draw a placement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Style {
    /// Its colour on a light page.
    pub light: &'static str,
    /// Its colour on a dark page.
    pub dark: &'static str,
    /// Percent of the colour; the rest is the background's.
    pub strength: u8,
    /// The dashes of its line, as in SVG; empty for none.
    pub dashes: &'static str,
}

impl Style {
    /// A solid line of these colours.
    pub(crate) const fn of(light: &'static str, dark: &'static str) -> Style {
        Style {
            light,
            dark,
            strength: 100,
            dashes: "",
        }
    }

    /// The same with these dashes.
    pub(crate) const fn dashed(self, dashes: &'static str) -> Style {
        Style { dashes, ..self }
    }

    /// The same, paler.
    pub(crate) const fn pale(self, strength: u8) -> Style {
        Style { strength, ..self }
    }
}

/// How a placement is made.
#[derive(Clone, Copy)]
pub enum Make {
    /// A placement of nodes. An error is one line: its tables do not fit.
    Nodes(fn(&Setup<'_>) -> Result<Made, String>),
    /// A scheme of pages, for a table of pages none of which is in use yet.
    Pages(fn(&PageSetup, &mut PageTable) -> Box<dyn PageScheme>),
    /// Not at all: the kernel is the placement.
    Kernel,
}

/// The map that a placement of nodes is made for.
#[derive(Clone, Copy)]
pub struct Setup<'a> {
    /// The memory.
    pub arenas: &'a Arenas,
    /// Where the map keeps heat.
    pub heat: HeatIn,
    /// The fast budget as a fraction of the map's bytes.
    pub fast_ratio: f64,
    /// The same of the tiers between the fast one and the slowest, fastest first.
    pub middle_ratios: &'a [f64],
    /// How many of the uppermost levels fit into the budget together; 255 if all do.
    pub fast_levels: u8,
    /// Makes random placements repeatable.
    pub seed: u64,
    /// Time between two scans of SIDLE's trigger; `None` for the published one. Its cooler's period
    /// is four times as long, as published.
    pub interval: Option<Duration>,
    /// SIDLE's low and high watermark, as fractions of fast memory; `None` for the published ones.
    pub watermarks: Option<(f64, f64)>,
}

/// The run that a page scheme is made for.
#[derive(Clone, Copy)]
pub struct PageSetup {
    /// Threads that make requests.
    pub threads: usize,
    /// The fast budget as a fraction of the map's bytes.
    pub fast_ratio: f64,
}

/// A placement of nodes, ready for a map.
pub struct Made {
    /// The placement.
    pub placement: Arc<dyn Placement>,
    /// Its workers; none if it is static.
    pub workers: Vec<Box<dyn Worker>>,
    /// The same placement, if it is to be told the frequencies.
    pub oracle: Option<Arc<Oracle>>,
}

impl Made {
    /// For schemes of pages and the kernel: nodes are slow, and pages move below them.
    pub fn pages() -> Made {
        Made::with_workers(Arc::new(AllSlow), Vec::new())
    }

    /// One without workers.
    pub(crate) fn fixed(placement: impl Placement + 'static) -> Result<Made, String> {
        Ok(Made::with_workers(Arc::new(placement), Vec::new()))
    }

    /// One with workers.
    pub(crate) fn with_workers(
        placement: Arc<dyn Placement>,
        workers: Vec<Box<dyn Worker>>,
    ) -> Made {
        Made {
            placement,
            workers,
            oracle: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use timberline_placement::Access;
    use timberline_placement::fake::FakeTree;

    use super::*;

    #[test]
    fn rows_are_told_apart_and_found_by_name() {
        let names: HashSet<_> = TABLE.iter().map(|row| row.name).collect();
        assert_eq!(names.len(), TABLE.len());
        let found = |name: &&str| row(name).is_some_and(|row| row.name == *name);
        assert!(names.iter().all(found));
        assert!(row("tpp2").is_none());
        let abouts: HashSet<_> = TABLE.iter().map(|row| row.about).collect();
        assert_eq!(abouts.len(), TABLE.len());
        let looks = TABLE
            .iter()
            .map(|row| (row.style.light, row.style.strength, row.style.dashes));
        // The whole of SIDLE is the last step of its ablation; the kernel has the colour of others.
        assert_eq!(looks.collect::<HashSet<_>>().len(), TABLE.len() - 1);
    }

    #[test]
    fn grain_kind_and_tiers_agree() {
        for row in &TABLE {
            let (adapts, name) = (row.kind.adapts(), row.name);
            if row.grain() != Grain::Node {
                assert_eq!(row.tiers, Tiers::Slow, "{name}: pages begin slow");
                assert_ne!(row.kind, Kind::Static, "{name}");
            }
            assert!(row.tiers != Tiers::Fast || !adapts, "{name}");
            let by_two = row.grain() != Grain::Node || row.tiers == Tiers::BothFast;
            assert!(!(row.more_tiers && by_two), "{name}");
            assert!(
                row.heeds.is_empty() || row.name.starts_with("sidle"),
                "{name}"
            );
        }
    }

    /// Every placement of nodes, made for a small map.
    fn of_nodes() -> impl Iterator<Item = (Row, Made)> {
        TABLE.into_iter().filter_map(|row| {
            let Make::Nodes(make) = row.make else {
                return None;
            };
            let config = timberline_tier::ArenasConfig::two_tiers(64 << 20, 64 << 20);
            let setup = Setup {
                arenas: &Arenas::new(&config).unwrap(),
                heat: HeatIn::Table { node_bytes: 1024 },
                fast_ratio: 0.2,
                middle_ratios: &[],
                fast_levels: 1,
                seed: 1,
                interval: None,
                watermarks: None,
            };
            Some((row, make(&setup).unwrap()))
        })
    }

    #[test]
    fn what_adapts_has_workers() {
        for (row, made) in of_nodes() {
            let adapts = row.kind.adapts();
            assert_eq!(!made.workers.is_empty(), adapts, "{}", row.name);
            assert_eq!(made.oracle.is_some(), row.kind == Kind::Oracle);
        }
    }

    /// A tree has one countdown to the next sample. A placement that counts every access to a leaf
    /// must not miss those that follow an access to a copy.
    #[test]
    fn an_access_to_a_copy_hides_no_access_to_a_leaf() {
        let tree = FakeTree::uniform(2, 2, 3);
        let mut rows = 0;
        for (row, made) in of_nodes().filter(|(row, _)| row.name.ends_with("+copies")) {
            rows += 1;
            let on_leaf = tree.with_leaf(0, |leaf| made.placement.on_access(leaf, Access::Reuse));
            assert_eq!(made.placement.on_copy_access(0), on_leaf, "{}", row.name);
        }
        assert_eq!(rows, 3);
    }
}
