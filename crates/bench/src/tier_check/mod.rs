//! Whether tiers of memory are what they are said to be: a map of each kind in them, whose nodes
//! move, and the kernel's word for where its pages are. `timberline tiers --check` runs it.
//!
//! Each kind of map is made twice. In the first one nothing moves by itself: leaves are moved from
//! each tier to each other one, and after each move the kernel is asked which NUMA node the leaf is
//! on. In the second one the worker of `timberline` moves nodes while records are read; then every
//! committed page of each tier is looked up, by `move_pages` and in `/proc/self/numa_maps`.

mod numa_maps;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;
use timberline_placement::{KeyBytes, Move, NewNode, NodeKey, Placed, Placement, TimberlineConfig};
use timberline_tier::topology::NodeList;
use timberline_tier::{Arenas, Memory, TierId};
use timberline_tree::{Art, BTree, Builder, Error, Masstree};

use crate::report::grid::Grid;

/// Records of a map.
const RECORDS: u64 = 40_000;
/// From one key to the next: farther apart than a dense leaf of ART covers.
const STRIDE: u64 = 259;
/// The limit of each tier but the slowest: less than the records take.
const LIMIT: usize = 256 << 10;
/// The limit of the slowest.
const REST: usize = 64 << 20;
/// Leaves that are moved by hand, from each tier to each other one.
const LEAVES: usize = 16;
/// The numbers of the records that are read, the last ones that were loaded.
const HOT: std::ops::Range<u64> = RECORDS - 2_000..RECORDS;
/// The worker has moved enough.
const ENOUGH: u64 = 10;
/// How long it is given at most.
const PATIENCE: Duration = Duration::from_secs(60);

/// What was found.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct TierCheck {
    pub maps: Vec<MapCheck>,
}

/// What was found of one kind of map.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct MapCheck {
    pub map: &'static str,
    /// Moves of leaves by hand.
    pub moves: Vec<Moves>,
    /// Nodes that the worker moved.
    pub promoted: u64,
    pub demoted: u64,
    /// With the worker, fastest first.
    pub tiers: Vec<TierUse>,
}

/// Moves of leaves from one tier to another.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Moves {
    pub from: usize,
    pub to: usize,
    pub moved: usize,
    /// Of these, leaves on a NUMA node that is not the tier's.
    pub leaves_elsewhere: usize,
}

/// What a tier holds.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct TierUse {
    pub tier: usize,
    /// Empty: not bound.
    pub numa_nodes: Vec<u32>,
    pub leaves: usize,
    pub limit_bytes: usize,
    /// The most bytes that were committed at any time.
    pub peak_bytes: usize,
    pub over_budget_bytes: usize,
    pub pages: usize,
    /// Pages on a NUMA node that is not the tier's, by `move_pages`; `None` if the kernel does not
    /// say, or no node is bound.
    pub misplaced_pages: Option<usize>,
    /// By `numa_maps`: pages on the tier's nodes, and on others.
    pub numa_maps_pages: Option<u64>,
    pub numa_maps_elsewhere: Option<u64>,
}

/// All nodes are made in the slowest tier.
struct Slowest;

impl Placement for Slowest {
    fn place(&self, _: NewNode) -> TierId {
        // The tree takes the slowest that there is.
        TierId(u8::MAX)
    }
}

