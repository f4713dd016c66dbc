//! The table of subjects. To add one, add a `subject!` to `peers.rs` and a row here.

use timberline_tree::{Art, BTree, Masstree};

use crate::index::Index;
use crate::keys::{Keys, Kind, Strings, Words};
use crate::peers::*;
use crate::worker::{PeerMap, Setup, Subject};

/// Where a subject comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// A map of this workspace.
    Ours,
    /// A map of this workspace in two tiers, all of it in the fast one.
    Tiers,
    /// A map of others.
    Peer,
    /// No map: the benchmark's own cost.
    Floor,
}

type Made = Result<Box<dyn Subject>, String>;

/// A constructor for keys of type `T`.
pub struct With<T> {
    pub make: fn(Setup<T>) -> Made,
    pub scans: bool,
}

const fn with<I: Index<T::Key>, T: Keys>() -> Option<With<T>> {
    Some(With {
        make: PeerMap::<I, T>::make,
        scans: I::SCANS,
    })
}

pub struct Row {
    /// Its name in `--index` and in the report.
    pub name: &'static str,
    pub side: Side,
    /// The version of its crate; empty for maps of this workspace and for C++.
    pub version: &'static str,
    pub words: Option<With<Words>>,
    pub strings: Option<With<Strings>>,
}

/// Defines a row: its side, name, version, and its types over words and byte strings.
macro_rules! row {
    ($side:ident $name:literal $version:literal, $($of:ident: $map:ty),+) => {
        Row { $($of: with::<$map, _>(),)+ ..row(Side::$side, $name, $version) }
    };
}

const fn row(side: Side, name: &'static str, version: &'static str) -> Row {
    Row {
        name,
        side,
        version,
        words: None,
        strings: None,
    }
}

type Boxed = Box<[u8]>;

/// All subjects, in the order of a round.
#[rustfmt::skip]
pub const ROWS: &[Row] = &[
    row!(Floor "empty" "", words: Empty, strings: Empty),
    row!(Ours "btree" "", words: BTree<u64, u64>, strings: BTree<[u8], u64>),
    row!(Ours "art" "", words: Art<u64, u64>, strings: Art<[u8], u64>),
    row!(Ours "masstree-ours" "", words: Masstree<u64, u64>, strings: Masstree<[u8], u64>),
    row!(Tiers "btree-tiers" "",
        words: InTiers<BTree<u64, u64>>, strings: InTiers<BTree<[u8], u64>>),
    row!(Tiers "art-tiers" "",
        words: InTiers<Art<u64, u64>>, strings: InTiers<Art<[u8], u64>>),
    row!(Tiers "masstree-tiers" "",
        words: InTiers<Masstree<u64, u64>>, strings: InTiers<Masstree<[u8], u64>>),
    row!(Peer "arctic-map" "0.1.4", words: Arctic, strings: ArcticBytes),
    row!(Peer "congee" "0.4.1", words: CongeeWords),
    row!(Peer "scc" "3.8.8", words: Scc<u64>, strings: Scc<Boxed>),
    row!(Peer "bplustree" "0.1.0", words: BPlus<u64>, strings: BPlus<Boxed>),
    row!(Peer "ferntree" "0.7.0", words: Fern<u64>, strings: Fern<Vec<u8>>),
    row!(Peer "concurrent-map" "5.0.37",
        words: Concurrent<u64>, strings: Concurrent<Vec<u8>>),
    row!(Peer "masstree" "0.9.5", words: MassWords, strings: MassBytes),
    row!(Peer "masstree-cpp" "", words: masstree_cpp::Words, strings: masstree_cpp::Bytes),
    row!(Peer "indexset" "0.16.0", words: Set<u64>, strings: Set<String>),
    row!(Peer "crossbeam-skiplist" "0.1.3",
        words: Skip<u64>, strings: Skip<Boxed>),
    row!(Peer "bf-tree" "0.5.7", words: BfWords, strings: BfBytes),
    row!(Peer "locked-btreemap" "0.13.0", words: Locked<u64>, strings: Locked<Boxed>),
];

impl Row {
    /// Whether it can scan keys of this kind; `None` if it does not support them.
    pub fn scans(&self, keys: Kind) -> Option<bool> {
        match keys.is_word() {
            true => self.words.as_ref().map(|with| with.scans),
            false => self.strings.as_ref().map(|with| with.scans),
        }
    }

    /// Whether it is in this binary.
    pub fn is_built(&self) -> bool {
        self.name != "masstree-cpp" || cfg!(feature = "masstree-cpp")
    }
}

pub fn named(name: &str) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.name == name)
}

/// The names that `--index` accepts.
pub fn names() -> impl Iterator<Item = &'static str> {
    let rows = ROWS.iter().map(|row| row.name);
    ["all", "ours", "tiers", "peers"].into_iter().chain(rows)
}

/// The subjects of a list of names: `all`, `ours`, `tiers`, `peers`, or single ones.
///
/// # Errors
/// One line: one that was named is not in this binary.
pub fn chosen(names: &[String]) -> Result<Vec<&'static Row>, String> {
    let has = |name: &str| names.iter().any(|given| given == name);
    if let Some(row) = ROWS.iter().find(|row| has(row.name) && !row.is_built()) {
        return Err(format!(
            "{} is not built: give --features masstree-cpp and MASSTREE_SOURCES=DIR",
            row.name
        ));
    }
    let is_chosen = |row: &&Row| {
        let group = match row.side {
            Side::Ours => has("ours"),
            Side::Tiers => has("tiers"),
            Side::Peer => has("peers"),
            Side::Floor => false,
        };
        row.is_built() && (group || has("all") || has(row.name))
    };
    Ok(ROWS.iter().filter(is_chosen).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The report must name the version that was built.
    #[test]
    fn versions_are_those_of_the_manifest() {
        let manifest = include_str!("../Cargo.toml");
        for row in ROWS.iter().filter(|row| !row.version.is_empty()) {
            let package = match row.name {
                "locked-btreemap" => "parking_lot",
                name => name,
            };
            let pinned = manifest.lines().any(|line| {
                line.split('=').next().map(str::trim) == Some(package)
                    && line.contains(&format!("\"={}\"", row.version))
            });
            assert!(pinned, "{package} {}", row.version);
        }
    }

    #[test]
    fn subjects_are_chosen_by_group_and_by_name() {
        let of = |names: &str| -> Vec<&str> {
            let names: Vec<_> = names.split(',').map(String::from).collect();
            let rows = chosen(&names).unwrap();
            rows.iter().map(|row| row.name).collect()
        };
        assert_eq!(
            of("congee,ours"),
            ["btree", "art", "masstree-ours", "congee"]
        );
        assert!(of("all").contains(&"empty") && !of("peers").contains(&"empty"));
        let unique: std::collections::BTreeSet<_> = names().collect();
        assert_eq!(unique.len(), ROWS.len() + 4);
        if !cfg!(feature = "masstree-cpp") {
            let said = chosen(&["masstree-cpp".into()]).err().unwrap();
            assert!(said.contains("MASSTREE_SOURCES"), "{said}");
        }
    }
}
