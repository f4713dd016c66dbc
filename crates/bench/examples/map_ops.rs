//! One operation on one map, to count its instructions: `map_ops <map>-<operation> <n>`.
//! `cargo xtask callgrind` runs it. `slow:<map>` is a map whose leaves are slow, and which may have
//! copies of records but has none: what a map in tiers pays for them.

use std::hint::black_box;
use std::ops::ControlFlow;
use std::process::ExitCode;
use std::sync::Arc;

use timberline_bench::workload::{KeySpace, Rng, load_order};
use timberline_placement::{AllFast, NewNode, Placement};
use timberline_remote::fabric::InProcess;
use timberline_remote::{Layout, LeafAdmission, Options, RemoteTree, load};
use timberline_tier::{Arenas, ArenasConfig, Native, TierId};
use timberline_tree::{Art, BTree, Bytes, Masstree, Representation, Word};

const RECORDS: u64 = 50_000;
/// Records of a scan.
const SCANNED: usize = 50;
const USAGE: &str = "usage: map_ops <map>-<operation> <n>; maps: btree, strings (a B+tree of \
                     strings), art, masstree, remote (a B+tree over memory servers, all of it in \
                     the cache), or slow:<map> but for the last; operations: get, many (16 keys), \
                     insert, over, update, renew, remove, scan";
/// Keys of an operation `many`.
const MANY: u64 = 16;

/// Inner nodes fast, leaves slow, and as many pages of copies as have room, though nobody adds one.
struct SlowLeaves;

impl Placement for SlowLeaves {
    fn place(&self, node: NewNode) -> TierId {
        match node.height {
            0 => TierId::SLOW,
            _ => TierId::FAST,
        }
    }

    fn record_pages(&self, nodes: usize) -> usize {
        nodes
    }
}

/// Runs `n` operations of one kind on a loaded map. `$key` writes a number as the map's key.
macro_rules! run {
    ($map:ty, $stored:ty, $key:expr, $value:expr, $placement:expr, $operation:expr, $n:expr) => {{
        let arenas = ArenasConfig::two_tiers(256 << 20, 64 << 20);
        let arenas = Arenas::new(&arenas).expect("addresses");
        let map = <$map>::in_memory(Native(arenas), $placement).expect("memory for a node");
        let space = KeySpace::new(1 << 24).expect("a valid size");
        let insert = |id| {
            let key = space.key(id);
            map.insert(&$key(&key), $value(&key))
                .expect("enough memory was given");
        };
        load_order(RECORDS, 1, 0, 1).for_each(insert);
        let mut random = Rng::new(1, 0);
        let ids = (0..$n).map(|_| random.below(RECORDS));
        match $operation {
            "get" => ids.for_each(|id| {
                black_box(map.get_with(&$key(&space.key(id)), |value| {
                    black_box(value);
                }));
            }),
            "many" => {
                let ids: Vec<u64> = ids.collect();
                for ids in ids.chunks(MANY as usize) {
                    let keys: Vec<u64> = ids.iter().map(|&id| space.key(id)).collect();
                    let mut values = vec![None; keys.len()];
                    map.get_many(&keys, &mut values);
                    black_box(values);
                }
            }
            "insert" => (RECORDS..RECORDS + $n).for_each(insert),
            "over" => ids.for_each(insert),
            "renew" => ids.for_each(|id| {
                black_box(map.remove(&$key(&space.key(id))));
                insert(id);
            }),
            "update" => ids.for_each(|id| {
                let key = space.key(id);
                let before = map.update(&$key(&key), $value(&key));
                black_box(<$stored>::result(before).expect("enough memory"));
            }),
            "remove" => (0..$n.min(RECORDS)).for_each(|id| {
                black_box(map.remove(&$key(&space.key(id))));
            }),
            "scan" => ids.for_each(|id| {
                map.scan(&$key(&space.key(id)), SCANNED, |key, value| {
                    black_box((key, value));
                    ControlFlow::Continue(())
                });
            }),
            _ => return None,
        }
    }};
}

fn run(map: &str, operation: &str, n: u64) -> Option<()> {
    let (placement, map): (Arc<dyn Placement>, &str) = match map.strip_prefix("slow:") {
        Some(map) => (Arc::new(SlowLeaves), map),
        None => (Arc::new(AllFast), map),
    };
    match map {
        "btree" => {
            run!(BTree<u64, u64>, Word, |key: &u64| *key, |key: &u64| *key, placement, operation, n)
        }
        "strings" => {
            run!(BTree<u64, Vec<u8>>, Bytes, |key: &u64| *key, as_bytes, placement, operation, n)
        }
        "art" => run!(Art<u64, u64>, Word, as_is, |key: &u64| *key, placement, operation, n),
        "masstree" => {
            run!(Masstree<u64, u64>, Word, as_is, |key: &u64| *key, placement, operation, n)
        }
        "remote" => {
            let done = timberline_io::wait_for(run_remote(operation, n));
            return done.expect("memory servers of this process");
        }
        _ => return None,
    }
    Some(())
}

/// The same for the tree over memory servers.
async fn run_remote(operation: &str, n: u64) -> timberline_remote::Result<Option<()>> {
    let pool = Arc::new(InProcess::new(1, 256 << 20)?);
    let space = KeySpace::new(1 << 24).expect("a valid size");
    let mut keys: Vec<u64> = (0..RECORDS).map(|id| space.key(id)).collect();
    keys.sort_unstable();
    let records = keys.iter().map(|&key| (key, key));
    load(pool.clone(), Layout::default(), records).await?;
    let options = Options {
        cache_bytes: 64 << 20,
        leaf_admission: LeafAdmission::Chance(1.0),
        copies: 0.0,
        ..Options::default()
    };
    let tree = RemoteTree::open(pool, options).await?;
    for &key in &keys {
        tree.get(key).await?;
    }
    let mut random = Rng::new(1, 0);
    let ids = (0..n).map(|_| random.below(RECORDS));
    let keys = ids.map(|id| space.key(id));
    match operation {
        "get" => {
            for key in keys {
                black_box(tree.get(key).await?);
            }
        }
        "insert" => {
            for id in RECORDS..RECORDS + n {
                tree.insert(space.key(id), id).await?;
            }
        }
        "update" => {
            for key in keys {
                black_box(tree.update(key, key).await?);
            }
        }
        "remove" => {
            for id in 0..n.min(RECORDS) {
                black_box(tree.remove(space.key(id)).await?);
            }
        }
        "scan" => {
            for key in keys {
                let mut scan = tree.scan(key..=u64::MAX)?.limit(SCANNED);
                while let Some(record) = scan.next().await? {
                    black_box(record);
                }
            }
        }
        _ => return Ok(None),
    }
    Ok(Some(()))
}

fn as_is(key: &u64) -> &u64 {
    key
}

fn as_bytes(_: &u64) -> &'static [u8] {
    b"a value in a block"
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let done = match &args[..] {
        [what, n] => what
            .split_once('-')
            .zip(n.parse().ok())
            .and_then(|((map, operation), n)| run(map, operation, n)),
        _ => None,
    };
    if done.is_none() {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    }
    ExitCode::SUCCESS
}