/// Checks tiers on these NUMA nodes, fastest first; a tier without any is not bound. If they are
/// what was `found` on this machine, the builder's `discover` has to find them too.
///
/// # Errors
/// One line: memory cannot be bound or allocated, or a node can't be moved.
///
/// # Panics
/// If there are fewer than two tiers.
pub fn check(tiers: &[Vec<u32>], found: bool) -> Result<TierCheck, String> {
    assert!(tiers.len() > 1, "nothing moves in one tier");
    macro_rules! of {
        ($map:ident, $name:literal) => {{
            let in_line = |error: Error| format!("{}: {error}", $name);
            let by_hand = $map::<u64, u64>::builder()
                .custom_placement(|_, _| Ok((Arc::new(Slowest), Vec::new())));
            let by_hand = match found {
                true => by_hand.discover(),
                false => in_tiers(by_hand, tiers),
            };
            let map = by_hand.build().map_err(in_line)?;
            load(|key| map.insert(&key, !key).map(drop)).map_err(in_line)?;
            let moves = move_by_hand(&*map.placed(), map.memory().arenas(), tiers);
            let moves = moves.map_err(|line| format!("{}: {line}", $name))?;
            drop(map);

            // Copies of records would spare leaves their moves.
            let by_worker = $map::<u64, u64>::builder().placement(TimberlineConfig {
                copies: 0.0,
                ..Default::default()
            });
            let map = in_tiers(by_worker, tiers).build().map_err(in_line)?;
            load(|key| map.insert(&key, !key).map(drop)).map_err(in_line)?;
            let placed = map.placed();
            let has = |key| map.get(&key) == Some(!key);
            let moved = read(has, || map.moves(), &*placed);
            let (promoted, demoted) = moved.map_err(|line| format!("{}: {line}", $name))?;
            MapCheck {
                map: $name,
                moves,
                promoted,
                demoted,
                tiers: uses(&*placed, map.memory().arenas(), tiers),
            }
        }};
    }
    let maps = vec![
        of!(BTree, "btree"),
        of!(Art, "art"),
        of!(Masstree, "masstree"),
    ];
    Ok(TierCheck { maps })
}

/// Sets the tiers of a map.
fn in_tiers<M>(builder: Builder<M>, tiers: &[Vec<u32>]) -> Builder<M> {
    let mut builder = builder.fast_memory(LIMIT).slow_memory(REST);
    if let [fast, middle @ .., slow] = tiers {
        builder = builder.fast_nodes(fast.clone()).slow_nodes(slow.clone());
        for nodes in middle {
            builder = builder.middle_tier(LIMIT, nodes.clone());
        }
    }
    builder
}

fn load(mut insert: impl FnMut(u64) -> Result<(), Error>) -> Result<(), Error> {
    (0..RECORDS).try_for_each(|number| insert(number * STRIDE))
}

/// Reads all records, the hot ones more often, until the worker has moved nodes both ways and there
/// are leaves in each tier: a tier may be empty for a while after its leaves made room. Returns how
/// many nodes moved.
fn read(
    has: impl Fn(u64) -> bool,
    moves: impl Fn() -> (u64, u64),
    placed: &dyn Placed,
) -> Result<(u64, u64), String> {
    let begun = Instant::now();
    loop {
        for number in (0..RECORDS).chain((0..10).flat_map(|_| HOT)) {
            if !has(number * STRIDE) {
                return Err(format!("record {number} is lost"));
            }
        }
        let (promoted, demoted) = moves();
        let is_enough = promoted.min(demoted) >= ENOUGH && !leaves_in(placed).contains(&0);
        if is_enough || begun.elapsed() > PATIENCE {
            return Ok((promoted, demoted));
        }
    }
}

/// Moves some leaves from each tier to each other one.
fn move_by_hand(
    placed: &dyn Placed,
    arenas: &Arenas,
    tiers: &[Vec<u32>],
) -> Result<Vec<Moves>, String> {
    let (wanted, made) = (tiers.len(), arenas.tiers());
    if made != wanted {
        return Err(format!(
            "{made} of {wanted} tiers are used: there is no memory left for the others"
        ));
    }
    let leaves = fences(placed);
    let slowest = tiers.len() - 1;
    let mut all = Vec::new();
    for from in 0..tiers.len() {
        for to in (0..tiers.len()).filter(|&to| to != from) {
            let mut moves = Moves {
                from,
                to,
                moved: 0,
                leaves_elsewhere: 0,
            };
            for fence in leaves.iter().step_by((leaves.len() / LEAVES).max(1)) {
                let name = NodeKey::leaf(fence.clone());
                // Those that are there already do not move.
                placed.demote_to(&name, tier(slowest));
                placed.promote_to(&name, tier(from));
                let outcome = match to < from {
                    true => placed.promote_to(&name, tier(to)),
                    false => placed.demote_to(&name, tier(to)),
                };
                if !matches!(outcome, Move::Moved(_)) {
                    return Err(format!(
                        "a leaf does not move from tier {from} to {to}: {outcome:?}"
                    ));
                }
                moves.moved += 1;
                let is_there = is_on(placed, arenas, fence, to, &tiers[to]);
                moves.leaves_elsewhere += usize::from(!is_there?);
            }
            placed.reclaim();
            all.push(moves);
        }
    }
    Ok(all)
}

