//! The emulator as a tree sees it: what is counted and charged, and what is not.

use super::*;
use crate::ArenasConfig;

const NONE: LineCounts = LineCounts {
    fast: 0,
    slow: 0,
    cached: 0,
    charged_ps: 0,
    waited_ps: 0,
    unvisited: 0,
};

/// `cxl` over the default base: 110 ns for the first line, 4 ns for each further one.
fn cxl() -> Emulated {
    emulated("cxl")
}

fn emulated(profile: &str) -> Emulated {
    let arenas = Arenas::new(&ArenasConfig::two_tiers(4 << 20, 4 << 20)).unwrap();
    Emulated::new(arenas, Profile::parse(profile).unwrap(), Base::default())
}

fn start_of(memory: &Emulated, tier: TierId) -> usize {
    memory.arenas().range_of(tier).start
}

/// What this thread counts during `work`, without what the clock makes of it.
fn counted(work: impl FnOnce()) -> LineCounts {
    let before = thread_counts();
    work();
    LineCounts {
        waited_ps: 0,
        ..thread_counts() - before
    }
}

fn is_waited_for(work: impl FnOnce()) -> bool {
    let before = thread_counts();
    work();
    (thread_counts() - before).waited_ps > 0
}

#[test]
fn the_first_missing_line_costs_latency_and_further_ones_bandwidth() {
    let memory = cxl();
    let slow = start_of(&memory, TierId::SLOW);
    assert_eq!(
        counted(|| memory.charge_access(slow, 8 * LINE)),
        LineCounts {
            slow: 8,
            charged_ps: 110_000 + 7 * 4_000,
            ..NONE
        }
    );
    assert_eq!(
        counted(|| memory.charge_lines(slow + 8 * LINE, 1)),
        LineCounts {
            slow: 1,
            charged_ps: 4_000,
            ..NONE
        }
    );
    assert_eq!(
        counted(|| memory.charge_access(slow, 9 * LINE)),
        LineCounts { cached: 9, ..NONE }
    );
    assert_eq!(
        counted(|| memory.charge_lines(slow + 9 * LINE, LINE)),
        LineCounts {
            slow: 1,
            charged_ps: 110_000,
            ..NONE
        },
        "the access found all its lines in the cache; this is the first that it waits for"
    );
    assert_eq!(
        counted(|| memory.charge_access(slow + 9 * LINE, 3 * LINE)),
        LineCounts {
            slow: 2,
            cached: 1,
            charged_ps: 110_000 + 4_000,
            ..NONE
        }
    );
}

#[test]
fn fast_lines_are_counted_and_cost_nothing() {
    let memory = cxl();
    let fast = start_of(&memory, TierId::FAST);
    assert_eq!(
        counted(|| memory.charge_access(fast + 60, 8)),
        LineCounts { fast: 2, ..NONE }
    );
    assert_eq!(
        counted(|| memory.charge_lines(fast, 1)),
        LineCounts { cached: 1, ..NONE }
    );
}

#[test]
fn a_page_can_be_in_another_tier_than_its_arena() {
    let memory = cxl();
    let page = start_of(&memory, TierId::FAST) + 5 * 4096;
    assert_eq!(memory.page_tier(page + 4095), TierId::FAST);
    memory.set_page_tier(page + 100, TierId::SLOW);
    assert_eq!(memory.page_tier(page + 4095), TierId::SLOW);
    assert_eq!(memory.page_tier(page + 4096), TierId::FAST);
    assert_eq!(memory.page_tier(page - 1), TierId::FAST);
    assert_eq!(
        counted(|| memory.charge_access(page - 2 * LINE, 4096 + 4 * LINE)),
        LineCounts {
            fast: 4,
            slow: 64,
            charged_ps: 110_000 + 63 * 4_000,
            ..NONE
        }
    );
    memory.set_page_tier(page, TierId::FAST);
    assert_eq!(memory.page_tier(page), TierId::FAST);
    let slow = start_of(&memory, TierId::SLOW);
    memory.set_page_tier(slow, TierId::FAST);
    assert_eq!(
        counted(|| memory.charge_access(slow, 1)),
        LineCounts { fast: 1, ..NONE }
    );
}

