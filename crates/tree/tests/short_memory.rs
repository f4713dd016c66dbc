//! A map in a page of memory, alone in its process so that nobody else holds the epoch back.

use std::sync::Arc;

use timberline_placement::AllFast;
use timberline_tier::{Arenas, ArenasConfig, Native};
use timberline_tree::BTree;

/// What removed records leave is garbage until the epoch moves on, which nothing makes it do in so
/// short a test but the insert that needs the memory.
#[test]
fn an_insert_reclaims_before_it_gives_up() {
    let mut config = ArenasConfig::one_tier(4096);
    config.chunk_bytes = 4096;
    config.huge_pages = false;
    let arenas = Arenas::new(&config).unwrap();
    let map: BTree<u64, u64, Native, 12> =
        BTree::in_memory(Native(arenas), Arc::new(AllFast)).unwrap();
    for round in 0..5 {
        let fitting = (0..)
            .take_while(|&key| map.insert(&key, round).is_ok())
            .count() as u64;
        assert!(fitting > 100, "{fitting} records fit");
        for key in 0..fitting {
            assert_eq!(map.remove(&key), Some(round));
        }
        if round % 2 == 0 {
            let loaded = map.bulk_load((0..fitting).map(|key| (key, round)));
            assert_eq!(loaded, Ok(fitting as usize));
            map.clear();
        }
    }
}