fn tier(number: usize) -> TierId {
    TierId(number as u8)
}

/// The fences of all leaves.
fn fences(placed: &dyn Placed) -> Vec<KeyBytes> {
    let mut fences = Vec::new();
    placed.each_leaf(&[], &mut |leaf| {
        fences.push(leaf.fence.to_bytes());
        ControlFlow::Continue(())
    });
    fences
}

/// Whether a leaf is in this tier, and its page on one of these NUMA nodes.
fn is_on(
    placed: &dyn Placed,
    arenas: &Arenas,
    fence: &KeyBytes,
    to: usize,
    nodes: &[u32],
) -> Result<bool, String> {
    let mut found = None;
    placed.each_leaf(fence, &mut |leaf| {
        found = Some((leaf.address, leaf.tier));
        ControlFlow::Break(())
    });
    let Some((address, found)) = found else {
        return Err("a leaf is lost".into());
    };
    let node = arenas.numa_node_of(address);
    let node = node.map_err(|error| format!("move_pages: {error}"))?;
    let is_bound = !nodes.is_empty();
    let is_elsewhere = is_bound && !node.is_some_and(|node| nodes.contains(&node));
    Ok(found == tier(to) && !is_elsewhere)
}

/// The number of leaves in each tier.
fn leaves_in(placed: &dyn Placed) -> Vec<usize> {
    let mut leaves = vec![0; usize::from(placed.tiers())];
    placed.each_leaf(&[], &mut |leaf| {
        leaves[leaf.tier.index()] += 1;
        ControlFlow::Continue(())
    });
    leaves
}

/// What the tiers of a map hold.
fn uses(placed: &dyn Placed, arenas: &Arenas, tiers: &[Vec<u32>]) -> Vec<TierUse> {
    let leaves = leaves_in(placed);
    let numa_maps = std::fs::read_to_string("/proc/self/numa_maps").ok();
    let of = |(number, nodes): (usize, &Vec<u32>)| {
        let budget = arenas.budget(tier(number));
        let census = arenas.census(tier(number)).ok();
        let list: NodeList = nodes.iter().copied().collect();
        let bound = Some(()).filter(|()| !nodes.is_empty());
        let maps = bound.and(numa_maps.as_ref());
        let maps = maps.map(|text| numa_maps::bound_to(&list, text));
        TierUse {
            tier: number,
            numa_nodes: nodes.clone(),
            leaves: leaves[number],
            limit_bytes: budget.limit(),
            peak_bytes: budget.peak(),
            over_budget_bytes: budget.peak().saturating_sub(budget.limit()),
            pages: census.map_or(0, |census| census.pages),
            misplaced_pages: bound.and(census).map(|census| census.misplaced),
            numa_maps_pages: maps.map(|pages| pages.there),
            numa_maps_elsewhere: maps.map(|pages| pages.elsewhere),
        }
    };
    tiers.iter().enumerate().map(of).collect()
}

impl TierCheck {
    /// A line for everything that is not as it is to be.
    pub fn wrong(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        for of in &self.maps {
            let map = of.map;
            for Moves {
                from,
                to,
                moved,
                leaves_elsewhere,
            } in &of.moves
            {
                if *leaves_elsewhere > 0 {
                    wrong.push(format!(
                        "{map}: of {moved} leaves moved from tier {from} to tier {to}, \
                         {leaves_elsewhere} lie elsewhere"
                    ));
                }
            }
            for it in &of.tiers {
                let tier = it.tier;
                let elsewhere = [
                    ("move_pages", it.misplaced_pages.unwrap_or(0) as u64),
                    ("numa_maps", it.numa_maps_elsewhere.unwrap_or(0)),
                ];
                for (by, pages) in elsewhere.into_iter().filter(|(_, pages)| *pages > 0) {
                    wrong.push(format!(
                        "{map}: {by} finds {pages} pages elsewhere that are of tier {tier}"
                    ));
                }
                if it.over_budget_bytes > 0 {
                    let bytes = it.over_budget_bytes;
                    wrong.push(format!(
                        "{map}: tier {tier} is {bytes} bytes over its limit"
                    ));
                }
            }
        }
        wrong
    }