#[test]
fn a_prefetched_line_is_counted_once_and_charged_to_nobody() {
    let memory = cxl();
    let slow = start_of(&memory, TierId::SLOW);
    memory.charge_access(slow + LINE, 1);
    let prefetched = counted(|| memory.prefetch(slow, 4 * LINE));
    assert_eq!(prefetched, LineCounts { slow: 3, ..NONE });
    assert_eq!(
        counted(|| memory.prefetch(slow, 4 * LINE)),
        NONE,
        "it is under way"
    );
    assert_eq!(
        counted(|| memory.charge_access(slow, 3 * LINE)),
        LineCounts { cached: 1, ..NONE },
        "the line that was there before"
    );
    assert_eq!(counted(|| memory.charge_lines(slow + 3 * LINE, 1)), NONE);
    assert_eq!(
        counted(|| memory.charge_access(slow, 4 * LINE)),
        LineCounts { cached: 4, ..NONE }
    );

    let fast = start_of(&memory, TierId::FAST);
    assert_eq!(
        counted(|| memory.prefetch(fast, LINE)),
        LineCounts { fast: 1, ..NONE }
    );
    assert_eq!(counted(|| memory.charge_access(fast, LINE)), NONE);
}

#[test]
fn scattered_lines_that_were_asked_for_are_one_request() {
    let memory = emulated("us1");
    let slow = start_of(&memory, TierId::SLOW);
    let at = |node: usize| slow + node * 1024;
    let lines = 0b1001_0000_0001;
    for node in 0..10 {
        let asked = counted(|| memory.charge_prefetch(at(node), lines));
        assert_eq!(asked, LineCounts { slow: 3, ..NONE });
    }
    for node in 0..10 {
        let accessed = counted(|| {
            memory.charge_access(at(node), 1);
            memory.charge_lines(at(node) + 8 * LINE, LINE);
            memory.charge_lines(at(node) + 11 * LINE, LINE);
        });
        assert_eq!(accessed, NONE, "all ten are under way");
    }
    assert_eq!(counted(|| memory.charge_access(at(0) + LINE, 1)).slow, 1);
    let outside = counted(|| memory.charge_prefetch(memory.arenas().range().end, 1));
    assert_eq!(outside, NONE);
}

#[test]
fn an_access_waits_once_and_only_for_what_is_left() {
    let memory = emulated("us10");
    let slow = start_of(&memory, TierId::SLOW);
    memory.prefetch(slow, 2 * LINE);
    // A page-faulting first run of this code may well take 10 µs, so only the second is judged:
    // what is left after at least the whole latency is nothing.
    memory.charge_access(slow, LINE);
    assert!(
        !is_waited_for(|| memory.charge_lines(slow + LINE, LINE)),
        "the first line waited for both"
    );

    memory.prefetch(slow + 4 * LINE, LINE);
    memory.tsc.spin(memory.tsc.now(), 10_000_000 + 1_000_000);
    assert!(
        !is_waited_for(|| memory.charge_access(slow + 4 * LINE, LINE)),
        "it was there long ago"
    );
}

#[test]
fn one_prefetch_too_many_takes_the_place_of_the_oldest() {
    let memory = emulated("us1");
    let slow = start_of(&memory, TierId::SLOW);
    let at = |node: usize| slow + node * 1024;
    for node in 0..10 {
        memory.prefetch(at(node), LINE);
    }
    let eleventh = counted(|| memory.prefetch(at(10), LINE));
    let ended = LineCounts {
        slow: 1,
        unvisited: 1,
        ..NONE
    };
    assert_eq!(eleventh, ended);
    assert_eq!(
        counted(|| memory.charge_access(at(0), LINE)),
        LineCounts { cached: 1, ..NONE },
        "it is there, and no longer expected"
    );
    for node in 1..11 {
        assert_eq!(counted(|| memory.charge_access(at(node), LINE)), NONE);
    }
}

