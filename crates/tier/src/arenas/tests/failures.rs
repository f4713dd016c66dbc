//! Allocations that fail, and what the error says.

use super::*;

#[test]
fn a_full_tier_says_what_it_met() {
    let met = |arenas: &Arenas| loop {
        if let Err(full) = arenas.allocate(TierId::FAST, 1024) {
            assert!(!full.to_string().contains('\n'));
            return (full.of, full.limit);
        }
    };
    let mut config = ArenasConfig::one_tier(3 << 20);
    let arenas = Arenas::new(&config).unwrap();
    assert_eq!(met(&arenas), (Limit::Budget, 3 << 20));
    for limit in [NO_LIMIT, 9 << 20] {
        config.tiers[0].limit = limit;
        config.reach = (4 << 20) + 4095;
        let arenas = Arenas::new(&config).unwrap();
        assert_eq!(met(&arenas), (Limit::Addresses, 4 << 20));
        assert_eq!(
            arenas.used(TierId::FAST),
            4 << 20,
            "all addresses are of use"
        );
    }
    let arenas = Arenas::new(&ArenasConfig::growing()).unwrap();
    arenas.fail_commits(TierId::FAST, 3, true);
    assert_eq!(met(&arenas), (Limit::Machine, 32 << 10));
    assert_eq!(arenas.budget(TierId::FAST).used(), 32 << 10);
    arenas.fail_commits(TierId::FAST, 0, false);
    assert!(arenas.allocate(TierId::FAST, 1024).is_ok());
}

#[test]
fn the_nth_allocation_fails_once_or_with_all_that_follow() {
    let arenas = small(1 << 20, 0);
    for sizes in [[64; 4], [24, 40, 9000, 130_000]] {
        arenas.fail_nth(TierId::FAST, 2);
        let outcomes = sizes.map(|size| arenas.allocate(TierId::FAST, size).is_ok());
        assert_eq!(outcomes, [true, false, true, true], "{sizes:?}");
    }
    arenas.fail_from(TierId::FAST, 3);
    let outcomes = [64; 5].map(|size| arenas.allocate(TierId::FAST, size).is_ok());
    assert_eq!(outcomes, [true, true, false, false, false]);
    assert_eq!(arenas.failed(TierId::FAST), 3);
    arenas.fail_nth(TierId::FAST, 0);
    assert_eq!(arenas.failed(TierId::FAST), 0);
    assert!(arenas.allocate(TierId::FAST, 64).is_ok());
}

#[test]
fn a_missing_node_is_one_clear_line() {
    let mut config = ArenasConfig::one_tier(1 << 20);
    config.tiers[0].nodes = vec![900];
    let error = Arenas::new(&config).err().unwrap().to_string();
    assert!(error.contains("900") && !error.contains('\n'), "{error}");
}