    /// For people.
    pub fn table(&self) -> String {
        let heads = [
            (["map", ""], true),
            (["tier", ""], false),
            (["NUMA", "nodes"], false),
            (["leaves", ""], false),
            (["limit", "KiB"], false),
            (["peak", "KiB"], false),
            (["pages", ""], false),
            (["elsewhere:", "move_pages"], false),
            (["", "numa_maps"], false),
        ];
        let mut grid = Grid::new(heads);
        let known = |count: Option<u64>| count.map_or("-".to_owned(), |count| count.to_string());
        for of in &self.maps {
            for it in &of.tiers {
                let nodes: NodeList = it.numa_nodes.iter().copied().collect();
                let nodes = match it.numa_nodes.is_empty() {
                    true => "any".to_owned(),
                    false => nodes.to_string(),
                };
                grid.row(vec![
                    of.map.into(),
                    it.tier.to_string(),
                    nodes,
                    it.leaves.to_string(),
                    (it.limit_bytes >> 10).to_string(),
                    (it.peak_bytes >> 10).to_string(),
                    it.pages.to_string(),
                    known(it.misplaced_pages.map(|pages| pages as u64)),
                    known(it.numa_maps_elsewhere),
                ]);
            }
            let moved: usize = of.moves.iter().map(|moves| moves.moved).sum();
            let elsewhere: usize = of.moves.iter().map(|moves| moves.leaves_elsewhere).sum();
            grid.text(format!(
                "{}: {moved} moves of leaves from each tier to each other one, {elsewhere} of \
                 which lie elsewhere; then the worker promoted {} nodes and demoted {}.",
                of.map, of.promoted, of.demoted
            ));
        }
        grid.render()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaves_move_between_any_two_of_three_tiers_and_budgets_hold() {
        // Bound to nothing: a machine with one kind of memory will do.
        let found = check(&[Vec::new(), Vec::new(), Vec::new()], false).unwrap();
        assert_eq!(found.wrong(), [""; 0]);
        assert_eq!(found.maps.len(), 3);
        for of in &found.maps {
            let pairs: Vec<_> = of.moves.iter().map(|it| (it.from, it.to)).collect();
            assert_eq!(pairs, [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)]);
            assert!(of.moves.iter().all(|it| it.moved >= LEAVES), "{of:?}");
            assert!(of.promoted >= ENOUGH && of.demoted >= ENOUGH, "{of:?}");
            for it in &of.tiers {
                assert!(it.leaves > 0 && it.pages > 0, "{of:?}");
                assert_eq!((it.misplaced_pages, it.numa_maps_pages), (None, None));
            }
        }
        let text = found.table();
        assert!(
            text.lines().all(|line| line.chars().count() <= 80),
            "{text}"
        );
        assert!(text.contains("masstree"), "{text}");
    }

    #[test]
    fn what_is_wrong_is_told_a_line_each() {
        let mut found = check(&[Vec::new(), Vec::new()], false).unwrap();
        let art = &mut found.maps[1];
        art.moves[0].leaves_elsewhere = 3;
        art.tiers[1].misplaced_pages = Some(5);
        art.tiers[1].numa_maps_elsewhere = Some(6);
        art.tiers[0].over_budget_bytes = 4096;
        let wrong = found.wrong();
        for (line, parts) in wrong.iter().zip([
            ["art", "from tier 0 to tier 1", "3 lie elsewhere"],
            ["art", "tier 0", "4096 bytes over"],
            ["art", "move_pages", "5 pages elsewhere"],
            ["art", "numa_maps", "6 pages elsewhere"],
        ]) {
            assert!(parts.iter().all(|part| line.contains(part)), "{line}");
        }
        assert_eq!(wrong.len(), 4, "{wrong:?}");
    }
}