/// A lookup that starts over leaves such a request behind. It used to stay for ever, and every read
/// after it searched the list of requests.
#[test]
fn a_prefetch_that_is_not_read_ends_and_is_counted() {
    let memory = emulated("us1");
    let slow = start_of(&memory, TierId::SLOW);
    let counts = counted(|| {
        memory.prefetch(slow, 3 * LINE);
        memory.charge_access(slow + LINE, LINE);
        (0..1000).for_each(|_| memory.charge_access(slow + 4096, LINE));
        memory.charge_access(slow, 3 * LINE);
    });
    assert_eq!(
        counts,
        LineCounts {
            slow: 3 + 1,
            cached: 999 + 3,
            charged_ps: 900_000,
            unvisited: 2,
            ..NONE
        }
    );
}

#[test]
fn a_line_thrown_out_before_its_use_is_missing_again() {
    let memory = cxl();
    set_thread_cache(CacheSize::new(1024).unwrap());
    let slow = start_of(&memory, TierId::SLOW);
    let fast = start_of(&memory, TierId::FAST);
    memory.prefetch(slow, LINE);
    memory.charge_access(fast, 16 * LINE);
    assert_eq!(
        counted(|| memory.charge_access(slow, LINE)),
        LineCounts {
            slow: 1,
            charged_ps: 110_000,
            ..NONE
        }
    );
}

#[test]
fn nothing_is_charged_while_charging_is_off() {
    let memory = cxl();
    let slow = start_of(&memory, TierId::SLOW);
    memory.set_charging(false);
    assert!(!memory.is_charging());
    let off = counted(|| {
        memory.charge_access(slow, 4096);
        memory.charge_lines(slow, 4096);
        memory.prefetch(slow, 4096);
    });
    assert_eq!(off, NONE);
    memory.set_charging(true);
    assert_eq!(
        counted(|| memory.charge_access(slow, 4096)).slow,
        64,
        "the cache has seen nothing of it"
    );
}

#[test]
fn threads_have_caches_and_counts_of_their_own() {
    let memory = cxl();
    let slow = start_of(&memory, TierId::SLOW);
    let before = thread_counts();
    memory.charge_access(slow, LINE);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            assert_eq!(thread_counts(), NONE);
            memory.charge_access(slow, LINE);
            assert_eq!(
                thread_counts(),
                LineCounts {
                    slow: 1,
                    charged_ps: 110_000,
                    ..NONE
                }
            );
        });
    });
    assert_eq!((thread_counts() - before).slow, 1);
}

#[test]
fn addresses_outside_the_arenas_are_let_pass() {
    let memory = cxl();
    let range = memory.arenas().range();
    let outside = counted(|| {
        for address in [0, range.start - 1, range.end, usize::MAX] {
            memory.charge_access(address, 4096);
            memory.prefetch(address & !4095, 4096);
        }
        memory.charge_access(range.start, 0);
    });
    assert_eq!(outside, NONE);
    assert_eq!(
        counted(|| memory.charge_access(range.end - 1, 4096)).slow,
        1
    );
    assert_eq!(
        counted(|| memory.charge_access(range.end - 128, usize::MAX)).slow,
        1
    );
}

