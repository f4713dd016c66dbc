//! The table of contenders. To add one, write a file with an [`Index`](crate::index::Index) and add
//! a row here.

use timberline_tier::Plain;
use timberline_tree::{Art, BTree, Masstree};

use crate::contender::{Contender, Held, Setup};
use crate::index::Index;
use crate::keys::{Keys, Lines, Words};
use crate::peers::{
    arctic, bf_tree, bplustree, concurrent_map, congee, empty, ferntree, indexset, locked,
    masstree, skiplist, tree_index,
};
use crate::protocol::KeyKind;

/// Where a contender comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// A map of this workspace.
    Ours,
    /// A crate of others.
    Peer,
    /// No map: the benchmark's own cost.
    Floor,
}

type Made = Result<Box<dyn Contender>, String>;

/// A constructor for keys of type `T`.
pub struct With<T> {
    /// Creates the contender.
    pub make: fn(Setup<T>) -> Made,
    /// Whether it supports scans.
    pub scans: bool,
}

const fn with<I: Index<T::Key>, T: Keys>() -> Option<With<T>> {
    Some(With {
        make: Held::<I, T>::make,
        scans: I::SCANS,
    })
}

/// A contender.
pub struct Row {
    /// Its name in `--index` and in the report.
    pub name: &'static str,
    /// Where it comes from.
    pub side: Side,
    /// The crate and its version; empty for maps of this workspace.
    pub version: &'static str,
    /// With 64-bit keys.
    pub words: Option<With<Words>>,
    /// With byte-string keys.
    pub lines: Option<With<Lines>>,
}

const fn peer(
    name: &'static str,
    version: &'static str,
    words: Option<With<Words>>,
    lines: Option<With<Lines>>,
) -> Row {
    Row {
        name,
        side: Side::Peer,
        version,
        words,
        lines,
    }
}

const fn ours(name: &'static str, words: Option<With<Words>>, lines: Option<With<Lines>>) -> Row {
    Row {
        name,
        side: Side::Ours,
        version: "",
        words,
        lines,
    }
}

/// All contenders, in the order of a round.
pub const ROWS: &[Row] = &[
    Row {
        name: "empty",
        side: Side::Floor,
        version: "",
        words: with::<empty::Empty, _>(),
        lines: with::<empty::Empty, _>(),
    },
    ours("btree", with::<BTree<u64, u64, Plain>, _>(), None),
    ours(
        "art",
        with::<Art<u64, u64, Plain>, _>(),
        with::<Art<[u8], u64, Plain>, _>(),
    ),
    ours(
        "masstree-ours",
        None,
        with::<Masstree<[u8], u64, Plain>, _>(),
    ),
    peer(
        "arctic-map",
        "0.1.4",
        with::<arctic::Words, _>(),
        with::<arctic::Bytes, _>(),
    ),
    peer("congee", "0.4.1", with::<congee::Words, _>(), None),
    peer(
        "scc",
        "3.8.8",
        with::<tree_index::Words, _>(),
        with::<tree_index::Bytes, _>(),
    ),
    peer(
        "bplustree",
        "0.1.0",
        with::<bplustree::Words, _>(),
        with::<bplustree::Bytes, _>(),
    ),
    peer(
        "ferntree",
        "0.7.0",
        with::<ferntree::Words, _>(),
        with::<ferntree::Bytes, _>(),
    ),
    peer(
        "concurrent-map",
        "5.0.37",
        with::<concurrent_map::Words, _>(),
        with::<concurrent_map::Bytes, _>(),
    ),
    peer(
        "masstree",
        "0.9.5",
        with::<masstree::Bytes, _>(),
        with::<masstree::Bytes, _>(),
    ),
    peer(
        "indexset",
        "0.16.0",
        with::<indexset::Words, _>(),
        with::<indexset::Bytes, _>(),
    ),
    peer(
        "crossbeam-skiplist",
        "0.1.3",
        with::<skiplist::Words, _>(),
        with::<skiplist::Bytes, _>(),
    ),
    peer(
        "bf-tree",
        "0.5.7",
        with::<bf_tree::Bytes, _>(),
        with::<bf_tree::Bytes, _>(),
    ),
    peer(
        "locked-btreemap",
        "0.13.0",
        with::<locked::Words, _>(),
        with::<locked::Bytes, _>(),
    ),
];

impl Row {
    /// Whether it can scan keys of this kind; `None` if it does not support them.
    pub fn scans(&self, keys: KeyKind) -> Option<bool> {
        match keys {
            KeyKind::Random | KeyKind::Dense => self.words.as_ref().map(|with| with.scans),
            KeyKind::Urls | KeyKind::Words => self.lines.as_ref().map(|with| with.scans),
        }
    }
}

/// The row with this name.
pub fn row(name: &str) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The report must name the version that was built.
    #[test]
    fn versions_are_those_of_the_manifest() {
        let manifest = include_str!("../Cargo.toml");
        for row in ROWS.iter().filter(|row| row.side == Side::Peer) {
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
    fn names_are_different() {
        for (at, row) in ROWS.iter().enumerate() {
            assert!(ROWS[..at].iter().all(|before| before.name != row.name));
        }
    }
}