/// Two memories at different addresses, one after the other on one thread.
#[test]
fn one_sequence_of_accesses_repeats_to_the_digit() {
    let run = |seed: u64| {
        let memory = cxl();
        set_thread_cache(CacheSize::new(64 << 10).unwrap());
        let range = memory.arenas().range();
        let mut random = seed;
        counted(|| {
            for _ in 0..5000 {
                random = random
                    .wrapping_mul(6364136223846793005)
                    .wrapping_add(1442695040888963407);
                let node = (random >> 40) as usize % (range.len() / 1024 / 32);
                match random >> 33 & 3 {
                    0 => memory.prefetch(range.start + node * 1024, 3 * LINE),
                    1 => memory.charge_lines(range.start + node * 1024 + 4 * LINE, LINE),
                    _ => memory.charge_access(range.start + node * 1024, 5 * LINE),
                }
            }
        })
    };
    let first = run(42);
    let between = cxl();
    let second = run(42);
    drop(between);
    assert_eq!(first, second);
    assert!(
        first.cached > 1000 && first.fast + first.slow > 1000,
        "{first:?}"
    );
    assert_ne!(first, run(43));
}

/// Arenas whose tiers need not start at a multiple of anything but a page.
#[test]
fn three_tiers_cost_what_each_says() {
    let mut config = ArenasConfig::two_tiers(64 << 10, 64 << 10);
    config.chunk_bytes = 4096;
    config.tiers.push(config.tiers[1].clone());
    let profile = Profile::parse("cxl+us2").unwrap();
    let memory = Emulated::new(Arenas::new(&config).unwrap(), profile, Base::default());
    for (tier, latency_ps) in [(0, 0), (1, 110_000), (2, 1_900_000)] {
        let start = start_of(&memory, TierId(tier));
        assert_eq!(
            counted(|| memory.charge_access(start, 1)).charged_ps,
            latency_ps
        );
    }
}

/// A profile whose latency, or whose shared line, is 1000 s: whatever waits for it never ends.
fn endless(latency_ns: f64, shared_line_ns: f64) -> Emulated {
    let slow = profile::Slowness {
        latency: profile::Cost::Ns(latency_ns),
        line: profile::Cost::Times(2.0),
        in_flight: 16,
    };
    let arenas = Arenas::new(&ArenasConfig::two_tiers(4 << 20, 4 << 20)).unwrap();
    let base = Base {
        shared_line_ns,
        ..Base::default()
    };
    Emulated::new(arenas, Profile::new("endless", vec![slow]), base)
}

const ENDLESS_NS: f64 = 1e12;

#[test]
fn overlapping_requests_are_charged_alike_and_wait_for_nothing_within_their_limit() {
    let memory = endless(ENDLESS_NS, 3.0);
    let slow = start_of(&memory, TierId::SLOW);
    set_thread_overlap(16);
    let least = ENDLESS_NS as u64 * 9 / 10;
    let counts = counted(|| {
        for request in 0..10 {
            let node = slow + request * 4096;
            memory.charge_access(node, LINE);
            memory.charge_access(node + 1024, LINE);
            let late = end_request();
            assert!(
                (2 * least..3 * least).contains(&late),
                "one after the other: {late}"
            );
        }
        memory.prefetch(slow + 11 * 4096, LINE);
        memory.charge_access(slow + 11 * 4096, LINE);
        assert!(end_request() >= least, "it waits for its prefetch");
        assert_eq!(end_request(), 0, "a request that reads nothing");
    });
    set_thread_overlap(0);
    let expected = LineCounts {
        slow: 20 + 1,
        charged_ps: 20 * memory.extra(TierId::SLOW).latency_ps,
        ..NONE
    };
    assert_eq!(counts, expected);
    assert_eq!(end_request(), 0);
}

#[test]
fn threads_share_the_bandwidth_of_a_tier() {
    let memory = endless(0.0, ENDLESS_NS);
    let slow = start_of(&memory, TierId::SLOW);
    let late = &|page: usize| {
        set_thread_cache(CacheSize::default());
        set_thread_overlap(2);
        memory.charge_access(slow + page * PAGE, PAGE);
        end_request()
    };
    let batch_ns = 64 * 2 * ENDLESS_NS as u64;
    std::thread::scope(|scope| {
        let run = |page| scope.spawn(move || late(page)).join().unwrap();
        assert!(run(0) < batch_ns / 2, "the channel was idle");
        assert!(run(1) > batch_ns / 2, "the other thread has used it");
    });
}
